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
    /// How many documents the ledger had, or say the same as documents that it had.
    public private(set) var alreadyKnown = 0
    /// The purchases, each by the id of its first transaction.
    public private(set) var originalTransactionIds: Set<String> = []
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

    /// Counts documents that say the same as others of this reading, and were not recorded.
    mutating func count(known: Int) { alreadyKnown += known }

    fileprivate mutating func add(_ purchases: [JWSTransactionDecodedPayload]) {
        originalTransactionIds.formUnion(purchases.compactMap(\.originalTransactionId))
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
    /// - Parameter isNew: Whether to record a valid document.
    /// - Returns: The transactions in the valid documents.
    /// - Throws: `LedgerStorageError`, or `VerificationError` if a document may be valid later.
    func record(
        _ documents: [CheckedDocument<Verified<JWSTransactionDecodedPayload>>], in report: inout HistoryReport,
        if isNew: (Evidence) -> Bool = { _ in true }
    ) async throws -> [JWSTransactionDecodedPayload] {
        var (evidence, payloads) = ([Evidence](), [JWSTransactionDecodedPayload]())
        for document in documents {
            switch document.result {
            case .success(let transaction):
                guard let found = Evidence(transaction) else { continue }
                payloads.append(transaction.payload)
                if isNew(found) { evidence.append(found) } else { report.count(known: 1) }
            case .failure(let error):
                if error.isRetryable { throw error }
                report.refuse(because: error)
            }
        }
        report.add(payloads)
        if !evidence.isEmpty { report.count(try await ledger.record(evidence, at: now())) }
        return payloads
    }
}
