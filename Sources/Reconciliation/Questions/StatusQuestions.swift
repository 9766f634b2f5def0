// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
public import PurchaseLedger

// Asks the App Store for the state of subscriptions that is uncertain.

/// How often a subscription was asked about: the payload of a job. Only answers count: an outage has one attempt an
/// hour, in vain.
private struct StatusQuestion: Codable {
    var answers = 0

    /// After so many answers without an end, nobody will ever answer: two months of a question a day, which is how long
    /// Apple tries to charge.
    private static let maxAnswers = 60

    init(_ job: Job) {
        if let stored: Self = job.decoded() { self = stored }
    }

    var isLast: Bool { answers >= Self.maxAnswers }
}

extension Reconciler {
    /// A subscription whose state stays uncertain is asked about so often.
    static let questionInterval = Duration.seconds(86_400)

    /// Does a job to ask about a subscription. If its state is certain by now, and its renewal info known, nothing is
    /// asked. If it stays uncertain, the job is given up.
    func askStatus(_ job: Job) async throws -> JobOutcome {
        let key = ChainKey(job.id.name, in: scope)
        guard !job.isForgotten(at: now()) else { return .done }
        let isUnknown = try await !unknownRenewals(of: [key]).isEmpty
        if !isUnknown, try await !isUncertain(key) { return .done }
        var refusal: String?
        do {
            try await ask(about: key, within: AppStoreClient.deadline)
        } catch let error as AppStoreAPIError where !error.isRetryable && error.code == .refused {
            refusal = "\(error)"
        }
        if refusal == nil, try await !isUncertain(key) { return .done }
        return .later(try askedAgain(job, refusal))
    }

    /// The job for another question tomorrow, or as it is kept after the last one.
    private func askedAgain(_ job: Job, _ refusal: String?) throws -> Job {
        var question = StatusQuestion(job)
        question.answers += 1
        var next = job.next(at: now().advanced(by: Self.questionInterval), refusal)
        next.attempts = 0
        next.payload = try JSONWriter.bytes(encoding: question)
        guard question.isLast else { return next }
        return next.givenUp(at: now(), because: refusal ?? "The App Store's answers did not make the state certain.")
    }

    /// Whether time alone may have made the state of a subscription wrong.
    private func isUncertain(_ key: ChainKey) async throws -> Bool {
        try await ledger.chain(key)?.subscription(ledger.rules.catalogue(scope), at: now())?.status.patience != nil
    }

    /// Asks for the state of all subscriptions of the customer of a chain, and records the answer.
    ///
    /// - Parameter isNew: Whether to record a valid document.
    /// - Returns: `nil` if the customer has no subscription.
    @discardableResult func ask(
        about key: ChainKey, within limit: Duration, recordingIf isNew: (Evidence) -> Bool = { _ in true }
    ) async throws -> RecordResult? {
        recent.note([key], at: now())
        let answer = try await client.send(
            .subscriptionStatuses(key.originalTransactionId), to: scope.environment, within: limit)
        var evidence: [Evidence] = []
        var refusal: VerificationError?
        for subscription in await verifier.checked(answer, at: now()) {
            do throws(VerificationError) {
                evidence += try Self.evidence(in: subscription).filter(isNew)
            } catch {
                refusal = refusal ?? error
            }
        }
        // A document that is not valid does not hold up the rest. One that may be valid later is asked for again.
        let result = evidence.isEmpty ? nil : try await ledger.record(evidence, at: now())
        if let refusal, result == nil || refusal.isRetryable { throw refusal }
        return result
    }

    private static func evidence(in subscription: CheckedSubscription) throws(VerificationError) -> [Evidence] {
        guard let transaction = try subscription.transaction?.result.get() else { return [] }
        let renewalInfo = try subscription.renewalInfo?.result.get()
        return [Evidence(transaction), renewalInfo.flatMap { Evidence($0, boundBy: transaction) }].compactMap(\.self)
    }

    /// Asks about a customer's stale subscriptions before an answer is given, if the rate limit has room.
    ///
    /// Never fails: without an answer in time the ledger's own answer stands, and a job asks later.
    ///
    /// - Parameters:
    ///   - chains: The stale subscriptions of one customer. One question covers all of them.
    ///   - limit: The longest time.
    /// - Returns: Whether something may have changed.
    public func refresh(_ chains: some Sequence<ChainKey>, within limit: Duration) async -> Bool {
        guard let key = chains.min(), key.scope == scope, recent.begin(chains, at: now()) else { return false }
        // Without an answer the ledger's own answer stands, whatever the reason.
        return (try? await ask(about: key, within: limit)) != nil
    }
}
