// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// Keeps the ledger of an app in an environment correct by asking the App Store.
///
/// A ledger that only receives notifications is wrong after the first lost notification. A reconciler reads the
/// notification history, and so records lost notifications. It also asks about subscriptions whose state is uncertain.
/// A reconciler's tasks are jobs in the ledger. A `JobRunner` does them with the job kinds that ``jobs(of:)`` returns.
public struct Reconciler: Sendable {
    /// The ledger. Its rules must name the app in `asksAppStore`.
    public package(set) var ledger: Ledger
    /// The app and environment.
    public let scope: LedgerScope
    /// The interval between two readings of the notification history. A lost notification is recorded within this
    /// interval, unless the App Store is out of reach or the notification enters the history late.
    public var historyInterval = Duration.seconds(900)

    /// The default consumption information, by product id. It fills the members that the app does not supply for a
    /// consumption request, with which Apple asks for information about a purchase after the customer has asked for a
    /// refund. Do not set `customerConsented` here: only the customer can consent.
    public var consumptionDefaults: [String: ConsumptionInformation] = [:]

    /// Whether `now` is known to be correct. If it is not, no consumption request is given up as missed: the answer is
    /// sent, and the App Store judges whether it is late.
    public var isTimeConfirmed: @Sendable () -> Bool = { true }

    /// The time by the App Store's own clock; `nil` if unknown. The notification history counts as read up to this time
    /// at most. Otherwise, with a `now` that is hours ahead, hours of the history would never be read.
    public var appStoreTime: @Sendable () -> Timestamp? = { nil }

    /// Called when a notification fails verification and is parked, which means stored to be verified again later. The
    /// argument is the job that does this. If the notification is too large for a job, the job is not stored.
    public var onParked: @Sendable (Job) -> Void = { _ in }

    /// Called when the part of the notification history that the App Store does not show, or no longer shows, has
    /// grown. The argument is the job that reads the history, with a sentence in `Job.failure`. A ``Backfill`` can
    /// bring in the missing transactions.
    public var onUnread: @Sendable (Job) -> Void = { _ in }

    package let verifier: AppStoreVerifier
    package let client: AppStoreClient
    package let now: @Sendable () -> Timestamp
    let recent = RecentQuestions()
    /// The subscriptions about which the App Store was asked within the last day because a receipt contains them. They
    /// are not asked about again within the day. Otherwise, if the App Store has no renewal info for a subscription,
    /// each answer about its receipt would wait for the App Store.
    let receiptQuestions = RecentQuestions(lifetime: .seconds(86_400))
    let receiptBudget: ReceiptBudget

    /// - Parameters:
    ///   - verifier: Must accept the documents of the app in this environment. The answers of Apple's servers are
    ///     verified like documents from any other source.
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
