// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a consumption request and its outcome.
struct ConsumptionBody: Encodable, Sendable {
    /// The transaction in the App Store's request.
    var transactionId: String
    /// `waiting`, `answered`, `withheld`, `refused` or `missed`; see ``ConsumptionQuestion/State``.
    var status: ConsumptionQuestion.State
    /// The time of the App Store's request, in milliseconds since 1970.
    var requestedAt: Timestamp
    /// The deadline of the App Store for an answer, in milliseconds since 1970.
    var deadline: Timestamp
    /// The time at which the App Store accepted the answer, in milliseconds since 1970; `null` until then.
    @Nullable var answeredAt: Timestamp?
    /// The reason why the App Store has accepted no answer; `null` without a failure.
    @Nullable var failure: String?
    /// The information about the purchase that the app's backend supplied for the answer.
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

/// The JSON of a customer's consent to answers about the consumption of purchases.
struct ConsentBody: Encodable, Sendable {
    /// The id in the request.
    var id: String
    /// The start of the customer's consent, in milliseconds since 1970; `null` if the customer does not consent.
    @Nullable var consentedAt: Timestamp?
}
