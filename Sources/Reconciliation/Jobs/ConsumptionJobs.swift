// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import PurchaseLedger

// Answers the App Store's consumption requests with the information that the app has supplied. With such a request,
// Apple asks for information about a purchase after the customer has asked for a refund.

extension Reconciler {
    /// The number of times that the server looks for the app's information between a request and its deadline: every 36
    /// minutes, in the sandbox every 15 seconds.
    private static let polls: Int64 = 20

    /// Does a job that answers a consumption request. Without consent, or without the members that Apple requires, no
    /// answer is sent.
    func answerConsumption(_ job: Job) async throws -> JobOutcome {
        let key = TransactionKey(job.id.name, in: scope)
        guard let question = ConsumptionQuestion(job) else {
            guard let note = RefundNote(job), now() < note.forgottenAt else { return .done }
            return .later(job.next(at: note.forgottenAt, nil))
        }
        // The outcome is kept, so that a repeated request is not answered again.
        if question.state != .waiting, now() < question.forgottenAt {
            return .later(job.next(at: question.forgottenAt, job.failure))
        }
        // The retention of the outcome is over, or the purchase was erased.
        guard question.state == .waiting, let (transaction, isGiven) = try await ledger.consent(about: key)
        else { return .done }
        if question.information.customerConsented == false { return try close(job, question, as: .withheld) }
        var information = question.information.completed(by: consumptionDefaults[transaction.productId] ?? .init())
        information.customerConsented = information.customerConsented ?? isGiven
        let deadline = question.deadline(in: scope.environment)
        guard now() < deadline || !isTimeConfirmed() else {
            return try close(
                job, question, as: .missed, because: information.gap ?? job.failure ?? "The server was down.")
        }
        guard let request = information.request(isSubscription: transaction.isSubscription) else {
            return .later(job.next(at: beforeDeadline(nextPoll, deadline), nil))
        }
        return try await send(request, job, question, before: deadline)
    }

    private func send(
        _ request: ConsumptionRequest, _ job: Job, _ question: ConsumptionQuestion, before deadline: Timestamp
    ) async throws -> JobOutcome {
        let rest = now().duration(to: deadline)
        let limit = rest > .zero ? min(AppStoreClient.deadline, rest) : AppStoreClient.deadline
        do {
            try await client.send(
                .sendConsumptionInformation(request, about: job.id.name), to: scope.environment,
                within: limit)
        } catch {
            guard error.code != .cancelled else { throw error }
            guard error.namesFaultOfRequest else {
                // Without a latest time, the back-off would grow to an hour, in which the deadline may pass.
                throw failure(error, latest: beforeDeadline(nextPoll, deadline))
            }
            return try close(job, question, as: .refused, because: "\(error)")
        }
        return try close(job, question, as: .answered)
    }

    /// The time at which a waiting request is polled next.
    private var nextPoll: Timestamp {
        now().advanced(by: ConsumptionQuestion.timeout(in: scope.environment) / Self.polls)
    }

    /// The time of a poll, at the latest the deadline. A deadline in the past does not count, because the clock may be
    /// wrong.
    private func beforeDeadline(_ time: Timestamp, _ deadline: Timestamp) -> Timestamp {
        now() < deadline ? min(time, deadline) : time
    }

    /// Closes a request with an outcome. The job keeps the outcome until `forgottenAt`.
    private func close(
        _ job: Job, _ question: ConsumptionQuestion, as state: ConsumptionQuestion.State, because failure: String? = nil
    ) throws -> JobOutcome {
        var question = question
        question.state = state
        question.answeredAt = state == .answered ? now() : nil
        var next = job.next(at: question.forgottenAt, failure)
        next.payload = try question.payload
        return .later(next)
    }
}

extension AppStoreAPIError {
    /// The errors with which Send Consumption Information refuses a member of the answer, or a kind of transaction that
    /// takes no consumption information. The App Store would refuse the same answer again. All other refusals may be
    /// temporary, including unknown error codes and transactions that the App Store does not know yet.
    private static let faultsOfRequest: Set<APIErrorCode> = [
        .invalidTransactionId, .invalidCustomerConsented, .invalidDeliveryStatus, .invalidSampleContentProvided,
        .invalidRefundPreference, .consumptionPercentageAutoRenewableSubscription, .invalidTransactionNotConsumable,
        .invalidTransactionTypeNotSupported, .appTransactionIdNotSupported, .familyTransactionNotSupported,
        .invalidAssignedTransactionNotSupported,
    ]

    fileprivate var namesFaultOfRequest: Bool {
        code == .refused && errorCode?.known.map(Self.faultsOfRequest.contains) == true
    }
}
