// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

/// What a work sees of the ledger: documents and events here, facts and customers in files of their own.
struct SQLiteTransaction: LedgerWriter {
    let tables: LedgerTables

    init(_ connection: Database, met: LedgerTables.Met = LedgerTables.Met()) {
        tables = LedgerTables(connection, met: met)
    }
}

// MARK: - Documents

extension SQLiteTransaction {
    private static let documents = """
        SELECT number, digest, scope, kind, signedDate, receivedAt, notificationType, notificationSubtype, notificationUUID,
               content
        FROM documents
        """

    private static let named = documents + " WHERE signedDate IS ? AND digest = ?"

    func document(_ source: Provenance) throws -> StoredDocument? {
        var damage: LedgerStorageError?
        for row in try rows(source) {
            do {
                let found = try stored(row)
                if found.id == source.evidence { return found }
            } catch let error as LedgerStorageError where error.code == .damaged {
                // The same document may have come again since.
                damage = error
            }
        }
        if let damage { throw damage }
        return nil
    }

    func documents(after number: Int64, limit: Int) throws -> [StoredDocument] {
        try tables.all(
            Self.documents + " WHERE number > ? ORDER BY number LIMIT ?", [.integer(number), .number(max(0, limit))]
        ) { try DocumentRow(&$0) }.map(stored)
    }

    func add(_ evidence: Evidence, receivedAt: Timestamp) throws -> Bool {
        try add(evidence, prepared: nil, receivedAt: receivedAt)
    }

    func add(_ evidence: Evidence, prepared: (any Sendable)?, receivedAt: Timestamp) throws -> Bool {
        guard try !isThere(evidence) else { return false }
        let chains = try evidence.chains.map(tables.addedChain)
        let content = try EvidenceParts(tables: tables).content(of: evidence.document[...], prepared as? Packing)
        let number = try tables.insert(
            """
            INSERT INTO documents (digest, scope, chain, kind, signedDate, receivedAt, notificationType,
                                   notificationSubtype, notificationUUID, content)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(evidence.id.leading), .integer(try tables.addedScope(evidence.scope)),
                .integer(chains.count == 1 ? chains[0] : nil), .text(evidence.kind.rawValue),
                .time(evidence.signedDate), .time(receivedAt), .text(evidence.notification?.type),
                .text(evidence.notification?.subtype), .text(evidence.notification?.uuid), .octets(content),
            ])
        tables.knownParts.add(document: evidence.document, number)
        for chain in chains where chains.count > 1 {
            try tables.run(
                "INSERT INTO mentions (chain, document) VALUES (?, ?)", [.integer(chain), .integer(number)])
        }
        return true
    }

    /// Whether a document of this name is there and not damaged.
    private func isThere(_ evidence: Evidence) throws -> Bool {
        for row in try rows(evidence.provenance) {
            do {
                let document = try EvidenceParts(tables: tables).document(row.content)
                guard EvidenceID(document, row.kind) == evidence.id else { continue }
                tables.knownParts.add(document: document, row.number)
                return true
            } catch let error as LedgerStorageError where error.code == .damaged {
                continue
            }
        }
        return false
    }

    private func rows(_ source: Provenance) throws -> [DocumentRow] {
        try tables.all(Self.named, [.time(source.date), .integer(source.evidence.leading)]) { try DocumentRow(&$0) }
    }

    func forgottenAt(_ key: ChainKey) throws -> Timestamp? {
        guard let chain = try tables.chain(key, with: .forgetting) else { return nil }
        return try tables.first("SELECT at FROM forgotten WHERE chain = ?", [.integer(chain)]) { try $0.time() }
    }

    func remember(_ key: ChainKey) throws {
        guard try forgottenAt(key) != nil else { return }
        try tables.run("DELETE FROM forgotten WHERE chain = ?", [.integer(try tables.chain(key))])
    }

    func forget(_ keys: [ChainKey], at now: Timestamp) throws -> (forgotten: Int, kept: Int) {
        var documents: Set<Int64> = []
        for key in keys {
            let chain = try tables.addedChain(key, with: .forgetting)
            documents.formUnion(
                try tables.all(
                    """
                    SELECT number FROM documents WHERE chain = ?1 UNION ALL SELECT document FROM mentions WHERE chain = ?1
                    """, [.integer(chain)]
                ) { try $0.integer() })
            for table in ["statements", "renewals", "reports", "links"] {
                try tables.run("DELETE FROM \(table) WHERE chain = ?", [.integer(chain)])
            }
            try tables.run("INSERT OR REPLACE INTO forgotten (chain, at) VALUES (?, ?)", [.integer(chain), .time(now)])
        }
        let unwanted = try documents.filter { document in
            try tables.first(
                """
                SELECT 1 FROM mentions WHERE document = ? AND chain NOT IN (SELECT chain FROM forgotten) LIMIT 1
                """, [.integer(document)]
            ) { try $0.flag() } == nil
        }
        for document in unwanted {
            // What it has in common with others stays: headers, certificates, and tokens that are documents too.
            try tables.run("DELETE FROM mentions WHERE document = ?", [.integer(document)])
            try tables.run("DELETE FROM documents WHERE number = ?", [.integer(document)])
        }
        tables.beginWork()
        return (unwanted.count, documents.count - unwanted.count)
    }

    func proveWritable() throws {
        try tables.run(
            "INSERT INTO proof (id, written) VALUES (1, 1) ON CONFLICT DO UPDATE SET written = written + 1")
    }

    private func document(_ row: DocumentRow) throws -> [UInt8] {
        do {
            return try EvidenceParts(tables: tables).document(row.content)
        } catch let error as LedgerStorageError where error.code == .damaged {
            throw SQLiteErrors.damaged("Document \(row.number) cannot be put together: \(error.message)")
        }
    }

    /// The document of a row, which proves by its name that it is the one that was added.
    private func stored(_ row: DocumentRow) throws -> StoredDocument {
        let document = try document(row)
        let id = EvidenceID(document, row.kind)
        guard id.leading == row.digest else {
            throw SQLiteErrors.damaged("Document \(row.number) is not what was added")
        }
        return StoredDocument(
            number: row.number, id: id, kind: row.kind, scope: try tables.scope(numbered: row.scope),
            signedDate: row.signedDate, receivedAt: row.receivedAt, notification: row.notification, document: document)
    }
}

/// A row of `documents`.
private struct DocumentRow {
    var number: Int64
    var digest: Int64
    var scope: Int64
    var kind: Evidence.Kind
    var signedDate: Timestamp?
    var receivedAt: Timestamp
    var notification: Evidence.Notification?
    var content: [UInt8]

    init(_ columns: inout Columns) throws {
        number = try columns.integer()
        digest = try columns.integer()
        scope = try columns.integer()
        kind = try columns.word()
        signedDate = try columns.timeIfAny()
        receivedAt = try columns.time()
        let (type, subtype, uuid) = (try columns.textIfAny(), try columns.textIfAny(), try columns.textIfAny())
        notification = type.map { Evidence.Notification(uuid: uuid, type: $0, subtype: subtype) }
        content = try columns.octets()
    }
}

// MARK: - Events

extension SQLiteTransaction {
    func events(after sequence: Int64, limit: Int) throws -> [LedgerEvent] {
        let rows = try tables.all(
            """
            SELECT scope, kind, recordedAt, sequence, customer, originalTransactionId, transactionId, productId, detail
            FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?
            """, [.integer(sequence), .number(max(0, limit))]
        ) { columns in (try columns.integer(), try EventRow(&columns)) }
        return try rows.map { scope, row in row.event(in: try tables.scope(numbered: scope)) }
    }

    func append(_ event: LedgerEvent) throws {
        try tables.run(
            """
            INSERT INTO events (kind, scope, recordedAt, customer, originalTransactionId, transactionId, productId, detail)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .text(event.kind.rawValue), .integer(try tables.addedScope(event.scope)), .time(event.recordedAt),
                .integer(event.customer?.number), .text(event.originalTransactionId), .text(event.transactionId),
                .text(event.productId), .text(event.detail),
            ])
    }
}

/// A row of `events` but for its scope.
private struct EventRow {
    var kind: LedgerEvent.Kind
    var recordedAt: Timestamp
    var sequence: Int64
    var customer: Int64?
    var originalTransactionId: String?
    var transactionId: String?
    var productId: String?
    var detail: String?

    init(_ columns: inout Columns) throws {
        kind = try columns.word()
        recordedAt = try columns.time()
        sequence = try columns.integer()
        customer = try columns.integerIfAny()
        originalTransactionId = try columns.textIfAny()
        transactionId = try columns.textIfAny()
        productId = try columns.textIfAny()
        detail = try columns.textIfAny()
    }

    func event(in scope: LedgerScope) -> LedgerEvent {
        var event = LedgerEvent(
            kind, in: scope, at: recordedAt,
            customer: customer.map { Customer(number: $0, bundleId: scope.bundleId) },
            originalTransactionId: originalTransactionId, transactionId: transactionId, productId: productId,
            detail: detail)
        event.sequence = sequence
        return event
    }
}
