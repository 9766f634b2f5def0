// SPDX-License-Identifier: Apache-2.0

// Converts receipts to today's payloads, by way of a verifyReceipt answer made from the receipt.

public import AppStoreModel

extension AppReceipt {
    /// Converts the receipt to today's payloads.
    ///
    /// Unlike an answer of verifyReceipt, a receipt names the kind of each product, so the transactions have a `type`.
    public func modern() -> Conversion<DecodedPurchases> {
        var response = VerifyReceiptResponse(status: .valid)
        response.receipt = Receipt(self)
        var conversion = response.modern()
        conversion.leftovers += leftovers
        // `in_app` is the only list of purchases in `response`, so each purchase became one transaction, in the same
        // order.
        for (index, purchase) in zip(conversion.value.transactions.indices, inAppPurchases) {
            guard let type = purchase.productType else { continue }
            conversion.value.transactions[index].type = type.known?.modern.map { Open($0) }
            guard conversion.value.transactions[index].type == nil else { continue }
            conversion.leftovers.append(
                Leftover(path: "receipt.in_app[\(index)] (attribute 1707)", value: .number("\(type.rawValue)")))
        }
        return conversion
    }

    /// The attributes that are not converted, because a verifyReceipt answer has no member for them.
    private var leftovers: [Leftover] {
        let purchases = inAppPurchases.enumerated().flatMap { index, purchase in
            // `modern()` converts attribute 1707.
            purchase.leftovers("receipt.in_app[\(index)]", besides: [1701...1708, 1711...1713, 1719...1721])
        }
        return leftovers("receipt", besides: [0...3, 12...12, 15...19, 21...21, 32...32]) + purchases
    }
}

extension AttributeSet {
    /// All attributes with a value, except the attributes of the types `converted`.
    fileprivate func leftovers(_ path: String, besides converted: [ClosedRange<Int64>]) -> [Leftover] {
        var set = self
        let visitor = LeftoverVisitor(path: path)
        for type in Self.types where !converted.contains(where: { $0.contains(type) }) {
            visitor.type = type
            _ = set.visit(visitor)
        }
        return visitor.leftovers + otherAttributes.filter(\.hasValue).map { $0.leftover(path) }
    }
}

/// Collects, as text, the attribute of each property that has a value.
private final class LeftoverVisitor: AttributeVisitor {
    typealias Failure = Never

    let path: String
    var type: Int64 = 0
    private(set) var leftovers: [Leftover] = []

    init(path: String) {
        self.path = path
    }

    private func append(_ text: String) -> Bool {
        leftovers.append(Leftover(path: "\(path) (attribute \(type))", value: .string(text)))
        return true
    }

    func value<Form: AttributeForm>(_ property: inout Form.Value?, _ form: Form.Type) -> Bool {
        property.map { append(Form.text($0)) } ?? false
    }

    func text(_ property: inout String?, encoded: inout ArraySlice<UInt8>) -> Bool {
        property.map { append($0) } ?? false
    }

    func bytes(_ property: inout ArraySlice<UInt8>, version: Int64) -> Bool {
        property.isEmpty ? false : append(Base64.encode(property))
    }

    // The leftovers of each purchase are collected separately.
    func sets<Element: AttributeSet>(_ property: inout [Element]) -> Bool { false }
}

extension ReceiptAttribute {
    /// Whether the attribute has a value. An empty text, 0 and Xcode's date in the year 4001 count as no value.
    package var hasValue: Bool {
        guard value.count > 2, Array(value) != [0x02, 0x01, 0x00] else { return false }
        // An unreadable date is a value.
        return type != 21 || (try? date()) == nil
    }

    fileprivate func leftover(_ path: String) -> Leftover {
        Leftover(path: "\(path) (attribute \(type))", value: .string(Base64.encode(value)))
    }
}

extension ReceiptProductType {
    /// The same kind in today's vocabulary; `nil` for Newsstand, because today's vocabulary has no such word.
    fileprivate var modern: ProductType? {
        switch self {
        case .nonConsumable: .nonConsumable
        case .consumable: .consumable
        case .nonRenewingSubscription: .nonRenewingSubscription
        case .autoRenewableSubscription: .autoRenewableSubscription
        case .freeSubscription: nil
        }
    }
}

extension TransactionReceipt {
    /// The purchase as verifyReceipt returns it: names with underscores in place of hyphens.
    ///
    /// - Throws: `DecodingError` if a value has an unexpected form, or if two names differ only in hyphens and
    ///   underscores.
    public func info() throws(DecodingError) -> TransactionReceiptInfo {
        let members = purchase.sorted { $0.key < $1.key }.map { entry in
            JSONValue.Member(entry.key.replacing("-", with: "_"), .string(entry.value))
        }
        guard Set(members.map(\.name)).count == members.count else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: [], debugDescription: "Two entries differ in hyphens and underscores only."))
        }
        return try TransactionReceiptInfo(.object(members))
    }

    /// Converts the purchase to today's payloads. The environment is not converted, because it is not signed. It is one
    /// of the `leftovers` of the result.
    ///
    /// - Throws: `DecodingError` if a value has an unexpected form, or if two names differ only in hyphens and
    ///   underscores.
    public func modern() throws(DecodingError) -> Conversion<DecodedPurchases> {
        let transaction = try info().modern(environment: nil)
        var leftovers = transaction.leftovers
        if let environment { leftovers.append(Leftover(path: "environment", value: .string(environment))) }
        return Conversion(value: DecodedPurchases(transactions: [transaction.value]), leftovers: leftovers)
    }
}
