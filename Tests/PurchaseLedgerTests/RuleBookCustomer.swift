// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding
import TestWorld
import Testing

/// One line that `Tests/RuleBook/world.py` prints: a customer, the documents that the App Store signed, and the orders
/// in which they arrive.
struct RuleBookCustomer: Decodable {
    struct Document: Decodable {
        enum Kind: String, Decodable {
            case notification
            /// All transactions, as Apple's transaction history has them, or one transaction, as a device sends it.
            case transactions
            /// A transaction with its renewal info.
            case status
            case receipt
            case appTransaction
        }

        var kind: Kind
        var signedDate: Timestamp
        var envelope: ResponseBodyV2DecodedPayload?
        var transaction: JWSTransactionDecodedPayload?
        var transactions: [JWSTransactionDecodedPayload]?
        var renewal: JWSRenewalInfoDecodedPayload?
        var purchases: [Purchase]?
        /// An app transaction, or what a receipt says about the purchase of the app.
        var app: App?
    }

    /// An app transaction, with the end of a volume purchase, which only a receipt has.
    struct App: Decodable {
        var transaction: AppTransaction
        var expirationDate: Timestamp?

        init(from decoder: any Decoder) throws {
            transaction = try AppTransaction(from: decoder)
            expirationDate = try decoder.container(keyedBy: CodingKeys.self)
                .decodeIfPresent(Timestamp.self, forKey: .expirationDate)
        }

        private enum CodingKeys: CodingKey { case expirationDate }
    }

    /// A purchase in an app receipt.
    struct Purchase: Decodable {
        var transactionId: String
        var originalTransactionId: String
        var productId: String
        var productType: Int64
        var purchaseDate: Timestamp
        var originalPurchaseDate: Timestamp
        var quantity: Int64
        var expiresDate: Timestamp?
        var cancellationDate: Timestamp?
        var webOrderLineItemId: Int64?
    }

    /// Delivers a document at a time (`deliver` and `at`), or asks what the customer has at a time (`ask`).
    struct Step: Decodable {
        var deliver: Int?
        var at: Timestamp?
        var ask: Timestamp?
    }

    struct Products: Decodable {
        struct Product: Decodable {
            var entitlements: Set<String>
            var level: Int?
            var duration: Int64?
        }

        struct AppRule: Decodable {
            var beforeVersion: String?
            var beforeDate: Timestamp?
            var platform: Open<PurchasePlatform>?
            var entitlements: Set<String>
        }

        var staleLeeway: Int64
        var products: [String: Product]
        var appPurchase: [AppRule]?
        var refusedPurchases: Set<String>?
    }

    var customer: Int
    var catalogue: Products
    var documents: [Document]
    /// Several orders of delivery. Each begins with an empty ledger.
    var plans: [[Step]]
}

// MARK: - Answers

extension RuleBookCustomer {
    /// An answer in the terms of `rulebook.py`.
    struct Answer: Encodable {
        struct Subscription: Encodable {
            var status: String
            var transactionId: String
            var productId: String
            var hasAccess: Bool
            var until: Timestamp?
            var willRenew: Bool?
            var next: String?
        }

        /// A purchase that is neither a subscription nor used up.
        struct Purchase: Encodable {
            var transactionId: String
            var hasAccess: Bool
            var until: Timestamp?
        }

        struct Entitlement: Encodable {
            var name: String
            var reason: String
            var productId: String
            /// The transaction or the grant that gives the entitlement.
            var source: String?
            var until: Timestamp?
        }

        struct Consumable: Encodable {
            var transactionId: String
            var productId: String
            var quantity: Int
            var revoked: Int
        }

        var subscriptions: [String: Subscription] = [:]
        var entitlements: [Entitlement] = []
        var consumables: [Consumable] = []
        var purchases: [Purchase] = []
        /// The transactions whose refund was told in an event.
        var refundsTold: [String] = []
        var refused: Set<String> = []
        var nextChange: Timestamp?
    }

    /// Delivers each plan to a ledger of its own, and asks the questions.
    ///
    /// - Parameter history: Signs the documents that are dated before day 700, while its certificates are valid; `nil`
    ///   signs none. The evidence of the other documents is made without a signature.
    func answers(signing history: SignedHistory?) async throws -> [[Answer]] {
        var evidence: [[Evidence]] = []
        for document in documents { evidence.append(try await document.evidence(signing: history)) }
        var answers: [[Answer]] = []
        for plan in plans {
            let ledger = Ledger(Catalogue(catalogue))
            var planAnswers: [Answer] = []
            for step in plan {
                if let index = step.deliver, let at = step.at {
                    _ = try await ledger.record(evidence[index], claimedBy: "customer", at: at)
                } else if let now = step.ask {
                    let found = try await ledger.customer("customer", in: Facts.scope, at: now)
                    var answer = found.map(Answer.init) ?? Answer()
                    let events = try await ledger.events(of: Facts.scope.bundleId, limit: 10_000).events
                    answer.refundsTold = events.filter { $0.kind == .refunded || $0.kind == .shareEnded }
                        .compactMap(\.content?.transactionId)
                    planAnswers.append(answer)
                }
            }
            answers.append(planAnswers)
        }
        return answers
    }
}

extension RuleBookCustomer.Answer {
    init(_ answer: Ledger.CustomerAnswer) {
        let holdings = answer.holdings
        // All transactions of a non-consumable are one purchase.
        var nonConsumables: Set<String> = []
        purchases = answer.purchases.compactMap { purchase in
            guard let access = answer.access[purchase.transactionId], !purchase.isSubscription,
                purchase.type != .consumable,
                purchase.type == .nonRenewingSubscription || nonConsumables.insert(purchase.chainName).inserted
            else { return nil }
            return Purchase(transactionId: purchase.transactionId, hasAccess: access.isGiven, until: access.until)
        }
        subscriptions = holdings.subscriptions.mapValues {
            Subscription(
                status: $0.status.rawValue, transactionId: $0.governing.transactionId,
                productId: $0.governing.productId, hasAccess: $0.hasAccess, until: $0.accessUntil,
                willRenew: $0.willRenew,
                next: $0.renewal?.autoRenewProductId)
        }
        entitlements = holdings.entitlements.map {
            Entitlement(
                name: $0.name, reason: $0.reason.rawValue, productId: $0.productId ?? "",
                source: $0.transactionId ?? $0.grantId, until: $0.until)
        }
        consumables = holdings.consumables.map {
            Consumable(
                transactionId: $0.transactionId, productId: $0.productId, quantity: $0.quantity,
                revoked: $0.revokedQuantity)
        }
        refused = holdings.refused
        nextChange = holdings.nextChange
    }
}

extension Catalogue {
    init(_ catalogue: RuleBookCustomer.Products) {
        self.init(
            products: catalogue.products.mapValues {
                Product(
                    entitlements: $0.entitlements, level: $0.level, duration: $0.duration.map { .milliseconds($0) })
            }, staleLeeway: .milliseconds(catalogue.staleLeeway), refusedPurchases: catalogue.refusedPurchases ?? [])
        appPurchase = (catalogue.appPurchase ?? []).map {
            AppPurchaseRule(
                beforeVersion: $0.beforeVersion.flatMap(AppVersion.init), beforeDate: $0.beforeDate,
                platform: $0.platform, entitlements: $0.entitlements)
        }
    }
}

// MARK: - Evidence

extension RuleBookCustomer.Document {
    /// The evidence that arrives with the document.
    func evidence(signing history: SignedHistory?) async throws -> [Evidence] {
        // The signers' certificates expire on day 720, two years after day -10.
        if let history, signedDate < Facts.day(700) { return try await signed(by: history) }
        switch kind {
        case .transactions: return try (transactions ?? []).map { try Evidence(unsigned: $0) }
        case .status: return try [Evidence(unsigned: #require(transaction)), Evidence(unsigned: #require(renewal))]
        case .notification: return [try unsignedNotification()]
        case .receipt: return [try unsignedReceipt()]
        case .appTransaction: throw NeedsSignature()
        }
    }

    /// The document occurs only where all documents are signed.
    private struct NeedsSignature: Error {}

    private func signed(by history: SignedHistory) async throws -> [Evidence] {
        switch kind {
        case .transactions:
            var evidence: [Evidence] = []
            for transaction in transactions ?? [] {
                evidence.append(try await history.evidence(transaction: history.sign(transaction)))
            }
            return evidence
        case .status:
            let verifier = history.verifier
            let transaction = try await verifier.verify(
                history.sign(#require(transaction)).utf8, as: JWSTransactionDecodedPayload.self, at: signedDate)
            let renewal = try await verifier.verify(
                history.sign(#require(renewal)).utf8, as: JWSRenewalInfoDecodedPayload.self, at: signedDate)
            return [try #require(Evidence(transaction)), try #require(Evidence(renewal, boundBy: transaction))]
        case .notification:
            var payload = try #require(envelope)
            payload.data?.signedTransactionInfo = try transaction.map(history.sign)
            payload.data?.signedRenewalInfo = try renewal.map(history.sign)
            return [try await history.evidence(notification: history.sign(payload))]
        case .receipt:
            var receipt = TestStore.receipt(try #require(purchases).map(InAppPurchase.init))
            receipt.receiptCreationDate = signedDate
            if let app {
                receipt.receiptType = app.transaction.receiptType.map { Open(rawValue: $0.rawValue) }
                receipt.originalPurchaseDate = app.transaction.originalPurchaseDate
                receipt.originalApplicationVersion = app.transaction.originalApplicationVersion
                receipt.expirationDate = app.expirationDate
            }
            return [try await history.verifier.evidence(receipt: history.sign(receipt), at: Facts.day(0))]
        case .appTransaction:
            let token = try history.sign(#require(app).transaction)
            return [try await history.verifier.evidence(appTransaction: token, at: Facts.day(0))]
        }
    }

    private func unsignedNotification() throws -> Evidence {
        let payload = try #require(envelope)
        let parts = try [
            transaction.map { try Evidence(unsigned: $0) }, renewal.map { try Evidence(unsigned: $0) },
        ].compactMap { $0 }
        let notification = Evidence.Notification(
            uuid: payload.notificationUUID, type: payload.notificationType?.rawValue ?? "",
            subtype: payload.subtype?.rawValue)
        return Evidence(
            .notification, try Evidence.document(payload), Facts.scope, signedDate, parts: parts,
            notification: notification
        ) { _ in (parts.flatMap(\.statements), parts.flatMap(\.renewals).map { $0.completed(by: payload) }) }
    }

    private func unsignedReceipt() throws -> Evidence {
        let purchases = try #require(purchases)
        var receipt = AppReceipt()
        receipt.receiptType = Open(.production)
        receipt.bundleId = Facts.scope.bundleId
        receipt.receiptCreationDate = signedDate
        receipt.inAppPurchases = purchases.map(InAppPurchase.init)
        let transactions = receipt.modern().value.transactions
        let name = "\(signedDate.milliseconds) \(purchases)"
        return Evidence(.receipt, Array(name.utf8), Facts.scope, signedDate) { provenance in
            (
                transactions.compactMap {
                    TransactionStatement($0, source: .receipt, provenance: provenance, in: .production)
                }, []
            )
        }
    }
}

extension Evidence {
    /// The payload's JSON and a dot. As in a token, the id of the evidence covers the bytes up to the last dot.
    fileprivate static func document(_ payload: some Encodable) throws -> [UInt8] {
        Array(try JSONValue(encoding: payload).compactText.utf8) + Array(".".utf8)
    }

    fileprivate init(unsigned payload: JWSTransactionDecodedPayload) throws {
        self.init(.transaction, try Self.document(payload), Facts.scope, payload.signedDate) { provenance in
            let statement = TransactionStatement(
                payload, source: .signedTransaction, provenance: provenance, in: .production)
            return ([statement].compactMap { $0 }, [])
        }
    }

    fileprivate init(unsigned payload: JWSRenewalInfoDecodedPayload) throws {
        self.init(.renewalInfo, try Self.document(payload), Facts.scope, payload.signedDate) { provenance in
            ([], [RenewalFact(payload, provenance: provenance)].compactMap { $0 })
        }
    }
}

extension InAppPurchase {
    init(_ purchase: RuleBookCustomer.Purchase) {
        self.init()
        transactionId = purchase.transactionId
        originalTransactionId = purchase.originalTransactionId
        productId = purchase.productId
        productType = Open(rawValue: purchase.productType)
        purchaseDate = purchase.purchaseDate
        originalPurchaseDate = purchase.originalPurchaseDate
        quantity = purchase.quantity
        expiresDate = purchase.expiresDate
        cancellationDate = purchase.cancellationDate
        webOrderLineItemId = purchase.webOrderLineItemId
    }
}
