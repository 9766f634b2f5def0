// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
package import Logging
import PurchaseLedger
import Synchronization

extension PurchaseServer {
    /// Whether requests should come here: not while the ledger cannot be written.
    func addReadiness(to router: Router<BasicRequestContext>) {
        router.get("/health/ready") { _, _ in Response(json: try await ready()) }
    }

    private func ready() async throws -> [UInt8] {
        if let fault = await ledger?.readiness.fault(at: now()) { throw fault }
        var lastNotification: Timestamp?
        if let ledger { lastNotification = try await ledger.lastNotification.time(in: ledger.ledger.storage) }
        var json = JSONWriter()
        json.object { json in
            json.member("status", "ready")
            if ledger != nil { json.instant("lastNotificationAccepted", lastNotification) }
            if let concern = ledger?.ledger.storage.concern { json.member("concern", concern) }
        }
        return json.bytes
    }
}

extension LedgerService {
    /// Says when the App Store reached this ledger last, so that the log of a start has it.
    package func logLastNotification(to logger: Logger) async {
        do {
            let time = try await lastNotification.time(in: ledger.storage)
            logger.notice(
                time == nil ? "No accepted notification is known" : "The last notification that was accepted",
                metadata: time.map { ["at": .string($0.iso8601)] })
        } catch {
            logger.error("Storage failed", metadata: ["error": .string("\(error)")])
        }
    }
}

/// Whether the ledger can be written: found out by writing a little, and not believed soon after something larger could not be
/// written, as on a disk that is nearly full.
///
/// Whoever asks within a second of another gets the other's answer, so that asking often costs nothing.
final class Readiness: Sendable {
    /// For how long an answer holds.
    private static let validity = Duration.seconds(1)

    /// For how long a failed write is remembered where no other succeeds meanwhile. Then requests must come again, so that it
    /// comes to light whether they can be served.
    private static let memory = Duration.seconds(30)

    private struct State {
        var answer: (at: Timestamp, until: Timestamp, error: LedgerStorageError?)?
        var trial: Task<LedgerStorageError?, Never>?
        /// The last write, if it failed.
        var failure: LedgerStorageError?
        /// Until when it is held against the storage; `nil` until somebody asks, who has a clock.
        var failureEnds: Timestamp?
    }

    private let storage: any LedgerStorage
    private let state = Mutex(State())

    init(_ storage: any LedgerStorage) {
        self.storage = storage
    }

    /// What is wrong; `nil` where nothing is.
    func fault(at now: Timestamp) async -> LedgerStorageError? {
        let last = state.withLock { $0.answer }
        if let last, now >= last.at, now < last.until { return last.error }
        let failure = remembered(at: now)
        let fault = await trial() ?? failure
        state.withLock { $0.answer = (now, now.advanced(by: Self.validity), fault) }
        return fault
    }

    /// Tries to write. Who asks meanwhile waits for the same trial, so that a storage that is slow is not asked more.
    private func trial() async -> LedgerStorageError? {
        let task = state.withLock { state in
            let task = state.trial ?? Task { await tryToWrite() }
            state.trial = task
            return task
        }
        let fault = await task.value
        state.withLock { if $0.trial == task { $0.trial = nil } }
        return fault
    }

    private func remembered(at now: Timestamp) -> LedgerStorageError? {
        state.withLock { state in
            guard state.failure != nil else { return nil }
            let end = state.failureEnds ?? now.advanced(by: Self.memory)
            state.failureEnds = end
            if now >= end { state.failure = nil }
            return state.failure
        }
    }

    private func tryToWrite() async -> LedgerStorageError? {
        do {
            try await storage.write { try $0.proveWritable() }
            return nil
        } catch {
            return error as? LedgerStorageError ?? LedgerStorageError(.unavailable, "\(error)")
        }
    }

    fileprivate func wrote(_ failure: LedgerStorageError?) {
        state.withLock { state in
            state.failure = failure
            state.failureEnds = nil
        }
    }
}

/// A storage whose writes ``Readiness`` hears of.
struct WatchedStorage: LedgerStorage {
    let storage: any LedgerStorage
    let readiness: Readiness

    func write<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerWriter) throws -> Result
    ) async throws -> Result {
        do {
            let result = try await storage.write(work)
            readiness.wrote(nil)
            return result
        } catch let error as LedgerStorageError {
            readiness.wrote(error)
            throw error
        }
    }

    func prepare(_ evidence: Evidence) -> (any Sendable)? { storage.prepare(evidence) }

    var concern: String? { storage.concern }

    func read<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerReader) throws -> Result
    ) async throws -> Result {
        try await storage.read(work)
    }
}
