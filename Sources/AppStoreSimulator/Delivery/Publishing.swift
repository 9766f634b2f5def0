// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// From what happens in the world to notifications that are on their way.

extension SimulatedStore {
    /// Turns the clock forward, and publishes what falls due on the way, one instant after the other: a version 1
    /// notification has the customer's receipt of its instant.
    public mutating func advance(to date: Timestamp) throws {
        while let due = world.nextDue, due <= date {
            world.advance(to: due)
            try publish()
        }
        world.advance(to: date)
    }

    /// Puts what happened in the world since the last call into the outbox, signed.
    ///
    /// Call it after changes of the world. An environment without a notification URL gets nothing.
    public mutating func publish() throws {
        let new = world.occurrences(since: published)
        published = world.occurrenceCount
        for occurrence in new where notificationURLs[occurrence.environment] != nil {
            // Apple sends test notifications as version 2 to each URL.
            if notificationVersions[occurrence.environment] == .one, occurrence.notice.type != .test {
                publishV1(occurrence)
            } else {
                try publishV2(occurrence)
            }
        }
    }

    /// Words that Apple does not use, as Apple's next version might.
    private static let unknownType = "SIMULATED_NEW_TYPE"
    private static let unknownSubtype = "SIMULATED_NEW_SUBTYPE"
    private static let unknownMember = JSONValue.Member("simulatedNewMember", .object([]))

    private mutating func publishV1(_ occurrence: Occurrence) {
        for var body in world.notificationsV1(of: occurrence, password: sharedSecret, signer: signer) {
            if random.decides(faults.unknownMembers) { body.unknownMembers.members.append(Self.unknownMember) }
            add(body, about: occurrence)
            guard random.decides(faults.unknownTypes) else { continue }
            body.notificationType = Open(rawValue: Self.unknownType)
            add(body, about: occurrence)
        }
    }

    private mutating func add(_ body: ResponseBodyV1, about occurrence: Occurrence) {
        outbox.add(
            occurrence, id: occurrence.id, type: body.notificationType?.rawValue ?? "", .unsigned(body.json),
            due: firstAttempt(of: occurrence))
    }

    private mutating func publishV2(_ occurrence: Occurrence) throws {
        let isNew = random.decides(faults.unknownMembers)
        let payload = try signer.notification(occurrence, from: world.catalogue) { payload in
            if isNew { payload.unknownMembers.members.append(Self.unknownMember) }
        }
        outbox.add(
            occurrence, id: occurrence.id, type: occurrence.notice.type.rawValue,
            subtype: occurrence.notice.subtype?.rawValue, .signed(payload), due: firstAttempt(of: occurrence))
        if random.decides(faults.unknownTypes) { try publishCopy(of: occurrence, type: Self.unknownType) }
        if random.decides(faults.unknownSubtypes) { try publishCopy(of: occurrence, subtype: Self.unknownSubtype) }
    }

    /// Another notification about the same purchase. A server that knows its type no less than its parts loses nothing
    /// by it.
    private mutating func publishCopy(of occurrence: Occurrence, type: String? = nil, subtype: String? = nil) throws {
        let id = String(uuidOf: random.bytes(16))
        let type = type ?? occurrence.notice.type.rawValue
        let payload = try signer.notification(occurrence, from: world.catalogue) { payload in
            payload.notificationUUID = id
            payload.notificationType = Open(rawValue: type)
            payload.subtype = subtype.map { Open(rawValue: $0) }
        }
        outbox.add(
            occurrence, id: id, type: type, subtype: subtype, .signed(payload), due: firstAttempt(of: occurrence))
    }

    private mutating func firstAttempt(of occurrence: Occurrence) -> Timestamp {
        guard random.decides(faults.delays) else { return occurrence.date }
        let delay = Int64.random(in: 0...faults.longestDelay, using: &random)
        return Timestamp(milliseconds: occurrence.date.milliseconds + delay * 1000)
    }

    /// The notifications to send now, in this order. The caller sends each to the URL of its environment and records
    /// the result; see ``record(_:of:)``.
    ///
    /// - Parameter environment: `nil` for both.
    public mutating func takeDeliveries(in environment: Environment? = nil) throws -> [Outbox.Delivery] {
        try publish()
        var deliveries: [Outbox.Delivery] = []
        for delivery in outbox.take(dueAt: world.now, in: environment) {
            if random.decides(faults.losses) {
                record(.noResponse, of: delivery)
                continue
            }
            deliveries.append(delivery)
            guard random.decides(faults.duplicates) else { continue }
            var duplicate = delivery
            duplicate.isDuplicate = true
            deliveries.append(duplicate)
        }
        if random.decides(faults.reorderings) { deliveries.shuffle(using: &random) }
        return deliveries
    }

    /// Records the result of a delivery, which the notification history shows.
    public mutating func record(_ result: SendAttemptResult, of delivery: Outbox.Delivery) {
        outbox.record(result, of: delivery)
    }
}
