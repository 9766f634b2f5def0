// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// From what happens in the world to notifications that are on their way.

extension SimulatedStore {
    /// Signs what happened in the world since the last call, and puts it into the outbox.
    ///
    /// Call it after changes of the world. An environment without a notification URL gets nothing.
    public mutating func publish() throws {
        let new = world.occurrences.dropFirst(published)
        published = world.occurrences.count
        for occurrence in new where notificationURLs[occurrence.environment] != nil {
            try publish(occurrence)
            if random.decides(faults.unknownTypes) { try publishCopy(of: occurrence, type: Self.unknownType) }
            if random.decides(faults.unknownSubtypes) { try publishCopy(of: occurrence, subtype: Self.unknownSubtype) }
        }
    }

    /// Words that Apple does not use, as Apple's next version might.
    private static let (unknownType, unknownSubtype) = ("SIMULATED_NEW_TYPE", "SIMULATED_NEW_SUBTYPE")

    private mutating func publish(_ occurrence: Occurrence) throws {
        let isNew = random.decides(faults.unknownMembers)
        let payload = try signer.notification(occurrence, from: world.catalogue) { payload in
            if isNew { payload.unknownMembers.members.append(.init("simulatedNewMember", .object([]))) }
        }
        outbox.add(
            occurrence, id: occurrence.id, type: occurrence.notice.type.rawValue,
            subtype: occurrence.notice.subtype?.rawValue, signed: payload, due: firstAttempt(of: occurrence))
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
            occurrence, id: id, type: type, subtype: subtype, signed: payload, due: firstAttempt(of: occurrence))
    }

    private mutating func firstAttempt(of occurrence: Occurrence) -> Timestamp {
        guard random.decides(faults.delays) else { return occurrence.date }
        let delay = Int64.random(in: 0...faults.longestDelay, using: &random)
        return Timestamp(milliseconds: occurrence.date.milliseconds + delay * 1000)
    }

    /// The notifications to send now, in this order. The caller sends each to the URL of its environment and records
    /// the result; see ``record(_:of:)``.
    public mutating func takeDeliveries() throws -> [Outbox.Delivery] {
        try publish()
        var deliveries: [Outbox.Delivery] = []
        for delivery in outbox.take(dueAt: world.now) {
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
        outbox.record(result, of: delivery, at: world.now)
    }
}
