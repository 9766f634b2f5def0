// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust

/// Reads and verifies documents. A cache keeps the last results, so that most documents are read only once.
struct DocumentReader {
    /// The number of documents above which the cache is emptied. It is this large because a receipt can be evidence for
    /// many chains, which are read one after the other. The receipt is then still in the cache.
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

    /// Reads and verifies documents together, before they are needed chain by chain.
    mutating func read(_ names: Set<Provenance>) async throws {
        if known.count > Self.limit { known.removeAll() }
        let unread = names.filter { known[$0] == nil }
        guard !unread.isEmpty else { return }
        let documents = try await storage.load(LedgerQuery(unread.map(LedgerKey.content))).documents
        for missing in unread.subtracting(documents.keys) {
            add(nil, Ledger.Fault(document: missing, error: "The document cannot be read."), missing)
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

    /// The evidence in the documents of a chain. A document that cannot be read or verified is left out, and added to
    /// the faults. Renewal info that arrived beside a transaction, as in an answer of the App Store Server API, does
    /// not name the app. A different document of the chain then shows which app the renewal info is about.
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

    /// The stored form of a document that was read; `nil` if the document was not read, or cannot be verified.
    func stored(_ name: Provenance) -> StoredDocument? { (known[name] ?? nil)?.stored }

    /// Whether a document was requested but cannot be read or verified.
    func isUnreadable(_ name: Provenance) -> Bool { known[name].map { $0 == nil } ?? false }

    /// Removes documents that are no longer stored, with their faults.
    mutating func forget(_ names: Set<Provenance>) {
        for name in names { known[name] = nil }
        faults.removeAll { $0.document.map(names.contains) ?? false }
    }

    private mutating func add(_ reading: Reading?, _ fault: Ledger.Fault?, _ name: Provenance) {
        known[name] = .some(reading)
        if let fault, !faults.contains(fault) { faults.append(fault) }
    }
}
