// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Reconciliation

/// The JSON of the result of a backfill: of a whole history, or of the job that reads the rest of the history.
struct BackfillBody: Encodable, Sendable {
    /// Whether the whole history is in the ledger.
    var complete: Bool
    /// The number of new documents in the ledger.
    var recorded: Int?
    /// The number of documents without new facts: the ledger already had the document, or the same facts from other
    /// documents.
    var alreadyKnown: Int?
    /// The original transaction ids of the customer's purchases, in order.
    var originalTransactionIds: [String]?
    /// The number of documents in the App Store's answers that the server refused as invalid.
    var refused: Int?
    /// The fault of the first refused document; absent if the server refused no document.
    var refusal: String?
    /// The time of the job's next request to the App Store, in milliseconds since 1970; only if the history is
    /// incomplete.
    var nextAttempt: Timestamp?
    /// The reason why the last attempt failed; only if the history is incomplete.
    var reason: String?

    init(_ report: HistoryReport) {
        complete = true
        recorded = report.recorded
        alreadyKnown = report.alreadyKnown
        originalTransactionIds = report.originalTransactionIds.sorted()
        refused = report.refused
        refusal = report.refusal
    }

    /// - Parameter job: The job that reads the rest of the history.
    init(_ job: Job) {
        complete = false
        nextAttempt = job.dueAt
        reason = job.failure
    }
}
