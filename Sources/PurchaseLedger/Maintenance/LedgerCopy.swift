// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust

/// A copy of a ledger into another storage.
///
/// The copy gives the same answers as the ledger. It has the same documents, facts, customers and API keys, and the
/// same events under the same cursors. Source and target can be any `LedgerStorage`, so a copy works in any direction.
///
/// No other program may write to either ledger meanwhile. An interrupted copy continues when it is run again. Records
/// already in the target are compared and not written again. A differing record is never replaced.
///
/// From the first write to the end of the comparison, the target has a note, ``UnfinishedCopy``. No server opens a
/// ledger with this note.
public struct LedgerCopy: Sendable {
    /// The numbers of copied and compared records.
    public struct Report: Hashable, Sendable {
        /// The records added to the target by this run.
        public var copied: LedgerCounts
        /// The records of both ledgers, compared by content.
        public var compared: LedgerCounts
    }

    /// A stage of the work on documents.
    public enum Stage: String, Sendable {
        /// The documents are in the target.
        case copied
        /// The documents were compared with the target's documents.
        case compared
    }

    /// The progress of a stage.
    public struct Progress: Hashable, Sendable {
        /// The stage.
        public var stage: Stage
        /// The number of finished documents, including those of earlier runs.
        public var documents: Int
        /// The number of documents in the source.
        public var total: Int
    }

    private let source: any LedgerStorage
    private let name: String
    private let target: any LedgerStorage
    private let verifier: AppStoreVerifier
    /// The number of records read at once, and the maximum number of documents in a commit: about 10 MB. A single
    /// purchase with more documents is still copied in one commit.
    package var page = 500

    /// - Parameters:
    ///   - name: The place of the source, for people: ``UnfinishedCopy/source``.
    ///   - target: An empty ledger, or the target of an interrupted copy of the same source.
    ///   - verifier: As for ``Ledger/check(by:onDocuments:)``.
    public init(
        from source: any LedgerStorage, named name: String, to target: any LedgerStorage, by verifier: AppStoreVerifier
    ) {
        self.source = source
        self.name = name
        self.target = target
        self.verifier = verifier
    }

    /// Copies the missing records, and then compares the ledgers in both directions.
    ///
    /// - Parameters:
    ///   - now: The time at which the copy begins.
    ///   - onProgress: Called after each group of copied or compared documents.
    /// - Throws: ``LedgerCopyError``, or `LedgerStorageError`: `otherRoots` if either ledger has documents of untrusted
    ///   root certificates, `unfinishedCopy` if the source is itself an unfinished copy. Records copied before the
    ///   error stay.
    public func run(at now: Timestamp, onProgress: (Progress) -> Void = { _ in }) async throws -> Report {
        try await Self.requireCopyable(source, by: verifier)
        try await Ledger(storage: target).requireNotedRoots(verifier.roots)
        let begun = try await target.unfinishedCopy()
        if begun != nil { try await target.adaptToSize() }
        try await requireNothingElse(includesDocuments: true) {
            LedgerCopyError(
                .targetInUse, "The target has \($0), missing or different in the ledger: empty the target")
        }
        let note = UnfinishedCopy(source: name, beganAt: begun?.beganAt ?? now)
        var writer = CopyWriter(target, DocumentReader(source, verifier), page: page, note)
        // The copy may fail at its first document. A target without the note would then look like a ledger.
        if try await target.documentCount() == 0, try await source.documentCount() > 0 { try await writer.begin() }
        do {
            let compared = try await run(&writer, onProgress)
            if begun != nil || writer.isNoted { try await target.note(nil) }
            return Report(copied: writer.counts, compared: compared)
        } catch {
            // The running commit ends before this method does. The first error is thrown.
            try? await writer.finish()
            guard let difference = error as? LedgerWalk.Difference else { throw error }
            throw Self.difference(difference.subject)
        }
    }

    /// Throws if a ledger cannot be copied to any target. ``run(at:onProgress:)`` begins with this check. Call this
    /// method before you create the target, so that you do not create it in vain.
    ///
    /// - Throws: As ``run(at:onProgress:)``.
    public static func requireCopyable(_ source: any LedgerStorage, by verifier: AppStoreVerifier) async throws {
        if let copy = try await source.unfinishedCopy() { throw LedgerStorageError(copy) }
        guard try await source.keepsAllDocuments() else {
            throw LedgerCopyError(
                .incompleteSource,
                "Documents were taken from the ledger: put the documents back, and run the copy again")
        }
        try await Ledger(storage: source).requireNotedRoots(verifier.roots)
    }

    /// - Returns: The records of both ledgers.
    private func run(_ writer: inout CopyWriter, _ onProgress: (Progress) -> Void) async throws -> LedgerCounts {
        let earlier = try await target.documentCount()
        let total = try await source.documentCount()
        var walk = LedgerWalk(ledger: source, other: target, page: page)
        walk.includesDocuments = false
        _ = try await walk.run(lacks: { part in
            try await writer.add(part) {
                onProgress(Progress(stage: .copied, documents: earlier + $0, total: total))
            }
        })
        try await writer.finish()
        try await target.adaptToSize()
        walk.includesDocuments = true
        let comparison = walk
        let compared = try await comparison.run {
            onProgress(Progress(stage: .compared, documents: $0, total: total))
        } lacks: { part in
            // Documents that belong to no purchase are copied during the comparison, because it reads all documents
            // anyway.
            guard case .documents(let documents) = part else { throw LedgerWalk.Difference(part.subject) }
            try await writer.add(part) { _ in }
            guard try await comparison.lacking(of: documents).isEmpty else { throw LedgerWalk.Difference(part.subject) }
        }
        // All documents of the source are in the target. If the numbers are equal, the target has no other documents.
        guard try await target.documentCount() == compared.documents else {
            throw LedgerWalk.Difference("the number of documents")
        }
        try await requireNothingElse(includesDocuments: false, Self.difference)
        return compared
    }

    private static func difference(_ subject: String) -> LedgerCopyError {
        LedgerCopyError(
            .differs,
            "The two ledgers differ in \(subject): let no other program use the ledgers, empty the target, and "
                + "run the copy again")
    }

    /// Throws if the target has a record that the source lacks.
    private func requireNothingElse(
        includesDocuments: Bool, _ error: (_ subject: String) -> LedgerCopyError
    ) async throws {
        do {
            let walk = LedgerWalk(
                ledger: target, other: source, page: page, includesMarks: false, includesDocuments: includesDocuments)
            _ = try await walk.run(lacks: { part in throw LedgerWalk.Difference(part.subject) })
        } catch let difference as LedgerWalk.Difference {
            throw error(difference.subject)
        }
    }
}

extension LedgerStorage {
    /// The unfinished copy into this ledger; `nil` if the ledger is complete.
    package func unfinishedCopy() async throws -> UnfinishedCopy? {
        let record = try await load(LedgerQuery([.record(UnfinishedCopy.key)])).records[UnfinishedCopy.key]
        return try record.map(UnfinishedCopy.init)
    }

    /// Notes the beginning of a copy into this ledger, or with `nil` its end.
    package func note(_ copy: UnfinishedCopy?) async throws {
        try await commit(LedgerQuery([.record(UnfinishedCopy.key)])) { _ in
            var changes = LedgerChanges()
            if let copy { changes.records = [copy.record] } else { changes.erasedRecords = [UnfinishedCopy.key] }
            return .commit(changes, ())
        }
    }
}

/// The reason why a ledger was not copied.
public struct LedgerCopyError: Error, CustomStringConvertible {
    /// The kinds of reasons.
    @nonexhaustive
    public enum Code: String, Sendable {
        /// The target has a record that the source lacks. No change was made.
        case targetInUse
        /// A document of the source cannot be read, or does not verify.
        case invalidDocument
        /// Documents were removed from the source to save space. A copy would lack them, so its facts could not be
        /// derived from its documents.
        case incompleteSource
        /// The two ledgers differ after the copy.
        case differs
    }

    /// The kind of reason, for programs.
    public var code: Code
    /// The cause and the remedy, for people.
    public var message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { "\(code.rawValue): \(message)" }
}

/// Writes the missing records into the target.
///
/// While purchases (chains) are committed, the documents of the next purchases are read and verified.
private struct CopyWriter {
    private let target: any LedgerStorage
    private var reader: DocumentReader
    private let page: Int
    private let note: UnfinishedCopy
    /// Whether the target has the note of the unfinished copy.
    private(set) var isNoted = false
    private(set) var counts = LedgerCounts()
    /// The running commit.
    private var commit: Task<Void, any Error>?
    /// Of the documents that belong to several chains, those already added. Such a document is added with the first of
    /// its chains.
    private var shared: Set<Provenance> = []
    private var written = 0
    private var nextAdaptation = firstAdaptation

    /// The number of records after which the target first adapts to its size (``LedgerStorage/adaptToSize()``). With
    /// fewer records, a database is fast with any query plan. Later the target adapts whenever the number has doubled.
    private static let firstAdaptation = 2000

    init(_ target: any LedgerStorage, _ reader: DocumentReader, page: Int, _ note: UnfinishedCopy) {
        self.target = target
        self.reader = reader
        self.page = page
        self.note = note
    }

    mutating func add(_ part: LedgerWalk.Part, onDocuments: (Int) -> Void) async throws {
        if case .chains(let chains) = part {
            for chains in chains.groups(ofDocuments: page) {
                try await add(chains)
                onDocuments(counts.documents)
            }
            return
        }
        try await begin(try await changes(part))
        try await finish()
    }

    private mutating func changes(_ part: LedgerWalk.Part) async throws -> LedgerChanges {
        var changes = LedgerChanges()
        switch part {
        case .customers(let records): changes.customers = records
        case .chains: break
        case .documents(let documents):
            let references = documents.map { DocumentReference($0.name, about: []) }
            changes.documents = try await self.documents(references, among: Set(documents.map(\.name))).inOrder
        case .records(let records): changes.records = records
        case .events(let events): changes.events = events
        case .epochs(let epochs): changes.marks.epochs = epochs
        case .marks(let marks): changes.marks = marks
        }
        return changes
    }

    /// Adds chains with their documents in one commit.
    private mutating func add(_ chains: [LedgerWalk.Chain]) async throws {
        let lacking = chains.filter { !$0.lacking.isEmpty }
        try await reader.read(lacking.reduce(into: Set()) { $0.formUnion($1.evidence.map(\.name)) })
        var changes = LedgerChanges()
        changes.chains = chains.map(\.record)
        for chain in lacking {
            let references = chain.evidence.filter {
                chain.lacking.contains($0.name) && ($0.chains.count < 2 || shared.insert($0.name).inserted)
            }
            changes.documents += try await documents(references, among: Set(chain.evidence.map(\.name)))
        }
        changes.documents = changes.documents.inOrder
        try await begin(changes)
    }

    /// The documents to store, after their verification.
    ///
    /// - Parameter names: All documents of the chain, because some of the documents show which app the renewal infos
    ///   are about.
    private mutating func documents(
        _ references: [DocumentReference], among names: Set<Provenance>
    ) async throws -> [NewDocument] {
        let evidence = try await reader.evidence(names)
        return try Self.documents(references, evidence, reader)
    }

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private static func documents(
        _ references: [DocumentReference], _ evidence: [Provenance: Evidence], _ reader: DocumentReader
    ) throws -> [NewDocument] {
        if let fault = reader.faults.first { throw invalid(fault.document, fault.error) }
        return try references.map { reference in
            guard let found = evidence[reference.name], let stored = reader.stored(reference.name) else {
                throw invalid(reference.name, "No other document of the purchase names the document's app.")
            }
            guard let document = found.kept(as: stored) else {
                throw invalid(reference.name, "The document and the ledger differ about the document's properties.")
            }
            var new = NewDocument(
                document, for: reference.chains, receivedAt: stored.receivedAt, wording: stored.wording)
            new.isPinned = stored.isPinned
            return new
        }
    }

    private static func invalid(_ name: Provenance?, _ error: String) -> LedgerCopyError {
        let document = name.map { "The document \($0)" } ?? "A document"
        return LedgerCopyError(
            .invalidDocument, "\(document) cannot be copied. \(error) quittance check lists all such documents")
    }

    /// Notes the beginning of the copy.
    mutating func begin() async throws {
        guard !isNoted else { return }
        try await target.note(note)
        isNoted = true
    }

    /// Begins a commit after the end of the previous commit.
    private mutating func begin(_ changes: LedgerChanges) async throws {
        try await finish()
        try await begin()
        let arriving = changes.documents.map(\.evidence)
        // The query asks which documents are stored, including the signed parts (tokens) of notifications, because
        // stored parts need not be stored again.
        let names = arriving.flatMap { [$0] + $0.parts }.map { LedgerKey.document($0.provenance) }
        let keys = changes.chains.map { LedgerKey.chain($0.key) } + changes.records.map { LedgerKey.record($0.key) }
        let query = LedgerQuery(names + keys, arriving: arriving)
        commit = Task { [target] in try await target.commit(query) { _ in .commit(changes, ()) } }
        counts.customers += changes.customers.count
        counts.purchases += changes.chains.count
        counts.documents += changes.documents.count
        counts.add(changes.records)
        counts.events += changes.events.count
        written += changes.customers.count + changes.chains.count + changes.documents.count + changes.events.count
    }

    /// Waits until all added records are committed.
    mutating func finish() async throws {
        guard let commit else { return }
        self.commit = nil
        try await commit.value
        guard written >= nextAdaptation else { return }
        nextAdaptation = written * 2
        try await target.adaptToSize()
    }
}

extension [LedgerWalk.Chain] {
    /// Groups of consecutive chains with at most `limit` documents in each group. A chain with more documents is a
    /// group of its own.
    fileprivate func groups(ofDocuments limit: Int) -> [[LedgerWalk.Chain]] {
        var groups: [[LedgerWalk.Chain]] = []
        var count = 0
        for chain in self {
            count += chain.evidence.count
            if let last = groups.indices.last, count <= limit {
                groups[last].append(chain)
            } else {
                groups.append([chain])
                count = chain.evidence.count
            }
        }
        return groups
    }
}

extension [NewDocument] {
    /// The documents, with the tokens (the signed parts) of a notification directly before the notification, so that a
    /// storage does not store these tokens twice.
    fileprivate var inOrder: [NewDocument] {
        let known = Dictionary(map { ($0.evidence.provenance, $0) }) { first, _ in first }
        var ordered: [NewDocument] = []
        var placed: Set<Provenance> = []
        for document in sorted(by: { $0.sortKey < $1.sortKey }) {
            for evidence in document.evidence.parts + [document.evidence] {
                guard placed.insert(evidence.provenance).inserted else { continue }
                if let document = known[evidence.provenance] { ordered.append(document) }
            }
        }
        return ordered
    }
}

extension NewDocument {
    /// Notifications come first, together with their tokens. The documents in each of the two groups are in the order
    /// of arrival.
    fileprivate var sortKey: (Int, Timestamp, Provenance) {
        (evidence.parts.isEmpty ? 1 : 0, receivedAt, evidence.provenance)
    }
}

extension Evidence {
    /// This evidence with the stored bytes and notification fields, because a copy keeps each stored byte.
    ///
    /// - Returns: `nil` if the ledger has the document under a different name, kind or scope.
    fileprivate func kept(as stored: StoredDocument) -> Evidence? {
        guard provenance == stored.name, stored.kind == kind, scope == stored.scope else { return nil }
        guard document != stored.document || notification != stored.notification else { return self }
        return Evidence(
            kind, stored.document, scope, signedDate, anchor: anchor, parts: parts, notification: stored.notification,
            predecessors: predecessors
        ) { _ in (statements, renewals) }
    }
}
