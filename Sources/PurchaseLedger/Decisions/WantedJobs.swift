// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The jobs that decisions ask for.

extension Job.Kind {
    /// Ask the App Store for the state of a subscription. The name is the original transaction id.
    public static let subscriptionStatus = Job.Kind(rawValue: "subscriptionStatus")
    /// Answer a consumption request. The name is the transaction id, the payload a ``ConsumptionQuestion``.
    public static let consumption = Job.Kind(rawValue: "consumption")
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

extension LedgerDraft {
    private func asksAppStore(about scope: LedgerScope) -> Bool {
        rules.asksAppStore.contains(scope.bundleId) && scope.environment.hasAppStore
    }

    /// If time alone can make a subscription's new status wrong, stores a job to ask the App Store about it.
    mutating func wantStatus(of record: ChainRecord, since instant: Timestamp) {
        let scope = record.key.scope
        guard asksAppStore(about: scope), let patience = record.report?.state.status.patience else { return }
        let id = Job.ID(.subscriptionStatus, record.key.name, in: scope)
        changes.jobs.append(Job(id, dueAt: instant.advanced(by: patience)))
    }

    /// If a notification asks for consumption information, stores a job to answer it, and publishes an event.
    ///
    /// Apple repeats a request as a new notification. An answered one is not answered again.
    mutating func wantConsumptionAnswer(to document: Evidence) {
        guard asksAppStore(about: document.scope), let type = document.notification?.type,
            NotificationTypeV2(rawValue: type) == .consumptionRequest, let statement = document.statements.first
        else { return }
        var question = ConsumptionQuestion(requestedAt: min(document.signedDate ?? now, now))
        guard now < question.forgottenAt else { return }
        let id = Job.ID(.consumption, statement.transactionId, in: document.scope)
        if let known = job(id).flatMap(ConsumptionQuestion.init) {
            guard known.state != .answered, known.requestedAt < question.requestedAt else { return }
            question.information = known.information
        }
        changes.jobs.append(Job(id, dueAt: now, payload: question.payload))
        publishConsumptionRequest(about: statement, question, in: document.scope)
    }

    /// Publishes that the App Store asks, so that the app can supply what the answer needs.
    private mutating func publishConsumptionRequest(
        about statement: TransactionStatement, _ question: ConsumptionQuestion, in scope: LedgerScope
    ) {
        var record = record(resolved(ChainKey(statement.chainName, in: scope)))
        var event = LedgerEvent(.consumptionRequested, in: scope, at: now)
        event.effectiveAt = question.requestedAt
        (event.transactionId, event.productId) = (statement.transactionId, statement.productId)
        (event.before, event.after) = (record.report?.state, record.report?.state)
        append(toOwners: event, about: &record)
        put(record)
    }

    /// Erases what is known about the consumption of a chain's transactions.
    mutating func eraseConsumptionJobs(of record: ChainRecord) {
        let ids = record.chain.transactions.keys.map { Job.ID(.consumption, $0, in: record.key.scope) }
        changes.erasedJobs.formUnion(ids)
    }
}
