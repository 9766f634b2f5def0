// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
import AppStoreTrust
import PurchaseLedger

/// Reads the histories of many customers of an app into the ledger, within Apple's rate limits.
///
/// It needs no jobs: what was recorded stays recorded, and a history that was read in part is read again.
public struct Backfill: Sendable {
    /// How many histories are read at a time: enough for 50 requests a second with answers that take a seventh of a
    /// second.
    private static let width = 8
    /// So many lines are read by one worker, in turn: lists often have all transactions of a customer together, and
    /// the first of them answers the others.
    private static let neighbours = 10
    /// How often the same history is begun again after the App Store said when to come back: three hours at most.
    private static let mostWaits = 3
    /// So many histories in a row without any answer are an outage.
    static let outage = 20

    private let reconcilers: [Environment: Reconciler]
    private let client: AppStoreClient
    private let wall: @Sendable () -> Timestamp
    private let sleep: @Sendable (Duration) async throws -> Void
    private let seen = SeenTransactions()

    /// Called with the time until which the App Store accepts no requests, before the wait.
    public var onWait: @Sendable (Timestamp) -> Void = { _ in }

    /// - Parameters:
    ///   - reconcilers: Those of one app, for the environments to search.
    ///   - wall: Returns the time of the machine, by which the App Store counts requests.
    ///   - sleep: Waits, and throws if the task is cancelled.
    public init?(
        _ reconcilers: some Sequence<Reconciler>, wall: @escaping @Sendable () -> Timestamp,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.reconcilers = Dictionary(reconcilers.map { ($0.scope.environment, $0) }) { $1 }
        guard let client = self.reconcilers.values.first?.client else { return nil }
        (self.client, self.wall, self.sleep) = (client, wall, sleep)
    }

    /// A question, and the number of its line.
    public typealias Line = (number: Int, question: HistoryQuestion)

    /// What became of a line.
    public enum Outcome: Sendable {
        /// The history is in the ledger, except for documents that are not valid.
        case taken(HistoryReport)
        /// An earlier history had these transactions, so nothing was asked.
        case covered
        /// The App Store did not answer, or refused: a code, and a sentence.
        case failed(String)
    }

    /// Why a backfill ended before the last line: a sentence.
    public struct Stopped: Error, CustomStringConvertible {
        /// What happened.
        public let description: String
    }
}

extension Backfill {
    /// Reads the histories that lines name.
    ///
    /// - Parameters:
    ///   - lines: Each with its number. They are taken from the sequence as they are needed.
    ///   - report: Called once for each line when it is done, in any order.
    /// - Throws: ``Stopped`` if the App Store refuses the key, or is out of reach; `LedgerStorageError`; errors of
    ///   `report`.
    public func run(
        _ lines: some Sequence<Line>, _ report: (_ line: Line, _ outcome: Outcome) throws -> Void
    ) async throws {
        var (lines, workers, started, silence) = (lines.makeIterator(), [Int: Task<Void, Never>](), 0, 0)
        let (news, teller) = AsyncStream<News>.makeStream()
        func start() {
            while workers.count < Self.width {
                var neighbours: [Line] = []
                while neighbours.count < Self.neighbours, let line = lines.next() { neighbours.append(line) }
                guard !neighbours.isEmpty else { break }
                started += 1
                workers[started] = Task { [neighbours, started] in await work(on: neighbours, started, teller) }
            }
            if workers.isEmpty { teller.finish() }
        }
        do {
            start()
            for await item in news {
                switch item {
                case .answered(let line, let result):
                    try report(line, try outcome(of: result, &silence))
                    if silence >= Self.outage {
                        throw Stopped("The App Store served none of the last \(silence) lines.")
                    }
                case .ended(let worker):
                    workers[worker] = nil
                    start()
                }
            }
        } catch {
            for worker in workers.values { worker.cancel() }
            for worker in workers.values { await worker.value }
            throw error
        }
    }

    /// What a worker tells.
    private enum News: Sendable {
        case answered(Line, Result<Outcome, any Error>)
        case ended(worker: Int)
    }

    /// Reads one history after the other, so that a line finds what the line before it brought.
    private func work(on lines: [Line], _ number: Int, _ teller: AsyncStream<News>.Continuation) async {
        for line in lines where !Task.isCancelled {
            do {
                teller.yield(.answered(line, .success(try await take(line.question))))
            } catch {
                teller.yield(.answered(line, .failure(error)))
            }
        }
        teller.yield(.ended(worker: number))
    }

    /// Turns errors into outcomes, except for those that end the backfill.
    private func outcome(of result: Result<Outcome, any Error>, _ silence: inout Int) throws -> Outcome {
        do {
            let outcome = try result.get()
            silence = 0
            return outcome
        } catch let error as AppStoreAPIError {
            if error.code == .credentials { throw Stopped("\(error)") }
            silence = error.isOutage ? silence + 1 : 0
            return .failed("\(error)")
        } catch let error where error is HistoryQuestionError || error is VerificationError {
            silence = 0
            return .failed("\(error)")
        }
    }

    /// Reads a history.
    ///
    /// - Throws: As ``HistoryReading/step()``.
    func take(_ question: HistoryQuestion) async throws -> Outcome {
        var waits = 0
        while true {
            do {
                return try await takeAtOnce(question)
            } catch let error as AppStoreAPIError where error.isPause && waits < Self.mostWaits {
                waits += 1
                try await wait(until: error.retryAt)
            }
        }
    }

    private func wait(until time: Timestamp?) async throws {
        guard let time, time > wall() else { return }
        onWait(time)
        try await self.sleep(.milliseconds(time.milliseconds - wall().milliseconds))
    }

    private func takeAtOnce(_ question: HistoryQuestion) async throws -> Outcome {
        let isKnown = !question.transactions.isEmpty && question.transactions.allSatisfy(seen.contains)
        guard !isKnown else { return .covered }
        guard var reading = try await begun(question) else { throw HistoryQuestionError("No server knows orders.") }
        while try await reading.step() {}
        return .taken(reading.report)
    }

    /// Finds the environment of a customer: an order's is production, otherwise the App Store's answers say it.
    private func begun(_ question: HistoryQuestion) async throws -> HistoryReading? {
        guard question.order == nil, let id = question.transactions.first else {
            return reconcilers[.production].map { HistoryReading(question, by: $0, seen: seen) }
        }
        do {
            let found = try await client.find(.transactionHistory(id))
            guard let reconciler = reconcilers[found.environment] else { return nil }
            var reading = HistoryReading(question, by: reconciler, seen: seen)
            try await reading.begin(with: found.answer)
            return reading
        } catch let error as AppStoreAPIError where error.isUnknownTransaction && question.transactions.count > 1 {
            return try await begun(question.withoutFirst)
        }
    }
}

extension Backfill.Stopped {
    fileprivate init(_ description: String) { self.description = description }
}

extension AppStoreAPIError {
    /// Whether the App Store, or the rate limit, says when to come back.
    fileprivate var isPause: Bool { retryAt != nil && (code == .rateLimited || code == .overBudget) }

    /// Whether the failure says nothing about the question.
    fileprivate var isOutage: Bool {
        switch code {
        case .unreachable, .timedOut, .unavailable, .rateLimited, .overBudget: true
        default: false
        }
    }
}
