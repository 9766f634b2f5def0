// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Records the transactions in an answer of the App Store, and counts the documents.

/// The numbers of documents in the App Store's answers about a customer.
public struct HistoryReport: Hashable, Sendable {
    /// The environment that knows the customer.
    public let environment: Environment
    /// The number of documents that were new to the ledger.
    public private(set) var recorded = 0
    /// The number of valid documents that the ledger did not need: it had them, or documents with the same wording,
    /// which is the content without the signing date.
    public private(set) var alreadyKnown = 0
    /// The original transaction ids of the purchases.
    public private(set) var originalTransactionIds: Set<String> = []
    /// The number of invalid documents, which were not recorded.
    public private(set) var refused = 0
    /// The reason why the first of the invalid documents was refused; `nil` if all documents are valid.
    public private(set) var refusal: String?

    init(in environment: Environment) {
        self.environment = environment
    }

    mutating func count(_ result: RecordResult) {
        recorded += result.new
        alreadyKnown += result.known
    }

    /// Counts documents that were left out because another document with the same wording is recorded in the same run:
    /// in a backfill, or in a reading of one customer's history.
    mutating func count(known: Int) { alreadyKnown += known }

    /// This report combined with the report of an earlier reading of the same history.
    func after(_ earlier: HistoryReport?) -> HistoryReport {
        guard let earlier else { return self }
        var report = self
        report.recorded += earlier.recorded
        report.alreadyKnown += earlier.alreadyKnown
        report.originalTransactionIds.formUnion(earlier.originalTransactionIds)
        report.refused += earlier.refused
        report.refusal = earlier.refusal ?? refusal
        return report
    }

    private mutating func refuse(because error: VerificationError) {
        refused += 1
        refusal = refusal ?? "\(error)"
    }
}

extension OrderLookupResponse {
    /// Whether the App Store knows the order id: Apple's `OrderLookupStatus` is then 0.
    var isValid: Bool { status == 0 }
}

extension Reconciler {
    /// Records the valid documents of an answer in one commit.
    ///
    /// - Returns: The transactions in the valid documents.
    /// - Throws: `VerificationError` if a document is refused now but may pass on a retry; `LedgerStorageError`.
    func record(
        _ documents: [CheckedDocument<Verified<JWSTransactionDecodedPayload>>], in report: inout HistoryReport
    ) async throws -> [JWSTransactionDecodedPayload] {
        let (evidence, payloads) = try report.take(documents)
        if !evidence.isEmpty { report.count(try await ledger.record(evidence, isBackfill: true, at: now())) }
        return payloads
    }
}

extension HistoryReport {
    /// Counts the invalid documents of an answer.
    ///
    /// - Returns: The valid documents, and their transactions.
    /// - Throws: `VerificationError` if a document is refused now but may pass on a retry.
    ///
    /// Not inlined into its asynchronous callers, because this compiler's optimizer miscompiles the result.
    @inline(never)
    mutating func take(
        _ documents: [CheckedDocument<Verified<JWSTransactionDecodedPayload>>]
    ) throws(VerificationError) -> (evidence: [Evidence], payloads: [JWSTransactionDecodedPayload]) {
        var evidence: [Evidence] = []
        var payloads: [JWSTransactionDecodedPayload] = []
        for document in documents {
            switch document.result {
            case .success(let transaction):
                guard let found = Evidence(transaction) else { continue }
                evidence.append(found)
                payloads.append(transaction.payload)
            case .failure(let error):
                if error.isRetryable { throw error }
                refuse(because: error)
            }
        }
        originalTransactionIds.formUnion(payloads.compactMap(\.originalTransactionId))
        return (evidence, payloads)
    }
}
