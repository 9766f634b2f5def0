// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// Keeps the ledger of one app in one environment right by asking the App Store.
///
/// A ledger that only listens is wrong after the first lost notification. A reconciler reads the notification history,
/// so that what did not arrive is recorded after all, and asks about subscriptions whose state is uncertain. It keeps
/// what it has to do as jobs in the ledger, which a `JobRunner` does by the table ``jobs(of:)``.
public struct Reconciler: Sendable {
    /// The ledger. Its rules must name the app in `asksAppStore`.
    public let ledger: Ledger
    /// The app and environment.
    public let scope: LedgerScope
    /// How often the notification history is read, and so how long a lost notification is missing at most.
    public var historyInterval = Duration.seconds(900)

    /// What is said about a product's purchases in answers to consumption requests, by product, if the app says nothing
    /// else. Consent has no default.
    public var consumptionDefaults: [String: ConsumptionInformation] = [:]

    /// Whether `now` is known to be right. If it is not, no consumption request is given up as missed: the App Store
    /// judges whether an answer is late.
    public var isTimeConfirmed: @Sendable () -> Bool = { true }

    /// The time by the App Store's own clock, which bounds how far the notification history counts as read: by a clock
    /// that is ahead, hours would never be read. `nil` if it is not known; then `now` counts.
    public var appStoreTime: @Sendable () -> Timestamp? = { nil }

    /// Called with each document that is parked, as the job that tries it again.
    public var onParked: @Sendable (Job) -> Void = { _ in }

    /// Called with the job that reads the notification history if the App Store does not show a part of it, or no
    /// longer: once for each part. `Job.failure` is a sentence about it. A backfill brings in what is missing.
    public var onUnread: @Sendable (Job) -> Void = { _ in }

    package let verifier: AppStoreVerifier
    package let client: AppStoreClient
    package let now: @Sendable () -> Timestamp
    let recent = RecentQuestions()
    /// A subscription of which the App Store has no renewal info makes an answer about a receipt wait once a day.
    let receiptQuestions = RecentQuestions(lifetime: .seconds(86_400))
    let receiptBudget: ReceiptBudget

    /// - Parameters:
    ///   - verifier: Must accept the documents of the app in this environment. What Apple's servers answer is verified
    ///     like everything else.
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
