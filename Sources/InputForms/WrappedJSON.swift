// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The place of the documents in a JSON value that a client sent instead of a plain document.
enum WrappedJSON {
    /// The place for a document is empty or null.
    case nothing
    case member(InputStep, JSONValue)
    /// Several documents. Each element is a document or contains a document.
    case list(InputStep, [JSONValue])
    /// A token split into its parts.
    case token(String)
    /// The header of a token.
    case header
    /// A payload without its signature.
    case payload
    /// JSON without a document.
    case other

    init(_ json: JSONValue) {
        switch json {
        case .null: self = .nothing
        case .array(let elements): self = elements.isEmpty ? .nothing : .list(.list, elements)
        case .object(let members) where members.isEmpty: self = .nothing
        case .object:
            self = Self.lists(of: json) ?? Self.parts(of: json) ?? Self.member(of: json) ?? Self.unsigned(json)
        case .string, .number, .bool: self = .other
        }
    }

    /// The names of the members that may have a document as their value. If an object has several of them, the value of
    /// each is a document.
    static let members = [
        "receipt-data", "signedPayload", "signedTransactionInfo", "jwsRepresentation", "verificationResult", "document",
        "documents", "transactionReceipt", "appStoreReceipt", "Payload", "purchaseToken", latestReceipt,
    ]

    private static let latestReceipt = "latest_receipt"

    /// The lists of the App Store Server API.
    private static func lists(of json: JSONValue) -> WrappedJSON? {
        if let history = json["signedTransactions"]?.array { return documents(.history, in: history) }
        if let history = json["notificationHistory"]?.array { return documents(.notificationHistory, in: history) }
        let groups = json["data"]?.array?.compactMap { $0["lastTransactions"]?.array } ?? []
        return groups.isEmpty ? nil : documents(.statuses, in: groups.joined().flatMap(signed))
    }

    private static func documents(_ step: InputStep, in elements: [JSONValue]) -> WrappedJSON {
        elements.isEmpty ? .nothing : .list(step, elements)
    }

    /// The transaction and the renewal info of a subscription. A one-time purchase has no renewal info.
    private static func signed(_ item: JSONValue) -> [JSONValue] {
        [item["signedTransactionInfo"], item["signedRenewalInfo"]].compactMap { $0 == .null ? nil : $0 }
    }

    private static func parts(of json: JSONValue) -> WrappedJSON? {
        guard let header = json["protected"]?.string, let payload = json["payload"]?.string,
            let signature = json["signature"]?.string
        else { return nil }
        return .token("\(header).\(payload).\(signature)")
    }

    private static func member(of json: JSONValue) -> WrappedJSON? {
        if json["signedTransactionInfo"] != nil, json["signedRenewalInfo"] != nil {
            return documents(.list, in: signed(json))
        }
        let present = members.compactMap { name in json[name].map { (name, $0) } }
        guard !present.isEmpty else { return nil }
        let values = present.filter { $0.1 != .null && $0.1 != .string("") }
        guard let (name, value) = values.first else { return .nothing }
        // Two members may hold the same document.
        guard values.allSatisfy({ $0.1 == value }) else { return .list(.list, values.map(\.1)) }
        return .member(name == latestReceipt ? .verifyReceiptAnswer : .jsonMember, value)
    }

    private static func unsigned(_ json: JSONValue) -> WrappedJSON {
        if json["alg"] != nil { return .header }
        return SignedKind(recognizing: json) == nil ? .other : .payload
    }
}
