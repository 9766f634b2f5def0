// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding

/// Documents laid out for people.
enum Report {
    /// - Parameter container: What holds the receipt, where that matters.
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
            rows += receipt.otherAttributes.filter(\.saysSomething).map { ("attribute \($0.type)", hex($0.value)) }
        }
        rows.append(("purchases", "\(receipt.inAppPurchases.count)"))
        return "app receipt".styled(.bold) + "\n" + list(rows) + purchases(receipt.inAppPurchases)
    }

    static func payload(_ payload: JSONValue, _ kind: SignedKind?) -> String {
        (kind?.title ?? "token of an unknown kind").styled(.bold) + "\n" + members(payload)
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
        rows += receipt.purchase.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        return "old transaction receipt".styled(.bold) + "\n" + list(rows)
    }

    /// The members of a JSON object; dates readable beside their milliseconds.
    static func members(_ json: JSONValue, indent: Int = 1) -> String {
        guard let members = json.members else { return json.compactText.printable }
        let width = members.map(\.name.count).max() ?? 0
        return members.map { member in
            let name =
                String(repeating: "  ", count: indent) + member.name.printable.padded(to: min(width, 40)).styled(.dim)
            switch member.value {
            case .object: return "\(name)\n" + Self.members(member.value, indent: indent + 1)
            default: return "\(name)  \(value(member))\n"
            }
        }.joined()
    }

    private static func value(_ member: JSONValue.Member) -> String {
        if let text = member.value.string { return text.shortened.printable }
        if let milliseconds = member.value.integer, member.name.hasSuffix("Date") {
            return "\(milliseconds)  \(Timestamp(milliseconds: milliseconds).iso8601)"
        }
        return member.value.compactText.shortened.printable
    }

    private static func list(_ rows: [(name: String, value: String?)]) -> String {
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
        let titles = ["product", "transaction", "quantity", "bought", "expires", "cancelled"]
        // A column without a single value is not worth its width.
        let columns = titles.indices.filter { column in rows.contains { !$0[column].isEmpty } }
        let widths = titles.indices.map { column in
            max(titles[column].count, rows.map { $0[column].count }.max() ?? 0)
        }
        func line(_ cells: [String]) -> String {
            columns.map { $0 == columns.last ? cells[$0] : cells[$0].padded(to: widths[$0]) }.joined(separator: "  ")
        }
        return "\n  " + line(titles).styled(.dim) + "\n" + rows.map { "  " + line($0) + "\n" }.joined()
    }

    private static func hex(_ bytes: ArraySlice<UInt8>) -> String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }
}

extension ReceiptAttribute {
    /// Whether there is more to it than an empty text or a 0, by which receipts say “none”.
    fileprivate var saysSomething: Bool {
        value.count > 2 && Array(value) != [0x02, 0x01, 0x00]
    }
}

extension SignedKind {
    fileprivate var title: String {
        switch self {
        case .receipt: "app receipt"
        case .transaction: "transaction"
        case .renewalInfo: "renewal info"
        case .appTransaction: "app transaction"
        case .notification: "server notification"
        case .retentionRequest: "retention messaging request"
        }
    }
}

extension String {
    /// At most 120 characters, since a token inside of a notification has thousands.
    fileprivate var shortened: String {
        count <= 120 ? self : "\(prefix(117))…"
    }
}
