// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Loads and commits documents, and the chains (purchases) that they are evidence for, if Citus distributes the tables.
// Each row has a home, a text by which Citus chooses the row's node. Each statement is about a single home, so Citus
// sends it to a single node.
//
// A row of `documents` is at the document's home, see ``PurchaseLedger/Evidence/home``. Its columns `chain` and `also`
// name all chains of the document. A row of `mentions` is at the home of a chain. A chain's home is its name. It leads
// to a document that a search by the chain's name may miss, because the document has a different home or a different
// `chain`. A chain thus leads to all its documents, and a document without a remaining chain can be recognized and
// deleted. A change of a chain's documents increments the chain's version. A commit therefore checks only this version
// to be sure that the documents are as loaded.

// MARK: - Loading

extension LoadPlan {
    private static let ownEvidence = """
        SELECT signed_date, digest, coalesce(also, '{}') FROM quittance.documents
        WHERE home = $1 AND chain = $1 AND scope = $2
        """

    private static let mentions = """
        SELECT signed_date, digest, document FROM quittance.mentions
        WHERE home = $1 AND scope = $2 AND document IS NOT NULL
        """

    /// Finds the documents of a chain. A document at the chain's home is found with all its chains if its column
    /// `chain` names this chain. Of the documents listed in `mentions`, only the locations are found.
    mutating func loadEvidenceAtHome(for key: ChainKey) {
        let chain = scopes.key(key)
        add(Self.ownEvidence, chain) { rows, loaded in
            loaded.evidence[key] = try rows.map { row in
                let name = try row.name()
                loaded.homes?[name] = key.name
                let also = try row.texts().compactMap { HomeChainName.key($0, key.scope.bundleId) }
                return DocumentReference(name, about: Set(also + [key]))
            }
        }
        add(Self.mentions, chain) { rows, loaded in
            let locations = try rows.map { try $0.location() }
            loaded.mentions[key] = locations
            for location in locations { loaded.homes?[location.name] = location.home }
        }
    }

    private static let subjects = """
        SELECT chain, bundle_id, environment, coalesce(also, '{}')
        FROM quittance.documents JOIN quittance.scopes ON scopes.id = scope JOIN quittance.apps ON apps.id = app
        WHERE signed_date = $1 AND digest = $2 AND home = $3
        """

    /// Loads the chains that a document is evidence for. Loads nothing if the document's table has been detached, see
    /// ``Schema``.
    mutating func load(_ location: DocumentLocation) {
        add(Self.subjects, location.key) { rows, loaded in
            loaded.subjects[location] = try rows.map { row in
                let chain = try row.next(String?.self)
                let scope = try row.scope()
                let also = try row.texts().compactMap { HomeChainName.key($0, scope.bundleId) }
                return Set(also + [chain.map { ChainKey($0, in: scope) }].compactMap(\.self))
            }.first
        }
    }
}

extension LoadedRecords {
    /// Adds the documents listed in `mentions` to the evidence of their chains.
    mutating func addMentionedEvidence() {
        for (key, locations) in mentions {
            var found = Dictionary((evidence[key] ?? []).map { ($0.name, $0) }) { first, _ in first }
            for location in locations where found[location.name] == nil {
                found[location.name] = subjects[location].map { DocumentReference(location.name, about: $0) }
            }
            evidence[key] = found.values.sorted { $0.name < $1.name }
        }
    }

    /// The locations of all documents of a chain, including documents whose table was detached.
    fileprivate func locations(of key: ChainKey) -> [DocumentLocation] {
        (evidence[key] ?? []).compactMap { document in
            homes?[document.name].map { DocumentLocation(name: document.name, home: $0) }
        } + (mentions[key] ?? [])
    }
}

// MARK: - Committing

extension CommitPlan {
    private static let setChains = """
        UPDATE quittance.documents SET also = $4 WHERE signed_date = $1 AND digest = $2 AND home = $3
        """

    /// Adds a chain to a stored document. Raises a ``Conflict`` if the document no longer exists.
    private static let addChain = """
        WITH kept AS (
            UPDATE quittance.documents SET also = array_append(array_remove(also, $4::text), $4::text)
            WHERE signed_date = $1 AND digest = $2 AND home = $3 RETURNING 1)
        \(Conflict.unlessAny("kept"))
        """

    private static let mention = """
        INSERT INTO quittance.mentions (home, scope, signed_date, digest, document) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (home, scope, signed_date, digest) DO UPDATE SET document = excluded.document
        """

    /// - Parameter isStored: Whether the document is already stored. If so, the document gets further chains and may be
    ///   pinned, but is not inserted.
    mutating func putAtHome(_ new: NewDocument, isStored: Bool) {
        let location = DocumentLocation(new.evidence)
        let chains = new.chains.sorted()
        if isStored {
            // The update also locks the document until the commit.
            for chain in chains { add(Self.addChain, location.key + [.text(HomeChainName.text(chain))]) }
            if new.evidence.parts.isEmpty { pin(new.evidence, unless: new.wordingKey) }
        } else {
            insert(new)
            if chains.count > 1 { add(Self.setChains, location.key + [.texts(chains.map(HomeChainName.text))]) }
            if chains.count == 1, chains[0].name == location.home { return }
        }
        for chain in chains { mention(location, for: chain) }
    }

    private mutating func mention(_ location: DocumentLocation, for chain: ChainKey) {
        add(Self.mention, scopes.key(chain) + location.name.key + [.text(location.home)])
    }

    private mutating func removeMentions(of key: ChainKey) {
        add("DELETE FROM quittance.mentions WHERE home = $1 AND scope = $2", scopes.key(key))
    }

    /// Finds the documents of the chains in `keys`, including new documents.
    ///
    /// - Returns: The location of each document, with the chains in `keys` to which the document belongs.
    private func locations(of keys: some Collection<ChainKey>, _ new: [NewDocument]) -> [(DocumentLocation, [ChainKey])]
    {
        var found: [DocumentLocation: Set<ChainKey>] = [:]
        for key in keys {
            for location in loaded.locations(of: key) { found[location, default: []].insert(key) }
            for document in new where document.chains.contains(key) {
                found[DocumentLocation(document.evidence), default: []].insert(key)
            }
        }
        return found.sorted { $0.key < $1.key }.map { ($0.key, $0.value.sorted()) }
    }

    private static let moveChain = """
        UPDATE quittance.documents SET chain = CASE WHEN chain = $4 AND scope = $5 THEN $6 ELSE chain END,
            also = array_replace(also, $7::text, $8::text)
        WHERE signed_date = $1 AND digest = $2 AND home = $3
        """

    /// Makes the documents of a migrated chain evidence for its successor, the chain to which it was migrated.
    mutating func moveEvidenceAtHome(from old: ChainKey, to new: ChainKey, _ documents: [NewDocument]) {
        let scope = PostgresValue.integer(scopes.scope(old.scope))
        let names = [old, new].map { PostgresValue.text(HomeChainName.text($0)) }
        for (location, _) in locations(of: [old], documents) {
            add(Self.moveChain, location.key + [.text(old.name), scope, .text(new.name)] + names)
            mention(location, for: new)
        }
        removeMentions(of: old)
    }

    private static let removeChain = """
        UPDATE quittance.documents SET chain = CASE WHEN chain = $4 AND scope = $5 THEN NULL ELSE chain END,
            also = array_remove(also, $6::text)
        WHERE signed_date = $1 AND digest = $2 AND home = $3
        """

    private static let removeUnlessNeeded = """
        DELETE FROM quittance.documents
        WHERE signed_date = $1 AND digest = $2 AND home = $3 AND chain IS NULL AND coalesce(cardinality(also), 0) = 0
        """

    /// Removes chains from their documents, and deletes documents without a remaining chain. Each document takes an
    /// update for each removed chain, and then a deletion, which has no effect if the document still has a chain. The
    /// update locks the document, so the deletion sees the changes of concurrent commits.
    mutating func eraseEvidenceAtHome(for keys: Set<ChainKey>, _ documents: [NewDocument]) {
        let locations = locations(of: keys, documents)
        for (location, keys) in locations {
            for key in keys {
                let scope = PostgresValue.integer(scopes.scope(key.scope))
                add(Self.removeChain, location.key + [.text(key.name), scope, .text(HomeChainName.text(key))])
            }
        }
        for key in keys.sorted() { removeMentions(of: key) }
        for (location, _) in locations { add(Self.removeUnlessNeeded, location.key) }
    }
}

/// The name of a chain in `documents.also`: its environment, a space, and its id.
private enum HomeChainName {
    static func text(_ key: ChainKey) -> String { "\(key.scope.environment.rawValue) \(key.name)" }

    /// - Parameter bundleId: The app of the document.
    static func key(_ text: String, _ bundleId: String) -> ChainKey? {
        guard let space = text.firstIndex(of: " "), let environment = Environment(rawValue: String(text[..<space]))
        else { return nil }
        let scope = LedgerScope(bundleId: bundleId, environment: environment)
        return ChainKey(String(text[text.index(after: space)...]), in: scope)
    }
}
