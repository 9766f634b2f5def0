// SPDX-License-Identifier: Apache-2.0

// Checks the root certificates of a ledger's documents when a server starts. A ledger with documents of untrusted roots
// is refused. A ledger from a version that did not note roots gets its notes (``RootsNote``) here.

package import AppStoreModel
package import AppStoreTrust

/// The roots that anchored documents of a ledger. A verifier must trust all of them.
struct RequiredRoots {
    /// The roots, by the app and environment of their documents. An empty note has an empty set.
    private(set) var anchors: [LedgerScope: Set<TrustAnchor>] = [:]

    /// Takes roots that are not in any note yet.
    init(_ roots: UnnotedRoots) {
        anchors = roots.anchors
    }

    /// Reads the roots from notes.
    ///
    /// - Throws: `LedgerStorageError.damaged`.
    @inline(never)
    init(_ notes: some Collection<LedgerRecord>) throws(LedgerStorageError) {
        for record in notes {
            let note = try RootsNote(record)
            anchors[note.scope] = note.anchors
        }
    }

    /// Checks that all these roots are trusted, and that their documents may be in the same ledger.
    ///
    /// - Throws: `LedgerStorageError.otherRoots`.
    @inline(never)
    func check(_ roots: TrustRoots) throws(LedgerStorageError) {
        let all = Set(anchors.values.joined())
        let trusted = roots.anchors
        let lacking = all.subtracting(trusted)
        guard lacking.isEmpty else { throw .otherRoots("The ledger has documents of", lacking, trusted) }
        guard !all.areMixed else { throw .otherRoots("The ledger mixes documents of", all, trusted) }
    }
}

extension LedgerStorageError {
    /// - Parameter found: The beginning of a sentence about `roots`.
    fileprivate static func otherRoots(
        _ found: String, _ roots: Set<TrustAnchor>, _ trusted: Set<TrustAnchor>
    ) -> LedgerStorageError {
        // A simulator has a root certificate for tokens (JWS) and another for receipts. Perhaps the configuration lacks
        // only one of the two.
        let isOneMissing = Set(roots.map(\.family)).isSubset(of: trusted.map(\.family))
        let cure =
            isOneMissing
            ? """
            add the missing root to roots, or choose another database. If roots were replaced, pass \
            --trust-other-roots to quittance serve once
            """
            : """
            choose another database. If you pass --trust-other-roots to quittance serve once, the purchases in the \
            ledger go on counting as if they were genuine
            """
        return LedgerStorageError(
            .otherRoots, "\(found) \(roots.sentence), and the configuration trusts \(trusted.sentence): \(cure)")
    }
}

extension Ledger {
    /// How many of the newest documents per environment are verified, to find the roots of a ledger without notes.
    private static let newestDocuments = 100

    /// The search for the newest documents of an environment covers this number of the last documents. It takes a
    /// moment, and happens once.
    private static let searchLimit = 100_000

    /// The environments with an App Store. In other environments documents are tests, and have no noted roots.
    private static let environments: [Environment] = [.production, .sandbox]

    /// Checks that a verifier has all roots that anchored documents in this ledger.
    ///
    /// A ledger of an earlier version has no notes. Its notes are made from its newest documents.
    ///
    /// - Throws: ``LedgerStorageError``: `otherRoots` if the verifier lacks some of these roots, or a document does not
    ///   verify.
    package func requireRoots(of verifier: AppStoreVerifier, at now: Timestamp) async throws {
        let notes = try await requireNotedRoots(verifier.roots)
        knownRoots.insert(notes.anchors)
        guard notes.anchors.isEmpty else { return }
        let found = try await newestRoots(verifier)
        guard !found.anchors.isEmpty else { return }
        try RequiredRoots(found).check(verifier.roots)
        do {
            try await commit(LedgerQuery(found.records.map(LedgerKey.record)), at: now) { $0.note(found) }
        } catch let error as LedgerStorageError where error.code == .readOnly || error.code == .full {
            // A read-only or full ledger is served as far as possible. The next start notes the roots.
            return
        }
        knownRoots.insert(found.anchors)
    }

    /// The refusal of some roots by a ledger with these notes; `nil` if the roots are accepted.
    static func refusal(of roots: TrustRoots, by notes: [LedgerRecord]) -> LedgerStorageError? {
        do {
            try RequiredRoots(notes).check(roots)
            return nil
        } catch {
            return error
        }
    }

    /// Checks the noted roots.
    ///
    /// - Throws: As ``requireRoots(of:at:)``.
    @discardableResult
    func requireNotedRoots(_ roots: TrustRoots) async throws -> RequiredRoots {
        let keys = Set(try await notableScopes().map(RootsNote.key))
        let notes = try RequiredRoots(try await storage.load(LedgerQuery(keys.map(LedgerKey.record))).records.values)
        try notes.check(roots)
        return notes
    }

    /// Deletes roots from the notes of this ledger, after the operator replaced roots: the untrusted roots, or all
    /// noted roots, if the trusted ones among them must not be mixed in a ledger. The documents and their facts stay.
    ///
    /// - Returns: The deleted roots. Roots without notes are unknown, and are not returned.
    package func forgetRoots(besides roots: TrustRoots, at now: Timestamp) async throws -> Set<TrustAnchor> {
        let scopes = try await notableScopes()
        let trusted = roots.anchors
        let keys = Set(scopes.map(RootsNote.key))
        return try await commit(LedgerQuery(keys.map(LedgerKey.record)), at: now) { draft in
            draft.forgetRoots(besides: trusted, in: scopes)
        }
    }

    /// All apps and environments that may have a note.
    private func notableScopes() async throws -> [LedgerScope] {
        try await storage.marks().erasedEvents.keys.sorted().flatMap { app in
            Self.environments.map { LedgerScope(bundleId: app, environment: $0) }
        }
    }

    /// The roots of the newest documents of all apps.
    private func newestRoots(_ verifier: AppStoreVerifier) async throws -> UnnotedRoots {
        var verifier = verifier
        verifier.apps = .any
        verifier.environments = Set(Self.environments)
        verifier.revocation = .notChecked
        verifier.onCheck = nil
        var found = UnnotedRoots()
        for environment in Self.environments {
            let documents = try await storage.documents(
                .newest(in: environment, among: Self.searchLimit), limit: Self.newestDocuments)
            let results = await Evidence.verify(documents, by: verifier)
            for (document, result) in zip(documents, results) {
                try found.add(document, result, trusted: verifier.roots)
            }
        }
        return found
    }
}

extension UnnotedRoots {
    /// Adds the roots of a stored document.
    ///
    /// - Throws: `LedgerStorageError.otherRoots` if the document does not verify.
    @inline(never)
    fileprivate mutating func add(
        _ document: StoredDocument, _ result: Result<VerifiedAgain, DocumentFault>, trusted: TrustRoots
    ) throws(LedgerStorageError) {
        switch result {
        case .success(.evidence(let evidence)):
            guard let evidence else { return }
            for part in evidence.parts + [evidence] { add(part, unlessIn: [:]) }
        case .success(.renewalInfo(let renewalInfo)):
            if let anchor = renewalInfo.anchor { anchors[document.scope, default: []].insert(anchor) }
        case .failure(let fault):
            throw LedgerStorageError(
                .otherRoots,
                """
                The document \(document.name) in the ledger does not verify (\(fault.message)), and the configuration \
                trusts \(trusted.anchors.sentence): choose another database. If you pass --trust-other-roots to \
                quittance serve once, the purchases in the ledger go on counting as if they were genuine
                """)
        }
    }
}
