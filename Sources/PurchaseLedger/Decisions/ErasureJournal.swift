// SPDX-License-Identifier: Apache-2.0

// Erasures outlive a restored backup.
//
// A backup has the customers who were deleted since it was made. Therefore each deletion is also written into a journal
// outside the ledger, before it is committed, and what the restored ledger has not erased is erased again. The commit of
// a deletion notes its number in the journal, so that a ledger tells how far it has come: a customer who came back
// after a deletion, and is in the backup, stays.

public import AppStoreModel
import Synchronization

/// An erasure that was written into a journal.
public struct ErasureRecord: Hashable, Sendable {
    /// Its number in the journal, from 1. All ids of one customer have the same.
    public var number: Int64
    public var bundleId: String
    /// Up to when documents count as older than the erasure: usually when it was asked for.
    public var erasedAt: Timestamp
    /// The name that the journal has for the customer's id, see ``ErasureJournal/name(of:)``.
    public var name: String

    public init(number: Int64, bundleId: String, erasedAt: Timestamp, name: String) {
        (self.number, self.bundleId, self.erasedAt, self.name) = (number, bundleId, erasedAt, name)
    }
}

/// A list of erasures outside the ledger that names no customer.
public protocol ErasureJournal: Sendable {
    /// What tells the journal from all others, as a short text.
    var id: String { get }

    /// The name of a customer's id, from which nobody without the journal's key learns the id.
    func name(of id: CustomerID) -> String

    /// Adds a record for each id of a customer who is about to be erased. The records are durable once this returns.
    ///
    /// - Returns: The number of the erasure: one more than that of the last.
    /// - Throws: ``LedgerStorageError`` if they cannot be written.
    func add(_ ids: [CustomerID], at now: Timestamp) throws -> Int64

    /// All records, in the order of their numbers.
    func records() throws -> [ErasureRecord]
}

/// A journal to which one erasure at a time is added.
///
/// So an erasure is committed before a later one is written, and the number in the ledger's note says that all erasures
/// up to it were committed or refused.
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

extension Job.Kind {
    /// The number of the last erasure of a journal that was committed. It is never due.
    static let erasures = Job.Kind(rawValue: "erasures")
}

/// The note of the last erasure in an app that was committed.
struct ErasureNote {
    let id: Job.ID

    init(_ journal: any ErasureJournal, of bundleId: String) {
        id = Job.ID(.erasures, journal.id, in: LedgerScope(bundleId: bundleId, environment: .production))
    }

    func job(_ number: Int64) -> Job { Job(id, dueAt: .distantFuture, payload: Array("\(number)".utf8)) }

    /// The number in a stored note; 0 for none, and for one that cannot be read: to erase again does nothing.
    static func number(_ job: Job?) -> Int64 { job.flatMap { Int64(String(decoding: $0.payload, as: UTF8.self)) } ?? 0 }
}

// MARK: - Erasing

extension Ledger {
    private enum Erasure {
        case unknown
        /// The customer has got ids that are not in the journal.
        case grown
        case erased(DeletionReport)
    }

    /// How often a customer may get a further id while it is erased.
    private static let mostRounds = 8

    /// Writes an erasure into the journal, and commits it.
    ///
    /// - Parameter instant: Up to when documents count as older than the erasure.
    func erase(
        _ id: CustomerID, in scope: LedgerScope, asOf instant: Timestamp, _ journal: any ErasureJournal,
        at now: Timestamp
    ) async throws -> DeletionReport? {
        let note = ErasureNote(journal, of: id.bundleId)
        for _ in 0..<Self.mostRounds {
            let snapshot = try await storage.load(LedgerQuery { $0.customers = [id] })
            guard let known = snapshot.customer(id)?.identifiers else { return nil }
            let number = try journal.add(known.sorted { $0.id < $1.id }, at: instant)
            let erasure = try await commit(.everything(of: [id]), at: now) { draft -> Erasure in
                guard let customer = draft.customer(id) else { return .unknown }
                guard customer.identifiers.isSubset(of: known) else { return .grown }
                guard let report = draft.erase(id, in: scope, asOf: instant) else { return .unknown }
                draft.changes.jobs.append(note.job(number))
                return .erased(report)
            }
            switch erasure {
            case .unknown: return nil
            case .grown: continue
            case .erased(let report): return report
            }
        }
        throw LedgerStorageError(.unavailable, "The customer got new ids while it was being erased")
    }

    /// How many customers are looked up at once.
    private static let erasurePage = 500

    /// Erases again, with the time of their erasure, those customers whose erasure is in a journal and not in the ledger:
    /// after an older state of the ledger was restored, or if the program ended before it committed an erasure.
    ///
    /// - Returns: How many customers were erased.
    /// - Throws: ``LedgerStorageError``.
    package func replay(_ journal: any ErasureJournal) async throws -> Int {
        let records = Dictionary(grouping: try journal.records(), by: \.bundleId)
        let notes = records.keys.map { ErasureNote(journal, of: $0).id }
        let stored = try await storage.load(LedgerQuery { $0.jobs = Set(notes) }).jobs
        var (erased, lacking) = (0, [String: [String: ErasureRecord]]())
        for (bundleId, records) in records {
            let last = ErasureNote.number(stored[ErasureNote(journal, of: bundleId).id])
            // Of several erasures of one id the newest counts.
            let new = records.filter { $0.number > last }.map { ($0.name, $0) }
            if !new.isEmpty { lacking[bundleId] = Dictionary(new) { $1 } }
        }
        guard !lacking.isEmpty else { return 0 }
        // All are found before any is erased: an erasure may remove other customers, and with them a place in the scan.
        for (id, erasedAt) in try await customers(in: lacking, journal) {
            let scope = LedgerScope(bundleId: id.bundleId, environment: .production)
            let report = try await commit(.everything(of: [id]), at: erasedAt) { $0.erase(id, in: scope, asOf: erasedAt) }
            erased += report == nil ? 0 : 1
        }
        let jobs = lacking.map { bundleId, records in
            ErasureNote(journal, of: bundleId).job(records.values.map(\.number).max() ?? 0)
        }
        try await commit(LedgerQuery { $0.jobs = Set(jobs.map(\.id)) }, at: .distantFuture) { draft in
            draft.changes.jobs = jobs
        }
        return erased
    }

    private func customers(
        in records: [String: [String: ErasureRecord]], _ journal: any ErasureJournal
    ) async throws -> [(CustomerID, Timestamp)] {
        var (found, cursor) = ([(CustomerID, Timestamp)](), ScanCursor?.none)
        repeat {
            let page = try await storage.scanCustomers(after: cursor, limit: Self.erasurePage)
            for customer in page.items {
                guard let names = records[customer.customer.bundleId] else { continue }
                let matches = customer.identifiers.compactMap { id in names[journal.name(of: id)].map { (id, $0) } }
                if let (id, record) = matches.max(by: { $0.1.number < $1.1.number }) {
                    found.append((id, record.erasedAt))
                }
            }
            cursor = page.next
        } while cursor != nil
        return found
    }
}
