// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Documents, and the chains for which the documents are evidence. A chain is a purchase with its renewals: all
// transactions with the same original transaction id.

// MARK: - Reading

extension SQLiteLedgerSession {
    /// Outer joins, because a document must be found, and reported as damage, even if its scope (the row of its app and
    /// environment) is missing.
    private static let rows = """
        SELECT number, signedDate, digest, bundleId, environment, kind, receivedAt, notificationType,
               notificationSubtype, notificationUUID, wording, isPinned, content
        FROM documents LEFT JOIN scopes ON scopes.id = scope LEFT JOIN apps ON apps.id = app
        """

    /// A document with its content; `nil` if the document is missing or unreadable.
    func document(_ name: Provenance) throws -> StoredDocument? {
        let found = try Self.unlessDamaged { try row(name).map { try stored($0) } }
        return found?.name == name ? found : nil
    }

    /// Whether a document is stored and readable. If so, a new document that contains it (a notification, say) can
    /// refer to it instead of storing it again.
    func isStored(_ name: Provenance) throws -> Bool {
        // For a new document the index alone answers this query.
        guard let number = try number(of: name) else {
            freeNames.insert(name)
            return false
        }
        guard let document = try document(name) else { return false }
        documents.add(document.document[...], number)
        return true
    }

    func number(of name: Provenance) throws -> Int64? {
        try first("SELECT number FROM documents WHERE signedDate = ? AND digest = ?", Self.key(name)) {
            try $0.next(Int64.self)
        }
    }

    private func row(_ name: Provenance) throws -> DocumentRow? {
        try first(Self.rows + " WHERE signedDate = ? AND digest = ?", Self.key(name)) { try DocumentRow(&$0) }
    }

    private static func key(_ name: Provenance) -> [StoredValue] {
        [name.signedDate.stored, .bytes(name.digest.beginning)]
    }

    /// The result of `read`; `nil` if `read` finds the data damaged.
    private static func unlessDamaged<Value>(_ read: () throws -> Value?) throws -> Value? {
        do {
            return try read()
        } catch let error as LedgerStorageError where error.code == .damaged {
            return nil
        }
    }

    /// The document of a row. Throws if the digest of the decoded document is not the stored digest.
    private func stored(_ row: DocumentRow) throws -> StoredDocument {
        let document: [UInt8]
        do {
            document = try DocumentStore(session: self).document(row.content)
        } catch let error as LedgerStorageError where error.code == .damaged {
            throw SQLiteErrors.damaged("Document \(row.number) cannot be decoded: \(error.message)")
        }
        let id = DocumentDigest(document, row.head.kind.known)
        guard id.beginning == row.name.digest.beginning else {
            throw SQLiteErrors.damaged("Document \(row.number) differs from the added document")
        }
        var stored = row.head
        stored.id = id
        stored.document = document
        return stored
    }

    func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) throws -> ScanPage<StoredDocument> {
        if case .newest(let environment, let count) = selection {
            return ScanPage(items: try newest(in: environment, among: count, limit), next: nil)
        }
        return try TableScan.page(after: cursor, limit: limit) { number, limit in
            try all(Self.rows + " WHERE number > ? ORDER BY number LIMIT ?", [.integer(number), limit.stored]) {
                try DocumentRow(&$0)
            }.map { ($0.number, try stored($0)) }
        }
    }

    /// Reads the table from its end, without the contents. An index of kinds would make this query faster, but would
    /// cost an additional page write for each new document.
    func notificationHours(of bundleId: String?, among count: Int, _ limit: Int) throws -> [NotificationHour] {
        try all(
            """
            SELECT receivedAt / \(NotificationHour.length), count(*), max(receivedAt) FROM (
                SELECT kind, receivedAt, scope FROM documents ORDER BY number DESC LIMIT ?)
            WHERE kind = ? AND scope IN (
                SELECT scopes.id FROM scopes JOIN apps ON apps.id = app WHERE bundleId = coalesce(?, bundleId))
            GROUP BY 1 ORDER BY 1 DESC LIMIT ?
            """,
            [max(0, count).stored, Evidence.Kind.notification.stored, bundleId.stored, max(0, limit).stored]
        ) { row in
            NotificationHour(
                try row.next(Int64.self), Int(try row.next(Int64.self)), newest: try row.next(Timestamp.self))
        }
    }

    /// Reads the table from its end. With an ORDER BY in the outer query, SQLite would read and sort all rows of the
    /// inner query before it returned the first row.
    private func newest(in environment: Environment?, among count: Int, _ limit: Int) throws -> [StoredDocument] {
        let numbers = try all(
            """
            SELECT number FROM (SELECT number, scope FROM documents ORDER BY number DESC LIMIT ?)
            WHERE scope IN (SELECT id FROM scopes WHERE environment = coalesce(?, environment)) LIMIT ?
            """, [max(0, count).stored, environment.stored, max(0, limit).stored]
        ) { try $0.next(Int64.self) }
        return try numbers.compactMap { number in
            try Self.unlessDamaged {
                try first(Self.rows + " WHERE number = ?", [.integer(number)]) { try DocumentRow(&$0) }
                    .map { try stored($0) }
            }
        }
    }
}

// MARK: - Evidence for chains

extension SQLiteLedgerSession {
    /// The documents that are evidence for a chain. Nearly every document is evidence for at most one chain, which the
    /// column `chain` of `documents` names. The table `mentions` contains all other pairs of chain and document.
    private static let evidence = """
        SELECT number FROM documents WHERE chain = ?1 UNION SELECT document FROM mentions WHERE chain = ?1
        """

    private static let chainsOfDocument = """
        SELECT bundleId, environment, originalTransactionId
        FROM chains LEFT JOIN scopes ON scopes.id = scope LEFT JOIN apps ON apps.id = app WHERE chains.id IN (
            SELECT chain FROM documents WHERE number = ?1 UNION SELECT chain FROM mentions WHERE document = ?1)
        """

    func evidence(for key: ChainKey) throws -> [DocumentReference] {
        guard let chain = try storedChain(key)?.number else { return [] }
        return try all(Self.evidence, [.integer(chain)]) { try $0.next(Int64.self) }.map { number in
            let keys = try all(Self.chainsOfDocument, [.integer(number)]) { row in
                let scope = try row.scope()
                return ChainKey(try row.next(), in: scope)
            }
            return DocumentReference(try name(ofDocument: number), about: Set(keys))
        }
    }

    /// The name of a document. If the document is unreadable, only the beginning of its digest is known. The beginning
    /// suffices to find the document.
    private func name(ofDocument number: Int64) throws -> Provenance {
        let row = try first(Self.rows + " WHERE number = ?", [.integer(number)]) { try DocumentRow(&$0) }
        guard let row else { throw SQLiteErrors.damaged("Document \(number) is missing") }
        return try Self.unlessDamaged { try stored(row) }?.name ?? row.name
    }

    /// The documents of a chain with the same ``Wording``, that is, the same content except the signing date. Only the
    /// column `chain` is searched, not `mentions`.
    func documents(_ key: WordingKey) throws -> [WordedDocument] {
        guard let chain = try storedChain(key.chain)?.number else { return [] }
        let found = try all(
            "SELECT number, isPinned FROM documents WHERE chain = ? AND wording = ?",
            [.integer(chain), .integer(key.wording.digest)]
        ) { (number: try $0.next(Int64.self), isPinned: try $0.next(Bool?.self) ?? false) }
        return try found.map { WordedDocument(try name(ofDocument: $0.number), isPinned: $0.isPinned) }
    }

    /// Erases a document that has a ``Wording``, unless it is pinned; see ``WordedDocument/isPinned``.
    func erase(_ name: Provenance) throws {
        try run(
            """
            DELETE FROM documents WHERE signedDate = ? AND digest = ? AND wording IS NOT NULL AND isPinned IS NULL
            """, Self.key(name))
    }

    func moveEvidence(from old: ChainKey, to new: ChainKey) throws {
        guard let number = try storedChain(old)?.number else { return }
        let numbers = [StoredValue.integer(try chainNumber(new)), .integer(number)]
        try run("UPDATE documents SET chain = ?1 WHERE chain = ?2", numbers)
        try run("INSERT OR IGNORE INTO mentions SELECT ?1, document FROM mentions WHERE chain = ?2", numbers)
        try run("DELETE FROM mentions WHERE chain = ?", [.integer(number)])
    }

    /// Erases the evidence for some chains. A document stays if it is also evidence for a chain that is not erased. The
    /// parts that documents share (headers and certificates) stay too.
    func eraseEvidence(for keys: Set<ChainKey>) throws {
        var documents: Set<Int64> = []
        for key in keys {
            guard let chain = try storedChain(key)?.number else { continue }
            documents.formUnion(try all(Self.evidence, [.integer(chain)]) { try $0.next(Int64.self) })
            try run("UPDATE documents SET chain = NULL WHERE chain = ?", [.integer(chain)])
            try run("DELETE FROM mentions WHERE chain = ?", [.integer(chain)])
        }
        for document in documents {
            try run(
                """
                DELETE FROM documents WHERE number = ?1 AND chain IS NULL
                    AND NOT EXISTS (SELECT 1 FROM mentions WHERE document = ?1)
                """, [.integer(document)])
        }
    }
}

// MARK: - Adding

extension SQLiteLedgerSession {
    private static let addDocument = """
        INSERT INTO documents (signedDate, digest, scope, chain, kind, receivedAt, notificationType,
                               notificationSubtype, notificationUUID, wording, isPinned, content)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """

    func add(_ new: NewDocument) throws {
        let evidence = new.evidence
        let chains = try new.chains.map(chainNumber)
        // The free names are those that this transaction has already looked up in vain. No other transaction writes
        // meanwhile, so a name is still free unless this transaction itself has added a document with it.
        if freeNames.remove(evidence.provenance) == nil, let number = try number(of: evidence.provenance) {
            try repair(evidence, number)
            try mention(chains, in: number)
            return try pin(number, unless: new.wordingKey)
        }
        let only = chains.count == 1 ? chains.first : nil
        let number = try insert(
            Self.addDocument,
            Self.key(evidence.provenance) + [
                .integer(try addedScope(evidence.scope)), only.stored, evidence.kind.stored, new.receivedAt.stored,
                (evidence.notification?.type).stored, (evidence.notification?.subtype).stored,
                (evidence.notification?.uuid).stored, (new.wordingKey?.wording.digest).stored,
                (new.isPinned ? true : nil).stored, .bytes(try DocumentStore(session: self).content(of: evidence)),
            ])
        documents.add(evidence.document[...], number)
        if only == nil { try mention(chains, in: number) }
    }

    /// Called when a stored document is added again. Pins it if the two copies differ: in their chain, or because only
    /// one of them has a wording. If neither has a wording, no pin is needed, because the document is never erased as a
    /// repetition.
    private func pin(_ document: Int64, unless key: WordingKey?) throws {
        let chain = try key.map { try chainNumber($0.chain) }
        try run(
            """
            UPDATE documents SET wording = coalesce(wording, ?2), isPinned = 1
            WHERE number = ?1 AND coalesce(wording, ?2) IS NOT NULL
                AND (wording IS NULL OR ?2 IS NULL OR chain IS NOT ?3)
            """, [.integer(document), (key?.wording.digest).stored, chain.stored])
    }

    /// Pins a document to which the content of a new document refers, so that it is not erased as a repetition.
    func pin(_ document: Int64) throws {
        try run("UPDATE documents SET isPinned = 1 WHERE number = ? AND wording IS NOT NULL", [.integer(document)])
    }

    private func mention(_ chains: [Int64], in document: Int64) throws {
        for chain in chains {
            try run(
                """
                INSERT OR IGNORE INTO mentions (chain, document)
                SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM documents WHERE number = ?2 AND chain = ?1)
                """, [.integer(chain), .integer(document)])
        }
    }

    /// Replaces the content of a stored document that is added again, if the stored content has become unreadable.
    private func repair(_ evidence: Evidence, _ number: Int64) throws {
        if let found = try Self.unlessDamaged({ try row(evidence.provenance).map { try stored($0) } }) {
            guard found.id == evidence.id else {
                throw SQLiteErrors.damaged("Document \(number) has the name of a different document")
            }
            return
        }
        let content = try DocumentStore(session: self).content(of: evidence)
        try run("UPDATE documents SET content = ? WHERE number = ?", [.bytes(content), .integer(number)])
        documents.add(evidence.document[...], number)
    }
}

// MARK: - Rows

extension DocumentDigest {
    /// The part of the digest stored in the table of documents.
    fileprivate var beginning: [UInt8] { Array(bytes.prefix(16)) }
}

/// A row of `documents`.
private struct DocumentRow {
    let number: Int64
    /// The name, with zeros for the second half of the digest, because the table stores only the first half.
    let name: Provenance
    /// The document without its content, and with zeros for the second half of its digest.
    let head: StoredDocument
    let content: [UInt8]

    init(_ row: inout RowReader) throws {
        number = try row.next()
        let signedDate = try row.next(Timestamp.self)
        guard let digest = DocumentDigest(bytes: try row.next() + [UInt8](repeating: 0, count: 16)) else {
            throw SQLiteErrors.damaged("Document \(number) has no name")
        }
        name = Provenance(signedDate: signedDate, digest: digest)
        head = try row.document(name)
        content = try row.next()
    }
}
