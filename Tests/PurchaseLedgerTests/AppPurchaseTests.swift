// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import PurchaseLedgerTesting
import ReceiptCoding
import TestData
import TestWorld
import Testing

/// Tests the purchase of the app itself: a fact of the customer that presents an app transaction or a receipt.
@Suite struct AppPurchaseTests {
    private static let rule = AppPurchaseRule(beforeVersion: AppVersion("50"), entitlements: ["pro"])

    private static func ledger(
        _ rules: [AppPurchaseRule] = [rule], refusing refused: Set<String> = [],
        policy: ClaimPolicy = .accountTokenWins, in storage: any LedgerStorage = MemoryLedgerStorage()
    ) -> Ledger {
        var catalogue = Catalogue(products: ["month": .init(entitlements: ["pro"])], refusedPurchases: refused)
        catalogue.appPurchase = rules
        return Ledger(
            storage: storage,
            rules: LedgerRules(catalogues: [Facts.scope.bundleId: catalogue], claimPolicy: policy))
    }

    private static func evidence(_ app: AppTransaction, _ signed: SignedHistory) async throws -> Evidence {
        try await signed.verifier.evidence(appTransaction: signed.sign(app), at: Facts.day(0))
    }

    private static func receipt(
        _ signed: SignedHistory, purchases: [InAppPurchase] = [], created: Double = 0,
        _ change: (inout AppReceipt) -> Void = { _ in }
    ) async throws -> Evidence {
        var receipt = TestStore.receipt(purchases, created: created)
        receipt.originalPurchaseDate = TestStore.day(-100)
        receipt.originalApplicationVersion = "41"
        change(&receipt)
        return try await signed.verifier.evidence(receipt: signed.sign(receipt), at: Facts.day(0))
    }

    private static func answer(
        _ ledger: Ledger, _ customer: String = "anna", in scope: LedgerScope = Facts.scope
    ) async throws -> Ledger.CustomerAnswer {
        try #require(try await ledger.customer(customer, in: scope, at: Facts.day(1)))
    }

    private static func documents(_ ledger: Ledger) async throws -> Int {
        try await ledger.storage.documents(.all, after: nil, limit: 1000).items.count
    }

    // MARK: - Facts

    @Test func `an app transaction is a fact of its customer, and no transaction`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let evidence = try await Self.evidence(TestStore.appTransaction(), signed)
        let result = try await ledger.record([evidence], claimedBy: "anna", at: Facts.day(1))
        #expect((result.new, result.known, result.notices) == (1, 0, [:]))
        let answer = try await Self.answer(ledger)
        let app = try #require(answer.app)
        #expect(app.appTransactionId == "700" && app.purchaseDate == TestStore.day(-100))
        #expect(app.originalApplicationVersion == "41" && app.originalPlatform == .iOS)
        #expect(app.receiptType == "Production" && app.provenance == evidence.provenance)
        #expect(answer.purchases == [] && answer.transferred == [])
        var holdings = answer.holdings
        #expect(holdings.entitlements.map(\.name) == ["pro"])
        #expect(holdings.entitlements.first?.reason == .appPurchase && holdings.entitlements.first?.until == nil)
        #expect(holdings.entitlements.first?.productId == nil && holdings.entitlements.first?.transactionId == nil)
        holdings.entitlements = []
        #expect(holdings == Holdings())
        #expect(try await ledger.soldProducts().products == [:])
        for id in ["700", "app:700"] {
            let key = TransactionKey(id, in: Facts.scope)
            #expect(try await ledger.chain(of: key) == nil)
            #expect(try await ledger.transaction(key) == nil)
            #expect(try await ledger.consent(about: key) == nil)
        }
    }

    @Test(arguments: ClaimPolicy.allCases)
    func `buyers of the same second share what a receipt proves, up to 16 of them`(policy: ClaimPolicy) async throws {
        let (ledger, signed) = (Self.ledger(policy: policy), try SignedHistory())
        for number in 1...18 {
            let receipt = try await Self.receipt(signed) { $0.applicationVersion = "\(number)" }
            let result = try await ledger.record([receipt], claimedBy: "buyer \(number)", at: Facts.day(1))
            #expect(result.kept.isEmpty == (number <= 16) && result.tooManyOwners == result.kept)
            #expect(result.claimants.values.max() ?? 1 == min(number, 16))
        }
        for number in 1...18 {
            let names = try await Self.answer(ledger, "buyer \(number)").holdings.entitlements.map(\.name)
            #expect(names == (number <= 16 ? ["pro"] : []), "buyer \(number)")
        }
    }

    private static let ends: [(type: String, end: Double?, entitled: Double, until: Double?)] = [
        ("ProductionVPP", 5, 4, 5), ("ProductionVPP", nil, 400, nil), ("Production", 5, 400, nil),
    ]

    @Test(arguments: ends) func `only a volume purchase ends, and its entitlement and its access say when`(
        type: String, end: Double?, entitled: Double, until: Double?
    ) async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let receipt = try await Self.receipt(signed) {
            $0.receiptType = Open(rawValue: type)
            $0.expirationDate = end.map(TestStore.day)
        }
        _ = try await ledger.record([receipt], claimedBy: "anna", at: Facts.day(1))
        func answer(_ day: Double) async throws -> Ledger.CustomerAnswer {
            try #require(try await ledger.customer("anna", in: Facts.scope, at: Facts.day(day)))
        }
        let before = try await answer(entitled)
        let app = try #require(before.app)
        #expect(before.holdings.entitlements.map(\.until) == [until.map(TestStore.day)])
        #expect(before.holdings.nextChange == until.map(TestStore.day))
        let access = try #require(before.access[app.transactionId])
        #expect(access.isGiven && access.until == until.map(TestStore.day))
        guard let until else { return }
        let after = try await answer(until)
        #expect(after.holdings.entitlements == [])
        #expect(after.access[app.transactionId]?.isGiven == false)
        #expect(after.access[app.transactionId]?.until == TestStore.day(until))
        _ = try await ledger.publishDueChanges(at: Facts.day(until))
        let last = try #require(try await ledger.events().events.last)
        #expect(last.kind == .accessEnded && last.content?.after?.hasAccess == false)
        #expect(last.content?.after?.status == .expired)
    }

    @Test func `the event of the purchase names no product and no transaction, and has the members of the purchase`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let evidence = try await Self.evidence(TestStore.appTransaction(), signed)
        for _ in 1...2 { _ = try await ledger.record([evidence], claimedBy: "anna", at: Facts.day(1)) }
        let events = try await ledger.events().events
        #expect(events.map(\.kind) == [Open(.linked), Open(.appRecorded)])
        let content = events.last?.content
        #expect(events.last?.originalTransactionId == "app:700")
        #expect(content?.productId == nil && content?.transactionId == nil)
        #expect(content?.after == ChainState(status: .active, hasAccess: true))
        let details = try #require(content?.details)
        #expect(details.type == .app && details.appTransactionId == "700" && details.quantity == nil)
        #expect(details.originalPurchaseDate == TestStore.day(-100) && details.originalApplicationVersion == "41")
        #expect(details.originalPlatform == .iOS && details.receiptType == "Production")
        #expect(events.first?.content?.details?.type == .app && events.first?.content?.transactionId == nil)
        #expect(try await ledger.payments() == [])
    }

    /// A document that does not tell the purchase from others: its name, the app transaction, and its environment.
    struct Nameless: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var environment: Environment
        var id: String?
        var date: Timestamp?
    }

    private static let nameless = [
        Nameless(
            testDescription: "Xcode", environment: .xcode, id: "0", date: Timestamp(milliseconds: -62_135_769_600_000)),
        Nameless(testDescription: "Xcode with an id", environment: .xcode, id: "7", date: TestStore.day(0)),
        Nameless(testDescription: "the id 0", environment: .production, id: "0", date: nil),
        Nameless(
            testDescription: "Xcode's date", environment: .production, id: "0",
            date: Timestamp(milliseconds: -62_135_769_600_000)),
        Nameless(testDescription: "no id and no date", environment: .production),
        Nameless(testDescription: "the sandbox's date", environment: .sandbox, date: TestStore.day(0)),
    ]

    @Test(arguments: nameless) func `a document without an id and a true date names no purchase, and is not kept`(
        _ nameless: Nameless
    ) async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory(in: Set(Environment.allCases)))
        let app = TestStore.appTransaction(nameless.id, in: nameless.environment) {
            $0.originalPurchaseDate = nameless.date
        }
        let result = try await ledger.record(
            [Self.evidence(app, signed)], claimedBy: "anna", at: Facts.day(1))
        #expect(result.new == 0 && result.known == 0)
        let scope = LedgerScope(bundleId: Facts.scope.bundleId, environment: nameless.environment)
        #expect(try await Self.answer(ledger, in: scope).app == nil)
        #expect(try await Self.documents(ledger) == 0)
    }

    @Test func `a receipt's own attributes are the same fact, and so is an app transaction without an id`() async throws
    {
        let signed = try SignedHistory()
        let documents = [
            try await Self.receipt(signed), try await Self.evidence(TestStore.appTransaction(nil, signed: 1), signed),
        ]
        for document in documents {
            let ledger = Self.ledger()
            _ = try await ledger.record([document], claimedBy: "anna", at: Facts.day(1))
            let app = try await Self.answer(ledger).app
            #expect(app?.appTransactionId == nil && app?.purchaseDate == TestStore.day(-100))
            #expect(app?.originalApplicationVersion == "41")
            #expect(app?.originalPlatform == (document.kind == .receipt ? nil : Open(.iOS)))
            #expect(try await Self.answer(ledger).holdings.entitlements.map(\.name) == ["pro"])
        }
        #expect(documents[0].chains == documents[1].chains)
    }

    @Test func `of a receipt and an app transaction of one purchase, the id and the receipt's type are shown`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let volume = try await Self.receipt(signed) { $0.receiptType = Open(.productionVPP) }
        let app = try await Self.evidence(TestStore.appTransaction(), signed)
        let later = try await Self.evidence(TestStore.appTransaction("699", version: "60", bought: -5), signed)
        _ = try await ledger.record([volume, app, later], claimedBy: "anna", at: Facts.day(1))
        let shown = try await Self.answer(ledger).app
        #expect(shown?.appTransactionId == "700" && shown?.receiptType == "ProductionVPP")
        #expect(shown?.originalApplicationVersion == "41")
    }

    @Test func `without a customer nothing of the app is recorded, and a notification is published as before`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let app = try signed.sign(TestStore.appTransaction())
        let notification = try signed.notification("RESCIND_CONSENT", signed: 0) {
            $0.data = nil
            var data = NotificationAppData()
            data.bundleId = Facts.scope.bundleId
            data.environment = Open(.production)
            data.signedAppTransactionInfo = app
            $0.appData = data
        }
        let receipt = try await Self.receipt(signed)
        let token = try await Self.evidence(TestStore.appTransaction(), signed)
        let result = try await ledger.record(
            [signed.evidence(notification: notification), receipt, token], at: Facts.day(1))
        #expect(result.new == 1)
        #expect(try await ledger.events().events.map(\.kind) == [Open(.notificationReceived)])
        #expect(try await ledger.storage.chains(.all, after: nil, limit: 10).items == [])
        // The customer may present the notification's part later.
        _ = try await ledger.record([token], claimedBy: "anna", at: Facts.day(1))
        #expect(try await Self.answer(ledger).app?.appTransactionId == "700")
        #expect(try await ledger.check(by: signed.verifier).faults == [])
    }

    @Test func `of many documents with the same content about the app alone, the first and the last are kept`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        for day in [3.0, 1, 2, 5, 4] {
            let app = TestStore.appTransaction(signed: day) {
                $0.deviceVerification = "device \(day)"
                $0.applicationVersion = "\(day)"
            }
            let documents = [
                try await Self.evidence(app, signed), try await Self.receipt(signed, created: day),
            ]
            _ = try await ledger.record(documents, claimedBy: "anna", at: Facts.day(6))
        }
        #expect(try await Self.documents(ledger) == 4)
        #expect(try await ledger.check(by: signed.verifier).faults == [])
        let app = try await Self.answer(ledger).app
        #expect(app?.knownSince == Facts.day(1) && app?.provenance.date == Facts.day(5))
    }

    // MARK: - Genuine documents

    @Test(
        .enabled(if: TestData.isThere, "\(TestData.whyNot)"),
        arguments: [
            ("ios-production-2016-sha1-1-purchase.b64", "com.devsisters.gb", Environment.production, true),
            ("mac-production-2017-sha1.der", "com.ideasoncanvas.MindNodeMac", .production, true),
            ("mac-production-2023-sha1-g7.der", "com.ideasoncanvas.MindNodeMac", .production, true),
            ("sandbox-2025-sha256-2-purchases.b64", "dev.bonzer.weeka.app", .sandbox, false),
        ])
    func `a genuine receipt of production proves the purchase of the app, also without purchases in the app`(
        file: String, bundleId: String, environment: Environment, proves: Bool
    ) async throws {
        let now = Timestamp(milliseconds: 1_795_000_000_000)
        let verifier = AppStoreVerifier(apps: .only([.init(bundleId: bundleId)]), environments: [environment])
        let verified = try await verifier.verify(receipt: TestData.receipt("receipts/\(file)"), at: now)
        let evidence = try #require(Evidence(verified))
        let ledger = Ledger(storage: MemoryLedgerStorage())
        _ = try await ledger.record([evidence], claimedBy: "anna", at: now)
        let scope = LedgerScope(bundleId: bundleId, environment: environment)
        let answer = try #require(try await ledger.customer("anna", in: scope, at: now))
        #expect(answer.purchases.count == verified.payload.inAppPurchases.count)
        #expect((answer.app != nil) == proves)
        guard let app = answer.app else { return }
        #expect(app.originalApplicationVersion == verified.payload.originalApplicationVersion)
        #expect(app.originalApplicationVersion != nil && app.receiptType == "Production")
        #expect(app.purchaseDate == verified.payload.originalPurchaseDate)
        let rebuilt = try await ledger.rebuild(by: verifier, at: now)
        #expect(rebuilt.faults == [] && rebuilt.differing == [])
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"))
    func `the genuine app transaction of Xcode names no purchase`() async throws {
        let token = try JWS(TestData.bytes("jws/xcode-signed-app-transaction"))
        let payload = try JSONValue(parsing: token.payload).decode(AppTransaction.self)
        #expect(payload.appTransactionId == nil || payload.appTransactionId == "0")
        let signed = try SignedHistory(in: [.xcode])
        var app = payload
        app.bundleId = Facts.scope.bundleId
        let evidence = try await Self.evidence(app, signed)
        #expect(evidence.chains == [])
    }

    // MARK: - Owners

    /// The customers that own the purchase after `anna`, then `bert` presented it.
    @Test(arguments: [
        (ClaimPolicy.accountTokenWins, [false, true]), (.keep, [true, false]), (.share, [true, true]),
        (.transferIfInactive, [true, false]),
    ])
    func `the claim policy decides who owns the purchase of the app`(policy: ClaimPolicy, owns: [Bool]) async throws {
        let (ledger, signed) = (Self.ledger(policy: policy), try SignedHistory())
        let evidence = try await Self.evidence(TestStore.appTransaction(), signed)
        _ = try await ledger.record([evidence], claimedBy: "anna", at: Facts.day(1))
        let second = try await ledger.record([evidence], claimedBy: "bert", at: Facts.day(1))
        #expect(second.kept == (owns[1] ? [] : [ChainKey("app:700", in: Facts.scope)]))
        for (customer, isOwner) in zip(["anna", "bert"], owns) {
            let answer = try await Self.answer(ledger, customer)
            #expect((answer.app != nil) == isOwner)
            #expect(answer.holdings.entitlements.map(\.name) == (isOwner ? ["pro"] : []))
        }
    }

    @Test func `with a client key the purchase changes its owner a few times a day only`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let evidence = try await Self.evidence(TestStore.appTransaction(), signed)
        var results: [RecordResult] = []
        for number in 0..<14 {
            results.append(
                try await ledger.record(
                    [evidence], claimedBy: "customer \(number)", limitsClaims: true, at: Facts.day(1)))
        }
        #expect(results.last?.tooManyClaims.keys.map(\.name) == ["app:700"])
    }

    @Test func `a merged customer has the purchase of the other`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let evidence = try await Self.evidence(TestStore.appTransaction(), signed)
        _ = try await ledger.record([evidence], claimedBy: "bert", at: Facts.day(1))
        _ = try await ledger.record([], claimedBy: "bert", at: Facts.day(1))
        _ = try await ledger.record(
            [signed.evidence(transaction: signed.transaction())], claimedBy: "anna", at: Facts.day(1))
        _ = try await ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(1))
        #expect(try await Self.answer(ledger, "anna").app?.appTransactionId == "700")
    }

    @Test func `a refused purchase of the app grants nothing`() async throws {
        let (ledger, signed) = (Self.ledger(refusing: ["app:700"]), try SignedHistory())
        let evidence = try await Self.evidence(TestStore.appTransaction(), signed)
        _ = try await ledger.record([evidence], claimedBy: "anna", at: Facts.day(1))
        let answer = try await Self.answer(ledger)
        #expect(answer.app != nil && answer.holdings.refused == ["app:700"])
        #expect(answer.holdings.entitlements == [])
        #expect(try await ledger.events().events.last?.content?.after?.status == .revoked)
    }

    // MARK: - Erasure, rebuild and copy

    @Test func `an erased purchase of the app comes back only if a customer presents it, and leaves no residue`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let app = try await Self.evidence(TestStore.appTransaction(), signed)
        let receipt = try await Self.receipt(signed)
        let keys = [app, receipt].flatMap(\.chains)
        _ = try await ledger.record([app, receipt], claimedBy: "anna", at: Facts.day(1))
        let deleted = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(2))
        #expect(deleted?.purchases == 2 && deleted?.erasedDocuments == 2)
        #expect(try await Self.documents(ledger) == 0)
        _ = try await ledger.record([app, receipt], at: Facts.day(3))
        let records = try await ledger.storage.load(LedgerQuery(keys.map(LedgerKey.chain))).chains
        #expect(records.count == 2 && records.values.allSatisfy { !$0.hasFacts && $0.chain.residue.isEmpty })
        _ = try await ledger.record([app, receipt], claimedBy: "bert", at: Facts.day(3))
        #expect(try await Self.answer(ledger, "bert").app?.appTransactionId == "700")
        #expect(try await ledger.check(by: signed.verifier).faults == [])
    }

    @Test func `facts of the app are derived from their documents again`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let purchase = TestStore.purchase(until: nil)
        let documents = [
            try await Self.receipt(signed, purchases: [purchase]),
            try await Self.evidence(TestStore.appTransaction(), signed),
        ]
        _ = try await ledger.record(documents, claimedBy: "anna", at: Facts.day(1))
        // Of this receipt the ledger knows only the purchase in the app.
        let other = try await Self.receipt(signed, purchases: [purchase], created: 1) {
            $0.originalPurchaseDate = Facts.day(-50)
        }
        _ = try await ledger.record([other], at: Facts.day(1))
        #expect(try await ledger.check(by: signed.verifier).faults == [])
        let app = ChainKey("app:700", in: Facts.scope)
        let before = try await ledger.chain(app)
        try await ledger.put(ChainRecord(app))
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(2))
        #expect(rebuilt.faults == [] && rebuilt.differing == [app])
        #expect(try await ledger.chain(app) == before && before != nil)
    }

    @Test func `a copy has the purchase of the app`() async throws {
        let (source, target) = (MemoryLedgerStorage(), MemoryLedgerStorage())
        let (ledger, signed) = (Self.ledger(in: source), try SignedHistory())
        let evidence = try await Self.evidence(TestStore.appTransaction(), signed)
        _ = try await ledger.record([evidence, Self.receipt(signed)], claimedBy: "anna", at: Facts.day(1))
        _ = try await LedgerCopy(from: source, named: "the source", to: target, by: signed.verifier)
            .run(at: Facts.day(1))
        #expect(try await Self.answer(Self.ledger(in: target)) == Self.answer(ledger))
    }

    // MARK: - Rules

    private static func statement(
        _ version: String?, bought: Double = -100, platform: PurchasePlatform? = .iOS
    ) async throws -> Ledger {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let app = TestStore.appTransaction(version: version, bought: bought) {
            $0.originalPlatform = platform.map { Open($0) }
        }
        _ = try await ledger.record([evidence(app, signed)], claimedBy: "anna", at: Facts.day(1))
        return ledger
    }

    /// A rule before version 2.0, and whether it holds for an original version.
    @Test(
        arguments: [
            ("1.9", true), ("1", true), ("0", true), ("1.10.3", true), ("1.99999999999999999999999", true),
            ("2", false), ("2.0", false), ("2.0.0", false), ("02", false), ("01.5", true), ("2.0.1", false),
            ("10", false),
            ("99999999999999999999999", false), ("", false), ("1.", false), (".1", false), ("1..2", false),
            ("1.0b1", false), ("v1", false), ("-1", false), (" 1", false), ("1,5", false), ("١", false), (nil, false),
        ] as [(String?, Bool)])
    func `versions are compared as dotted numbers, and any other text is before none`(
        version: String?, holds: Bool
    ) async throws {
        var ledger = try await Self.statement(version)
        ledger.rules.catalogues["com.example"]?.appPurchase = [
            AppPurchaseRule(beforeVersion: AppVersion("2.0"), entitlements: ["pro"])
        ]
        #expect(try await Self.answer(ledger).holdings.entitlements.map(\.name) == (holds ? ["pro"] : []))
    }

    /// Rules, and the entitlements that a purchase of version 41 on iOS on day −100 gets by them.
    @Test(
        arguments: [
            ([], []),
            ([AppPurchaseRule(beforeDate: TestStore.day(-100), entitlements: ["a"])], []),
            ([AppPurchaseRule(beforeDate: TestStore.day(-99), entitlements: ["a"])], ["a"]),
            ([AppPurchaseRule(platform: Open(.iOS), entitlements: ["a", "b"])], ["a", "b"]),
            ([AppPurchaseRule(platform: Open(.macOS), entitlements: ["a"])], []),
            (
                [
                    AppPurchaseRule(
                        beforeVersion: AppVersion("42"), beforeDate: TestStore.day(0), platform: Open(.iOS),
                        entitlements: ["a"])
                ], ["a"]
            ),
            (
                [
                    AppPurchaseRule(beforeVersion: AppVersion("41"), platform: Open(.iOS), entitlements: ["a"]),
                    AppPurchaseRule(beforeVersion: AppVersion("41.1"), entitlements: ["b"]),
                    AppPurchaseRule(beforeDate: TestStore.day(0), entitlements: ["c"]),
                ], ["b", "c"]
            ),
        ] as [([AppPurchaseRule], [String])])
    func `every rule of which all conditions hold gives its entitlements`(
        rules: [AppPurchaseRule], expected: [String]
    ) async throws {
        var ledger = try await Self.statement("41")
        ledger.rules.catalogues["com.example"]?.appPurchase = rules
        #expect(try await Self.answer(ledger).holdings.entitlements.map(\.name) == expected)
    }

    @Test func `a receipt meets no rule about the platform`() async throws {
        let signed = try SignedHistory()
        let ledger = Self.ledger([
            AppPurchaseRule(platform: Open(.iOS), entitlements: ["a"]),
            AppPurchaseRule(beforeDate: Facts.day(0), entitlements: ["b"]),
        ])
        _ = try await ledger.record([Self.receipt(signed)], claimedBy: "anna", at: Facts.day(1))
        #expect(try await Self.answer(ledger).holdings.entitlements.map(\.name) == ["b"])
    }

    @Test func `of a subscription and a purchase of the app, the entitlement without end counts`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let app = try await Self.evidence(TestStore.appTransaction(), signed)
        let month = try await signed.evidence(transaction: signed.transaction())
        _ = try await ledger.record([month, app], claimedBy: "anna", at: Facts.day(1))
        let entitlements = try await Self.answer(ledger).holdings.entitlements
        #expect(entitlements.map(\.reason) == [.appPurchase] && entitlements.first?.until == nil)
    }
}
