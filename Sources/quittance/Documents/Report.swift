// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseServer
import ReceiptCoding

/// Formats documents for people.
enum Report {
    /// - Parameter container: The container of the receipt. If not `nil`, the report includes the digest, the number of
    ///   certificates, and unknown attributes.
    static func receipt(_ receipt: AppReceipt, in container: SignedReceipt? = nil) -> String {
        let app = [receipt.bundleId, receipt.applicationVersion].compactMap { $0 }.joined(separator: " ")
        var rows = [
            ("app", app), ("environment", receipt.receiptType?.rawValue),
            ("created", receipt.receiptCreationDate?.iso8601),
            ("app bought", receipt.originalPurchaseDate?.iso8601),
            ("first version", receipt.originalApplicationVersion),
            ("expires", receipt.expirationDate?.iso8601), ("organization", receipt.organizationDisplayName),
        ]
        if let container {
            rows.append(("digest", digest(container.signer.digestAlgorithm)))
            rows.append(("certificates", "\(container.certificates.count)"))
            rows += receipt.otherAttributes.filter(\.hasValue).map { ("attribute \($0.type)", $0.value.hexadecimal) }
        }
        rows.append(("purchases", "\(receipt.inAppPurchases.count)"))
        return "app receipt".styled(.bold) + "\n" + list(rows) + purchases(receipt.inAppPurchases)
    }

    /// The report on a payload or any other JSON document. Unknown members are marked.
    static func payload(_ payload: JSONValue, _ document: JSONDocument?) -> String {
        (document?.title ?? "JSON of an unknown kind").styled(.bold) + "\n"
            + members(payload, known: document?.known, currency: nil, indent: 1)
    }

    private static func digest(_ algorithm: OID) -> String {
        switch algorithm {
        case .sha1: "SHA-1"
        case .sha256: "SHA-256"
        default: "\(algorithm)"
        }
    }

    static func header(_ header: JWS.Header) -> String {
        list([("algorithm", header.alg), ("key", header.kid), ("certificates", "\(header.x5c.count)")])
    }

    static func transactionReceipt(_ receipt: TransactionReceipt) -> String {
        var rows = [("environment", receipt.environment.map { "\($0) (not signed)" })]
        rows += receipt.purchase.sorted { $0.key < $1.key }.map { name, value in
            let isInstant = name.hasSuffix("-ms") || name == "expires-date"
            let instant = isInstant ? Int64(value).map { "  " + Timestamp(milliseconds: $0).iso8601 } : nil
            return (name, value + (instant ?? ""))
        }
        return "old transaction receipt".styled(.bold) + "\n" + list(rows)
    }

    /// The members of an object, indented. Members that `known` lacks are marked; if `known` is `nil`, none are marked.
    private static func members(_ json: JSONValue, known: JSONValue?, currency: String?, indent: Int) -> String {
        guard let members = json.members else { return pad(indent) + value(json, "", currency) + "\n" }
        // The currency of a price is in the same object, or in an enclosing object.
        let currency = json["currency"]?.string ?? currency
        let width = min(members.map(\.name.count).max() ?? 0, 40)
        return members.map { member in
            let isUnknown = known != nil && known?[member.name] == nil && member.value != .null
            let mark = isUnknown ? "  (unknown)".styled(.red) : ""
            let name = pad(indent) + member.name.printable.padded(to: width).styled(.dim)
            guard isNested(member.value) else {
                return "\(name)  \(value(member.value, member.name, currency))\(mark)\n"
            }
            let below = isUnknown ? nil : known?[member.name]
            return "\(pad(indent))\(member.name.printable.styled(.dim))\(mark)\n"
                + nested(member.value, known: below, currency: currency, indent: indent + 1)
        }.joined()
    }

    private static func nested(_ json: JSONValue, known: JSONValue?, currency: String?, indent: Int) -> String {
        guard let elements = json.array else { return members(json, known: known, currency: currency, indent: indent) }
        return elements.enumerated().map { index, element in
            let below = known?.array.flatMap { $0.indices.contains(index) ? $0[index] : nil }
            return pad(indent) + "[\(index)]".styled(.dim) + "\n"
                + members(element, known: below, currency: currency, indent: indent + 1)
        }.joined()
    }

    /// Whether the value needs several lines: an object with members, or an array with objects. An array of plain
    /// values fits on a line.
    private static func isNested(_ json: JSONValue) -> Bool {
        json.members?.isEmpty == false || json.array?.contains { $0.members != nil } == true
    }

    private static func value(_ json: JSONValue, _ name: String, _ currency: String?) -> String {
        let text = (json.string ?? json.compactText).shortened.printable
        if let instant = instant(json, name) { return "\(text)  \(instant.iso8601)" }
        if moneyNames.contains(name), let milliunits = json.integer, let currency {
            return "\(text)  \(money(milliunits)) \(currency.printable)"
        }
        return text
    }

    /// The time in a member, as a number or as text. `nil` if Apple does not use the member's name for times, or if the
    /// value is not a time.
    private static func instant(_ json: JSONValue, _ name: String) -> Timestamp? {
        guard name.hasSuffix("Date") || name.hasSuffix("_ms") || name == "timestamp" || name == "expires_date" else {
            return nil
        }
        if let text = json.string { return Int64(text).map(Timestamp.init(milliseconds:)) }
        // A value that is no time is shown unchanged.
        return try? json.decode(Timestamp.self)
    }

    private static let moneyNames: Set<String> = [
        "price", "renewalPrice", "commitmentPrice", "commitmentRenewalPrice", "estimatedTax", "taxExclusivePrice",
        "refundAmount", "proratedPrice",
    ]

    /// Milliunits as units, with two or three decimals.
    private static func money(_ milliunits: Int64) -> String {
        let magnitude = milliunits.magnitude
        var decimals = "\(1000 + magnitude % 1000)".dropFirst()
        while decimals.count > 2, decimals.hasSuffix("0") { decimals.removeLast() }
        return "\(milliunits < 0 ? "-" : "")\(magnitude / 1000).\(decimals)"
    }

    private static func pad(_ indent: Int) -> String { String(repeating: "  ", count: indent) }

    /// Names with their values, indented. Names without a value are omitted.
    static func list(_ rows: [(name: String, value: String?)]) -> String {
        let rows = rows.compactMap { row in row.value.map { (row.name, $0) } }.filter { !$0.1.isEmpty }
        let width = rows.map(\.0.count).max() ?? 0
        return rows.map { "  \($0.padded(to: width).styled(.dim))  \($1.shortened.printable)\n" }.joined()
    }

    private static func purchases(_ purchases: [InAppPurchase]) -> String {
        guard !purchases.isEmpty else { return "" }
        let rows = purchases.map { purchase in
            [
                purchase.productId, purchase.transactionId, purchase.quantity.map { "\($0)" },
                purchase.purchaseDate?.iso8601, purchase.expiresDate?.iso8601, purchase.cancellationDate?.iso8601,
            ].map { ($0 ?? "").shortened.printable }
        }
        return "\n" + table(["product", "transaction", "quantity", "bought", "expires", "cancelled"], rows)
    }

    /// Rows below the titles of their columns, indented. Columns without a value are omitted.
    static func table(_ titles: [String], _ rows: [[String]]) -> String {
        let columns = titles.indices.filter { column in rows.contains { !$0[column].isEmpty } }
        let widths = titles.indices.map { column in
            max(titles[column].count, rows.map { $0[column].count }.max() ?? 0)
        }
        func line(_ cells: [String]) -> String {
            columns.map { $0 == columns.last ? cells[$0] : cells[$0].padded(to: widths[$0]) }.joined(separator: "  ")
        }
        return "  " + line(titles).styled(.dim) + "\n" + rows.map { "  " + line($0) + "\n" }.joined()
    }
}
