// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The kind of a record, such as an API key. All records of a kind have payloads of the same form.
public struct RecordKind: RawRepresentable, Hashable, Sendable {
    public var rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }
}

/// The owner of a record.
public enum RecordOwner: Hashable, Sendable {
    /// The ledger as a whole.
    case ledger
    /// An app, by its bundle id.
    case app(String)
    /// An app in an environment.
    case scope(LedgerScope)

    /// The bundle id of the app; `nil` for the ledger as a whole.
    public var bundleId: String? {
        switch self {
        case .ledger: nil
        case .app(let bundleId): bundleId
        case .scope(let scope): scope.bundleId
        }
    }

    /// The app and environment; `nil` for an app and for the ledger as a whole.
    public var scope: LedgerScope? {
        guard case .scope(let scope) = self else { return nil }
        return scope
    }
}

/// The unique key of a record.
public struct RecordKey: Hashable, Sendable {
    /// The kind of the record.
    public var kind: RecordKind
    /// The owner of the record.
    public var owner: RecordOwner
    /// The name of the record among the records of its kind and owner: any text.
    public var name: String

    public init(_ kind: RecordKind, _ name: String, of owner: RecordOwner) {
        self.kind = kind
        self.owner = owner
        self.name = name
    }

    /// The texts by which records are ordered. No two keys have the same texts.
    package var sortKey: [String] {
        let scope: [String] =
            switch owner {
            case .ledger: []
            case .app(let bundleId): [bundleId]
            case .scope(let scope): [scope.bundleId, scope.environment.rawValue]
            }
        return [kind.rawValue, name] + scope
    }
}

/// A record that the storage keeps without knowing its purpose, such as a job, an API key or the digest of a catalogue.
///
/// A new kind of record is a ``RecordValue``, and needs no change of any storage.
public struct LedgerRecord: Hashable, Sendable {
    /// The kind, name and owner of the record.
    public var key: RecordKey
    /// The time at which the record is due; `nil` if it is never due.
    public var dueAt: Timestamp?
    /// Further texts by which the record can be found, compared byte for byte.
    public var entries: Set<String>
    /// The content, in the form of the record's kind.
    public var payload: [UInt8]

    public init(_ key: RecordKey, dueAt: Timestamp? = nil, entries: Set<String> = [], payload: [UInt8] = []) {
        self.key = key
        self.dueAt = dueAt
        self.entries = entries
        self.payload = payload
    }

    /// Whether the record is due at an instant.
    package func isDue(at now: Timestamp) -> Bool { dueAt.map { $0 <= now } ?? false }

    /// The maximum size of a payload in bytes. A record is loaded and written as a whole, and a scan loads 500 records
    /// at once.
    public static let payloadLimit = 64 << 10

    /// The maximum number of entries of a record. Each entry costs a row, or a place in an index.
    public static let entryLimit = 8

    /// The maximum length of an entry in bytes. Databases permit index entries of some 2,000 bytes.
    public static let entryLength = 256

    /// - Throws: ``RecordSizeError`` if the record exceeds a limit.
    package func requireSize() throws(RecordSizeError) {
        guard payload.count <= Self.payloadLimit, entries.count <= Self.entryLimit,
            entries.allSatisfy({ $0.utf8.count <= Self.entryLength })
        else { throw RecordSizeError(key: key) }
    }
}

/// The error for a decision to store a record that exceeds ``LedgerRecord/payloadLimit`` or a limit on entries. No
/// change was written. The storage is not at fault, so a retry fails again.
public struct RecordSizeError: Error, CustomStringConvertible {
    /// The key of the record.
    public var key: RecordKey

    public var description: String {
        "The record \(key.kind.rawValue) \(key.name.prefix(100)) is larger than a ledger keeps"
    }
}

/// The records that a search finds. Each member restricts the search further.
public struct RecordSelection: Hashable, Sendable {
    /// The kind of the records; `nil` for all kinds.
    public var kind: RecordKind?
    /// The owner of the records; `nil` for all owners.
    public var owner: RecordOwner?
    /// An entry of the records; `nil` for all records.
    public var entry: String?
    /// An instant at which the records are due; `nil` for all records.
    public var dueAt: Timestamp?
    /// The bounds of the records' names. The records then come in the order of their names, byte for byte, on a single
    /// page. Only with a kind and an owner, and without an instant.
    public var names: RecordNames?

    public init(
        _ kind: RecordKind? = nil, of owner: RecordOwner? = nil, entry: String? = nil, dueAt: Timestamp? = nil
    ) {
        self.kind = kind
        self.owner = owner
        self.entry = entry
        self.dueAt = dueAt
    }

    /// Whether the search finds a record.
    public func contains(_ record: LedgerRecord) -> Bool {
        guard kind ?? record.key.kind == record.key.kind, owner ?? record.key.owner == record.key.owner else {
            return false
        }
        return entry.map(record.entries.contains) ?? true && dueAt.map(record.isDue) ?? true
            && names.map { $0.contain(record.key.name) } ?? true
    }
}

/// Two texts between which the names of records lie, in the order of their bytes. No record is named by either.
public struct RecordNames: Hashable, Sendable {
    /// The lower text.
    public var after: String
    /// The upper text.
    public var before: String

    public init(after: String, before: String) {
        self.after = after
        self.before = before
    }

    func contain(_ name: String) -> Bool {
        after.utf8.lexicographicallyPrecedes(name.utf8) && name.utf8.lexicographicallyPrecedes(before.utf8)
    }
}

/// A value with a record as its stored form. A type may have several kinds of records, as ``Job`` does.
public protocol RecordValue: Sendable {
    /// Reads a value.
    ///
    /// - Throws: ``LedgerStorageError``: `damaged` if this version does not know the form of the record.
    init(_ record: LedgerRecord) throws(LedgerStorageError)

    /// The stored form of the value.
    var record: LedgerRecord { get }
}

extension RecordValue {
    /// Reads a value, for callers to which an unreadable record is the same as a missing record.
    ///
    /// - Returns: `nil` if there is no record, or this version does not know its form.
    init?(readable record: LedgerRecord?) {
        guard let record else { return nil }
        do { try self.init(record) } catch { return nil }
    }
}

extension LedgerStorageError {
    /// The error for a record whose payload does not have the form of its kind: `damaged`.
    package init(unreadable key: RecordKey) {
        let name = key.name.isEmpty ? "" : " \(key.name)"
        let app = key.owner.bundleId.map { " of \($0)" } ?? ""
        self.init(
            .damaged, "The record \(key.kind.rawValue)\(name)\(app) is not in a form that this version reads")
    }
}

/// A payload that begins with a line of JSON, an object. The rest is arbitrary bytes.
package struct LinedPayload {
    /// The JSON object.
    package var line: JSONValue
    /// The bytes after the line.
    package var rest: [UInt8]

    private static let newline = UInt8(ascii: "\n")

    package init(_ members: [JSONValue.Member], rest: [UInt8]) {
        line = .object(members)
        self.rest = rest
    }

    /// - Returns: `nil` if the payload has a different form.
    package init?(_ payload: [UInt8]) {
        guard let end = payload.firstIndex(of: Self.newline), let line = JSONValue(readable: payload[..<end])
        else { return nil }
        self.line = line
        rest = Array(payload[(end + 1)...])
    }

    /// The stored form of the payload. Compact JSON has no line breaks.
    package var bytes: [UInt8] { Array(line.compactText.utf8) + [Self.newline] + rest }
}
