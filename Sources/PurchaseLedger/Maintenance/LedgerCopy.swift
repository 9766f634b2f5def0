// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust

/// Copies a ledger into another storage.
///
/// The copy answers like the ledger: it has the same documents, facts, customers and keys, and events under the same
/// cursors. It works through `LedgerStorage` on both sides, in any direction.
///
/// Nothing else may write to either ledger meanwhile. A copy that was interrupted goes on when it is run again: what
/// the target has already is compared and not written again. Nothing that differs is ever replaced.
///
/// From the first write until all was compared the target has a note, ``UnfinishedCopy``, with which no server opens
/// it.
public struct LedgerCopy: Sendable {
    /// What was copied and compared.
    public struct Report: Hashable, Sendable {
        /// What this run added to the target.
        public var copied: LedgerCounts
        /// What both ledgers have, compared by content.
        public var compared: LedgerCounts
    }

    /// What is done with documents.
    public enum Stage: String, Sendable {
        /// They are in the target.
        case copied
        /// They were compared with those of the target.
        case compared
    }

    /// How far a stage has come.
    public struct Progress: Hashable, Sendable {
        /// What is done.
        public var stage: Stage
        /// The documents that are done, also by earlier runs.
        public var documents: Int
        /// All documents of the source.
        public var total: Int
    }

    private let source: any LedgerStorage
    private let name: String
    private let target: any LedgerStorage
    private let verifier: AppStoreVerifier
    /// How many records are read at once, and how many documents are committed together at most unless they are of one
    /// purchase: about 10 MB.
    package var page = 500

    /// - Parameters:
    ///   - name: Where the source is, for people: ``UnfinishedCopy/source``.
    ///   - target: An empty ledger, or what an interrupted copy of the same source left.
    ///   - verifier: As for ``Ledger/check(by:onDocuments:)``.
    public init(
        from source: any LedgerStorage, named name: String, to target: any LedgerStorage, by verifier: AppStoreVerifier
    ) {
        self.source = source
        self.name = name
        self.target = target
        self.verifier = verifier
    }

    /// Copies what the target lacks, and then compares everything in both directions.
    ///
    /// - Parameters:
    ///   - now: When the copy begins.
    ///   - onProgress: Called after each page of documents.
    /// - Throws: ``LedgerCopyError``, or `LedgerStorageError`: `otherRoots` if either ledger has documents of roots
    ///   that the verifier does not trust, `unfinishedCopy` if the source is half a copy. What was copied before stays.
    public func run(at now: Timestamp, onProgress: (Progress) -> Void = { _ in }) async throws -> Report {
        try await Self.requireCopyable(source, by: verifier)
        try await Ledger(storage: target).requireNotedRoots(verifier.roots)
        let begun = try await target.unfinishedCopy()
        if begun != nil { try await target.adaptToSize() }
        try await requireNothingElse(includesDocuments: true) {
            LedgerCopyError(
                .targetInUse, "The target has \($0), which the ledger has not, or not with the same content: empty it")
        }
        let note = UnfinishedCopy(source: name, beganAt: begun?.beganAt ?? now)
        var writer = CopyWriter(target, DocumentReader(source, verifier), page: page, note)
        // A document that cannot be copied may be the first of all, and a target without the note looks like a ledger.
        if try await target.documentCount() == 0, try await source.documentCount() > 0 { try await writer.begin() }
        do {
            let compared = try await run(&writer, onProgress)
            if begun != nil || writer.isNoted { try await target.note(nil) }
            return Report(copied: writer.counts, compared: compared)
        } catch {
            // What has begun ends before this does. The first error is thrown.
            try? await writer.finish()
            guard let difference = error as? LedgerWalk.Difference else { throw error }
            throw Self.difference(difference.subject)
        }
    }

    /// Throws if a ledger cannot be copied, whatever the target is. ``run(at:onProgress:)`` begins with this; call it
    /// before the target is made.
    ///
    /// - Throws: As ``run(at:onProgress:)``.
    public static func requireCopyable(_ source: any LedgerStorage, by verifier: AppStoreVerifier) async throws {
        if let copy = try await source.unfinishedCopy() { throw LedgerStorageError(copy) }
        guard try await source.keepsAllDocuments() else {
            throw LedgerCopyError(
                .incompleteSource, "Documents were taken from the ledger: put them back, and run it again")
        }
        try await Ledger(storage: source).requireNotedRoots(verifier.roots)
    }

    /// - Returns: What both ledgers have.
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
            // Those of no purchase are copied here, so that documents are read once less.
            guard case .documents(let documents) = part else { throw LedgerWalk.Difference(part.subject) }
            try await writer.add(part) { _ in }
            guard try await comparison.lacking(of: documents).isEmpty else { throw LedgerWalk.Difference(part.subject) }
        }
        // All documents of the source are in the target. If there are as many, there is no other one.
        guard try await target.documentCount() == compared.documents else {
            throw LedgerWalk.Difference("the number of documents")
        }
        try await requireNothingElse(includesDocuments: false, Self.difference)
        return compared
    }

    private static func difference(_ subject: String) -> LedgerCopyError {
        LedgerCopyError(
            .differs,
            "The two ledgers differ in \(subject): let nothing else use them, empty the target, and run it again")
    }

    /// Throws if the target has anything that the source has not.
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
    /// The copy into this ledger that has begun and not ended; `nil` if the ledger is whole.
    package func unfinishedCopy() async throws -> UnfinishedCopy? {
        let record = try await load(LedgerQuery([.record(UnfinishedCopy.key)])).records[UnfinishedCopy.key]
        return try record.map(UnfinishedCopy.init)
    }

    /// Notes that a copy into this ledger has begun, or with `nil` that it has ended.
    package func note(_ copy: UnfinishedCopy?) async throws {
        try await commit(LedgerQuery([.record(UnfinishedCopy.key)])) { _ in
            var changes = LedgerChanges()
            if let copy { changes.records = [copy.record] } else { changes.erasedRecords = [UnfinishedCopy.key] }
            return .commit(changes, ())
        }
    }
}

/// Why a ledger was not copied.
public struct LedgerCopyError: Error, CustomStringConvertible {
    /// The kinds of reasons.
    @nonexhaustive
    public enum Code: String, Sendable {
        /// The target has something that the source has not. Nothing was changed.
        case targetInUse
        /// A document of the source cannot be read, or does not verify.
        case invalidDocument
        /// Documents were taken from the source to save space, so that its facts cannot be derived from the copy.
        case incompleteSource
        /// After the copy the two ledgers differ.
        case differs
    }

    /// The kind of reason, for programs.
    public var code: Code
    /// What happened and what to do, for people.
    public var message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { "\(code.rawValue): \(message)" }
}

/// Writes into the target what it lacks.
///
/// While chains are committed, the next documents are read and verified.
private struct CopyWriter {
    private let target: any LedgerStorage
    private var reader: DocumentReader
    private let page: Int
    private let note: UnfinishedCopy
    /// Whether the target has the note.
    private(set) var isNoted = false
    private(set) var counts = LedgerCounts()
    /// The commit that has begun.
    private var commit: Task<Void, any Error>?
    /// The documents of several chains that were added with the first of them.
    private var shared: Set<Provenance> = []
    private var written = 0
    private var nextAdaptation = firstAdaptation

    /// After so many records the target adapts to its size for the first time, and then whenever there are twice as
    /// many: a database reads thousands of rows quickly, however it plans that.
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

    /// The documents to store, after they were verified.
    ///
    /// - Parameter names: All documents of the chain, of which some bind others.
    private mutating func documents(
        _ references: [DocumentReference], among names: Set<Provenance>
    ) async throws -> [NewDocument] {
        let evidence = try await reader.evidence(names)
        return try Self.documents(references, evidence, reader)
    }

    /// Not inlined into its asynchronous caller, which this compiler's optimizer gets wrong.
    @inline(never)
    private static func documents(
        _ references: [DocumentReference], _ evidence: [Provenance: Evidence], _ reader: DocumentReader
    ) throws -> [NewDocument] {
        if let fault = reader.faults.first { throw invalid(fault.document, fault.error) }
        return try references.map { reference in
            guard let found = evidence[reference.name], let stored = reader.stored(reference.name) else {
                throw invalid(reference.name, "No other document of the purchase says which app it is about.")
            }
            guard let document = found.kept(as: stored) else {
                throw invalid(reference.name, "It says otherwise about itself than the ledger does.")
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

    /// Notes that the copy has begun.
    mutating func begin() async throws {
        guard !isNoted else { return }
        try await target.note(note)
        isNoted = true
    }

    /// Begins to commit, once the commit before has ended.
    private mutating func begin(_ changes: LedgerChanges) async throws {
        try await finish()
        try await begin()
        let arriving = changes.documents.map(\.evidence)
        // Of a notification, tokens that are stored are not stored again.
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

    /// Waits until all is committed that was added.
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
    /// Groups of neighbours that lack at most so many documents together, unless one lacks more.
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
    /// The tokens in a notification come directly before it, so that a storage does not store them twice.
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
    /// Notifications first, which take their tokens with them; otherwise the order of arrival.
    fileprivate var sortKey: (Int, Timestamp, Provenance) {
        (evidence.parts.isEmpty ? 1 : 0, receivedAt, evidence.provenance)
    }
}

extension Evidence {
    /// The same evidence with what is stored about the document: earlier versions stored receipts with everything
    /// around the payload, and the copy is kept byte for byte.
    ///
    /// - Returns: `nil` if the ledger has it under another name, or as another document.
    fileprivate func kept(as stored: StoredDocument) -> Evidence? {
        guard provenance == stored.name, stored.kind == kind, scope == stored.scope else { return nil }
        guard document != stored.document || notification != stored.notification else { return self }
        return Evidence(
            kind, stored.document, scope, signedDate, anchor: anchor, parts: parts, notification: stored.notification,
            predecessors: predecessors
        ) { _ in (statements, renewals) }
    }
}
