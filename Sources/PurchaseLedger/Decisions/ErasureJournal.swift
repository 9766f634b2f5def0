// SPDX-License-Identifier: Apache-2.0

// The journal of erasures, which repeats erasures after a backup is restored.
//
// A backup contains customers that were deleted only after the backup was made. Therefore each deletion is also written
// into a journal outside the ledger, before the deletion is committed. After a restore, the ledger erases these
// customers again. The commit of a deletion also notes the deletion's number in the ledger, so that the ledger repeats
// only later deletions. A customer that returned after a deletion, before the backup was made, therefore stays.

public import AppStoreModel
import Synchronization

/// An erasure in a journal.
public struct ErasureRecord: Hashable, Sendable {
    /// The place of the erasure's last record in the journal, from 1. The records of all ids of a customer share it.
    public var number: Int64
    /// The app whose customer was erased.
    public var bundleId: String
    /// The time up to which documents count as older than the erasure, usually the time of the request.
    public var erasedAt: Timestamp
    /// The journal's name for the customer's id; see ``ErasureJournal/name(of:)``.
    public var name: String
    /// Whether the record may be wrong in each of its parts.
    public var isDamaged = false

    public init(number: Int64, bundleId: String, erasedAt: Timestamp, name: String) {
        self.number = number
        self.bundleId = bundleId
        self.erasedAt = erasedAt
        self.name = name
    }
}

/// A list of erasures outside the ledger. The list names no customer.
public protocol ErasureJournal: Sendable {
    /// A short text, unique to the journal.
    var id: String { get }

    /// The name of a customer's id. Without the journal's key, the name does not reveal the id.
    func name(of id: CustomerID) -> String

    /// Adds a record for each id of a customer, before the customer is erased. The records are durable on return.
    ///
    /// - Returns: The number of the erasure, see ``ErasureRecord/number``.
    /// - Throws: ``LedgerStorageError`` if the records cannot be written.
    func add(_ ids: [CustomerID], at now: Timestamp) throws -> Int64

    /// All readable records, in any order.
    func records() throws -> [ErasureRecord]

    /// The number of records, also of unreadable ones.
    var count: Int64 { get }
}

/// A lock around a journal: only one erasure runs at a time.
///
/// Each erasure is therefore committed before the next erasure is written. The number in the ledger's note
/// (``ErasureNote``) then means that all erasures up to this number were committed or refused.
final class ErasureTurns: Sendable {
    private let current: Mutex<any ErasureJournal>
    /// Ends with the erasure that began last.
    private let last = Mutex<Task<Void, Never>?>(nil)
    /// Begins a new journal, if a different server has a copy of this one.
    let renewed: @Sendable () throws -> any ErasureJournal

    init(_ journal: any ErasureJournal, renewed: @escaping @Sendable () throws -> any ErasureJournal) {
        current = Mutex(journal)
        self.renewed = renewed
    }

    var journal: any ErasureJournal {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }

    func take<Output: Sendable>(_ body: () async throws -> Output) async throws -> Output {
        let (turn, end) = AsyncStream.makeStream(of: Never.self)
        defer { end.finish() }
        let task = Task { for await _ in turn {} }
        let before = last.withLock { last in
            defer { last = task }
            return last
        }
        await before?.value
        return try await body()
    }
}

// MARK: - The note

/// The note of a journal's erasures in an app.
package struct ErasureNote: RecordValue {
    package let key: RecordKey
    /// The number of the last committed erasure.
    let number: Int64
    /// The number of the newest erasure that the journal must have: greater than `number` if a ledger that this one
    /// replaced had further erasures, 0 once an operator has accepted that the journal lacks some.
    package internal(set) var known: Int64
    /// The journals that began without this one on a shared ledger, since it was last used: their server may have lost
    /// it. A server with this journal ends the doubt by its start or an erasure.
    package internal(set) var doubters: [String] = []

    /// The greatest number that the ledger knows.
    package var newest: Int64 { max(number, known) }

    /// The ``ErasureJournal/id`` of the journal.
    package var journal: String { key.name }

    /// The kind of the records for erasure notes.
    static let recordKind = RecordKind(rawValue: "erasures")

    static func key(_ journal: any ErasureJournal, of bundleId: String) -> RecordKey {
        RecordKey(recordKind, journal.id, of: .scope(LedgerScope(bundleId: bundleId, environment: .production)))
    }

    package var record: LedgerRecord {
        let words = known == number && doubters.isEmpty ? ["\(number)"] : ["\(number)", "\(known)"] + doubters
        return LedgerRecord(key, payload: Array(words.joined(separator: " ").utf8))
    }

    /// The most doubters that are kept, so that servers without a lasting disk do not fill the record.
    static let maxDoubters = 100
}

extension ErasureNote {
    @inline(never)
    package init(_ record: LedgerRecord) throws(LedgerStorageError) {
        let words = String(decoding: record.payload, as: UTF8.self).split(separator: " ")
        guard let number = words.first.flatMap({ Int64($0) }), let known = Int64(words.prefix(2).last ?? "") else {
            throw LedgerStorageError(unreadable: record.key)
        }
        self.init(key: record.key, number: number, known: known, doubters: words.dropFirst(2).map(String.init))
    }
}
