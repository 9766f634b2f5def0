// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

/// What a work sees of the ledger: documents and events here, facts and customers in files of their own.
struct SQLiteTransaction: LedgerWriter {
    let tables: LedgerTables

    init(_ connection: Database) {
        tables = LedgerTables(connection)
    }
}

// MARK: - Documents

extension SQLiteTransaction {
    private static let documents = """
        SELECT number, part, scope, kind, signedDate, receivedAt, notificationType, notificationSubtype,
               notificationUUID
        FROM documents
        """

    func document(_ id: EvidenceID) throws -> StoredDocument? {
        let found = try tables.all(
            Self.documents + " WHERE part IN (SELECT id FROM parts WHERE digest = ?)", [.integer(id.leading)]
        ) { try DocumentRow(&$0) }
        return try found.lazy.map { try stored($0) }.first { $0.id == id }
    }

    func documents(after number: Int64, limit: Int) throws -> [StoredDocument] {
        try tables.all(
            Self.documents + " WHERE number > ? ORDER BY number LIMIT ?", [.integer(number), .number(max(0, limit))]
        ) { try DocumentRow(&$0) }.map(stored)
    }

    func add(_ evidence: Evidence, receivedAt: Timestamp) throws -> Bool {
        guard let part = try newPart(evidence) else { return false }
        try tables.run(
            """
            INSERT INTO documents (part, scope, kind, signedDate, receivedAt, notificationType, notificationSubtype,
                                   notificationUUID)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(part), .integer(try tables.addedScope(evidence.scope)), .text(evidence.kind.rawValue),
                .time(evidence.signedDate), .time(receivedAt), .text(evidence.notification?.type),
                .text(evidence.notification?.subtype), .text(evidence.notification?.uuid),
            ])
        return true
    }

    /// The part with the bytes of a document; `nil` where it is a document already.
    private func newPart(_ evidence: Evidence) throws -> Int64? {
        let parts = EvidenceParts(tables: tables)
        guard let part = try parts.number(of: evidence.document[...], evidence.id) else {
            return try parts.keep(evidence.document[...], new: evidence.id)
        }
        let known = try tables.first("SELECT 1 FROM documents WHERE part = ?", [.integer(part)]) { try $0.flag() }
        return known == nil ? part : nil
    }

    /// The document of a row, which proves by its own digest that it is the one that was added.
    private func stored(_ row: DocumentRow) throws -> StoredDocument {
        let document = try EvidenceParts(tables: tables).bytes(row.part)
        return StoredDocument(
            number: row.number, id: EvidenceID(document), kind: row.kind, scope: try tables.scope(numbered: row.scope),
            signedDate: row.signedDate, receivedAt: row.receivedAt, notification: row.notification, document: document)
    }
}

/// A row of `documents`.
private struct DocumentRow {
    var number: Int64
    var part: Int64
    var scope: Int64
    var kind: Evidence.Kind
    var signedDate: Timestamp?
    var receivedAt: Timestamp
    var notification: Evidence.Notification?

    init(_ columns: inout Columns) throws {
        number = try columns.integer()
        part = try columns.integer()
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
