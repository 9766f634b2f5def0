// SPDX-License-Identifier: Apache-2.0

// Checks the root certificates of a ledger's documents when a server starts. A ledger with documents of untrusted roots
// is refused.

package import AppStoreModel
package import AppStoreTrust

/// The roots that anchored documents of a ledger. A verifier must trust all of them.
struct RequiredRoots {
    /// The roots, by the app and environment of their documents. An empty note has an empty set.
    private(set) var anchors: [LedgerScope: Set<TrustAnchor>] = [:]

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
    /// The environments with an App Store. In other environments documents are tests, and have no noted roots.
    private static let environments: [Environment] = [.production, .sandbox]

    /// Checks that a verifier has all roots that anchored documents in this ledger.
    ///
    /// - Throws: ``LedgerStorageError``: `otherRoots` if the verifier lacks some of these roots.
    package func requireRoots(_ roots: TrustRoots) async throws {
        knownRoots.insert(try await requireNotedRoots(roots).anchors)
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
    /// - Throws: As ``requireRoots(_:)``.
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
        try await storage.apps().flatMap { app in
            Self.environments.map { LedgerScope(bundleId: app, environment: $0) }
        }
    }
}
