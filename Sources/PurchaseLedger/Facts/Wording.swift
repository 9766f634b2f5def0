// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto

/// What a signed transaction or renewal info says, apart from when it was signed: two documents with the same wording
/// differ only in `signedDate`, header and signature.
///
/// The App Store signs each of its answers anew, so a purchase that is asked about again and again comes in as many
/// documents.
public struct Wording: Hashable, Sendable {
    /// The first eight bytes of a SHA-256 digest. Only documents about one purchase are compared, and nobody but the
    /// App Store chooses what they say.
    public var digest: Int64

    public init(digest: Int64) {
        self.digest = digest
    }

    /// The wording of a signed transaction or renewal info.
    ///
    /// - Returns: `nil` for other kinds of documents, and for a payload that is no JSON object.
    package init?(_ kind: Evidence.Kind, payload: [UInt8]) {
        // A payload that was verified is JSON.
        guard kind == .transaction || kind == .renewalInfo, let json = JSONValue(readable: payload),
            case .object(let members) = json
        else { return nil }
        let said = JSONValue.object(members.filter { $0.name != "signedDate" }).inOrder
        let text = "\(kind.rawValue) \(said.compactText)"
        digest = SHA256.hash(data: Array(text.utf8)).prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}

/// A stored document with a wording.
public struct WordedDocument: Hashable, Sendable {
    /// The name under which it is stored.
    public var name: Provenance
    /// Whether it stays, also if other documents say the same: a notification contains it, or it is evidence for
    /// several chains.
    public var isPinned: Bool

    public init(_ name: Provenance, isPinned: Bool = false) {
        self.name = name
        self.isPinned = isPinned
    }
}

/// The wording of documents that are evidence for a chain.
public struct WordingKey: Hashable, Sendable {
    /// The purchase.
    public var chain: ChainKey
    /// What the documents say.
    public var wording: Wording

    public init(_ wording: Wording, about chain: ChainKey) {
        self.chain = chain
        self.wording = wording
    }
}

extension JSONValue {
    /// The same with the members of all objects in the order of their names.
    fileprivate var inOrder: JSONValue {
        switch self {
        case .object(let members):
            let members = members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
            return .object(members.map { Member($0.name, $0.value.inOrder) })
        case .array(let elements): return .array(elements.map(\.inOrder))
        case .null, .bool, .number, .string: return self
        }
    }
}
