// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// The App Store's real-time requests for a retention message.
@Suite(.timeLimit(.minutes(60))) struct RetentionRoutesTests {
    private typealias World = LedgerRoutesTests.World

    private static func uuid(_ number: Int) -> String { "00000000-0000-4000-8000-00000000000\(number)" }

    /// Message 1 for German customers of `month`, 2 with `year` for all others of it, 3 with an offer for `year`, and
    /// otherwise 0.
    private static let rules: RetentionRules = {
        var german = RetentionRules.Rule(message: uuid(1))
        (german.products, german.locales) = (["month"], ["de"])
        var month = RetentionRules.Rule(message: uuid(2), .alternateProduct("year", billingPlanType: nil))
        month.products = ["month"]
        var year = RetentionRules.Rule(message: uuid(3), .promotionalOffer("stay3"))
        year.products = ["year"]
        var rules = RetentionRules()
        (rules.rules, rules.defaultMessage) = ([german, month, year], uuid(0))
        return rules
    }()

    private static func world(
        _ rules: RetentionRules? = rules, signing: Bool = true, _ change: (inout AppStoreVerifier) -> Void = { _ in }
    ) async throws -> World {
        let identity = AppIdentity(bundleId: "com.example", appAppleId: 7)
        var world = try await World(clock: VirtualClock()) { verifier in
            verifier.apps = .only([identity])
            change(&verifier)
        }
        world.server.ledger?.apps["com.example"]?.identity = identity
        world.server.ledger?.apps["com.example"]?.retention = rules
        world.server.ledger?.signing = signing ? try SignatureRoutesTests.signing() : nil
        return world
    }

    private static func payload(
        _ change: (inout DecodedRealtimeRequestBody) -> Void = { _ in }
    ) -> DecodedRealtimeRequestBody {
        var payload = DecodedRealtimeRequestBody()
        (payload.originalTransactionId, payload.appAppleId, payload.productId) = ("42", 7, "month")
        (payload.userLocale, payload.requestIdentifier) = ("en-US", uuid(9))
        (payload.environment, payload.signedDate) = (Open(.production), LedgerRoutesTests.now)
        change(&payload)
        return payload
    }

    /// A request that the simulated App Store signed.
    private static func request(
        _ world: World, _ change: (inout DecodedRealtimeRequestBody) -> Void = { _ in }
    ) throws -> String {
        #"{"signedPayload":"\#(try world.store.sign(payload(change)))"}"#
    }

    private static func ask(
        _ world: World, _ change: (inout DecodedRealtimeRequestBody) -> Void = { _ in }
    ) async throws -> (Int, JSONValue) {
        let (status, answer) = try await world.send(.post, "/retention", request(world, change), key: nil)
        return (status.code, answer)
    }

    @Test(arguments: [
        ("month", "de", AppStoreModel.Environment.production, #"{"message":{"messageIdentifier":"\#(uuid(1))"}}"#),
        ("month", "de-CH", .sandbox, #"{"message":{"messageIdentifier":"\#(uuid(1))"}}"#),
        // “den” is another language than “de”.
        ("month", "den", .production, #"{"alternateProduct":{"messageIdentifier":"\#(uuid(2))","productId":"year"}}"#),
        ("other", "de", .production, #"{"message":{"messageIdentifier":"\#(uuid(0))"}}"#),
    ])
    func `the first rule for the product and the language decides, else the default`(
        product: String, locale: String, environment: AppStoreModel.Environment, expected: String
    ) async throws {
        let (status, answer) = try await Self.ask(try await Self.world()) { request in
            (request.productId, request.userLocale) = (product, locale)
            request.environment = Open(environment)
        }
        #expect(status == 200)
        #expect(answer.compactText == expected)
    }

    @Test func `an offer is signed for the subscription of the request, and without a key the default is answered`()
        async throws
    {
        let (_, answer) = try await Self.ask(try await Self.world()) { $0.productId = "year" }
        let offer = answer["promotionalOffer"]
        #expect(offer?["messageIdentifier"]?.string == Self.uuid(3))
        let token = try JWS(try #require(offer?["promotionalOfferSignatureV2"]?.string).utf8)
        let claims = try JSONValue(parsing: token.payload)
        #expect(claims["transactionId"]?.string == "42" && claims["offerIdentifier"]?.string == "stay3")
        #expect(claims["productId"]?.string == "year")
        let (status, other) = try await Self.ask(try await Self.world(signing: false)) { $0.productId = "year" }
        #expect(status == 200)
        #expect(other["message"]?["messageIdentifier"]?.string == Self.uuid(0))
    }

    /// How many milliseconds after now a request was signed, and whether it gets an offer.
    private static let signings: [(Int64?, Bool)] = [
        (-600_000, true), (600_000, true), (-600_001, false), (600_001, false), (-86_400_000, false), (nil, false),
    ]

    @Test(arguments: signings)
    func `an offer is signed only for a request that was signed within ten minutes, and another gets the message alone`(
        signedAfter milliseconds: Int64?, hasOffer: Bool
    ) async throws {
        let (status, answer) = try await Self.ask(try await Self.world()) { request in
            request.productId = "year"
            request.signedDate = milliseconds.map {
                Timestamp(milliseconds: LedgerRoutesTests.now.milliseconds + $0)
            }
        }
        #expect(status == 200)
        let signature = answer["promotionalOffer"]?["promotionalOfferSignatureV2"]
        #expect((signature != nil) == hasOffer, "\(answer.compactText)")
        #expect((answer["message"]?["messageIdentifier"]?.string == Self.uuid(3)) != hasOffer)
    }

    @Test func `an alternate product needs no signature, so an old request gets it`() async throws {
        let (status, answer) = try await Self.ask(try await Self.world()) { request in
            request.signedDate = Timestamp(milliseconds: LedgerRoutesTests.now.milliseconds - 3_600_000)
        }
        #expect(status == 200)
        #expect(answer["alternateProduct"]?["productId"]?.string == "year")
    }

    @Test func `what the App Store did not sign for this app is refused, and gets no message`() async throws {
        let world = try await Self.world()
        let genuine = try Self.request(world)
        let forged = try CertificateAuthority(from: Timestamp(milliseconds: 1_699_000_000_000))
        let bodies = [
            ("{}", "invalidRequest"), ("", "invalidRequest"), (#"{"signedPayload":"x"}"#, "malformed"),
            (#"{"signedPayload":"\#(try forged.sign(Self.payload()))"}"#, "untrustedChain"),
            (String(genuine.dropLast(6)) + #"AAAA"}"#, "invalidSignature"),
            (#"{"signedPayload":"\#(try world.transaction())"}"#, "otherKind"),
            (try Self.request(world) { $0.appAppleId = 8 }, "otherApp"),
            (try Self.request(world) { $0.environment = Open(.xcode) }, "otherEnvironment"),
        ]
        for (body, code) in bodies {
            let (status, answer) = try await world.send(.post, "/retention", body, key: nil)
            #expect(status == .badRequest, "\(code)")
            #expect(answer["error"]?["code"]?.string == code)
        }
    }

    @Test func `without a message for the request the answer is 404, so that Apple's own default is shown`()
        async throws
    {
        for (rules, isSandbox) in [(nil, false), (RetentionRules(), false), (Self.rules, true)] {
            let (status, answer) = try await Self.ask(try await Self.world(rules)) { request in
                // The verifier compares the Apple ID in production only.
                if isSandbox { (request.environment, request.appAppleId) = (Open(.sandbox), 8) }
            }
            #expect(status == 404)
            #expect(answer["error"]?["code"]?.string == "noRetentionMessage")
        }
    }

    /// A responder that never answers.
    private struct SilentResponder: OCSPTransport {
        func answer(to request: [UInt8], from responder: String) async throws -> [UInt8] {
            try await Task.sleep(for: .seconds(86_400))
            return []
        }
    }

    @Test(arguments: [(true, 1), (false, 0)])
    func `at the deadline the wait for the status of a certificate ends: unknown is accepted, or gets the default`(
        acceptsUnknown: Bool, message: Int
    ) async throws {
        // The clock of the server jumps to the deadline; the checker would wait for a day.
        // The committed signers name no responders.
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_699_000_000_000))
        let roots = try authority.trust
        let world = try await Self.world { verifier in
            verifier.roots = roots
            let checker = RevocationChecker(
                transport: SilentResponder(), timeout: .seconds(86_400), deadline: .seconds(86_400))
            verifier.revocation = .checked(by: checker, acceptsUnknown: acceptsUnknown)
        }
        var plan = authority.tokens
        (plan.leaf.ocspResponder, plan.intermediate.ocspResponder) = ("http://a.example", "http://b.example")
        let payload = try JSONValue(encoding: Self.payload { $0.userLocale = "de" }).compactText
        let body = #"{"signedPayload":"\#(try TokenPlan(payload, by: plan).signed())"}"#
        let (status, answer) = try await world.send(.post, "/retention", body, key: nil)
        #expect(status == .ok)
        #expect(answer["message"]?["messageIdentifier"]?.string == Self.uuid(message))
    }

    @Test func `a request that this version cannot read gets the default`() async throws {
        let world = try await Self.world()
        let payload = #"{"userLocale":["de"],"requestIdentifier":"x","appAppleId":7,"environment":"Production"}"#
        let token = try world.store.sign(payload)
        let (status, answer) = try await world.send(.post, "/retention", #"{"signedPayload":"\#(token)"}"#, key: nil)
        #expect(status == .ok)
        #expect(answer["message"]?["messageIdentifier"]?.string == Self.uuid(0))
    }

    @Test func `an answer needs nothing of the ledger, not even that it can be read`() async throws {
        var world = try await Self.world()
        let broken = Ledger(storage: FailingStorage(error: LedgerStorageError(.unavailable, "a test")))
        let working = try #require(world.server.ledger)
        var service = LedgerService(ledger: broken, verifier: working.verifier)
        (service.apps, service.signing) = (working.apps, working.signing)
        world.server.ledger = service
        let body = try Self.request(world) { $0.productId = "year" }
        #expect(try await world.send(.post, "/retention", body, key: nil).0 == .ok)
    }
}
