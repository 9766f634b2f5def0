// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import PurchaseLedger
import Synchronization

/// How many questions about receipts may be asked now, in one environment.
final class ReceiptBudget: Sendable {
    /// A tenth of Apple's rate limits: 5 questions a second, in the sandbox one every two seconds. While all customers
    /// of an app move to this server, the rest is for what was missed.
    private static let percent = 10

    /// After a question without an answer none is asked for this time: a silent App Store makes a few receipts wait,
    /// not each.
    private static let pause = Duration.seconds(30)

    private static let rate = Endpoint<StatusResponse>.subscriptionStatuses("").ratePerSecond

    private let environment: Environment
    private let budget: Mutex<RequestBudget>

    /// - Parameter share: How much of Apple's rate limits this server uses, in percent.
    init(in environment: Environment, share: Int) {
        self.environment = environment
        budget = Mutex(RequestBudget(share: Self.percent * share / 100))
    }

    /// Reserves a question of the budget.
    ///
    /// - Returns: False if there is none left now. Nothing waits for the next one.
    func reserve(at now: Timestamp) -> Bool {
        budget.withLock { $0.take(Self.rate, in: environment, at: now, within: 0) } == .after(0)
    }

    /// Leaves no question for a while.
    func pause(at now: Timestamp) {
        let end = now.advanced(by: Self.pause)
        budget.withLock { $0.close(Self.rate, in: environment, until: end, at: now) }
    }
}
