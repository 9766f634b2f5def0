// SPDX-License-Identifier: Apache-2.0

// The root certificates that anchored the documents of a ledger, stored beside the documents.
//
// A verifier trusts the roots that are configured now, but a ledger's documents may have been verified with other
// roots, at an earlier start. Without a check, a ledger with a simulator's purchases would grant these purchases in
// production. Therefore the commit of a root's first document also notes the root, each start compares the notes with
// the configured roots, and documents of different origin, such as Apple and a simulator, are not mixed.

import AppStoreModel
import AppStoreTrust
import Synchronization

/// The note of the roots that anchored documents of an app and environment.
struct RootsNote: RecordValue {
    let scope: LedgerScope
    /// The stored roots. Unknown members, written by a different version, are kept.
    private var entries: [JSONValue]

    private static let root = "root"
    private static let isSimulated = "isSimulated"

    /// Makes an empty note. A stored note is empty if ``LedgerDraft/forgetRoots(besides:in:)`` left it without roots,
    /// and no root has been noted since.
    init(in scope: LedgerScope) {
        self.scope = scope
        entries = []
    }

    @inline(never)
    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .scope(let scope) = record.key.owner, let entries = JSONValue(readable: record.payload)?.array
        else {
            let app = record.key.owner.bundleId ?? ""
            throw LedgerStorageError(
                .damaged, "The note of the roots of \(app) cannot be read: --trust-other-roots writes it anew")
        }
        self.scope = scope
        self.entries = entries
    }

    /// The kind of the records for the roots of an app and environment.
    static let recordKind = RecordKind(rawValue: "trustAnchors")

    static func key(_ scope: LedgerScope) -> RecordKey { RecordKey(recordKind, "", of: .scope(scope)) }

    var record: LedgerRecord {
        LedgerRecord(Self.key(scope), payload: Array(JSONValue.array(entries).compactText.utf8))
    }

    var anchors: Set<TrustAnchor> { Set(entries.compactMap(Self.anchor)) }

    mutating func insert(_ new: Set<TrustAnchor>) {
        for anchor in new.subtracting(anchors).sorted(by: { $0.name < $1.name }) {
            var members = [JSONValue.Member(Self.root, .string(anchor.name))]
            if anchor.isSimulated { members.append(JSONValue.Member(Self.isSimulated, .bool(true))) }
            entries.append(.object(members))
        }
    }

    mutating func removeAll(where isForgotten: (TrustAnchor) -> Bool) {
        entries.removeAll { Self.anchor($0).map(isForgotten) ?? false }
    }

    private static func anchor(_ entry: JSONValue) -> TrustAnchor? {
        entry[root]?.string.map { TrustAnchor(name: $0, isSimulated: entry[isSimulated] == .bool(true)) }
    }
}

extension Set<TrustAnchor> {
    /// Whether documents of these roots must not be in the same ledger, because the roots belong to different families.
    /// Roots of the same family may be mixed: for example, a simulator has a root for tokens and a second root for
    /// receipts.
    var areMixed: Bool { Set<TrustAnchor.Family>(map(\.family)).count > 1 }

    /// The roots as a text for human readers, such as `Apple's roots and the root 5f3c…`.
    package var sentence: String { map(\.description).sorted().joined(separator: " and ") }
}

// MARK: - What is noted

/// The roots of documents that are about to be recorded, without the roots that are known to be noted.
struct UnnotedRoots: Sendable {
    /// The roots, by the app and environment of their documents.
    var anchors: [LedgerScope: Set<TrustAnchor>] = [:]
    /// The apps and environments for which the cache has noted roots.
    var noted: Set<LedgerScope> = []

    /// The notes that decide whether the documents may be recorded.
    var records: Set<RecordKey> { Set(scopes.map(RootsNote.key)) }

    /// The apps and environments of the notes in ``records``.
    fileprivate var scopes: Set<LedgerScope> { noted.union(anchors.keys) }

    mutating func add(_ document: Evidence, unlessIn known: [LedgerScope: Set<TrustAnchor>]) {
        guard let anchor = document.anchor, known[document.scope]?.contains(anchor) != true else { return }
        anchors[document.scope, default: []].insert(anchor)
    }
}

/// A process's cache of noted roots. Because of the cache, a note is loaded only for a root's first document. For all
/// other documents the check is a look-up in memory.
///
/// The cache may lack roots that other processes have noted, so the ledger is asked about each root outside the cache.
/// A root in the cache stays noted, unless the operator passes `--trust-other-roots`, which removes roots from notes.
/// With this option the operator declares that documents of the removed roots count without a note, so the cache may
/// keep these roots.
final class KnownRoots: Sendable {
    private let known = Mutex<[LedgerScope: Set<TrustAnchor>]>([:])

    /// The roots of documents and of the signed parts of notifications, without the roots in the cache; `nil` if none
    /// is left.
    func unnoted(in documents: [Evidence]) -> UnnotedRoots? {
        known.withLock { known in
            var unnoted = UnnotedRoots()
            for document in documents {
                unnoted.add(document, unlessIn: known)
                for part in document.parts { unnoted.add(part, unlessIn: known) }
            }
            guard !unnoted.anchors.isEmpty else { return nil }
            unnoted.noted = Set(known.keys)
            return unnoted
        }
    }

    /// Adds noted roots to the cache.
    func insert(_ anchors: [LedgerScope: Set<TrustAnchor>]) {
        known.withLock { $0.merge(anchors) { $0.union($1) } }
    }
}

// MARK: - Deciding

extension LedgerDraft {
    /// Notes roots, and refuses all changes of the draft if documents of different origin would be mixed.
    mutating func note(_ unnoted: UnnotedRoots) {
        do {
            let notes = try unnoted.scopes.map { scope in
                try value(RootsNote.key(scope)) ?? RootsNote(in: scope)
            }
            let noted = Set(notes.flatMap(\.anchors))
            let new = Set(unnoted.anchors.values.joined())
            guard !noted.union(new).areMixed else { throw LedgerStorageError.mixing(new, into: noted) }
            for var note in notes {
                let known = note.anchors
                note.insert(unnoted.anchors[note.scope] ?? [])
                if note.anchors != known { put(note) }
            }
        } catch {
            refusal = error
        }
    }

    /// Removes untrusted roots from notes, or all roots if the noted roots that are trusted must not be mixed.
    ///
    /// - Returns: The roots that were noted before and are noted nowhere now.
    mutating func forgetRoots(besides trusted: Set<TrustAnchor>, in scopes: [LedgerScope]) -> Set<TrustAnchor> {
        // An unreadable note is replaced by an empty note.
        let notes = scopes.compactMap { scope in
            record(RootsNote.key(scope)).map { RootsNote(readable: $0) ?? RootsNote(in: scope) }
        }
        let noted = Set(notes.flatMap(\.anchors))
        let kept = noted.intersection(trusted).areMixed ? [] : noted.intersection(trusted)
        for var note in notes {
            note.removeAll { !kept.contains($0) }
            put(note)
        }
        return noted.subtracting(kept)
    }
}

extension LedgerStorageError {
    fileprivate static func mixing(_ new: Set<TrustAnchor>, into noted: Set<TrustAnchor>) -> LedgerStorageError {
        guard !noted.isEmpty else {
            return LedgerStorageError(
                .otherRoots, "These documents are of \(new.sentence), which one ledger does not mix: trust one alone")
        }
        return LedgerStorageError(
            .otherRoots,
            """
            A document of \(new.sentence) is not recorded in a ledger with documents of \(noted.sentence): trust the \
            roots of one alone, each with a database of its own
            """)
    }
}
