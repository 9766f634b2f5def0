// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
public import PurchaseLedger

// Asks the App Store about subscriptions whose state is uncertain.

/// The number of answered questions about a subscription: the payload of a job. Unanswered questions do not count,
/// because during an outage a question is asked in vain every hour.
private struct StatusQuestion: Codable {
    var answers = 0

    /// The number of inconclusive answers after which no further question is asked. With a question a day this is two
    /// months, the time for which Apple tries to charge the customer.
    private static let maxAnswers = 60

    init(_ job: Job) {
        if let stored: Self = job.decoded() { self = stored }
    }

    var isLast: Bool { answers >= Self.maxAnswers }
}

extension Reconciler {
    /// The interval between two questions about a subscription whose state stays uncertain.
    static let questionInterval = Duration.seconds(86_400)

    /// Does a job that asks about a subscription. If the state is certain by now, and the renewal info is known, no
    /// question is asked. If the state stays uncertain, the question is repeated once a day, and after the last
    /// question the job is given up (see ``Job/isGivenUp``).
    func askStatus(_ job: Job) async throws -> JobOutcome {
        let key = ChainKey(job.id.name, in: scope)
        guard !job.isForgotten(at: now()) else { return .done }
        let isUnknown = try await !unknownRenewals(of: [key]).isEmpty
        if !isUnknown, try await !isUncertain(key) { return .done }
        var refusal: String?
        do {
            try await ask(about: key, within: AppStoreClient.deadline)
        } catch let error as AppStoreAPIError
            where !error.isRetryable && error.code == .refused || error.code == .contradiction
        {
            refusal = "\(error)"
        }
        if refusal == nil, try await !isUncertain(key) { return .done }
        return .later(try askedAgain(job, refusal))
    }

    /// The job with its next question due in a day, or in its given-up form (see ``Job/isGivenUp``) after the last
    /// question.
    private func askedAgain(_ job: Job, _ refusal: String?) throws -> Job {
        var question = StatusQuestion(job)
        question.answers += 1
        var next = job.next(at: now().advanced(by: Self.questionInterval), refusal)
        next.attempts = 0
        next.payload = try JSONWriter.bytes(encoding: question)
        guard question.isLast else { return next }
        return next.givenUp(at: now(), because: refusal ?? "The App Store's answers did not make the state certain.")
    }

    /// Whether the App Store may know a newer state of a subscription than the ledger: the status is `stale`,
    /// `billingGrace` or `billingRetry`.
    private func isUncertain(_ key: ChainKey) async throws -> Bool {
        try await ledger.chain(key)?.subscription(ledger.rules.catalogue(scope), at: now())?.status.questionDelay != nil
    }

    /// Asks for the states of all subscriptions of a customer, and records the answer. The chain of a subscription (a
    /// purchase with its renewals) names the customer.
    ///
    /// - Returns: `nil` if the answer has no document to record.
    @discardableResult func ask(about key: ChainKey, within limit: Duration) async throws -> RecordResult? {
        let (evidence, refusal) = try await statuses(of: key, within: limit)
        // An invalid document does not delay the rest. A document that may be valid later is requested again.
        let result = evidence.isEmpty ? nil : try await ledger.record(evidence, at: now())
        if let refusal, result == nil || refusal.isRetryable { throw refusal }
        return result
    }

    /// Asks for the states of all subscriptions of a customer who is known to have one.
    ///
    /// - Parameter followsAnswer: Whether the App Store has already answered about the customer in this reading.
    /// - Returns: The valid documents, and why the first invalid one is refused.
    func statuses(
        of key: ChainKey, followingAnswer followsAnswer: Bool = false, within limit: Duration
    ) async throws -> (evidence: [Evidence], refusal: VerificationError?) {
        recent.note([key], at: now())
        // Apple lists subscriptions also after their end.
        let answer = try await client.send(
            .subscriptionStatuses(key.originalTransactionId).following(answer: followsAnswer, neverEmpty: true),
            to: scope.environment, within: limit)
        var evidence: [Evidence] = []
        var refusal: VerificationError?
        for subscription in await verifier.checked(answer, at: now()) {
            do throws(VerificationError) {
                evidence += try Self.evidence(in: subscription)
            } catch {
                refusal = refusal ?? error
            }
        }
        return (evidence, refusal)
    }

    /// The valid documents, without renewal info that must not be recorded.
    static func evidence(in subscription: CheckedSubscription) throws(VerificationError) -> [Evidence] {
        guard let transaction = try subscription.transaction?.result.get() else { return [] }
        var renewalInfo = try subscription.renewalInfo?.result.get()
        // Apple still says grace without signing its end. The renewal info would take back what a signed
        // notification said.
        if subscription.status == .billingGracePeriod, let payload = renewalInfo?.payload,
            payload.isInBillingRetryPeriod == true, payload.gracePeriodExpiresDate == nil
        {
            renewalInfo = nil
        }
        return [Evidence(transaction), renewalInfo.flatMap { Evidence($0, boundBy: transaction) }].compactMap(\.self)
    }

    /// Asks about a customer's stale subscriptions, whose state may be out of date, before the server answers a
    /// request, unless a question about any of them is recent.
    ///
    /// Never fails: without an answer in time, the server answers from the ledger as it is, and a job asks later.
    ///
    /// - Parameters:
    ///   - chains: The stale subscriptions of a customer. A single question covers all subscriptions.
    ///   - limit: The time limit.
    /// - Returns: Whether the ledger may have changed.
    public func refresh(_ chains: some Sequence<ChainKey>, within limit: Duration) async -> Bool {
        guard let key = chains.min(), key.scope == scope, recent.begin(chains, at: now()) else { return false }
        // Without an answer the server answers from the ledger as it is, whatever the reason.
        return (try? await ask(about: key, within: limit)) != nil
    }
}
