// SPDX-License-Identifier: Apache-2.0

// Erasures outlive a restored backup.
//
// A backup has the customers who were deleted since it was made. Therefore each deletion is also written into a journal
// outside the ledger, before it is committed, and the customers whom a restored ledger has again are erased again. The
// commit of a deletion notes its number in the journal, so that a ledger tells how far it has come: a customer who came
// back after a deletion, and is in the backup, stays.

public import AppStoreModel
import Synchronization

/// An erasure that was written into a journal.
public struct ErasureRecord: Hashable, Sendable {
    /// Its number in the journal, from 1. All ids of one customer have the same.
    public var number: Int64
    /// The app whose customer was erased.
    public var bundleId: String
    /// Up to when documents count as older than the erasure: usually when it was asked for.
    public var erasedAt: Timestamp
    /// The name that the journal has for the customer's id, see ``ErasureJournal/name(of:)``.
    public var name: String

    public init(number: Int64, bundleId: String, erasedAt: Timestamp, name: String) {
        self.number = number
        self.bundleId = bundleId
        self.erasedAt = erasedAt
        self.name = name
    }
}

/// A list of erasures outside the ledger that names no customer.
public protocol ErasureJournal: Sendable {
    /// A short text that no other journal has.
    var id: String { get }

    /// The name of a customer's id, from which nobody without the journal's key learns the id.
    func name(of id: CustomerID) -> String

    /// Adds a record for each id of a customer who is about to be erased. The records are durable once this returns.
    ///
    /// - Returns: The number of the erasure: one more than that of the last.
    /// - Throws: ``LedgerStorageError`` if they cannot be written.
    func add(_ ids: [CustomerID], at now: Timestamp) throws -> Int64

    /// All records, in any order.
    func records() throws -> [ErasureRecord]
}

/// A journal to which one erasure at a time is added.
///
/// So an erasure is committed before a later one is written, and the number in the ledger's note says that all
/// erasures up to it were committed or refused.
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

/// The note of the last erasure of a journal in an app that was committed.
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

    /// The kind of the records that hold such notes.
    static let recordKind = RecordKind(rawValue: "erasures")

    static func key(_ journal: any ErasureJournal, of bundleId: String) -> RecordKey {
        RecordKey(recordKind, journal.id, of: .scope(LedgerScope(bundleId: bundleId, environment: .production)))
    }

    var record: LedgerRecord { LedgerRecord(key, payload: Array("\(number)".utf8)) }

    /// The number in a stored note; 0 for none, and for one that cannot be read, so that no erasure is passed over.
    static func number(_ record: LedgerRecord?) -> Int64 {
        ErasureNote(readable: record)?.number ?? 0
    }
}
