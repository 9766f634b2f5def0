// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The number of records of each kind.
public struct LedgerCounts: Hashable, Sendable {
    /// Customers, each with all of its ids.
    public var customers = 0
    /// Purchases with their renewals (chains), including erased and migrated ones.
    public var purchases = 0
    /// Signed documents.
    public var documents = 0
    /// Jobs.
    public var jobs = 0
    /// API keys, including revoked keys.
    public var apiKeys = 0
    /// Records of all other kinds, such as notices and the ledger's own notes.
    public var records = 0
    /// Events that were not erased.
    public var events = 0

    /// Adds records to the counts. Of the kinds known to this version, only those of jobs count as jobs: for example,
    /// the due time of a notice is only the end of its life.
    mutating func add(_ found: [LedgerRecord]) {
        for record in found {
            if record.key.kind == APIKey.recordKind {
                apiKeys += 1
            } else if record.dueAt != nil,
                RecordKind.forms[record.key.kind] == nil || Job.kinds.contains(record.key.kind)
            {
                jobs += 1
            } else {
                records += 1
            }
        }
    }
}

/// A walk over all records of a ledger, which finds the records that a second ledger lacks.
struct LedgerWalk {
    let ledger: any LedgerStorage
    let other: any LedgerStorage
    /// The number of records to read at once.
    var page: Int
    /// Whether the other ledger must also have this ledger's epochs of events (``EventEpochs``) and the numbers in
    /// ``HighWaterMarks``.
    var includesMarks = true
    /// Whether to visit the documents themselves. The names of the documents of each chain are compared in any case.
    var includesDocuments = true

    /// A part missing in the other ledger.
    enum Part {
        case customers([CustomerRecord])
        case chains([Chain])
        /// Documents missing in the other ledger altogether.
        case documents([StoredDocument])
        case records([LedgerRecord])
        case events([LedgerEvent])
        case epochs([String: EventEpochs])
        case marks(HighWaterMarks)
    }

    /// A chain whose record or documents the other ledger lacks.
    struct Chain {
        var record: ChainRecord
        /// All documents of the chain.
        var evidence: [DocumentReference]
        /// The documents missing in the other ledger.
        var lacking: Set<Provenance>
    }

    /// The error for a record with different content in the other ledger.
    struct Difference: Error {
        /// The differing record, such as `the purchase 12 of com.example`.
        var subject: String

        init(_ subject: String) {
            self.subject = subject
        }
    }

    /// Visits all records, in an order suitable for a copy.
    ///
    /// - Parameters:
    ///   - onDocuments: Called with the number of documents visited so far.
    ///   - lacks: Called for each part missing in the other ledger.
    /// - Returns: The numbers of records in this ledger.
    /// - Throws: ``Difference``, `LedgerStorageError` and errors of `lacks`.
    func run(
        onDocuments: (Int) -> Void = { _ in }, lacks: (Part) async throws -> Void
    ) async throws -> LedgerCounts {
        var counts = LedgerCounts()
        try await pages(ledger.customers) { records in
            counts.customers += records.count
            let ids = records.reduce(into: Set()) { $0.formUnion($1.identifiers) }
            let found = try await other.load(LedgerQuery(ids.map(LedgerKey.customerID)))
            let missing = try Self.missing(records, in: found)
            if !missing.isEmpty { try await lacks(.customers(missing)) }
        }
        try await pages({ try await ledger.chains(.all, after: $0, limit: $1) }) { keys in
            counts.purchases += keys.count
            let query = LedgerQuery(keys.flatMap { [.chain($0), .evidence($0)] })
            async let own = ledger.load(query)
            let found = try await other.load(query)
            let missing = try Self.missing(keys, try await own, in: found)
            if !missing.isEmpty { try await lacks(.chains(missing)) }
        }
        if includesDocuments {
            try await pages({ try await ledger.documents(.all, after: $0, limit: $1) }) { documents in
                counts.documents += documents.count
                let missing = try await lacking(of: documents)
                if !missing.isEmpty { try await lacks(.documents(missing)) }
                onDocuments(counts.documents)
            }
        }
        try await pages({ try await ledger.records(RecordSelection(), after: $0, limit: $1) }) { found in
            // The note of the copy itself is no part of the ledger.
            let records = found.filter { $0.key != UnfinishedCopy.key }
            counts.add(records)
            let found = try await other.load(LedgerQuery(records.map { .record($0.key) })).records
            let missing = try Self.missing(records, in: found, by: \.key, \.subject)
            if !missing.isEmpty { try await lacks(.records(missing)) }
        }
        counts.events = try await visitApps(lacks)
        return counts
    }

    /// The documents missing in the other ledger.
    ///
    /// - Throws: ``Difference`` if the other ledger has a document with different content.
    func lacking(of documents: [StoredDocument]) async throws -> [StoredDocument] {
        let found = try await other.load(LedgerQuery(documents.map { .content($0.name) })).documents
        return try Self.missing(documents, in: found, by: \.name, \.subject)
    }

    /// Handles page after page, and reads the next page meanwhile.
    private func pages<Item: Sendable>(
        _ scan: @escaping @Sendable (ScanCursor?, Int) async throws -> ScanPage<Item>,
        _ body: ([Item]) async throws -> Void
    ) async throws {
        var following: ScanPage<Item>? = try await scan(nil, page)
        while let found = following {
            if let damage = found.damage.first { throw LedgerStorageError(.damaged, damage) }
            async let next = found.next == nil ? nil : scan(found.next, page)
            if !found.items.isEmpty { try await body(found.items) }
            following = try await next
        }
    }

    /// - Returns: The number of events.
    private func visitApps(_ lacks: (Part) async throws -> Void) async throws -> Int {
        let apps = try await ledger.marks().erasedEvents.keys.sorted()
        // The epochs come before the events, because the cursor of an event names its epoch.
        if includesMarks { try await visitEpochs(lacks) }
        var count = 0
        for app in apps { count += try await visitEvents(of: app, lacks) }
        guard includesMarks else { return count }
        // The numbers come after the events, because reading events may have numbered further events.
        let marks = try await ledger.marks()
        let others = try await other.marks()
        if try !Self.covers(others, marks) { try await lacks(.marks(marks)) }
        return count
    }

    private func visitEpochs(_ lacks: (Part) async throws -> Void) async throws {
        let own = try await ledger.marks().epochs
        let found = try await other.marks().epochs
        let missing = own.filter { found[$0] != $1 }
        if !missing.isEmpty { try await lacks(.epochs(missing)) }
    }

    private func visitEvents(of app: String, _ lacks: (Part) async throws -> Void) async throws -> Int {
        var count = 0
        var cursor: EventCursor?
        while true {
            let own = try await ledger.events(of: app, after: cursor, limit: page)
            guard !own.events.isEmpty else { return count }
            let others = try await others(of: app, cursor, own.events.count)
            let missing = try Self.missing(own.events, in: others, by: \.cursor, \.subject)
            if !missing.isEmpty { try await lacks(.events(missing)) }
            count += own.events.count
            cursor = own.next
        }
    }

    /// The events of the other ledger after a cursor.
    private func others(
        of app: String, _ cursor: EventCursor?, _ limit: Int
    ) async throws -> [EventCursor?: LedgerEvent] {
        do {
            let events = try await other.events(of: app, after: cursor, limit: limit).events
            return Dictionary(events.map { ($0.cursor, $0) }) { first, _ in first }
        } catch EventCursorError.expired {
            throw Difference(Self.erasedEvents(of: app))
        } catch is EventCursorError {
            // The other ledger's events end before the cursor, or are not of the cursor's epoch.
            return [:]
        }
    }
}

// MARK: - Comparing

// These methods are not inlined into their asynchronous callers, because this compiler's optimizer miscompiles the
// result.
extension LedgerWalk {
    /// The records that `found` lacks.
    ///
    /// - Throws: ``Difference`` if `found` has a record with different content.
    @inline(never)
    private static func missing<Record: Equatable, Name: Hashable>(
        _ records: [Record], in found: [Name: Record], by name: (Record) -> Name, _ subject: (Record) -> String
    ) throws -> [Record] {
        try records.filter { record in
            guard let other = found[name(record)] else { return true }
            guard other == record else { throw Difference(subject(record)) }
            return false
        }
    }

    @inline(never)
    private static func missing(_ records: [CustomerRecord], in found: LedgerSnapshot) throws -> [CustomerRecord] {
        try records.filter { record in
            let others = Set(record.identifiers.compactMap { found.ids[$0] })
            guard !others.isEmpty else { return true }
            guard others == [record.customer], found.customers[record.customer] == record else {
                throw Difference(record.subject)
            }
            return false
        }
    }

    @inline(never)
    private static func missing(
        _ keys: [ChainKey], _ own: LedgerSnapshot, in found: LedgerSnapshot
    ) throws -> [Chain] {
        try keys.compactMap { try missing($0, own, in: found) }
    }

    /// The part of a chain missing in the other ledger. A chain without facts counts as missing: an interrupted copy
    /// leaves such a chain if its documents also belong to a copied chain.
    private static func missing(
        _ key: ChainKey, _ own: LedgerSnapshot, in found: LedgerSnapshot
    ) throws -> Chain? {
        let blank = ChainRecord(key)
        let evidence = own.evidence[key] ?? []
        let record = own.chains[key] ?? blank
        let other = found.chains[key] ?? blank
        let known = Dictionary((found.evidence[key] ?? []).map { ($0.name, $0) }) { first, _ in first }
        let isThere = record == blank || record == other
        let lacking = Set(evidence.map(\.name)).subtracting(known.keys)
        guard isThere || other == blank, evidence.allSatisfy({ known[$0.name] ?? $0 == $0 }) else {
            throw Difference(key.subject)
        }
        return isThere && lacking.isEmpty ? nil : Chain(record: record, evidence: evidence, lacking: lacking)
    }

    /// Whether `found` covers `marks`: a ledger with the numbers `found` will assign only numbers that a ledger with
    /// the numbers `marks` has not assigned yet, and both have erased the same events.
    @inline(never)
    private static func covers(_ found: HighWaterMarks, _ marks: HighWaterMarks) throws -> Bool {
        for (app, erased) in marks.erasedEvents where found.erasedEvents[app] ?? 0 > erased {
            throw Difference(erasedEvents(of: app))
        }
        return found.lastCustomer >= marks.lastCustomer && found.lastEvent >= marks.lastEvent
            && marks.erasedEvents.allSatisfy { app, erased in found.erasedEvents[app] ?? 0 == erased }
    }

    private static func erasedEvents(of app: String) -> String { "which events of \(app) were erased" }
}

// MARK: - Names

extension LedgerWalk.Part {
    /// The first missing record, such as `the purchase 12 of com.example`.
    var subject: String {
        switch self {
        case .customers(let records): records.first?.subject ?? ""
        case .chains(let chains): chains.first?.record.key.subject ?? ""
        case .documents(let documents): documents.first?.subject ?? ""
        case .records(let records): records.first?.subject ?? ""
        case .events(let events): events.first?.subject ?? ""
        case .epochs(let epochs): "the epochs of \(epochs.keys.min() ?? "")"
        case .marks: "the last number that was given"
        }
    }
}

extension CustomerRecord {
    fileprivate var subject: String { "the customer \(customer.number) of \(customer.bundleId)" }
}

extension ChainKey {
    fileprivate var subject: String { "the purchase \(originalTransactionId) of \(scope.bundleId)" }
}

extension StoredDocument {
    fileprivate var subject: String { "the document \(name)" }
}

extension LedgerRecord {
    fileprivate var subject: String {
        guard key.kind != APIKey.recordKind else { return "the API key \(key.name)" }
        let words = [key.kind.rawValue, key.name].filter { !$0.isEmpty }.joined(separator: " ")
        return "the record \(words)" + (key.owner.bundleId.map { " of \($0)" } ?? "")
    }
}

extension LedgerEvent {
    fileprivate var subject: String { "the event \(cursor?.rawValue ?? "") of \(scope.bundleId)" }
}
