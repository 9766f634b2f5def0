// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Logging
import PurchaseLedger
import PurchaseServer
import ReceiptCoding
import TestWorld
import Testing

/// Tests that customers submit the purchase of the app itself, and read it.
@Suite struct AppPurchaseRoutesTests {
    private typealias World = LedgerRoutesTests.World

    /// A server whose catalogue has a rule for the purchase of the app.
    private static func world(
        _ rule: AppPurchaseRule? = AppPurchaseRule(beforeVersion: AppVersion("50"), entitlements: ["lifetime"]),
        in environments: Set<AppStoreModel.Environment> = [.production, .sandbox]
    ) async throws -> World {
        var world = try await World { $0.environments = environments }
        var app = try #require(world.server.ledger?.apps["com.example"])
        app.catalogue.appPurchase = [rule].compactMap(\.self)
        var ledger = world.ledger
        ledger.rules.catalogues["com.example"]?.appPurchase = app.catalogue.appPurchase
        world.server = try world.server(keeping: ledger)
        world.server.ledger?.apps["com.example"] = app
        return world
    }

    private static func submit(
        _ documents: [String], _ world: World, key: APIKey.Role = .client, _ query: String = ""
    ) async throws -> (HTTPResponse.Status, JSONValue) {
        let list = documents.map { "\"\($0)\"" }.joined(separator: ",")
        return try await world.send(
            .post, "/v1/customers/anna/purchases\(query)", #"{"documents":[\#(list)]}"#, key: key)
    }

    @Test func `an app transaction is taken with each key, and shown with its document to the backend alone`()
        async throws
    {
        let world = try await Self.world()
        let token = try world.store.sign(TestStore.appTransaction())
        let (status, answer) = try await Self.submit([token], world)
        #expect(status == .ok && answer["recorded"]?.integer == 1)
        let app = answer["customer"]?["app"]
        #expect(
            app?.compactText == """
                {"appTransactionId":"700","environment":"Production","originalApplicationVersion":"41",\
                "originalPurchaseDate":1691360000000,"hasAccess":true,"accessUntil":null,"originalPlatform":"iOS","receiptType":"Production"}
                """)
        #expect(answer["customer"]?["purchases"]?.array == [] && answer["customer"]?["unknownProducts"]?.array == [])
        #expect(
            answer["customer"]?["entitlements"]?.compactText == """
                [{"name":"lifetime","environment":"Production","reason":"appPurchase","until":null}]
                """)
        let (_, again) = try await Self.submit([token], world, key: .server)
        #expect(again["alreadyKnown"]?.integer == 1)
        let evidence = again["customer"]?["app"]?["evidence"]
        #expect(evidence?["kind"]?.string == "appTransaction")
        let name = try #require(evidence?["id"]?.string)
        let (_, document) = try await world.send(.get, "/v1/evidence/\(name)")
        #expect(document["document"]?.string == token && document["kind"]?.string == "appTransaction")
    }

    @Test func `the entitlement of the app's purchase is known by name, and the purchase is no transaction`()
        async throws
    {
        let world = try await Self.world()
        let (_, before) = try await world.send(.get, "/v1/customers/anna/entitlements/lifetime", key: .client)
        #expect(before["isActive"] == .bool(false))
        _ = try await Self.submit([world.store.sign(TestStore.appTransaction())], world)
        let (_, after) = try await world.send(.get, "/v1/customers/anna/entitlements/lifetime", key: .client)
        #expect(after["isActive"] == .bool(true) && after["entitlement"]?["reason"]?.string == "appPurchase")
        for path in ["transactions/700", "subscriptions/700", "subscriptions/app:700"] {
            #expect(try await world.send(.get, "/v1/\(path)").0 == .notFound)
        }
        // Transaction ids have only digits.
        #expect(try await world.send(.get, "/v1/transactions/app:700").0 == .badRequest)
    }

    @Test func `a receipt's purchase of the app is shown as a receipt's`() async throws {
        let world = try await Self.world()
        var receipt = TestStore.receipt()
        receipt.bundleIdBytes = DEREncoding.utf8String(TestStore.bundleId)[...]
        receipt.receiptType = Open(.productionVPP)
        receipt.originalPurchaseDate = TestStore.day(-100)
        receipt.originalApplicationVersion = "41"
        let (_, answer) = try await Self.submit([Base64.encode(world.store.sign(receipt))], world, key: .server)
        let app = answer["customer"]?["app"]
        #expect(app?["appTransactionId"] == nil && app?["originalPlatform"] == nil)
        #expect(app?["receiptType"]?.string == "ProductionVPP" && app?["evidence"]?["kind"]?.string == "receipt")
        #expect(answer["customer"]?["entitlements"]?.array?.first?["name"]?.string == "lifetime")
    }

    /// App transactions that are refused, and the code.
    private enum Refused: String, CaseIterable {
        case ofAnotherApp, ofAnUnknownApp, ofAnotherEnvironment, changed, bySomeone

        func token(_ world: World) throws -> String {
            switch self {
            case .ofAnotherApp:
                try world.store.sign(TestStore.appTransaction { $0.bundleId = "com.example.two" })
            case .ofAnUnknownApp: try world.store.sign(TestStore.appTransaction { $0.bundleId = "org.example" })
            case .ofAnotherEnvironment: try world.store.sign(TestStore.appTransaction(in: .xcode))
            case .changed:
                try Self.changed(world.store.sign(TestStore.appTransaction()), to: TestStore.appTransaction("701"))
            case .bySomeone:
                try TestStore(StoreAuthority(CertificateAuthority(from: TestStore.day(-9)))).sign(
                    TestStore.appTransaction())
            }
        }

        /// A token with the payload of another document, under its own signature.
        private static func changed(_ token: String, to app: AppTransaction) throws -> String {
            var parts = token.split(separator: ".").map(String.init)
            parts[1] = try String(
                decoding: Base64.encodeURL(Array(JSONValue(encoding: app).compactText.utf8)[...]), as: UTF8.self)
            return parts.joined(separator: ".")
        }

        var code: String {
            switch self {
            case .ofAnotherApp, .ofAnUnknownApp: "otherApp"
            case .ofAnotherEnvironment: "otherEnvironment"
            case .changed: "invalidSignature"
            case .bySomeone: "untrustedChain"
            }
        }
    }

    @Test(arguments: Refused.allCases)
    private func `an app transaction that is another app's, another environment's or forged gives nothing`(
        _ refused: Refused
    ) async throws {
        let world = try await Self.world()
        let (status, answer) = try await Self.submit([refused.token(world)], world)
        #expect(status == .badRequest && answer["error"]?["code"]?.string == refused.code, "\(answer.compactText)")
        let (_, customer) = try await world.send(.get, "/v1/customers/anna", key: .client)
        #expect(customer["app"] == nil && customer["entitlements"]?.array == [])
    }

    @Test func `production comes first, and the sandbox shows its own`() async throws {
        let world = try await Self.world()
        let sandbox = try world.store.sign(TestStore.appTransaction("7", version: "1.0", in: .sandbox))
        _ = try await Self.submit([sandbox], world)
        let (_, first) = try await world.send(.get, "/v1/customers/anna", key: .client)
        #expect(first["app"]?["environment"]?.string == "Sandbox")
        _ = try await Self.submit([world.store.sign(TestStore.appTransaction())], world)
        let (_, both) = try await world.send(.get, "/v1/customers/anna", key: .client)
        #expect(both["app"]?["appTransactionId"]?.string == "700")
        let (_, one) = try await world.send(.get, "/v1/customers/anna?environment=sandbox", key: .client)
        #expect(one["app"]?["appTransactionId"]?.string == "7")
    }

    @Test(arguments: [(true, true), (true, false), (false, true)])
    func `the log says once a day that versions of the sandbox are not true, if a rule reads the version`(
        isSandbox: Bool, hasVersion: Bool
    ) async throws {
        let lines = LogLines()
        var world = try await Self.world(
            AppPurchaseRule(
                beforeVersion: hasVersion ? AppVersion("2") : nil, beforeDate: TestStore.day(0), entitlements: ["a"]))
        world.server.logger = Logger(label: "test") { _ in lines }
        let app = TestStore.appTransaction(version: "1.0", in: isSandbox ? .sandbox : .production)
        _ = try await Self.submit([world.store.sign(app)], world)
        let notices = lines.text.count { $0.hasPrefix("In the sandbox the original version") }
        #expect(notices == (isSandbox && hasVersion ? 1 : 0))
    }
}
