// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import PurchaseLedger
import Synchronization

/// Limits how often the App Store is asked about the subscriptions of receipts in an environment.
final class ReceiptBudget: Sendable {
    /// A tenth of this server's share of Apple's rate limits. With the full share this is 5 questions a second, and in
    /// the sandbox a question every two seconds. Even while all customers of an app move to this server, the rest of
    /// the share is left for reading lost notifications.
    private static let percent = 10

    /// The time without questions after an unanswered question. Because of this pause, an unreachable App Store delays
    /// the answers about only a few receipts.
    private static let pause = Duration.seconds(30)

    private static let rate = Endpoint<StatusResponse>.subscriptionStatuses("").ratePerSecond

    private let environment: Environment
    private let budget: Mutex<RequestBudget>

    /// - Parameter share: The share of Apple's rate limits that this server uses, in percent.
    init(in environment: Environment, share: Int) {
        self.environment = environment
        budget = Mutex(RequestBudget(share: Self.percent * share / 100))
    }

    /// Reserves a question of the budget.
    ///
    /// - Returns: False if the budget is used up. The caller does not wait.
    func reserve(at now: Timestamp) -> Bool {
        budget.withLock { $0.take(Self.rate, in: environment, at: now, within: 0) } == .after(0)
    }

    /// Refuses all questions for half a minute, after an unanswered question.
    func pause(at now: Timestamp) {
        let end = now.advanced(by: Self.pause)
        budget.withLock { $0.close(Self.rate, in: environment, until: end, at: now) }
    }
}
