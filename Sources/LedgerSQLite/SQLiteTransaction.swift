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
        SELECT number, part, digest, scope, kind, signedDate, receivedAt, notificationType, notificationSubtype,
               notificationUUID
        FROM documents JOIN parts ON parts.id = part
        """

    func document(_ id: EvidenceID) throws -> StoredDocument? {
        let found = try tables.all(Self.documents + " WHERE digest = ?", [.integer(id.leading)]) {
            try DocumentRow(&$0)
        }
        return try found.lazy.map { try stored($0) }.first { $0.id == id }
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
        guard let part = try newPart(evidence, prepared as? Packing) else { return false }
        let number = try tables.insert(
            """
            INSERT INTO documents (part, scope, kind, signedDate, receivedAt, notificationType, notificationSubtype,
                                   notificationUUID)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(part), .integer(try tables.addedScope(evidence.scope)),
                .text(evidence.kind.rawValue),
                .time(evidence.signedDate), .time(receivedAt), .text(evidence.notification?.type),
                .text(evidence.notification?.subtype), .text(evidence.notification?.uuid),
            ])
        for key in evidence.chains {
            try tables.run(
                "INSERT INTO mentions (chain, document) VALUES (?, ?)",
                [.integer(try tables.addedChain(key)), .integer(number)])
        }
        return true
    }

    /// The part for a document; `nil` where one of its name is there already.
    private func newPart(_ evidence: Evidence, _ packing: Packing?) throws -> Int64? {
        let parts = EvidenceParts(tables: tables)
        var part: Int64?
        for (number, bytes) in try parts.candidates(evidence.id) {
            let kind = try tables.first("SELECT kind FROM documents WHERE part = ?", [.integer(number)]) {
                try $0.word() as Evidence.Kind
            }
            if let kind, EvidenceID(bytes, kind) == evidence.id {
                tables.knownParts.add(bytes[...], number)
                return nil
            }
            // It came inside of another.
            if kind == nil, evidence.document[...].isSame(as: bytes[...]) { part = number }
        }
        return try part ?? parts.keep(evidence.document[...], packing, new: evidence.id)
    }

    /// Removes a document with the part that it is. Parts that it has in common with others stay: headers, certificates, and
    /// tokens that are documents too.
    private func remove(document number: Int64) throws {
        let part = try tables.first("SELECT part FROM documents WHERE number = ?", [.integer(number)]) {
            try $0.integer()
        }
        try tables.run("DELETE FROM mentions WHERE document = ?", [.integer(number)])
        try tables.run("DELETE FROM documents WHERE number = ?", [.integer(number)])
        try tables.run("DELETE FROM parts WHERE id = ?", [.integer(part)])
    }

    func forgottenAt(_ key: ChainKey) throws -> Timestamp? {
        guard let chain = try tables.chain(key) else { return nil }
        return try tables.first("SELECT at FROM forgotten WHERE chain = ?", [.integer(chain)]) { try $0.time() }
    }

    func remember(_ key: ChainKey) throws {
        guard try forgottenAt(key) != nil else { return }
        try tables.run("DELETE FROM forgotten WHERE chain = ?", [.integer(try tables.chain(key))])
    }

    func forget(_ keys: [ChainKey], at now: Timestamp) throws -> (forgotten: Int, kept: Int) {
        var documents: Set<Int64> = []
        for key in keys {
            let chain = try tables.addedChain(key)
            documents.formUnion(
                try tables.all("SELECT document FROM mentions WHERE chain = ?", [.integer(chain)]) { try $0.integer() })
            for table in ["statements", "renewals", "reports", "links"] {
                try tables.run("DELETE FROM \(table) WHERE chain = ?", [.integer(chain)])
            }
            try tables.run("INSERT OR REPLACE INTO forgotten (chain, at) VALUES (?, ?)", [.integer(chain), .time(now)])
        }
        // The last first: a notification is added after the tokens in it, of which it consists.
        let unwanted = try documents.sorted(by: >).filter { document in
            try tables.first(
                """
                SELECT 1 FROM mentions WHERE document = ? AND chain NOT IN (SELECT chain FROM forgotten) LIMIT 1
                """, [.integer(document)]
            ) { try $0.flag() } == nil
        }
        for document in unwanted { try remove(document: document) }
        return (unwanted.count, documents.count - unwanted.count)
    }

    func proveWritable() throws {
        try tables.run(
            "INSERT INTO proof (id, written) VALUES (1, 1) ON CONFLICT DO UPDATE SET written = written + 1")
    }

    private func bytes(of row: DocumentRow) throws -> [UInt8] {
        do {
            return try EvidenceParts(tables: tables).bytes(row.part)
        } catch let error as LedgerStorageError where error.code == .damaged {
            throw SQLiteErrors.damaged("Document \(row.number) cannot be put together: \(error.message)")
        }
    }

    /// The document of a row, which proves by its name that it is the one that was added.
    private func stored(_ row: DocumentRow) throws -> StoredDocument {
        let document = try bytes(of: row)
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
    var part: Int64
    var digest: Int64
    var scope: Int64
    var kind: Evidence.Kind
    var signedDate: Timestamp?
    var receivedAt: Timestamp
    var notification: Evidence.Notification?

    init(_ columns: inout Columns) throws {
        number = try columns.integer()
        part = try columns.integer()
        digest = try columns.integer()
        scope = try columns.integer()
        kind = try columns.word()
        signedDate = try columns.timeIfAny()
        receivedAt = try columns.time()
        guard let type = try columns.textIfAny() else { return }
        let subtype = try columns.textIfAny()
        notification = Evidence.Notification(uuid: try columns.textIfAny(), type: type, subtype: subtype)
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
