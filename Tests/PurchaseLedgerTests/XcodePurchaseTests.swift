// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding
import TestData
import Testing

/// Tests purchases of environments without an App Store, in which ids begin at 0 on every Mac.
@Suite struct XcodePurchaseTests {
    private static let scope = LedgerScope(bundleId: Facts.scope.bundleId, environment: .xcode)
    private static let catalogue = Catalogue(products: [
        "month": .init(entitlements: ["pro"]), "lifetime": .init(entitlements: ["pro"]),
        "year": .init(entitlements: ["pro"]),
    ])

    /// The first transaction of a Mac, with the id 0 as StoreKit Testing writes it.
    private static func first(
        _ signed: SignedHistory, _ product: String, bought: Double, type: ProductType = .autoRenewableSubscription
    ) async throws -> Evidence {
        let until = type == .autoRenewableSubscription ? bought + 30 : nil
        return try await signed.evidence(
            transaction: signed.transaction(
                "0", original: "0", product: product, signed: bought, from: bought, until: until, type: type
            ) {
                $0.environment = Open(.xcode)
                $0.originalPurchaseDate = $0.purchaseDate
                ($0.webOrderLineItemId, $0.appTransactionId) = ("0", "0")
            })
    }

    private static func entitlements(_ id: String, in ledger: Ledger) async throws -> [String] {
        let holdings = try await ledger.holdings(of: id, in: scope, at: Facts.day(3))
        return (holdings?.entitlements ?? []).map { "\($0.name) by \($0.productId ?? "")" }
    }

    @Test(arguments: TestStorage.allCases)
    func `two developers whose purchases have one id keep their own`(_ storage: TestStorage) async throws {
        let (ledger, signed) = (Ledger(Self.catalogue, in: storage.make()), try SignedHistory(in: [.xcode]))
        let anna = try await Self.first(signed, "month", bought: 0)
        let bob = try await Self.first(signed, "lifetime", bought: 1, type: .nonConsumable)
        #expect(try await ledger.record([anna], claimedBy: "anna", at: Facts.day(2)).kept.isEmpty)
        #expect(try await ledger.record([bob], claimedBy: "bob", at: Facts.day(2)).kept.isEmpty)
        #expect(try await Self.entitlements("anna", in: ledger) == ["pro by month"])
        #expect(try await Self.entitlements("bob", in: ledger) == ["pro by lifetime"])
        let purchases = try #require(try await ledger.customer("anna", in: Self.scope, at: Facts.day(3))).purchases
        #expect(purchases.map(\.originalTransactionId) == ["0"], "answers have the id of the document")
        let events = try await ledger.events().events
        #expect(events.compactMap(\.originalTransactionId).allSatisfy { $0 == "0" })
        #expect(try await ledger.payments().map(\.content?.productId) == ["month", "lifetime"])
    }

    @Test func `an id leads to the newest purchase with it, whichever was recorded last`() async throws {
        let signed = try SignedHistory(in: [.xcode])
        let older = try await Self.first(signed, "month", bought: 0)
        let newer = try await Self.first(signed, "year", bought: 1)
        for documents in [[older, newer], [newer, older]] {
            let ledger = Ledger(Self.catalogue)
            for document in documents { _ = try await ledger.record([document], claimedBy: "anna", at: Facts.day(2)) }
            let chain = try #require(try await ledger.chain(ChainKey("0", in: Self.scope)))
            #expect(chain.purchases.map(\.productId) == ["year"])
            #expect(try await ledger.transaction(TransactionKey("0", in: Self.scope))?.productId == "year")
            #expect(try await Self.entitlements("anna", in: ledger) == ["pro by year"])
        }
    }

    @Test func `after the newest purchase with an id was erased, the id leads to another one`() async throws {
        let (ledger, signed) = (Ledger(Self.catalogue), try SignedHistory(in: [.xcode]))
        let (older, newer) = (
            try await Self.first(signed, "month", bought: 0), try await Self.first(signed, "year", bought: 1)
        )
        _ = try await ledger.record([newer], claimedBy: "bob", at: Facts.day(2))
        // Signed last, and bought first: both look-ups answer the one that was bought last.
        _ = try await ledger.record([older], claimedBy: "anna", at: Facts.day(2))
        #expect(try await ledger.transaction(TransactionKey("0", in: Self.scope))?.productId == "year")
        #expect(try await ledger.chain(ChainKey("0", in: Self.scope))?.purchases.map(\.productId) == ["year"])
        _ = try await ledger.delete("bob", in: Self.scope, at: Facts.day(3))
        #expect(try await ledger.transaction(TransactionKey("0", in: Self.scope))?.productId == "month")
        #expect(try await ledger.chain(ChainKey("0", in: Self.scope))?.purchases.map(\.productId) == ["month"])
    }

    @Test func `a first purchase in a receipt is the purchase of its token`() async throws {
        let (ledger, signed) = (Ledger(Self.catalogue), try SignedHistory(in: [.xcode]))
        let token = try await Self.first(signed, "month", bought: 0)
        var receipt = try JWSTransactionDecodedPayload(token.statements[0])
        receipt.originalTransactionId = nil
        let provenance = Facts.provenance(1, "receipt")
        let stated = try #require(
            TransactionStatement(receipt, source: .receipt, provenance: provenance, in: .xcode))
        #expect(stated.chainName == token.statements[0].chainName)
        _ = try await ledger.record([token], claimedBy: "anna", at: Facts.day(2))
        #expect(try await ledger.chain(ChainKey(stated.chainName, in: Self.scope)) != nil)
    }

    /// The name of the chain of a transaction in an environment.
    struct Naming: Sendable {
        var environment: Environment
        var original: String?
        var originalDate: Double?
        var name: String
    }

    @Test(arguments: [
        Naming(environment: .production, original: "0", originalDate: 0, name: "0"),
        Naming(environment: .sandbox, original: "7", originalDate: nil, name: "7"),
        Naming(environment: .xcode, original: "7", originalDate: 0, name: "7@1700000000"),
        Naming(environment: .localTesting, original: "7", originalDate: 0, name: "7@1700000000"),
        Naming(environment: .xcode, original: "7", originalDate: nil, name: "7@"),
        Naming(environment: .xcode, original: "8", originalDate: nil, name: "8@1700086400"),
        Naming(environment: .xcode, original: nil, originalDate: nil, name: "8@1700086400"),
    ])
    func `the name of a chain follows from the document alone`(_ naming: Naming) throws {
        var payload = JWSTransactionDecodedPayload()
        (payload.transactionId, payload.productId) = ("8", "month")
        payload.purchaseDate = Timestamp(milliseconds: Facts.day(1).milliseconds + 999)
        payload.originalTransactionId = naming.original
        payload.originalPurchaseDate = naming.originalDate.map(Facts.day)
        let statement = try #require(
            TransactionStatement(
                payload, source: .signedTransaction, provenance: Facts.provenance(1, ""), in: naming.environment))
        #expect(statement.chainName == naming.name)
        #expect(statement.originalTransactionId == naming.original ?? "8")
    }

    @Test(.enabled(if: TestData.isThere, Comment(rawValue: TestData.whyNot)))
    func `a genuine token of Xcode entitles, with its id 0`() async throws {
        let token = try TestData.bytes("jws/xcode-signed-transaction")
        let certificate = try #require(Base64.decode(JWS(token).header().x5c[0].utf8))
        let verifier = AppStoreVerifier(apps: .any, environments: [.xcode], roots: try TrustRoots(reading: certificate))
        let verified = try await verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: Facts.day(0))
        let evidence = try #require(Evidence(verified))
        #expect(evidence.chains.map(\.name) == ["0@1697679936"])
        let catalogue = Catalogue(products: ["pass.premium": .init(entitlements: ["pro"])])
        let ledger = Ledger(
            storage: MemoryLedgerStorage(), rules: LedgerRules(catalogues: [evidence.scope.bundleId: catalogue]))
        let bought = try #require(evidence.statements[0].purchaseDate)
        _ = try await ledger.record([evidence], claimedBy: "anna", at: bought)
        let answer = try #require(try await ledger.customer("anna", in: evidence.scope, at: bought))
        #expect(answer.holdings.entitlements.map(\.originalTransactionId) == ["0"])
        #expect(try await ledger.rebuild(by: verifier, at: bought).differing == [])
    }

    @Test func `a rebuild and a check find no difference`() async throws {
        let (ledger, signed) = (Ledger(Self.catalogue), try SignedHistory(in: [.xcode]))
        for (product, day) in [("month", 0.0), ("year", 1)] {
            _ = try await ledger.record(
                [Self.first(signed, product, bought: day)], claimedBy: "anna", at: Facts.day(2))
        }
        #expect(try await ledger.check(by: signed.verifier).faults == [])
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(3))
        #expect(rebuilt.differing == [] && rebuilt.faults == [])
    }
}

extension JWSTransactionDecodedPayload {
    /// A transaction with the members of a statement that name its chain.
    fileprivate init(_ statement: TransactionStatement) throws {
        self.init()
        transactionId = statement.transactionId
        productId = statement.productId
        purchaseDate = statement.purchaseDate
        expiresDate = statement.expiresDate
    }
}
