// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto

/// The content of a signed transaction or renewal info, except its signing date. Two documents with the same wording
/// differ only in `signedDate`, header and signature, and perhaps in the order and spacing of the JSON members. The
/// wording of a document with no other purchase than that of the app is its statement about this purchase.
///
/// The App Store signs each response anew, so each request about the same purchase brings a new document, usually with
/// the same wording.
public struct Wording: Hashable, Sendable {
    /// The first eight bytes of a SHA-256 digest. Eight bytes suffice, because only documents about the same purchase
    /// are compared, and only the App Store chooses their content.
    public var digest: Int64

    public init(digest: Int64) {
        self.digest = digest
    }

    /// The wording of a signed transaction or renewal info.
    ///
    /// - Returns: `nil` for other kinds of documents, and for a payload that is no JSON object.
    package init?(_ kind: Evidence.Kind, payload: [UInt8]) {
        // Verification has already decoded the payload of such a document, so parsing does not fail here.
        guard kind == .transaction || kind == .renewalInfo, let json = JSONValue(readable: payload),
            case .object(let members) = json
        else { return nil }
        let said = JSONValue.object(members.filter { $0.name != "signedDate" }).inOrder
        self.init(of: "\(kind.rawValue) \(said.compactText)")
    }

    /// The wording of a document about the app's purchase alone: its statement. The App Store signs such a document
    /// anew for each device and each installed version, so a customer can get any number of them.
    init(_ app: TransactionStatement, _ kind: Evidence.Kind) {
        let said = [
            app.chainName, app.purchaseDate.map { "\($0.milliseconds)" }, app.originalApplicationVersion,
            app.originalPlatform?.rawValue, app.receiptType,
        ]
        let values = said.map { $0.map(JSONValue.string) ?? .null }
        self.init(of: "\(kind.rawValue) \(JSONValue.array(values).compactText)")
    }

    private init(of text: String) {
        digest = SHA256.hash(data: Array(text.utf8)).prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}

/// A stored document with a wording.
public struct WordedDocument: Hashable, Sendable {
    /// The name under which the document is stored.
    public var name: Provenance
    /// Whether the document stays even if other documents have the same wording. A document is pinned if it also
    /// arrived inside a notification, or if it is evidence for several purchases (see ``Chain``).
    public var isPinned: Bool

    public init(_ name: Provenance, isPinned: Bool = false) {
        self.name = name
        self.isPinned = isPinned
    }
}

/// A wording together with a chain, to find the documents with this wording that are evidence for the chain.
public struct WordingKey: Hashable, Sendable {
    /// The chain.
    public var chain: ChainKey
    /// The wording of the documents.
    public var wording: Wording

    public init(_ wording: Wording, about chain: ChainKey) {
        self.chain = chain
        self.wording = wording
    }
}

extension JSONValue {
    /// The same value, with the members of all objects ordered by name.
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
