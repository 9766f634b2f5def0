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
        SELECT number, signedDate, digest, scope, kind, receivedAt, notificationType, notificationSubtype,
               notificationUUID, content
        FROM documents
        """

    private static let named = documents + " WHERE signedDate = ? AND digest = ?"

    func document(_ source: Provenance) throws -> StoredDocument? {
        let found = try row(source).map(stored)
        return found?.id == source.evidence ? found : nil
    }

    private func row(_ source: Provenance) throws -> DocumentRow? {
        try tables.first(Self.named, [.time(source.signedDate), .octets(source.evidence.beginning)]) {
            try DocumentRow(&$0)
        }
    }

    func documents(after number: Int64, limit: Int) throws -> [StoredDocument] {
        try tables.all(
            Self.documents + " WHERE number > ? ORDER BY number LIMIT ?", [.integer(number), .number(max(0, limit))]
        ) { try DocumentRow(&$0) }.map(stored)
    }

    func documentNumbers(after number: Int64, limit: Int) throws -> [Int64] {
        try tables.all(
            "SELECT number FROM documents WHERE number > ? ORDER BY number LIMIT ?",
            [.integer(number), .number(max(0, limit))]
        ) { try $0.integer() }
    }

    /// Walks back from the end of the table, since an index of notifications would be one more page to write for each. The
    /// outer query has no order of its own: SQLite would sort all rows for it.
    func lastNotification(among count: Int) throws -> Timestamp? {
        try tables.first(
            """
            SELECT receivedAt FROM (SELECT number, kind, receivedAt FROM documents ORDER BY number DESC LIMIT ?)
            WHERE kind = ? LIMIT 1
            """, [.number(max(0, count)), .text(Evidence.Kind.notification.rawValue)]
        ) { try $0.time() }
    }

    func add(_ evidence: Evidence, receivedAt: Timestamp) throws -> Bool {
        try add(evidence, prepared: nil, receivedAt: receivedAt)
    }

    func add(_ evidence: Evidence, prepared: (any Sendable)?, receivedAt: Timestamp) throws -> Bool {
        let name: [Argument] = [.time(evidence.provenance.signedDate), .octets(evidence.id.beginning)]
        let number = try tables.first(Self.number, name) { try $0.integer() }
        if let number { return try repair(evidence, number) }
        let chains = try evidence.chains.map(tables.addedChain)
        let only = chains.count == 1 ? chains[0] : nil
        let content = try EvidenceParts(tables: tables).content(of: evidence, prepared as? Packing)
        let added = try tables.insert(
            Self.addDocument,
            name + [
                .integer(try tables.addedScope(evidence.scope)), .integer(only?.number), .integer(only?.lastDocument),
                .text(evidence.kind.rawValue), .time(receivedAt), .text(evidence.notification?.type),
                .text(evidence.notification?.subtype), .text(evidence.notification?.uuid), .octets(content),
            ])
        tables.knownParts.add(document: evidence.document, added)
        only?.lastDocument = added
        only?.documentCount += 1
        for chain in chains where chains.count > 1 {
            try tables.run(
                "INSERT INTO mentions (chain, document) VALUES (?, ?)", [.integer(chain.number), .integer(added)])
        }
        return true
    }

    /// Which the index alone tells.
    private static let number = "SELECT number FROM documents WHERE signedDate = ? AND digest = ?"

    private static let addDocument = """
        INSERT INTO documents (signedDate, digest, scope, chain, previous, kind, receivedAt, notificationType,
                               notificationSubtype, notificationUUID, content)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """

    /// Where a document that is there does not come back any more, it does now. Returns whether that was so.
    private func repair(_ evidence: Evidence, _ number: Int64) throws -> Bool {
        guard let row = try row(evidence.provenance) else {
            throw SQLiteErrors.damaged("Document \(number) is in the index and not in the table")
        }
        let kept = (try? EvidenceParts(tables: tables).document(row.content)).map { ($0, EvidenceID($0, row.kind)) }
        if let (document, id) = kept, id.beginning == row.digest {
            guard id == evidence.id else { throw SQLiteErrors.damaged("Document \(number) has another's name") }
            tables.knownParts.add(document: document, number)
            return false
        }
        let content = try EvidenceParts(tables: tables).content(of: evidence, nil)
        try tables.run("UPDATE documents SET content = ? WHERE number = ?", [.octets(content), .integer(number)])
        tables.knownParts.add(document: evidence.document, number)
        return true
    }

    func forgottenAt(_ key: ChainKey) throws -> Timestamp? { try tables.chain(key)?.forgottenAt }

    func remember(_ key: ChainKey) throws {
        guard let chain = try tables.chain(key), chain.forgottenAt != nil else { return }
        chain.forgottenAt = nil
    }

    /// The documents that speak of a chain.
    private func documents(about chain: ChainRow) throws -> [Int64] {
        try listed(chain)
            + tables.all("SELECT document FROM mentions WHERE chain = ?", [.integer(chain.number)]) { try $0.integer() }
    }

    /// Those that speak of nothing else. Where their list is not what was written, every document is looked at.
    private func listed(_ chain: ChainRow) throws -> [Int64] {
        var found: [Int64] = []
        var next = chain.lastDocument
        while let number = next, number < found.last ?? .max {
            let previous = try tables.first(
                "SELECT previous FROM documents WHERE number = ? AND chain = ?",
                [.integer(number), .integer(chain.number)]
            ) { try $0.integerIfAny() }
            guard let previous else { break }
            found.append(number)
            next = previous
        }
        guard next != nil || found.count != chain.documentCount else { return found }
        return try tables.all("SELECT number FROM documents WHERE chain = ?", [.integer(chain.number)]) {
            try $0.integer()
        }
    }

    func forget(_ keys: [ChainKey], at now: Timestamp) throws -> (forgotten: Int, kept: Int) {
        var documents: Set<Int64> = []
        for key in keys {
            let chain = try tables.addedChain(key)
            documents.formUnion(try self.documents(about: chain))
            chain.lastDocument = nil
            chain.documentCount = 0
            try removeFacts(of: key)
            for table in ["links", "ownerChanges"] {
                try tables.run("DELETE FROM \(table) WHERE chain = ?", [.integer(chain.number)])
            }
            chain.report = nil
            chain.forgottenAt = now
        }
        try tables.writeChains()
        let unwanted = try documents.filter { document in
            try tables.first(
                """
                SELECT 1 FROM mentions JOIN chains ON chains.id = chain WHERE document = ? AND forgottenAt IS NULL LIMIT 1
                """, [.integer(document)]
            ) { try $0.flag() } == nil
        }
        for document in unwanted {
            // What it has in common with others stays: headers, certificates, and tokens that are documents too.
            try tables.run("DELETE FROM mentions WHERE document = ?", [.integer(document)])
            try tables.run("DELETE FROM documents WHERE number = ?", [.integer(document)])
        }
        tables.knownParts.documents = []
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
        guard id.beginning == row.digest else {
            throw SQLiteErrors.damaged("Document \(row.number) is not what was added")
        }
        return StoredDocument(
            number: row.number, id: id, kind: row.kind, scope: try tables.scope(numbered: row.scope),
            signedDate: Provenance(signedDate: row.signedDate, evidence: id).date, receivedAt: row.receivedAt,
            notification: row.notification, document: document)
    }
}

extension EvidenceID {
    /// What the table of documents keeps of it.
    fileprivate var beginning: [UInt8] { Array(octets.prefix(16)) }
}

/// A row of `documents`.
private struct DocumentRow {
    var number: Int64
    var signedDate: Timestamp
    var digest: [UInt8]
    var scope: Int64
    var kind: Evidence.Kind
    var receivedAt: Timestamp
    var notification: Evidence.Notification?
    var content: [UInt8]

    init(_ columns: inout Columns) throws {
        number = try columns.integer()
        signedDate = try columns.time()
        digest = try columns.octets()
        scope = try columns.integer()
        kind = try columns.word()
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
