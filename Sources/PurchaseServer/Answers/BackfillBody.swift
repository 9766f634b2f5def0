// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Reconciliation

/// The JSON of what became of the history of a customer.
struct BackfillBody: Encodable, Sendable {
    /// Whether all of the history is in the ledger.
    var complete: Bool
    /// How many documents the ledger has more than before.
    var recorded: Int?
    /// How many documents the ledger had, or say nothing new.
    var alreadyKnown: Int?
    /// The original transaction ids of the customer's purchases, in order.
    var originalTransactionIds: [String]?
    /// How many documents of the App Store were not valid.
    var refused: Int?
    /// Why the first of the refused documents was not valid; absent if none was refused.
    var refusal: String?
    /// When the job asks the App Store next, in milliseconds since 1970; only if the history is not complete.
    var nextAttempt: Timestamp?
    /// Why the last attempt failed; only if the history is not complete.
    var reason: String?

    init(_ report: HistoryReport) {
        complete = true
        recorded = report.recorded
        alreadyKnown = report.alreadyKnown
        originalTransactionIds = report.originalTransactionIds.sorted()
        refused = report.refused
        refusal = report.refusal
    }

    /// - Parameter job: Reads the rest.
    init(_ job: Job) {
        complete = false
        nextAttempt = job.dueAt
        reason = job.failure
    }
}
