// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
import AppStoreTrust
import PurchaseLedger

/// Reads the histories of many customers of an app into the ledger, within Apple's rate limits.
///
/// A backfill stores no jobs. After an interruption the recorded documents stay, and the next backfill reads the
/// unfinished histories again from the beginning.
public struct Backfill: Sendable {
    /// The number of concurrent histories. Eight suffice for 50 requests a second if an answer takes a seventh of a
    /// second.
    private static let width = 8
    /// The maximum number of times that a history waits for the rate limit. Each wait takes up to an hour.
    private static let maxWaits = 3
    /// The number of histories in a row without an answer after which the backfill assumes an outage, and ends.
    static let maxFailures = 20

    private let reconcilers: [Environment: Reconciler]
    private let client: AppStoreClient
    private let wall: @Sendable () -> Timestamp
    private let sleep: @Sendable (Duration) async throws -> Void
    private let seen = SeenTransactions()

    /// Called before a wait, with the time until which the App Store accepts no requests.
    public var onWait: @Sendable (Timestamp) -> Void = { _ in }

    /// Creates a backfill; `nil` if there is no reconciler.
    ///
    /// - Parameters:
    ///   - reconcilers: The reconcilers of an app, for the environments to search.
    ///   - wall: Returns the time of the machine. Apple's rate limits are measured by this clock, even if the
    ///     reconcilers follow the clock of a simulated App Store.
    ///   - sleep: Waits, and throws if the task is cancelled.
    public init?(
        _ reconcilers: some Sequence<Reconciler>, wall: @escaping @Sendable () -> Timestamp,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.reconcilers = Dictionary(reconcilers.map { ($0.scope.environment, $0) }) { $1 }
        guard let client = self.reconcilers.values.first?.client else { return nil }
        self.client = client
        self.wall = wall
        self.sleep = sleep
    }

    /// A question about a customer, and the number of its line in the list of customers.
    public typealias Line = (number: Int, question: HistoryQuestion)

    /// The outcome of a line.
    public enum Outcome: Sendable {
        /// The ledger has the history, except for invalid documents.
        case taken(HistoryReport)
        /// The history that an earlier line named had these transactions, so this line recorded no document.
        case covered
        /// The App Store did not answer, refused the question, or sent a document that may be valid later: a
        /// description of the error.
        case failed(String)
    }

    /// The reason why a backfill ended before the last line: a sentence.
    public struct Stopped: Error, CustomStringConvertible {
        /// A sentence about the cause.
        public let description: String
    }
}

extension Backfill {
    /// Reads the histories that the lines name.
    ///
    /// - Parameters:
    ///   - lines: The numbered lines. The backfill takes them from the sequence as workers need them.
    ///   - report: Called once for each finished line, in any order.
    /// - Throws: ``Stopped`` if the App Store refuses the app's API key, or is out of reach; `LedgerStorageError`;
    ///   errors of `report`.
    public func run(
        _ lines: some Sequence<Line>, _ report: (_ line: Line, _ outcome: Outcome) throws -> Void
    ) async throws {
        var stretches = Stretches(lines, for: Self.width)
        var tasks: [Int: Task<Void, Never>] = [:]
        var failures = 0
        let (progress, continuation) = AsyncStream<Progress>.makeStream()
        func start(_ worker: Int) {
            tasks[worker] = stretches.next(for: worker).map { line in
                Task { continuation.yield(Progress(worker: worker, line: line, result: await result(of: line))) }
            }
            if tasks.isEmpty { continuation.finish() }
        }
        do {
            for worker in 0..<Self.width { start(worker) }
            for await item in progress {
                try report(item.line, try outcome(of: item.result, &failures))
                if failures >= Self.maxFailures {
                    throw Stopped(description: "The App Store served none of the last \(failures) lines.")
                }
                start(item.worker)
            }
        } catch {
            for task in tasks.values { task.cancel() }
            for task in tasks.values { await task.value }
            throw error
        }
    }

    /// A worker's result for a line.
    private struct Progress: Sendable {
        var worker: Int
        var line: Line
        var result: Result<Outcome, any Error>
    }

    private func result(of line: Line) async -> Result<Outcome, any Error> {
        do {
            return .success(try await take(line.question))
        } catch {
            return .failure(error)
        }
    }

    /// Turns errors into outcomes, except for errors that end the backfill.
    private func outcome(of result: Result<Outcome, any Error>, _ failures: inout Int) throws -> Outcome {
        do {
            let outcome = try result.get()
            failures = 0
            return outcome
        } catch let error as AppStoreAPIError {
            if error.code == .credentials, !error.isAcceptedBySandbox { throw Stopped(description: "\(error)") }
            failures = error.isOutage ? failures + 1 : 0
            return .failed(error.isUnknownTransaction ? "\(error) \(searched)" : "\(error)")
        } catch let error where error is HistoryQuestionError || error is VerificationError {
            failures = 0
            return .failed("\(error)")
        }
    }

    /// A sentence about the environments asked for a transaction.
    private var searched: String {
        switch (reconcilers[.production] == nil, reconcilers[.sandbox] == nil) {
        case (false, false): "Neither production nor the sandbox knows it."
        case (false, true): "Production does not know it; the sandbox was not asked: environments leaves it out."
        default: "The sandbox does not know it; production was not asked: environments leaves it out."
        }
    }

    /// Reads a history. After a rate limit, waits and begins the history again.
    ///
    /// - Throws: As ``HistoryReading/step()``.
    func take(_ question: HistoryQuestion) async throws -> Outcome {
        var waits = 0
        while true {
            do {
                return try await takeAtOnce(question)
            } catch let error as AppStoreAPIError where error.isPause && waits < Self.maxWaits {
                waits += 1
                try await wait(until: error.retryAt)
            }
        }
    }

    private func wait(until time: Timestamp?) async throws {
        guard let time, time > wall() else { return }
        onWait(time)
        try await self.sleep(wall().duration(to: time))
    }

    private func takeAtOnce(_ question: HistoryQuestion) async throws -> Outcome {
        var earlier: HistoryReport?
        while true {
            switch seen.others(with: question.transactions) {
            case .complete: return earlier.map(Outcome.taken) ?? .covered
            case .reading(let other):
                try await other.waitForEnd()
                continue
            case .none: break
            }
            let own = seen.begin()
            do {
                guard var reading = try await begun(question, own) else {
                    throw HistoryQuestionError("No server knows orders.")
                }
                while try await reading.step() {}
                seen.end(own)
                return .taken(reading.report.after(earlier))
            } catch let error as HistoryIsBeingRead {
                seen.end(own, for: error.reading)
                if error.report.recorded > 0 { earlier = error.report.after(earlier) }
                try await error.reading.waitForEnd()
            } catch {
                seen.end(own, error)
                throw error
            }
        }
    }

    /// Begins a reading in the customer's environment. An order belongs to production. For a transaction, the App
    /// Store's answers show the environment.
    private func begun(
        _ question: HistoryQuestion, _ own: Reading
    ) async throws -> HistoryReading? {
        guard question.order == nil, let id = question.transactions.first else {
            return reconcilers[.production].map { HistoryReading(question, by: $0, as: own, of: seen) }
        }
        do {
            let found = try await client.find(.transactionHistory(id))
            guard let reconciler = reconcilers[found.environment] else { return nil }
            var reading = HistoryReading(question, by: reconciler, as: own, of: seen)
            try await reading.take(found.answer)
            return reading
        } catch let error as AppStoreAPIError where error.isUnknownTransaction && question.transactions.count > 1 {
            return try await begun(question.withoutFirst, own)
        }
    }
}

extension AppStoreAPIError {
    /// Whether a rate limit was reached, Apple's or the client's own, and the time of the next attempt is known.
    fileprivate var isPause: Bool { retryAt != nil && (code == .rateLimited || code == .overBudget) }

    /// Whether the failure is independent of the question. A captive portal, for example, answers every request with
    /// its own page.
    fileprivate var isOutage: Bool {
        switch code {
        case .unreachable, .timedOut, .unavailable, .malformedAnswer, .rateLimited, .overBudget, .credentials: true
        default: false
        }
    }
}
