// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a consumption request, and what became of it.
struct ConsumptionBody: Encodable, Sendable {
    /// The transaction that the App Store asks about.
    var transactionId: String
    /// `waiting`, `answered`, `withheld`, `refused` or `missed`.
    var status: ConsumptionQuestion.State
    /// When the App Store asked, in milliseconds since 1970.
    var requestedAt: Timestamp
    /// The end of the time in which the App Store accepts an answer, in milliseconds since 1970.
    var deadline: Timestamp
    /// When the App Store accepted the answer, in milliseconds since 1970.
    @Nullable var answeredAt: Timestamp?
    /// Why there is no accepted answer.
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
    /// Since when the customer consents, in milliseconds since 1970; `null` if the customer does not.
    @Nullable var consentedAt: Timestamp?
}
