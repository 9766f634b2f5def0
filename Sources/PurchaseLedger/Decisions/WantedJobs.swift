// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The jobs that result from decisions.

extension SubscriptionState.Status {
    /// How long the ledger waits for a notification before it asks the App Store; `nil` for a status about which it
    /// never asks.
    ///
    /// - `stale`: The notification of a renewal may arrive shortly after the end of the period. A minute is as long as
    ///   the customer should have to wait for it.
    /// - `billingGrace`, `billingRetry`: The App Store may retry the charge at any time. The notification history also
    ///   reports a successful charge, so a question per day suffices. A grace period that Apple signed without its end
    ///   is as uncertain as `stale`.
    public var questionDelay: Duration? {
        switch self {
        case .stale: .seconds(60)
        case .billingGrace, .billingRetry: .seconds(86_400)
        case .active, .expired, .revoked, .upgraded: nil
        }
    }
}

extension ChainRecord {
    /// Whether a grace period runs whose end Apple did not sign.
    fileprivate var hasUncertainGrace: Bool {
        report?.state.status == .billingGrace && chain.renewal?.hasGraceWithoutEnd == true
    }
}

extension LedgerDraft {
    private func asksAppStore(about scope: LedgerScope) -> Bool {
        rules.asksAppStore.contains(scope.bundleId) && scope.environment.hasAppStore
    }

    /// Stores a job to ask the App Store about a subscription, if its new status has a
    /// ``SubscriptionState/Status/questionDelay``.
    mutating func wantStatus(of record: ChainRecord, since instant: Timestamp) {
        let scope = record.key.scope
        guard asksAppStore(about: scope), let status = record.report?.state.status.known,
            let questionDelay = record.hasUncertainGrace
                ? SubscriptionState.Status.stale.questionDelay : status.questionDelay
        else { return }
        let id = Job.ID(.subscriptionStatus, record.key.name, in: scope)
        put(Job(id, dueAt: instant.advanced(by: questionDelay)))
    }

    /// Processes a notification about consumption or a refund. For a consumption request, stores a job to answer the
    /// request, and publishes an event. For a refund decision, notes the decision, because a request after it is a new
    /// one and not a repetition of an earlier request.
    mutating func wantConsumptionAnswer(to document: Evidence) {
        guard asksAppStore(about: document.scope),
            let statement = document.statements.first(where: { !$0.isAppPurchase }),
            let type = document.notification.flatMap({ NotificationTypeV2(rawValue: $0.type) })
        else { return }
        let date = document.signedDate ?? now
        guard now < min(date, now).advanced(by: ConsumptionQuestion.retention) else { return }
        switch type {
        case .consumptionRequest: takeRefundDate(of: statement, in: document.scope, date) { $0.addRequest(date) }
        case .refund, .refundDeclined, .refundReversed:
            takeRefundDate(of: statement, in: document.scope, date) { $0.addDecision(date) }
        default: return
        }
    }

    /// Adds a date to the job about a transaction's refunds, and updates the job accordingly.
    private mutating func takeRefundDate(
        of statement: TransactionStatement, in scope: LedgerScope, _ date: Timestamp, _ add: (inout RefundDates) -> Void
    ) {
        let id = Job.ID(.consumption, statement.transactionId, in: scope)
        let job = job(id)
        let known = job.flatMap(ConsumptionQuestion.init)
        var refund = known?.refund ?? job.flatMap(RefundNote.init)?.refund ?? RefundDates()
        add(&refund)
        guard let request = refund.lastRequest else {
            let note = RefundNote(refund)
            return put(Job(id, dueAt: note.forgottenAt)) { try note.payload }
        }
        if let question = ConsumptionQuestion(request, after: known, at: now) {
            store(question, refund, as: Job(id, dueAt: now))
            publish(.consumptionRequested, about: statement, at: question.requestedAt, in: scope)
        } else if let known, let job, refund != known.refund {
            store(known, refund, as: job)
        }
    }

    private mutating func store(_ question: ConsumptionQuestion, _ refund: RefundDates, as job: Job) {
        var question = question
        question.refund = refund
        put(job) { [question] in try question.payload }
    }

    /// Publishes that the App Store declined a refund.
    mutating func publishDeclinedRefund(in document: Evidence) {
        guard document.notification?.type == NotificationTypeV2.refundDeclined.rawValue,
            let statement = document.statements.first(where: { !$0.isAppPurchase })
        else { return }
        let date = min(document.signedDate ?? now, now)
        publish(.refundDeclined, about: statement, at: date, in: document.scope)
    }

    /// Publishes what a notification says about a transaction and no state shows: the App Store's request, so that the
    /// app can supply the information for the answer, or its refusal.
    private mutating func publish(
        _ kind: LedgerEvent.Kind, about statement: TransactionStatement, at effectiveAt: Timestamp,
        in scope: LedgerScope
    ) {
        var record = record(resolved(ChainKey(statement.chainName, in: scope)))
        var content = EventContent(
            effectiveAt: effectiveAt, transactionId: statement.transactionId, productId: statement.productId,
            before: record.report?.state, after: record.report?.state)
        content.details = EventDetails(statement, nil)
        content.entitlementsBefore = record.report?.entitlements
        content.entitlementsAfter = record.report?.entitlements
        append(kind, content, toOwnersOf: &record)
        put(record)
    }

    /// Erases the consumption jobs of a chain's transactions.
    mutating func eraseConsumptionJobs(of record: ChainRecord) {
        for transactionId in record.chain.transactions.keys {
            erase(Job.ID(.consumption, transactionId, in: record.key.scope).key)
        }
    }
}

extension ConsumptionQuestion {
    /// The question after a request; `nil` if the request leaves the known question unchanged.
    ///
    /// - Parameters:
    ///   - request: The dates of the last request: from its first notification to its last repetition.
    ///   - known: The known question; `nil` if this is the first request.
    fileprivate init?(_ request: ClosedRange<Timestamp>, after known: ConsumptionQuestion?, at now: Timestamp) {
        self.init(signedDate: request.upperBound, at: now)
        guard let known else { return }
        if request.lowerBound > known.signedDate {
            // The app's information about an earlier request does not apply to a new request, except a refusal of
            // consent.
            if known.information.customerConsented == false { information.customerConsented = false }
        } else if known.state != .answered, request.upperBound > known.signedDate {
            information = known.information
        } else {
            return nil
        }
    }
}
