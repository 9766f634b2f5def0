// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import PurchaseLedger

// Answers the App Store's consumption requests, with what the app has supplied.

extension Reconciler {
    /// A request that waits for the app is looked at so often before its deadline: every 36 minutes, in sandbox every
    /// 15 seconds.
    private static let polls: Int64 = 20

    /// Does a job to answer a request. Without consent and the members that Apple requires nothing is sent.
    func answerConsumption(_ job: Job) async throws -> JobOutcome {
        let key = TransactionKey(job.id.name, in: scope)
        guard let question = ConsumptionQuestion(job) else {
            guard let note = RefundNote(job), now() < note.forgottenAt else { return .done }
            return .later(job.next(at: note.forgottenAt, nil))
        }
        // An outcome is kept, so that a repeated request is not answered again.
        if question.state != .waiting, now() < question.forgottenAt {
            return .later(job.next(at: question.forgottenAt, job.failure))
        }
        // It has been kept for long enough, or the purchase was erased.
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
                // The pauses after failures grow to an hour, in which the deadline may pass.
                throw failure(error, latest: beforeDeadline(nextPoll, deadline))
            }
            return try close(job, question, as: .refused, because: "\(error)")
        }
        return try close(job, question, as: .answered)
    }

    /// When a request is looked at again.
    private var nextPoll: Timestamp {
        now().advanced(by: ConsumptionQuestion.timeout(in: scope.environment) / Self.polls)
    }

    /// A time for another look, at the deadline at the latest unless that is over by a clock that may be wrong.
    private func beforeDeadline(_ time: Timestamp, _ deadline: Timestamp) -> Timestamp {
        now() < deadline ? min(time, deadline) : time
    }

    /// The outcome of a request, which is kept for a while.
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
    /// The refusals that name a member of the answer, or a kind of transaction that takes none (Send Consumption
    /// Information): the same answer would be refused as often as it is sent. Everything else may pass, also a number
    /// that nobody knows, and a transaction that the App Store does not know yet.
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
