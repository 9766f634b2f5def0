// SPDX-License-Identifier: Apache-2.0

// The roots that anchored the documents of a ledger, kept with the documents.
//
// A verifier trusts the roots that are configured now. What a ledger has was verified with those of an earlier start: a
// ledger that was filled with a simulator's purchases would grant them in production. Therefore the commit of the first
// document that a root anchors notes that root, and documents of different origin are not mixed.

import AppStoreModel
import AppStoreTrust
import Synchronization

/// The note of the roots that anchored documents of an app and environment.
struct RootsNote: RecordValue {
    let scope: LedgerScope
    /// The roots as they are stored. Members that another version adds stay.
    private var entries: [JSONValue]

    private static let root = "root"
    private static let isSimulated = "isSimulated"

    /// An empty note: either no document was recorded since roots were replaced, or the note is new.
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

    /// The kind of the records that hold the roots of an app and environment.
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
    /// Whether documents of these roots must not be in one ledger. A simulator has a root for tokens and another one
    /// for receipts; what it signs is not mixed with what others sign.
    var areMixed: Bool { Set<TrustAnchor.Family>(map(\.family)).count > 1 }

    /// The roots for people, such as `Apple's roots and the root 5f3c…`.
    package var sentence: String { map(\.description).sorted().joined(separator: " and ") }
}

// MARK: - What is noted

/// Roots of documents that are about to be recorded.
struct UnnotedRoots: Sendable {
    /// The roots, by the app and environment of their documents.
    var anchors: [LedgerScope: Set<TrustAnchor>] = [:]
    /// The apps and environments that are known to have notes.
    var noted: Set<LedgerScope> = []

    /// The notes that decide whether the documents may be recorded.
    var records: Set<RecordKey> { Set(scopes.map(RootsNote.key)) }

    /// The apps and environments of those notes.
    fileprivate var scopes: Set<LedgerScope> { noted.union(anchors.keys) }

    mutating func add(_ document: Evidence, unlessIn known: [LedgerScope: Set<TrustAnchor>]) {
        guard let anchor = document.anchor, known[document.scope]?.contains(anchor) != true else { return }
        anchors[document.scope, default: []].insert(anchor)
    }
}

/// The roots that a process knows to be noted. Therefore a note is loaded for the first document of its root alone, and
/// all others cost a look-up in memory.
///
/// What is noted stays noted. Only `--trust-other-roots` takes roots from a note, and by that the operator says that
/// documents of these roots count although they are not noted. So another process makes this knowledge at most
/// incomplete, and what is not known here is looked up in the ledger.
final class KnownRoots: Sendable {
    private let known = Mutex<[LedgerScope: Set<TrustAnchor>]>([:])

    /// The roots of some documents and of the tokens in them that are not known to be noted; `nil` if all are.
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

    /// Adds roots that are noted.
    func insert(_ anchors: [LedgerScope: Set<TrustAnchor>]) {
        known.withLock { $0.merge(anchors) { $0.union($1) } }
    }
}

// MARK: - Deciding

extension LedgerDraft {
    /// Notes roots, and refuses the whole decision if documents of different origin would be mixed.
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

    /// Takes all roots from some notes that are not trusted, or all roots if those left are mixed. Each scope has a
    /// note afterwards, so that its documents are not searched for their roots.
    ///
    /// - Returns: The roots that are noted nowhere now and were noted before.
    mutating func forgetRoots(besides trusted: Set<TrustAnchor>, in scopes: [LedgerScope]) -> Set<TrustAnchor> {
        // A note that cannot be read is written anew.
        let notes = scopes.map { scope in
            RootsNote(readable: record(RootsNote.key(scope))) ?? RootsNote(in: scope)
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
