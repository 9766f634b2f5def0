// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

extension AppReceipt {
    /// The receipt in the payloads of today, as far as a receipt knows.
    ///
    /// Unlike an answer of verifyReceipt, a receipt knows the kind of each product. Attributes that have no name in the old
    /// world either are not among the leftovers; `otherAttributes` has them.
    public func modern() -> Conversion<DecodedPurchases> {
        var response = VerifyReceiptResponse(status: .valid)
        response.receipt = Receipt(self, requestDate: nil)
        var conversion = response.modern()
        let types = Dictionary(inAppPurchases.map { ($0.transactionId, $0.productType?.known) }) { first, _ in first }
        for index in conversion.value.transactions.indices {
            let transaction = conversion.value.transactions[index]
            guard let type = types[transaction.transactionId]??.modern else { continue }
            conversion.value.transactions[index].type = Open(type)
        }
        return conversion
    }
}

extension ReceiptProductType {
    /// The same kind in the words of today; Newsstand's has none.
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
    /// The purchase as verifyReceipt would answer it: names with underscores in place of hyphens.
    ///
    /// - Throws: `DecodingError` where a value is of another form.
    public func info() throws(DecodingError) -> TransactionReceiptInfo {
        let members = purchase.sorted { $0.key < $1.key }.map { entry in
            JSONValue.Member(entry.key.split(separator: "-").joined(separator: "_"), .string(entry.value))
        }
        return try TransactionReceiptInfo(.object(members))
    }

    /// The purchase in the payloads of today. The environment is nobody's signed word, and so left over.
    ///
    /// - Throws: `DecodingError` where a value is of another form.
    public func modern() throws(DecodingError) -> Conversion<DecodedPurchases> {
        let transaction = try info().modern(environment: nil)
        var leftovers = transaction.leftovers
        if let environment { leftovers.append(Leftover(path: "environment", value: .string(environment))) }
        return Conversion(value: DecodedPurchases(transactions: [transaction.value]), leftovers: leftovers)
    }
}
