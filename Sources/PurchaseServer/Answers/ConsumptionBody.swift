// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a consumption request, and what became of it.
struct ConsumptionBody: Encodable, Sendable {
    var transactionId: String
    var status: ConsumptionQuestion.State
    var requestedAt: Timestamp
    var deadline: Timestamp
    @Nullable var answeredAt: Timestamp?
    @Nullable var failure: String?
    /// What the backend supplied.
    var information: ConsumptionInformation

    /// - Returns: `nil` if the job is of another kind.
    init?(_ job: Job) {
        guard let question = ConsumptionQuestion(job) else { return nil }
        transactionId = job.id.name
        status = question.state
        requestedAt = question.requestedAt
        deadline = question.deadline(in: job.id.scope.environment)
        answeredAt = question.answeredAt
        failure = job.failure
        information = question.information
    }
}

/// The JSON of a customer's consent.
struct ConsentBody: Encodable, Sendable {
    /// The id in the request.
    var id: String
    @Nullable var consentedAt: Timestamp?

    init(_ id: String, since consentedAt: Timestamp?) {
        self.id = id
        self.consentedAt = consentedAt
    }
}
