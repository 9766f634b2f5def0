// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Reconciliation

/// The JSON of what became of the history of a customer.
struct BackfillBody: Encodable, Sendable {
    /// Whether all of the history is in the ledger.
    var complete: Bool
    var recorded: Int?
    var alreadyKnown: Int?
    var originalTransactionIds: [String]?
    var refused: Int?
    var refusal: String?
    var nextAttempt: Timestamp?
    var reason: String?

    init(_ report: HistoryReport) {
        complete = true
        (recorded, alreadyKnown) = (report.recorded, report.alreadyKnown)
        originalTransactionIds = report.originalTransactionIds.sorted()
        (refused, refusal) = (report.refused, report.refusal)
    }

    /// - Parameter job: Reads the rest.
    init(_ job: Job) {
        complete = false
        (nextAttempt, reason) = (job.dueAt, job.failure)
    }
}
