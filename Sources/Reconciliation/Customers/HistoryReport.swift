// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Records the transactions in an answer of the App Store, and counts them.

/// What the App Store's answers about a customer brought.
public struct HistoryReport: Hashable, Sendable {
    /// The environment that knows the customer.
    public let environment: Environment
    /// How many documents the ledger keeps in addition to those that it had.
    public private(set) var recorded = 0
    /// How many other documents there were: the ledger had them, or others that say the same.
    public private(set) var alreadyKnown = 0
    /// The purchases, each by the id of its first transaction.
    public fileprivate(set) var originalTransactionIds: Set<String> = []
    /// How many documents are not valid, and were not recorded.
    public private(set) var refused = 0
    /// Why the first of them is not valid; `nil` if all are valid.
    public private(set) var refusal: String?

    init(in environment: Environment) {
        self.environment = environment
    }

    mutating func count(_ result: RecordResult) {
        recorded += result.new
        alreadyKnown += result.known
    }

    /// Counts documents that say the same as others of this backfill, and were not recorded.
    mutating func count(known: Int) { alreadyKnown += known }

    /// This report with what an earlier reading of the same history brought.
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

    fileprivate mutating func refuse(because error: VerificationError) {
        refused += 1
        refusal = refusal ?? "\(error)"
    }
}

extension OrderLookupResponse {
    /// Apple's `OrderLookupStatus`: 0 is a valid order id.
    var isValid: Bool { status == 0 }
}

extension Reconciler {
    /// Records those of an answer's documents that are valid, in one commit.
    ///
    /// - Parameter choose: Returns those of the valid documents that are to be recorded.
    /// - Returns: The transactions in the valid documents.
    /// - Throws: `LedgerStorageError`, or `VerificationError` if a document may be valid later.
    func record(
        _ documents: [CheckedDocument<Verified<JWSTransactionDecodedPayload>>], in report: inout HistoryReport,
        choosing choose: ([Evidence]) -> [Evidence] = { $0 }
    ) async throws -> [JWSTransactionDecodedPayload] {
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
                report.refuse(because: error)
            }
        }
        report.originalTransactionIds.formUnion(payloads.compactMap(\.originalTransactionId))
        let chosen = choose(evidence)
        report.count(known: evidence.count - chosen.count)
        if !chosen.isEmpty { report.count(try await ledger.record(chosen, at: now())) }
        return payloads
    }
}
