// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust

/// Reads and verifies documents. A cache keeps the last results, so that most documents are read once.
struct DocumentReader {
    /// How many documents to cache: a receipt is evidence for many chains in a row.
    private static let limit = 1000

    private let storage: any LedgerStorage
    private let verifier: AppStoreVerifier
    private var known: [Provenance: Reading?] = [:]
    private(set) var count = 0
    private(set) var faults: [Ledger.Fault] = []

    private struct Reading {
        var stored: StoredDocument
        var verified: VerifiedAgain
    }

    init(_ storage: any LedgerStorage, _ verifier: AppStoreVerifier) {
        self.storage = storage
        self.verifier = verifier
    }

    /// Reads and verifies documents together, before they are asked for chain by chain.
    mutating func read(_ names: Set<Provenance>) async throws {
        if known.count > Self.limit { known.removeAll() }
        let unread = names.filter { known[$0] == nil }
        guard !unread.isEmpty else { return }
        let documents = try await storage.load(LedgerQuery(unread.map(LedgerKey.content))).documents
        for missing in unread.subtracting(documents.keys) {
            add(nil, Ledger.Fault(document: missing, error: "It cannot be read."), missing)
        }
        let stored = Array(documents.values)
        for (document, result) in zip(stored, await Evidence.verify(stored, by: verifier)) {
            switch result {
            case .success(let verified): add(Reading(stored: document, verified: verified), nil, document.name)
            case .failure(let fault):
                add(nil, Ledger.Fault(fault.code, document: document.name, error: fault.message), document.name)
            }
        }
        count += unread.count
    }

    /// The evidence in the documents of a chain. Leaves out a document that cannot be read or verified, and adds it to
    /// the faults. Renewal info that arrived with a transaction, as in an answer of the App Store Server API, is bound
    /// by another of the documents.
    mutating func evidence(_ names: Set<Provenance>) async throws -> [Provenance: Evidence] {
        try await read(names)
        var evidence: [Provenance: Evidence] = [:]
        var renewals: [Provenance: Verified<JWSRenewalInfoDecodedPayload>] = [:]
        for name in names {
            switch (known[name] ?? nil)?.verified {
            case .evidence(let document?): evidence[name] = document
            case .renewalInfo(let renewalInfo): renewals[name] = renewalInfo
            case .evidence(nil), nil: break
            }
        }
        let others = evidence.values
        let bound = renewals.compactMapValues { renewal in
            others.lazy.compactMap { Evidence(renewal, boundBy: $0) }.first
        }
        return evidence.merging(bound) { first, _ in first }
    }

    /// A document that was read, as it is stored; `nil` if it cannot be read or verified.
    func stored(_ name: Provenance) -> StoredDocument? { (known[name] ?? nil)?.stored }

    /// Whether a document that was asked for cannot be read or verified.
    func isUnreadable(_ name: Provenance) -> Bool { known[name].map { $0 == nil } ?? false }

    /// Forgets documents that are not stored any more, with what was wrong with them.
    mutating func forget(_ names: Set<Provenance>) {
        for name in names { known[name] = nil }
        faults.removeAll { $0.document.map(names.contains) ?? false }
    }

    private mutating func add(_ reading: Reading?, _ fault: Ledger.Fault?, _ name: Provenance) {
        known[name] = .some(reading)
        if let fault, !faults.contains(fault) { faults.append(fault) }
    }
}
