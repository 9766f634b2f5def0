// SPDX-License-Identifier: Apache-2.0

// The purchase of the app itself: the facts of a signed app transaction, and of a receipt's own attributes.

package import AppStoreModel
import ReceiptCoding

extension ChainKey {
    /// The id of the app's purchase; `nil` for any other chain, and for a purchase that only documents without an id
    /// prove.
    public var appTransactionId: String? { ChainName.appTransactionId(in: name) }

    /// Whether the purchase of the app is known by its second alone. Many customers may have bought the app in the same
    /// second, and nothing tells their documents apart.
    var isSharedAppPurchase: Bool { isAppPurchase && appTransactionId == nil }
}

extension Open<ProductType> {
    /// The type of a purchase of the app itself. Apple has no such word.
    package static let app = Open(rawValue: "App")
}

extension TransactionStatement {
    /// Whether the statement is about a purchase of the app itself. Such a statement has no product, and its
    /// ``transactionId`` is the name of its chain.
    public var isAppPurchase: Bool { ChainName.isAppPurchase(chainName) }

    /// The id of the app's purchase; `nil` for any other purchase, and if the document has none.
    public var appTransactionId: String? { ChainName.appTransactionId(in: chainName) }

    /// A signed app transaction's statement.
    ///
    /// - Returns: `nil` if the document does not tell the purchase from others, as in Xcode.
    init?(_ app: AppTransaction, provenance: Provenance, in environment: Environment) {
        let name = ChainName.app(app.appTransactionId, bought: app.originalPurchaseDate, in: environment)
        guard let name else { return nil }
        self.init(appPurchase: name, source: .signedTransaction, provenance, app.originalPurchaseDate)
        originalApplicationVersion = app.originalApplicationVersion
        originalPlatform = app.originalPlatform
        receiptType = app.receiptType?.rawValue
    }

    /// The statement in a receipt's own attributes.
    ///
    /// - Returns: `nil` if the receipt does not tell the purchase from others, as in the sandbox.
    init?(_ receipt: AppReceipt, provenance: Provenance, in environment: Environment) {
        let name = ChainName.app(nil, bought: receipt.originalPurchaseDate, in: environment)
        guard let name else { return nil }
        self.init(appPurchase: name, source: .receipt, provenance, receipt.originalPurchaseDate)
        originalApplicationVersion = receipt.originalApplicationVersion
        receiptType = receipt.receiptType?.rawValue
        // Only a volume purchase ends. Xcode writes a date in the year 4001 into every receipt.
        expiresDate = receiptType?.contains("VPP") == true ? receipt.expirationDate : nil
    }

    private init(appPurchase name: String, source: Source, _ provenance: Provenance, _ date: Timestamp?) {
        self.init(source: source, provenance: provenance, transactionId: name, chain: name, productId: "")
        type = .app
        purchaseDate = date
    }

    /// The earliest of a customer's purchases of the app. A receipt and an app transaction of the same purchase have
    /// different chains if the app transaction has an id. Of purchases in the same second, the purchase with an id
    /// counts, with the receipt type of the receipt, because only a receipt tells a volume purchase.
    ///
    /// - Returns: `nil` without purchases.
    init?(earliestOf purchases: [TransactionStatement]) {
        func rank(_ purchase: TransactionStatement) -> (Int64, Int, String) {
            let second = (purchase.purchaseDate ?? .distantFuture).second
            return (second, purchase.appTransactionId == nil ? 1 : 0, purchase.transactionId)
        }
        guard let first = purchases.min(by: { rank($0) < rank($1) }) else { return nil }
        self = first
        let receipt = purchases.first { $0.source == .receipt && rank($0).0 == rank(first).0 }
        receiptType = receipt?.receiptType ?? receiptType
    }
}
