// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DocumentPacking
import PurchaseLedger

// Loads, commits and finds documents, and the chains (purchases) that they are evidence for. The name of a document is
// its signing date and its digest.

// MARK: - Loading

extension LoadPlan {
    /// The text for Citus, which plans the subqueries of ``names`` differently. On Citus, each document is looked up by
    /// a statement of its own.
    private static let plainName = "SELECT signed_date, digest FROM quittance.documents"

    private static let names = nameStatement(after: 0) { "SELECT signed_date, digest \($0)" }

    private static let chainAndNames = withNames(chains: "home = $2")
    private static let chainsAndNames = withNames(chains: "home = ANY((SELECT $2::text[])::text[])")

    private static func withNames(chains: String) -> RowStatement {
        nameStatement(after: 2) {
            """
            SELECT home, version, state FROM quittance.chains WHERE scope = $1 AND \(chains)
            UNION ALL SELECT NULL, signed_date, digest \($0)
            """
        }
    }

    /// A scalar subquery makes PostgreSQL look up each name by the index, however many names there are. The table
    /// `documents` has a partition for each calendar quarter. If the planner saw the signing dates in the names, a plan
    /// for these dates could leave out partitions, and would therefore look cheaper than a reusable plan. PostgreSQL
    /// would then plan the statement anew at each use, which takes as long as running the statement. The names are
    /// therefore hidden from the planner.
    private static func nameStatement(after parameters: Int, _ text: (String) -> String) -> RowStatement {
        RowStatement.reading([.integer, .bytes], after: parameters) { names in
            text(
                """
                FROM \(names) AS wanted (signed_date, digest)
                WHERE (SELECT true FROM quittance.documents
                       WHERE documents.signed_date = wanted.signed_date AND documents.digest = wanted.digest LIMIT 1)
                """)
        }
    }

    /// Finds out which of the given documents are stored.
    mutating func look(up names: [Provenance]) {
        guard !names.isEmpty else { return }
        let statements =
            shares
            ? [Self.names.statement(names.map(\.key))]
            : names.map { $0.statement(Self.plainName, at: homes?[$0]) }
        for statement in statements {
            add(statement) { rows, loaded in loaded.names.formUnion(try rows.map { try $0.name() }) }
        }
    }

    /// Loads chains of a scope, and finds out which of the given documents are stored. A single statement does both.
    /// Recording a notification often needs no other statement to load its records, and then no `BEGIN` and `COMMIT`
    /// either.
    mutating func load(_ keys: [ChainKey], in scope: LedgerScope, lookingUp names: [Provenance]) {
        let ids = keys.map(\.name)
        let statement = ids.count == 1 ? Self.chainAndNames : Self.chainsAndNames
        let chains: PostgresValue = ids.count == 1 ? .text(ids[0]) : .texts(ids)
        add(statement.statement(names.map(\.key), after: [.integer(scopes.scope(scope)), chains])) { rows, loaded in
            _ = try rows.map { row in
                if let id = try row.next(String?.self) {
                    let key = ChainKey(id, in: scope)
                    loaded.chains[key] = try row.chain(key)
                } else {
                    loaded.names.insert(try row.name())
                }
            }
        }
    }

    private static let wordings = RowStatement.reading([.text, .integer], after: 1) { keys in
        """
        SELECT documents.chain, documents.wording, is_pinned, signed_date, digest
        FROM \(keys) AS wanted (chain, wording)
        JOIN quittance.documents ON documents.chain = wanted.chain AND documents.wording = wanted.wording
        WHERE scope = $1 AND documents.wording IS NOT NULL
        """
    }

    /// Searches for documents by ``PurchaseLedger/Wording`` (the content without the signing date) on Citus. The
    /// condition on the home limits the query to a single node. A document's home differs from its chain only if the
    /// document names a migrated subscription by the subscription's earlier id. Such a document is not found, and so is
    /// never replaced by a document with the same wording.
    private static let wordingAtHome = """
        SELECT chain, wording, is_pinned, signed_date, digest FROM quittance.documents
        WHERE chain = $2 AND home = $2 AND scope = $1 AND wording = $3
        """

    /// For each key, finds the stored documents about the key's chain with the key's wording.
    mutating func load(_ keys: Set<WordingKey>) {
        for (scope, keys) in Dictionary(grouping: keys, by: \.chain.scope) {
            let rows = keys.map { [PostgresValue.text($0.chain.name), .integer($0.wording.digest)] }
            let first = PostgresValue.integer(scopes.scope(scope))
            let statements =
                shares
                ? [Self.wordings.statement(rows, after: [first])]
                : rows.map { PostgresStatement(Self.wordingAtHome, [first] + $0) }
            for statement in statements {
                add(statement) { rows, loaded in
                    _ = try rows.map { row in
                        let chain = try row.next(String.self)
                        let wording = try row.next(Int64.self)
                        let key = WordingKey(Wording(digest: wording), about: ChainKey(chain, in: scope))
                        let isPinned = try row.next(Int64?.self) != nil
                        let document = WordedDocument(try row.name(), isPinned: isPinned)
                        loaded.homes?[document.name] = chain
                        loaded.wordings[key, default: []].append(document)
                    }
                }
            }
        }
    }

    mutating func load(_ name: Provenance) {
        add(name.statement(DocumentSearch.columns, at: homes?[name])) { rows, loaded in
            loaded.rows[name] = try rows.map { try DocumentRow(&$0) }.first
        }
    }

    /// Loads a part of a stored document from its own row, because the document's row contains only the part's name,
    /// see ``PackedDocument``.
    mutating func load(_ part: PartName) {
        let statement =
            switch part {
            case .sharedBlob(let digest):
                PostgresStatement("SELECT content FROM quittance.pieces WHERE digest = $1", [.bytes(digest)])
            case .document(let name):
                name.statement("SELECT content FROM quittance.documents", at: homes?[name])
            }
        add(statement) { rows, loaded in loaded.parts[part] = try rows.map { try $0.next([UInt8].self) }.first }
    }
}

extension Evidence {
    /// The home of the document's row. Citus stores rows with the same home on the same node. The home is part of the
    /// primary key, which keeps a document from being stored twice. The document alone must therefore determine the
    /// home, and all versions of the software must compute the same home.
    var home: String { chains.first?.name ?? "\(id)" }
}

extension Provenance {
    /// The number of the calendar quarter in which the document was signed, in UTC, counted from the year 0. The table
    /// `documents` has a partition for each quarter.
    fileprivate var quarter: Int {
        let date = CalendarDate(milliseconds: signedDate.milliseconds)
        return date.year * 4 + (date.month - 1) / 3
    }
}

// MARK: - Committing

extension CommitPlan {
    private static let insert = RowStatement.insert(
        into: "quittance.documents",
        [
            ("signed_date", .integer), ("digest", .bytes), ("home", .text), ("scope", .integer), ("chain", .text),
            ("kind", .text), ("received_at", .integer), ("notification_type", .text), ("notification_subtype", .text),
            ("notification_uuid", .text), ("wording", .integer), ("is_pinned", .integer),
            ("content", .bytes),
        ])

    /// Locks a document, or raises a ``Conflict`` if it is no longer stored. A subquery hides the date from the
    /// planner, for the reason given at ``nameStatement(after:_:)``.
    private static let keep = """
        WITH kept AS (
            SELECT 1 FROM quittance.documents WHERE signed_date = (SELECT $1::bigint) AND digest = $2 FOR SHARE)
        \(Conflict.unlessAny("kept"))
        """

    private static let mention = """
        INSERT INTO quittance.mentions (home, scope, signed_date, digest)
        SELECT $3::text, $4::bigint, $1::bigint, $2::bytea
        WHERE NOT EXISTS (
            SELECT 1 FROM quittance.documents WHERE signed_date = $1 AND digest = $2 AND chain = $3 AND scope = $4)
        ON CONFLICT DO NOTHING
        """

    mutating func putDocuments(_ changes: LedgerChanges) throws {
        var new: [Provenance: NewDocument] = [:]
        for document in changes.documents {
            let name = document.evidence.provenance
            if let earlier = new[name]?.wording ?? document.wording, new[name]?.wording != document.wording {
                new[name]?.wording = earlier
                new[name]?.isPinned = true
            }
            new[name, default: document].chains.formUnion(document.chains)
        }
        try pack(new)
        for (name, document) in new.sorted(by: { $0.key < $1.key }) {
            if isDistributed {
                putAtHome(document, isStored: loaded.names.contains(name))
                continue
            }
            if loaded.names.contains(name) {
                // The document must still exist, and is locked until the commit.
                if !document.chains.isEmpty { add(Self.keep, name.key) }
                if document.evidence.parts.isEmpty { pin(document.evidence, unless: document.wordingKey) }
            } else {
                insert(document)
                if document.chains.count == 1 { continue }
            }
            for chain in document.chains.sorted() {
                add(Self.mention, name.key + scopes.key(chain))
            }
        }
        let moved = changes.movedEvidence.sorted { $0.key < $1.key }
        if isDistributed {
            for (old, key) in moved { moveEvidenceAtHome(from: old, to: key, Array(new.values)) }
            eraseEvidenceAtHome(for: changes.erasedChains, Array(new.values))
        } else {
            for (old, key) in moved { moveEvidence(from: old, to: key) }
            eraseEvidence(for: changes.erasedChains)
        }
        for name in changes.displacedDocuments.sorted() {
            let further = " AND wording IS NOT NULL AND is_pinned IS NULL"
            add(name.statement("DELETE FROM quittance.documents", at: loaded.homes?[name], further))
        }
    }

    /// Pins a stored document that arrives again in a different role, so that no document with the same wording
    /// replaces it. Its role differs if it came once with a wording and once without, or if it now comes for a
    /// different chain.
    mutating func pin(_ evidence: Evidence, unless key: WordingKey?) {
        let scope = key.map { PostgresValue.integer(scopes.scope($0.chain.scope)) } ?? .null
        let values =
            evidence.provenance.key + [(key?.wording.digest).parameter, (key?.chain.name).parameter, scope]
        if isDistributed {
            add(Self.pinAtHome, values + [.text(evidence.home)])
        } else {
            add(Self.pinHere, values)
        }
    }

    private static let pinHere = pin("signed_date = (SELECT $1::bigint)")
    private static let pinAtHome = pin("signed_date = $1 AND home = $6")

    private static func pin(_ condition: String) -> String {
        """
        UPDATE quittance.documents SET wording = coalesce(wording, $3::bigint), is_pinned = 1
        WHERE \(condition) AND digest = $2 AND coalesce(wording, $3::bigint) IS NOT NULL
            AND (wording IS NULL OR $3::bigint IS NULL OR chain IS DISTINCT FROM $4 OR scope IS DISTINCT FROM $5)
        """
    }

    /// Packs new documents (see ``PackedDocument``), and inserts their shared blobs, which are headers and
    /// certificates, unless these are stored. The insertion is always sent: a server cannot cache which blobs are
    /// stored, because a standby that takes over may lack some of them. On Citus the documents are not packed, because
    /// the insertion of a blob would lock the table of blobs on all nodes.
    private mutating func pack(_ new: [Provenance: NewDocument]) throws {
        guard !isDistributed else { return }
        var sharedBlobs: [PartName: [UInt8]] = [:]
        for (name, document) in new where !loaded.names.contains(name) {
            let packed = try PackedDocument.pack(document.evidence) { token in
                // The packed document leaves out a token inside it only if the same commit stores this token as a
                // document. A token stored earlier under the same name may have a different signature.
                let stored = loaded.names.contains(token.provenance) ? nil : new[token.provenance]
                // A token signed in a different quarter than the document must stay in the content, because the
                // partition of the token's quarter may be detached before the document's partition.
                return stored?.evidence.document.isSame(as: token.document[...]) == true
                    && token.provenance.quarter == name.quarter
            }
            contents[name] = packed.content
            sharedBlobs.merge(packed.sharedBlobs) { first, _ in first }
        }
        let named = sharedBlobs.compactMap { name, content -> (digest: [UInt8], content: [UInt8])? in
            guard case .sharedBlob(let digest) = name else { return nil }
            return (digest, content)
        }
        for (digest, content) in named.sorted(by: { $0.digest.lexicographicallyPrecedes($1.digest) }) {
            add(
                "INSERT INTO quittance.pieces (digest, content) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                [.bytes(digest), .bytes(content)])
        }
    }

    mutating func insert(_ new: NewDocument) {
        let evidence = new.evidence
        let only = new.chains.count == 1 ? new.chains.first?.name : nil
        add(
            Self.insert,
            evidence.provenance.key + [
                .text(evidence.home), .integer(scopes.scope(evidence.scope)), only.parameter, evidence.kind.parameter,
                new.receivedAt.parameter, (evidence.notification?.type).parameter,
                (evidence.notification?.subtype).parameter, (evidence.notification?.uuid).parameter,
                (new.wordingKey?.wording.digest).parameter, (new.isPinned ? true : nil).parameter,
                .bytes(contents[evidence.provenance] ?? DocumentCodec.plain(evidence.document)),
            ])
    }

    private mutating func moveEvidence(from old: ChainKey, to new: ChainKey) {
        let keys = scopes.key(old) + scopes.key(new)
        add("UPDATE quittance.documents SET chain = $3 WHERE chain = $1 AND scope = $2 AND scope = $4", keys)
        add(
            """
            INSERT INTO quittance.mentions (home, scope, signed_date, digest)
            SELECT $3::text, $4::bigint, signed_date, digest FROM quittance.mentions WHERE home = $1 AND scope = $2
            ON CONFLICT DO NOTHING
            """, keys)
        add("DELETE FROM quittance.mentions WHERE home = $1 AND scope = $2", scopes.key(old))
    }

    private static let lock = "UPDATE quittance.documents SET scope = scope WHERE signed_date = $1 AND digest = $2"

    /// Removes chains from their documents, and deletes documents without a remaining chain. The documents are locked
    /// first, so the later statements see the changes of concurrent commits.
    private mutating func eraseEvidence(for keys: Set<ChainKey>) {
        let names = Set(keys.flatMap { loaded.evidence[$0] ?? [] }.map(\.name)).sorted()
        for name in names { add(Self.lock, name.key) }
        for key in keys.sorted() {
            let chain = scopes.key(key)
            add("UPDATE quittance.documents SET chain = NULL WHERE chain = $1 AND scope = $2", chain)
            add("DELETE FROM quittance.mentions WHERE home = $1 AND scope = $2", chain)
        }
        for name in names {
            add(
                """
                DELETE FROM quittance.documents WHERE signed_date = $1 AND digest = $2 AND chain IS NULL
                    AND NOT EXISTS (SELECT 1 FROM quittance.mentions WHERE signed_date = $1 AND digest = $2)
                """, name.key)
        }
    }
}

// MARK: - Searching

/// Searches for documents.
enum DocumentSearch {
    static let columns = """
        SELECT signed_date, digest, bundle_id, environment, kind, received_at, notification_type, notification_subtype,
               notification_uuid, wording, is_pinned, content
        FROM quittance.documents JOIN quittance.scopes ON scopes.id = scope JOIN quittance.apps ON apps.id = app
        """

    /// Selects the locations of documents: for `.newest` those of its single page, whatever the cursor, and for `.all`
    /// those after the cursor. The cursor is the name of the last document on the previous page.
    static func statement(_ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int) -> PostgresStatement {
        if case .newest(let environment, let count) = selection {
            return PostgresStatement(
                """
                SELECT signed_date, digest, home FROM (
                    SELECT signed_date, digest, home, scope FROM quittance.documents
                    ORDER BY signed_date DESC, digest DESC LIMIT $1
                ) AS newest JOIN quittance.scopes ON scopes.id = newest.scope
                WHERE environment = coalesce($2, environment)
                ORDER BY signed_date DESC, digest DESC LIMIT $3
                """, [max(0, count).parameter, environment.parameter, max(0, limit).parameter])
        }
        let start = cursor.flatMap { Provenance($0.rawValue) }
        let key = start?.key ?? [.integer(.min), .bytes([])]
        return PostgresStatement(
            """
            SELECT signed_date, digest, home FROM quittance.documents WHERE (signed_date, digest) > ($1, $2)
            ORDER BY signed_date, digest LIMIT $3
            """,
            key + [.integer(Int64(max(1, limit)))])
    }

    static func notificationHours(of bundleId: String?, among count: Int, _ limit: Int) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT received_at / \(NotificationHour.length), count(*), max(received_at) FROM (
                SELECT kind, received_at, scope FROM quittance.documents
                ORDER BY signed_date DESC, digest DESC LIMIT $1) AS newest
            JOIN quittance.scopes ON scopes.id = newest.scope JOIN quittance.apps ON apps.id = app
            WHERE kind = $2 AND bundle_id = coalesce($3, bundle_id) GROUP BY 1 ORDER BY 1 DESC LIMIT $4
            """,
            [
                max(0, count).parameter, Evidence.Kind.notification.parameter, bundleId.parameter,
                max(0, limit).parameter,
            ])
    }
}
