// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
package import PurchaseLedger

/// Changes of one member each, and what they write.
package enum EachChange {
    /// By the name of the member of `LedgerChanges`.
    package static let all: [String: (changes: LedgerChanges, keys: Set<LedgerKey>)] = [
        "documents": changes([.document(evidence.provenance), .chain(chain)]) {
            $0.documents = [NewDocument(evidence, for: [chain], receivedAt: time)]
        },
        "chains": changes([.chain(chain)]) { $0.chains = [ChainRecord(chain)] },
        "customers": changes([.customerID(CustomerID("anna", of: scope.bundleId))]) {
            $0.customers = [CustomerRecord(customer, ids: ["anna"])]
        },
        "erasedCustomers": changes([.customer(customer)]) { $0.erasedCustomers = [customer] },
        "movedEvidence": changes([.evidence(chain), .chain(other)]) { $0.movedEvidence = [chain: other] },
        "erasedChains": changes([.evidence(chain)]) { $0.erasedChains = [chain] },
        "displacedDocuments": changes([.document(evidence.provenance)]) {
            $0.displacedDocuments = [evidence.provenance]
        },
        "events": changes([.events(scope.bundleId), .chain(chain)]) {
            $0.events = [LedgerEvent(.purchased, in: scope, at: time, chainName: chain.name)]
        },
        "records": changes([.record(record)]) { $0.records = [LedgerRecord(record)] },
        "erasedRecords": changes([.record(record)]) { $0.erasedRecords = [record] },
        "marks": changes([.marks]) { $0.marks.lastCustomer = 1 },
    ]

    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)
    private static let chain = ChainKey("1", in: scope)
    private static let other = ChainKey("2", in: scope)
    private static let customer = Customer(number: 1, bundleId: scope.bundleId)
    private static let record = RecordKey(RecordKind(rawValue: "k"), "n", of: .scope(scope))
    private static let time = Timestamp(milliseconds: 1)
    private static let evidence = Evidence(.receipt, Array("1".utf8), scope, nil) { _ in ([], []) }

    private static func changes(
        _ keys: Set<LedgerKey>, _ fill: (inout LedgerChanges) -> Void
    ) -> (changes: LedgerChanges, keys: Set<LedgerKey>) {
        var changes = LedgerChanges()
        fill(&changes)
        return (changes, keys)
    }
}
