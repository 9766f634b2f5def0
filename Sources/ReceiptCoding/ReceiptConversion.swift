// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

extension AppReceipt {
    /// The receipt in the payloads of today, as far as a receipt knows.
    ///
    /// Unlike an answer of verifyReceipt, a receipt knows the kind of each product.
    public func modern() -> Conversion<DecodedPurchases> {
        var response = VerifyReceiptResponse(status: .valid)
        response.receipt = Receipt(self)
        var conversion = response.modern()
        conversion.leftovers += leftovers
        // Without rows of another list beside them, each purchase is one transaction, in its order.
        for (index, purchase) in zip(conversion.value.transactions.indices, inAppPurchases) {
            guard let type = purchase.productType else { continue }
            conversion.value.transactions[index].type = type.known?.modern.map { Open($0) }
            guard conversion.value.transactions[index].type == nil else { continue }
            conversion.leftovers.append(
                Leftover(path: "receipt.in_app[\(index)] (attribute 1707)", value: .number("\(type.rawValue)")))
        }
        return conversion
    }

    /// What has no name in the old world either.
    private var leftovers: [Leftover] {
        let named: [(Int, String?)] = [
            (4, bytes(opaqueValue)), (5, bytes(deviceHash)), (8, downloadDate?.iso8601), (9, fulfillmentToolVersion),
            (10, ageRating), (11, developerId.map { "\($0)" }), (13, clientVersion.map { "\($0)" }),
            (23, organizationDisplayName), (25, platform.map { "\($0)" }),
        ]
        var found = named.compactMap { type, text in
            text.map { Leftover(path: "receipt (attribute \(type))", value: .string($0)) }
        }
        found += otherAttributes.filter(\.saysSomething).map { $0.leftover("receipt") }
        for (index, purchase) in inAppPurchases.enumerated() {
            let path = "receipt.in_app[\(index)]"
            if let id = purchase.productItemId {
                found.append(Leftover(path: "\(path) (attribute 1710)", value: .string("\(id)")))
            }
            found += purchase.otherAttributes.filter(\.saysSomething).map { $0.leftover(path) }
        }
        return found
    }

    private func bytes(_ octets: ArraySlice<UInt8>) -> String? { octets.isEmpty ? nil : Base64.encode(octets) }
}

extension ReceiptAttribute {
    /// Whether there is more to it than an empty text or a 0, by which receipts say “none”, or Xcode's distant future.
    package var saysSomething: Bool {
        guard value.count > 2, Array(value) != [0x02, 0x01, 0x00] else { return false }
        return type != 21 || (try? date()) == nil
    }

    fileprivate func leftover(_ path: String) -> Leftover {
        Leftover(path: "\(path) (attribute \(type))", value: .string(Base64.encode(value)))
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
            JSONValue.Member(entry.key.replacing("-", with: "_"), .string(entry.value))
        }
        guard Set(members.map(\.name)).count == members.count else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: [], debugDescription: "Two entries that differ in hyphens and underscores only."))
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
