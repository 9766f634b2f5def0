// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// The jobs that decisions ask for.

extension Job.Kind {
    /// Ask the App Store for the state of a subscription. The name is the original transaction id.
    public static let subscriptionStatus = Job.Kind(rawValue: "subscriptionStatus")
}

extension SubscriptionState.Status {
    /// How long to wait for a notification before the App Store is asked; `nil` if time alone cannot make the status
    /// wrong.
    ///
    /// - A renewal may be announced shortly after the period ended. If that takes longer than a minute, the customer
    ///   must not wait for it.
    /// - The App Store may charge again at any time during grace and retry. The notification history tells that too, so
    ///   that one question a day is enough.
    public var patience: Duration? {
        switch self {
        case .stale: .seconds(60)
        case .billingGrace, .billingRetry: .seconds(86_400)
        case .active, .expired, .revoked, .upgraded: nil
        }
    }
}

extension LedgerScope {
    /// Whether the App Store has a server for the environment. Xcode and LocalTesting have none.
    public var hasAppStore: Bool { environment == .production || environment == .sandbox }
}

extension LedgerDraft {
    /// If time alone can make a subscription's new status wrong, stores a job to ask the App Store about it.
    mutating func wantStatus(of record: ChainRecord, since instant: Timestamp) {
        let scope = record.key.scope
        guard rules.asksAppStore.contains(scope.bundleId), scope.hasAppStore,
            let patience = record.report?.state.status.patience
        else { return }
        let id = Job.ID(.subscriptionStatus, record.key.originalTransactionId, in: scope)
        changes.jobs.append(Job(id, dueAt: instant.advanced(by: patience)))
    }
}
