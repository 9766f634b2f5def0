// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// An entry of the audit list: an operation by which a person or a program of the operator changed something.
///
/// It is stored without ids of customers, so that after an erasure it names the customer no more. Like an event, it
/// keeps the reason.
package struct AuditEntry: Hashable, RecordValue {
    /// The unique id, by which entries are in order, the newest first.
    package let id: String
    package let bundleId: String
    /// Before it is stored, the id of a customer in the request; afterwards the present first id of the first customer.
    package var customerId: String?
    package var content: Content

    package struct Content: Hashable, Sendable, Codable {
        /// The name of the operation, such as `makeGrant`.
        package let operation: String
        /// The name and the role of the API key; `nil` for a command of the operator.
        package var keyName, role: String?
        /// The person's name in the request, or the author of a command.
        package var by: String?
        /// What the operation was about besides customers, such as a purchase.
        package var subject: String?
        package var reason: String?
        /// The numbers of the customers concerned, first of the one that the request names.
        var customers: [Int64] = []
        /// The kinds of the events that tell the change; empty for a change without events.
        package var events: [String] = []
    }

    /// - Parameters:
    ///   - wall: The time of the machine, which orders entries while a simulator's clock stands still.
    ///   - unique: A text that no other operation of the same instant has.
    package init(_ operation: String, of bundleId: String, at now: Timestamp, wall: Timestamp, unique: String) {
        id = "\(Self.place(now))-\(Self.place(wall))-\(unique)"
        self.bundleId = bundleId
        content = Content(operation: operation)
    }

    /// The time of the operation.
    package var at: Timestamp { Self.time(of: id) ?? .distantPast }

    /// A number of a fixed length that is smaller for a later time, because storages order names upwards.
    private static func place(_ time: Timestamp) -> String {
        let digits = "\(Int64.max - max(0, time.milliseconds))"
        return String(repeating: "0", count: 19 - digits.count) + digits
    }

    /// The time in an id; `nil` for any other text.
    package static func time(of id: String) -> Timestamp? {
        let parts = id.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].utf8.count == 19, let place = Int64(parts[0]), place >= 0 else { return nil }
        return Timestamp(milliseconds: .max - place)
    }

    /// The names of the records of entries before a time, exclusive, and from a time on.
    static func names(from start: Timestamp?, to end: Timestamp?) -> RecordNames {
        RecordNames(after: end.map { place($0) + "." } ?? "", before: start.map { place($0) + "." } ?? ":")
    }

    // MARK: The record

    static let recordKind = RecordKind(rawValue: "audit")

    var key: RecordKey { RecordKey(Self.recordKind, id, of: .app(bundleId)) }

    /// The entry of the records about a customer.
    static func entry(_ customer: Int64) -> String { "customer \(customer)" }

    @inline(never)
    package init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner, Self.time(of: record.key.name) != nil,
            let content = try? JSONValue(readable: record.payload)?.decode(Content.self)  // Any damage is the same.
        else { throw LedgerStorageError(unreadable: record.key) }
        id = record.key.name
        self.bundleId = bundleId
        self.content = content
    }

    package var record: LedgerRecord {
        // Texts and numbers always have a JSON form.
        let payload = (try? JSONWriter.bytes(encoding: content)) ?? []
        return LedgerRecord(key, entries: Set(content.customers.map(Self.entry)), payload: payload)
    }
}
