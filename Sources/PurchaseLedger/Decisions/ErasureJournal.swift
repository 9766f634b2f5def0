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
    /// The number of the erasure in the journal, from 1. The records of all ids of a customer share the number.
    public var number: Int64
    /// The app whose customer was erased.
    public var bundleId: String
    /// The time up to which documents count as older than the erasure, usually the time of the request.
    public var erasedAt: Timestamp
    /// The journal's name for the customer's id; see ``ErasureJournal/name(of:)``.
    public var name: String

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
    /// - Returns: The number of the erasure: the last erasure's number plus 1.
    /// - Throws: ``LedgerStorageError`` if the records cannot be written.
    func add(_ ids: [CustomerID], at now: Timestamp) throws -> Int64

    /// All records, in any order.
    func records() throws -> [ErasureRecord]
}

/// A lock around a journal: only one erasure runs at a time.
///
/// Each erasure is therefore committed before the next erasure is written. The number in the ledger's note
/// (``ErasureNote``) then means that all erasures up to this number were committed or refused.
final class ErasureTurns: Sendable {
    let journal: any ErasureJournal
    private let state = Mutex((isTaken: false, waiting: [CheckedContinuation<Void, Never>]()))

    init(_ journal: any ErasureJournal) {
        self.journal = journal
    }

    func take<Output: Sendable>(_ body: () async throws -> Output) async throws -> Output {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.isTaken else {
                    state.isTaken = true
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
        defer { pass() }
        return try await body()
    }

    private func pass() {
        let next = state.withLock { state in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() as CheckedContinuation? }
            state.isTaken = false
            return nil
        }
        next?.resume()
    }
}

// MARK: - The note

/// The note of a journal's last committed erasure in an app.
struct ErasureNote: RecordValue {
    private let key: RecordKey
    /// The erasure's number in the journal.
    let number: Int64

    init(_ number: Int64, in journal: any ErasureJournal, of bundleId: String) {
        self.key = Self.key(journal, of: bundleId)
        self.number = number
    }

    @inline(never)
    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard let number = Int64(String(decoding: record.payload, as: UTF8.self)) else {
            throw LedgerStorageError(unreadable: record.key)
        }
        self.key = record.key
        self.number = number
    }

    /// The kind of the records for erasure notes.
    static let recordKind = RecordKind(rawValue: "erasures")

    static func key(_ journal: any ErasureJournal, of bundleId: String) -> RecordKey {
        RecordKey(recordKind, journal.id, of: .scope(LedgerScope(bundleId: bundleId, environment: .production)))
    }

    var record: LedgerRecord { LedgerRecord(key, payload: Array("\(number)".utf8)) }

    /// The number in a stored note; 0 without a readable note, so that no erasure is skipped.
    static func number(_ record: LedgerRecord?) -> Int64 {
        ErasureNote(readable: record)?.number ?? 0
    }
}
