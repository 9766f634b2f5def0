// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The jobs that decisions ask for.

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
        guard asksAppStore(about: scope), let patience = record.report?.state.status.known?.patience else { return }
        let id = Job.ID(.subscriptionStatus, record.key.name, in: scope)
        put(Job(id, dueAt: instant.advanced(by: patience)))
    }

    /// If a notification asks for consumption information, stores a job to answer it, and publishes an event. If it
    /// tells what the App Store decided about a refund, notes that: a request after it is a new one.
    mutating func wantConsumptionAnswer(to document: Evidence) {
        guard asksAppStore(about: document.scope), let statement = document.statements.first,
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

    /// Decides what the job about a transaction is, given another date.
    private mutating func takeRefundDate(
        of statement: TransactionStatement, in scope: LedgerScope, _ date: Timestamp, _ add: (inout RefundDates) -> Void
    ) {
        let id = Job.ID(.consumption, statement.transactionId, in: scope)
        let job = job(id)
        let known = job.flatMap(ConsumptionQuestion.init)
        var refund = known?.dates ?? job.flatMap(RefundNote.init)?.refund ?? RefundDates()
        add(&refund)
        guard let request = refund.lastRequest else {
            let note = RefundNote(refund)
            return put(Job(id, dueAt: note.forgottenAt)) { try note.payload }
        }
        if let question = ConsumptionQuestion(request, after: known, at: now) {
            store(question, refund, as: Job(id, dueAt: now))
            publishConsumptionRequest(about: statement, question, in: scope)
        } else if let known, let job, refund != known.dates {
            store(known, refund, as: job)
        }
    }

    private mutating func store(_ question: ConsumptionQuestion, _ refund: RefundDates, as job: Job) {
        var question = question
        question.refund = refund
        put(job) { [question] in try question.payload }
    }

    /// Publishes that the App Store asks, so that the app can supply what the answer needs.
    private mutating func publishConsumptionRequest(
        about statement: TransactionStatement, _ question: ConsumptionQuestion, in scope: LedgerScope
    ) {
        var record = record(resolved(ChainKey(statement.chainName, in: scope)))
        let content = EventContent(
            effectiveAt: question.requestedAt, transactionId: statement.transactionId, productId: statement.productId,
            before: record.report?.state, after: record.report?.state)
        append(.consumptionRequested, content, toOwnersOf: &record)
        put(record)
    }

    /// Erases what is known about the consumption of a chain's transactions.
    mutating func eraseConsumptionJobs(of record: ChainRecord) {
        for transactionId in record.chain.transactions.keys {
            erase(Job.ID(.consumption, transactionId, in: record.key.scope).key)
        }
    }
}

extension ConsumptionQuestion {
    /// All dates that are known of the transaction.
    fileprivate var dates: RefundDates {
        if let refund { return refund }
        var dates = RefundDates()
        dates.addRequest(requestedAt)
        return dates
    }

    /// The question that a request makes of what is known; `nil` if it makes no other one.
    ///
    /// - Parameters:
    ///   - request: The last request about the transaction, with its repetitions.
    ///   - known: What is known; `nil` if this is the first request.
    fileprivate init?(_ request: ClosedRange<Timestamp>, after known: ConsumptionQuestion?, at now: Timestamp) {
        self.init(requestedAt: min(request.upperBound, now))
        signedDate = request.upperBound
        guard let known else { return }
        let asked = known.signedDate ?? known.requestedAt
        if request.lowerBound > asked {
            // What the app said about an earlier request says nothing about this one, but that nothing may be sent.
            if known.information.customerConsented == false { information.customerConsented = false }
        } else if known.state != .answered, request.upperBound > asked {
            information = known.information
        } else {
            return nil
        }
    }
}
