// SPDX-License-Identifier: Apache-2.0

// Derives all facts from the stored documents again, and corrects what differs.

public import AppStoreModel
public import AppStoreTrust

extension Ledger {
    /// How many chains are read at once.
    private static let chainPage = 100

    /// Derives the facts of every chain from its documents again, and compares them with the stored facts. If they
    /// differ, corrects them and publishes what that changes. Mends what the storage keeps besides them. If nothing is
    /// wrong, writes nothing.
    ///
    /// If documents about a chain arrive meanwhile, derives that chain again. If old documents were taken from the
    /// storage, facts without a document stay as they are.
    ///
    /// - Parameter verifier: As for ``check(by:onDocuments:)``.
    /// - Throws: ``LedgerStorageError``.
    public func rebuild(
        by verifier: AppStoreVerifier, at now: Timestamp, onDocuments: (_ count: Int) -> Void = { _ in }
    ) async throws -> RebuildReport {
        var report = RebuildReport()
        var reader = DocumentReader(storage, verifier)
        var differing: [ChainKey] = []
        var cursor: ScanCursor?
        repeat {
            let page = try await storage.chains(.all, after: cursor, limit: Self.chainPage)
            report.faults += page.damage.map { Fault(error: $0) }
            for key in page.items {
                do {
                    if try await derivation(of: key, from: &reader).differs { differing.append(key) }
                } catch let error as LedgerStorageError where error.code == .damaged {
                    report.faults.append(Fault(unreadable: key, error))
                }
            }
            onDocuments(reader.count)
            cursor = page.next
        } while cursor != nil
        report.documents = reader.count
        report.faults = report.faults + reader.faults
        guard report.faults.isEmpty else { return report }
        for key in differing where try await correct(key, from: &reader, at: now) { report.differing.append(key) }
        report.faults = reader.faults
        try await storage.mend()
        return report
    }

    /// A chain as derived from its documents.
    struct Derivation {
        var documents: Set<Provenance>
        var derived: Chain
        /// The documents that prove that another chain was migrated to this one.
        var migrations: [Evidence]
        var differs: Bool
        /// Whether all documents could be read. If not, facts differ because of that.
        var isWhole: Bool
    }

    func derivation(of key: ChainKey, from reader: inout DocumentReader) async throws -> Derivation {
        let (stored, documents) = try await chainWithDocuments(key, reading: &reader)
        var derived = Chain(key)
        derived.residue = stored.residue
        derived.predecessors = stored.predecessors
        let found = try await reader.evidence(documents)
        let evidence = Array(found.values)
        for document in evidence { document.merge(into: &derived) }
        // Asked after the documents were read, so that none is taken in between.
        if derived != stored, try await !storage.keepsAllDocuments() {
            derived.keep(stored, missing: { found[$0] == nil })
        }
        let migrations = evidence.filter { document in
            document.predecessors.contains { derived.isNamed($0.key) && !derived.isNamed($0.value) }
        }
        return Derivation(
            documents: documents, derived: derived, migrations: migrations,
            differs: derived != stored || !migrations.isEmpty,
            isWhole: !documents.contains(where: reader.isUnreadable))
    }

    /// The stored facts of a chain, and the names of its documents, which were read. If one of them cannot be read
    /// since it was displaced or erased meanwhile, all is read again.
    private func chainWithDocuments(
        _ key: ChainKey, reading reader: inout DocumentReader
    ) async throws -> (stored: Chain, documents: Set<Provenance>) {
        let query = LedgerQuery([.chain(key), .evidence(key)])
        for _ in 0..<Self.maxAttempts {
            let snapshot = try await storage.load(query)
            let documents = Set((snapshot.evidence[key] ?? []).map(\.name))
            try await reader.read(documents)
            let unreadable = documents.filter(reader.isUnreadable)
            let left = unreadable.isEmpty ? [] : try await storage.load(query).evidence[key] ?? []
            let gone = unreadable.subtracting(left.map(\.name))
            guard !gone.isEmpty else { return (snapshot.chains[key]?.chain ?? Chain(key), documents) }
            reader.forget(gone)
        }
        throw LedgerStorageError(.unavailable, "\(key.originalTransactionId) keeps changing: run it again")
    }

    /// Replaces the stored facts of a chain by the derived ones.
    ///
    /// - Returns: Whether they differed.
    private func correct(_ key: ChainKey, from reader: inout DocumentReader, at now: Timestamp) async throws -> Bool {
        for _ in 0..<Self.maxAttempts {
            let derivation = try await derivation(of: key, from: &reader)
            // Facts of a document that became unreadable meanwhile would be lost.
            guard derivation.differs, reader.faults.isEmpty else { return false }
            let query = LedgerQuery([.chain(key), .evidence(key)])
            let isCorrected = try await commit(query, at: now) { draft in
                // A document that arrived since is not part of the derivation.
                guard Set(draft.evidence(key).map(\.name)) == derivation.documents else { return false }
                draft.correct(derivation.derived, derivation.migrations)
                return true
            }
            if isCorrected { return true }
        }
        throw LedgerStorageError(
            .unavailable, "\(key.originalTransactionId) keeps changing: run it again")
    }

    /// How often to derive one chain if documents about it keep arriving.
    private static let maxAttempts = 10
}

extension Chain {
    /// Keeps the facts whose documents are missing, and since when a transaction is known: a document that is missing
    /// may have been the first about it.
    fileprivate mutating func keep(_ stored: Chain, missing isMissing: (Provenance) -> Bool) {
        for var statement in stored.transactions.values.flatMap(\.statements) {
            if !isMissing(statement.provenance) {
                let derived = transactions[statement.transactionId]?.statements ?? []
                guard derived.contains(where: { $0.source == statement.source }) else { continue }
                // Of two statements the newer one stays, with the earlier of their instants.
                statement.provenance.signedDate = .distantPast
            }
            merge(statement)
        }
        if let renewal = stored.renewal, isMissing(renewal.provenance) { merge(renewal) }
    }
}

extension LedgerDraft {
    /// Replaces the facts of a chain by derived ones, and publishes what that changes. If the app's catalogue is
    /// missing, publishes nothing: a server that has the catalogue evaluates the app's chains when it starts.
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

/// The result of deriving all facts from the documents again.
public struct RebuildReport: Hashable, Sendable {
    /// How many documents were read.
    public var documents = 0
    /// Documents and chains that cannot be read or verified. If any was found before the first correction, nothing was
    /// changed, since facts would be lost.
    public var faults: [Ledger.Fault] = []
    /// The chains whose facts differed from the documents and were corrected.
    public var differing: [ChainKey] = []
}
