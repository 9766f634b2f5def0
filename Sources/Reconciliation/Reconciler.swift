// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// Keeps the ledger of an app in an environment correct by asking the App Store.
///
/// A ledger that only listens is wrong after the first lost notification. A reconciler reads the notification history,
/// and so records lost notifications. It also asks about subscriptions whose state is uncertain. A reconciler's tasks
/// are jobs in the ledger. A `JobRunner` does these jobs by the table ``jobs(of:)``.
public struct Reconciler: Sendable {
    /// The ledger. Its rules must name the app in `asksAppStore`.
    public let ledger: Ledger
    /// The app and environment.
    public let scope: LedgerScope
    /// The interval between two readings of the notification history, and so the longest delay of a lost notification.
    public var historyInterval = Duration.seconds(900)

    /// The default consumption information, by product id. It fills the members that the app does not supply for a
    /// consumption request. Consent has no default.
    public var consumptionDefaults: [String: ConsumptionInformation] = [:]

    /// Whether `now` is known to be correct. Otherwise no consumption request is given up as missed, because the App
    /// Store judges whether an answer is late.
    public var isTimeConfirmed: @Sendable () -> Bool = { true }

    /// The time by the App Store's own clock; `nil` if unknown. The notification history counts as read up to this time
    /// at most. If `now` were ahead of it, hours of the history would never be read.
    public var appStoreTime: @Sendable () -> Timestamp? = { nil }

    /// Called with the job of each parked document. The job verifies the document again, unless the document is too
    /// large to be stored.
    public var onParked: @Sendable (Job) -> Void = { _ in }

    /// Called once for each part of the notification history that the App Store does not show, or no longer shows. The
    /// argument is the job that reads the history, with a sentence in `Job.failure`. A backfill brings in the missing
    /// transactions.
    public var onUnread: @Sendable (Job) -> Void = { _ in }

    package let verifier: AppStoreVerifier
    package let client: AppStoreClient
    package let now: @Sendable () -> Timestamp
    let recent = RecentQuestions()
    /// Recent questions about receipts. If the App Store has no renewal info of a subscription, answers about its
    /// receipt wait once a day.
    let receiptQuestions = RecentQuestions(lifetime: .seconds(86_400))
    let receiptBudget: ReceiptBudget

    /// - Parameters:
    ///   - verifier: Must accept the documents of the app in this environment. It verifies the documents from Apple's
    ///     servers like all others.
    ///   - now: Returns the time of the wall clock.
    public init(
        ledger: Ledger, verifier: AppStoreVerifier, client: AppStoreClient, scope: LedgerScope,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.ledger = ledger
        self.verifier = verifier
        self.client = client
        self.scope = scope
        self.now = now
        receiptBudget = ReceiptBudget(in: scope.environment, share: client.share)
    }
}
