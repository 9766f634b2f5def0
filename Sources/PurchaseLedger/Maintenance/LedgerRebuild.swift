// SPDX-License-Identifier: Apache-2.0

// Derives all facts from the stored documents again, and corrects differences.

public import AppStoreModel
public import AppStoreTrust

extension Ledger {
    /// The number of chains read at once.
    private static let chainPage = 100

    /// Derives the facts of every purchase (see ``Chain``) from its documents again, and compares them with the stored
    /// facts. If all documents and chains can be read, corrects differing facts, publishes the resulting changes, and
    /// repairs the data that the storage keeps besides the records (``LedgerStorage/mend()``). If all is correct, no
    /// write happens.
    ///
    /// If documents about a chain arrive meanwhile, the chain is derived again. If old documents were removed from the
    /// storage, facts without a document stay unchanged.
    ///
    /// - Parameter verifier: As for ``check(by:onDocuments:)``.
    /// - Throws: ``LedgerStorageError``.
    public func rebuild(
        by verifier: AppStoreVerifier, at now: Timestamp, onDocuments: (_ count: Int) -> Void = { _ in }
    ) async throws -> RebuildReport {
        var report = RebuildReport()
        var reader = DocumentReader(storage, verifier)
        var differing: [ChainKey] = []
        // Chains that have the same transaction are found by their stored facts, which may be wrong or missing.
        var sharing: [TransactionKey: Set<ChainKey>] = [:]
        var cursor: ScanCursor?
        repeat {
            let page = try await storage.chains(.all, after: cursor, limit: Self.chainPage)
            report.faults += page.damage.map { Fault(error: $0) }
            for key in page.items {
                do {
                    let derivation = try await derivation(of: key, from: &reader)
                    guard derivation.differs else { continue }
                    differing.append(key)
                    for transaction in derivation.transactions { sharing[transaction, default: []].insert(key) }
                } catch let error as LedgerStorageError where error.code == .damaged {
                    report.faults.append(Fault(unreadable: key, error))
                }
            }
            onDocuments(reader.count)
            cursor = page.next
        } while cursor != nil
        report.documents = try await storage.documentCount()
        report.faults = report.faults + reader.faults
        guard report.faults.isEmpty else { return report }
        for key in differing where try await correct(key, sharing, from: &reader, at: now) {
            report.differing.append(key)
        }
        report.faults = reader.faults
        try await storage.mend()
        return report
    }

    /// The facts of a chain, derived from its documents.
    struct Derivation {
        /// The documents by the chains that they are about: the chain itself, and all others with its transactions.
        var documents: [ChainKey: Set<Provenance>]
        /// The transactions for which other chains were sought.
        var transactions: Set<TransactionKey>
        var derived: Chain
        /// The documents that prove the migration of a different chain to this chain.
        var migrations: [Evidence]
        var differs: Bool
        /// Whether all documents could be read and verified. If not, the facts may differ for this reason alone.
        var isWhole: Bool
    }

    /// - Parameter sharing: Chains with a transaction besides those whose stored facts have it.
    func derivation(
        of key: ChainKey, _ sharing: [TransactionKey: Set<ChainKey>] = [:], from reader: inout DocumentReader
    ) async throws -> Derivation {
        let (record, own) = try await chainWithDocuments(key, reading: &reader)
        let stored = record.chain
        var derived = Chain(key)
        derived.residue = stored.residue
        derived.predecessors = stored.predecessors
        derived.denial = stored.denial
        var found = try await reader.evidence(own)
        let evidence = Array(found.values)
        for document in evidence { document.merge(into: &derived) }
        let all = Array(stored.transactions.values) + derived.transactions.values
        let transactions = Set(all.map(\.key)).filter(\.isUnique)
        let known = transactions.compactMap { sharing[$0] }.reduce(into: Set()) { $0.formUnion($1) }
        var documents = try await sharedDocuments(transactions, known, besides: key, reading: &reader)
        for names in documents.values { found.merge(try await reader.evidence(names)) { first, _ in first } }
        documents[key] = own
        // Only now all transactions of the chain are known, and statements that name other chains count.
        for document in found.values { document.merge(into: &derived) }
        // `keepsAllDocuments` is asked only after the documents were read. Otherwise a document could be removed
        // between the question and the reading, and the facts would then differ.
        if derived != stored {
            let keepsAll = try await storage.keepsAllDocuments()
            derived.keep(stored, all: !keepsAll) { found[$0] == nil }
        }
        let migrations = evidence.filter { document in
            document.predecessors.contains { derived.isNamed($0.key) && !derived.isNamed($0.value) }
        }
        return Derivation(
            documents: documents, transactions: transactions, derived: derived, migrations: migrations,
            differs: derived != stored || !migrations.isEmpty || isWronglySettled(record),
            isWhole: !documents.values.joined().contains(where: reader.isUnreadable))
    }

    /// Whether the stored settlement differs from that by the stored facts. A settlement by another catalogue counts
    /// for nothing, and so cannot be wrong.
    private func isWronglySettled(_ record: ChainRecord) -> Bool {
        let catalogue = rules.catalogue(record.key.scope)
        guard let settlement = record.settlement, settlement.catalogue == catalogue.stamp else { return false }
        return record.chain.history(catalogue, at: settlement.at).settlement(record.chain) != settlement
    }

    /// Finds the other chains with some of a chain's transactions, and reads their documents.
    ///
    /// - Returns: The names of the documents of each chain.
    private func sharedDocuments(
        _ transactions: Set<TransactionKey>, _ known: Set<ChainKey>, besides key: ChainKey,
        reading reader: inout DocumentReader
    ) async throws -> [ChainKey: Set<Provenance>] {
        guard !transactions.isEmpty else { return [:] }
        let query = LedgerQuery(transactions.map(LedgerKey.transaction))
        let others = known.union(try await storage.load(query).chains.keys).filter { $0 != key }
        guard !others.isEmpty else { return [:] }
        let evidence = try await storage.load(LedgerQuery(others.map(LedgerKey.evidence))).evidence
        try await reader.read(Set(evidence.values.joined().map(\.name)))
        return Dictionary(uniqueKeysWithValues: others.map { ($0, Set((evidence[$0] ?? []).map(\.name))) })
    }

    /// The stored facts of a chain, and the names of its documents, which were read. If an unreadable document was
    /// replaced or erased meanwhile, the chain and its documents are read again.
    private func chainWithDocuments(
        _ key: ChainKey, reading reader: inout DocumentReader
    ) async throws -> (stored: ChainRecord, documents: Set<Provenance>) {
        let query = LedgerQuery([.chain(key), .evidence(key)])
        for _ in 0..<Self.maxAttempts {
            let snapshot = try await storage.load(query)
            let documents = Set((snapshot.evidence[key] ?? []).map(\.name))
            try await reader.read(documents)
            let unreadable = documents.filter(reader.isUnreadable)
            let left = unreadable.isEmpty ? [] : try await storage.load(query).evidence[key] ?? []
            let gone = unreadable.subtracting(left.map(\.name))
            guard !gone.isEmpty else { return (snapshot.chains[key] ?? ChainRecord(key), documents) }
            reader.forget(gone)
        }
        throw LedgerStorageError(.unavailable, "\(key.originalTransactionId) keeps changing: run the rebuild again")
    }

    /// Replaces the stored facts of a chain by the derived facts.
    ///
    /// - Returns: Whether the facts differed and were replaced.
    private func correct(
        _ key: ChainKey, _ sharing: [TransactionKey: Set<ChainKey>], from reader: inout DocumentReader,
        at now: Timestamp
    ) async throws -> Bool {
        for _ in 0..<Self.maxAttempts {
            let derivation = try await derivation(of: key, sharing, from: &reader)
            // If a document became unreadable meanwhile, a correction would lose its facts.
            guard derivation.differs, reader.faults.isEmpty else { return false }
            let query = LedgerQuery([.chain(key)] + derivation.documents.keys.map(LedgerKey.evidence))
            let isCorrected = try await commit(query, at: now) { draft in
                guard draft.isCurrent(derivation) else { return false }
                draft.correct(derivation.derived, derivation.migrations)
                return true
            }
            if isCorrected { return true }
        }
        throw LedgerStorageError(
            .unavailable, "\(key.originalTransactionId) keeps changing: run the rebuild again")
    }

    /// The maximum number of derivations of a chain while documents about it keep arriving.
    private static let maxAttempts = 10
}

extension Chain {
    /// Keeps the facts of missing documents. Also keeps the time since which a transaction is known, because a missing
    /// document may have been the first about the transaction.
    ///
    /// - Parameter all: Whether documents about any fact may be missing. If not, only facts about transactions with
    ///   residue (``Chain/residue``) are kept: their documents may have been erased with a different chain.
    fileprivate mutating func keep(_ stored: Chain, all: Bool, missing isMissing: (Provenance) -> Bool) {
        for var statement in stored.transactions.values.flatMap(\.statements) {
            guard all || residue[statement.transactionId] != nil else { continue }
            if !isMissing(statement.provenance) {
                let derived = transactions[statement.transactionId]?.statements ?? []
                if derived.contains(where: { $0.source == statement.source }) {
                    // With this date the derived statement counts as newer and stays, but takes over an earlier
                    // `knownSince`.
                    statement.provenance.signedDate = .distantPast
                } else if statement.otherChain == nil {
                    continue
                }
            }
            // If the document names a different chain, all documents that name this chain may be missing.
            take(statement)
        }
        guard all, var renewal = stored.renewal else { return }
        let isKept = isMissing(renewal.provenance)
        // The account may come from an older document, which is missing.
        if !isKept { renewal.provenance.signedDate = .distantPast }
        if isKept || renewal.olderTokenDate != nil { merge(renewal) }
    }
}

extension LedgerDraft {
    /// Whether a chain was derived from all documents about its transactions. Others may have arrived meanwhile.
    fileprivate mutating func isCurrent(_ derivation: Ledger.Derivation) -> Bool {
        let sharing = Set(derivation.transactions.flatMap { chains(of: $0).map(\.key) })
        return sharing.isSubset(of: derivation.documents.keys)
            && derivation.documents.allSatisfy { Set(evidence($0).map(\.name)) == $1 }
    }

    /// Replaces the facts of a chain by derived facts, and publishes the resulting changes. Without the app's catalogue
    /// no change is published: a server with the catalogue evaluates the app's chains at its start.
    fileprivate mutating func correct(_ derived: Chain, _ migrations: [Evidence]) {
        var record = record(derived.key)
        record.chain = derived
        put(record)
        let migrated = migrations.reduce(into: Set([derived.key])) { $0.formUnion(migrate($1)) }
        for key in migrated.sorted() {
            let key = resolved(key)
            if rules.catalogues[key.scope.bundleId] == nil {
                noteCatalogue(of: self.record(key))
            } else {
                publishNow(key)
            }
        }
    }
}

/// The result of a rebuild, which derives all facts from the documents again.
public struct RebuildReport: Hashable, Sendable {
    /// The number of documents in the ledger, as a check counts them. Those about no purchase are not read.
    public var documents = 0
    /// Documents and chains that cannot be read or verified. If a fault was found before the first correction, no
    /// change was made, because corrections would lose facts.
    public var faults: [Ledger.Fault] = []
    /// The chains with differing facts, which were corrected.
    public var differing: [ChainKey] = []
}
