// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What a record is about, such as an API key. The records of a kind have payloads of one form.
public struct RecordKind: RawRepresentable, Hashable, Sendable {
    public var rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }
}

/// To what a record belongs.
public enum RecordOwner: Hashable, Sendable {
    /// The ledger as a whole.
    case ledger
    /// An app, by its bundle id.
    case app(String)
    /// An app in an environment.
    case scope(LedgerScope)

    /// The app; `nil` for the ledger as a whole.
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

/// What makes a record unique.
public struct RecordKey: Hashable, Sendable {
    /// What the record is about.
    public var kind: RecordKind
    /// To what the record belongs.
    public var owner: RecordOwner
    /// The name of the record among those of its kind and owner: any text.
    public var name: String

    public init(_ kind: RecordKind, _ name: String, of owner: RecordOwner) {
        self.kind = kind
        self.owner = owner
        self.name = name
    }

    /// Texts by which records are ordered, and which no two of them share.
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

/// What a storage keeps without knowing what it is for: a job, an API key, the digest of a catalogue.
///
/// A new kind of record is a ``RecordValue``, and no change of any storage.
public struct LedgerRecord: Hashable, Sendable {
    /// What the record is, and to what it belongs.
    public var key: RecordKey
    /// When something is to be done about the record; `nil` if nothing is.
    public var dueAt: Timestamp?
    /// Texts under which the record is found besides its key, compared byte for byte.
    public var entries: Set<String>
    /// The content, in the form of the record's kind.
    public var payload: [UInt8]

    public init(_ key: RecordKey, dueAt: Timestamp? = nil, entries: Set<String> = [], payload: [UInt8] = []) {
        self.key = key
        self.dueAt = dueAt
        self.entries = entries
        self.payload = payload
    }

    /// Whether something is to be done about the record by now.
    package func isDue(at now: Timestamp) -> Bool { dueAt.map { $0 <= now } ?? false }

    /// The largest payload in bytes. A record is loaded and written as a whole, and 500 of them at once by a scan.
    public static let payloadLimit = 64 << 10

    /// How many entries a record has at most. Each is a row or a place in an index.
    public static let entryLimit = 8

    /// The longest entry in bytes. Databases have indexes of some 2,000 bytes at most.
    public static let entryLength = 256

    /// - Throws: ``RecordSizeError`` if the record is larger than storages keep.
    package func requireSize() throws(RecordSizeError) {
        guard payload.count <= Self.payloadLimit, entries.count <= Self.entryLimit,
            entries.allSatisfy({ $0.utf8.count <= Self.entryLength })
        else { throw RecordSizeError(key: key) }
    }
}

/// A decision would store a record that is larger than ``LedgerRecord/payloadLimit`` and the other limits allow.
/// Nothing was written. The storage is sound, and the same fails again.
public struct RecordSizeError: Error, CustomStringConvertible {
    /// The record.
    public var key: RecordKey

    public var description: String {
        "The record \(key.kind.rawValue) \(key.name.prefix(100)) is larger than a ledger keeps"
    }
}

/// Which records a search finds: all, or those of a kind, of an owner, with an entry, or that are due.
public struct RecordSelection: Hashable, Sendable {
    /// `nil` for all kinds.
    public var kind: RecordKind?
    /// `nil` for all owners.
    public var owner: RecordOwner?
    /// An entry that the records have; `nil` for all records.
    public var entry: String?
    /// An instant at which the records are due; `nil` for all records.
    public var dueAt: Timestamp?

    public init(
        _ kind: RecordKind? = nil, of owner: RecordOwner? = nil, entry: String? = nil, dueAt: Timestamp? = nil
    ) {
        self.kind = kind
        self.owner = owner
        self.entry = entry
        self.dueAt = dueAt
    }

    /// Whether a record is among them.
    public func contains(_ record: LedgerRecord) -> Bool {
        guard kind ?? record.key.kind == record.key.kind, owner ?? record.key.owner == record.key.owner else {
            return false
        }
        return entry.map(record.entries.contains) ?? true && dueAt.map(record.isDue) ?? true
    }
}

/// A value that is stored as a record. A type may stand for several kinds, as ``Job`` does.
public protocol RecordValue: Sendable {
    /// Reads a value.
    ///
    /// - Throws: ``LedgerStorageError``: `damaged` if the record is not in the form that this version knows.
    init(_ record: LedgerRecord) throws(LedgerStorageError)

    /// The value as it is stored.
    var record: LedgerRecord { get }
}

extension RecordValue {
    /// Reads a value, for callers to whom a record that cannot be read is the same as none.
    ///
    /// - Returns: `nil` if there is no record, or it is not in the form that this version knows.
    init?(readable record: LedgerRecord?) {
        guard let record else { return nil }
        do { try self.init(record) } catch { return nil }
    }
}

extension LedgerStorageError {
    /// The payload of a record is not in the form of its kind: `damaged`.
    package init(unreadable key: RecordKey) {
        let name = key.name.isEmpty ? "" : " \(key.name)"
        let app = key.owner.bundleId.map { " of \($0)" } ?? ""
        self.init(
            .damaged, "The record \(key.kind.rawValue)\(name)\(app) is not in a form that this version reads")
    }
}

/// A payload whose first line is a JSON object, and whose rest is bytes as they are.
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

    /// - Returns: `nil` if the payload has another form.
    package init?(_ payload: [UInt8]) {
        guard let end = payload.firstIndex(of: Self.newline), let line = JSONValue(readable: payload[..<end])
        else { return nil }
        self.line = line
        rest = Array(payload[(end + 1)...])
    }

    /// The payload as it is stored. Compact JSON has no line breaks.
    package var bytes: [UInt8] { Array(line.compactText.utf8) + [Self.newline] + rest }
}
