// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Turns the events of the world into notifications in the outbox, and gives the due notifications to the caller, who
// sends them.

extension SimulatedStore {
    /// The time of the next planned event or attempt; `nil` if none is planned.
    var nextDue: Timestamp? { [world.nextDue, outbox.nextDue].compactMap(\.self).min() }

    /// Turns the clock forward, and publishes each due event at its own time, because a version 1 notification contains
    /// the customer's receipt at the time of the event.
    public mutating func advance(to date: Timestamp) throws {
        while let due = world.nextDue, due <= date {
            world.advance(to: due)
            try publish()
        }
        world.advance(to: date)
    }

    /// Signs the events since the last call, and adds their notifications to the outbox.
    ///
    /// Call this function after changes of the world. An environment without a notification URL gets no notifications.
    public mutating func publish() throws {
        let new = world.occurrences(since: published)
        published = world.occurrenceCount
        for occurrence in new where notificationURLs[occurrence.environment] != nil {
            // Apple sends test notifications in version 2 to every URL, whatever version is chosen for the URL.
            if notificationVersions[occurrence.environment] == .one, occurrence.topic.type != .test {
                publishV1(occurrence)
            } else {
                try publishV2(occurrence)
            }
        }
    }

    /// Names that Apple does not use, but could introduce in a later version.
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
            occurrence, id: occurrence.id, type: occurrence.topic.type.rawValue,
            subtype: occurrence.topic.subtype?.rawValue, .signed(payload), due: firstAttempt(of: occurrence))
        if random.decides(faults.unknownTypes) { try publishCopy(of: occurrence, type: Self.unknownType) }
        if random.decides(faults.unknownSubtypes) { try publishCopy(of: occurrence, subtype: Self.unknownSubtype) }
    }

    /// Publishes an additional notification about the same purchase, with an unknown type or subtype. Its transaction
    /// and renewal info are valid, so that a server can read them although it does not know the type.
    private mutating func publishCopy(of occurrence: Occurrence, type: String? = nil, subtype: String? = nil) throws {
        let id = String(uuidOf: random.bytes(16))
        let type = type ?? occurrence.topic.type.rawValue
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

    /// The notifications to send now, in this order. The caller sends each notification to the URL of its environment
    /// and records the result; see ``record(_:of:)``.
    ///
    /// - Parameter environment: `nil` for both environments.
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

    /// Records the result of a delivery. The notification history shows the result.
    ///
    /// - Parameter result: `nil` if the attempt was not made.
    public mutating func record(_ result: SendAttemptResult?, of delivery: Outbox.Delivery) {
        outbox.record(result, of: delivery)
    }
}
