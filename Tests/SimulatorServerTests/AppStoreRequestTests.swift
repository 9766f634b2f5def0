// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import NIOHTTP1
import PurchaseLedger
import PurchaseServer
import Reconciliation
import SimulatorServer
import Testing

/// What a backend asks for, over HTTP: each endpoint at the simulator's own listeners, and recorded in a ledger.
@Suite(.timeLimit(.minutes(60))) struct AppStoreRequestTests {
    private static let limit = Duration.seconds(3600)

    /// A reconciler of production over HTTP, with an empty ledger in memory.
    private static func reconciler(_ simulator: RunningSimulator) throws -> (Reconciler, AppStoreClient) {
        let client = AppStoreClient(
            bundleId: "com.example",
            key: try InAppPurchaseKey(id: simulator.key.id, issuer: simulator.key.issuer, pem: simulator.key.pem),
            transport: HTTPAppStoreTransport(
                hosts: [.production: simulator.address(.production), .sandbox: simulator.address(.sandbox)],
                clock: ContinuousClock()),
            now: RunningSimulator.wall, sleep: { _ in }, random: SystemRandomNumberGenerator())
        let reconciler = Reconciler(
            ledger: Ledger(storage: MemoryLedgerStorage()), verifier: simulator.verifier, client: client,
            scope: LedgerScope(bundleId: "com.example", environment: .production), now: { RunningSimulator.start })
        return (reconciler, client)
    }

    @Test func `histories, orders, refunds, extensions and accounts are asked for over HTTP, and recorded`()
        async throws
    {
        try await RunningSimulator.run { simulator in
            try await simulator.command("/customers", #"{"name":"anna"}"#)
            let bought = try await simulator.command(
                "/customers/anna/buy", #"{"product":"com.example.pro.monthly"}"#)
            let id = try #require(bought["transactionId"]?.string)
            try await simulator.command("/clock/advance", #"{"days":40}"#)
            let customer = try JSONValue(parsing: try await simulator.send(.GET, .control, "/customers/anna").body)
            let periods = customer["subscriptions"]?.array?.first?["transactions"]?.array ?? []
            let orderId = try #require(periods.first?["orderId"]?.string)
            let (reconciler, _) = try Self.reconciler(simulator)

            let order = try #require(try await reconciler.lookUpOrder(orderId, within: Self.limit))
            #expect(order.transactionIds == [id] && order.report.recorded == 1)
            #expect(try await reconciler.lookUpOrder("MZZZZZZZZZ", within: Self.limit) == nil)
            guard
                case .complete(let report) = try await reconciler.takeHistory(
                    HistoryQuestion(transactionId: id), within: Self.limit)
            else { return #expect(Bool(false), "The history is not complete") }
            #expect(report.refused == 0 && report.originalTransactionIds == [id])
            let key = ChainKey(id, in: reconciler.scope)
            #expect(try await reconciler.ledger.chain(key)?.purchases.count == periods.count)

            // Of two documents of one instant nobody knows which is newer.
            try await simulator.command("/clock/advance", #"{"seconds":1}"#)
            let request = ExtendRenewalDateRequest(
                extendByDays: 7, extendReasonCode: Open(.serviceIssue), requestIdentifier: "one")
            // The App Store makes changes by the original transaction id alone. The ledger knows that of a renewal.
            let renewal = try #require(periods.last?["transactionId"]?.string)
            try #require(renewal != id)
            let extended = try await reconciler.extend(request, of: renewal, within: Self.limit)
            #expect(extended.success == true)
            let known = try #require(try await reconciler.ledger.chain(key))
            #expect(known.purchases.contains { $0.expiresDate == extended.effectiveDate })
            let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
            try await simulator.command("/clock/advance", #"{"seconds":1}"#)
            #expect(try await reconciler.setAppAccountToken(account, of: renewal, within: Self.limit) == id)
            let holdings = try await reconciler.ledger.holdings(
                of: account, in: reconciler.scope, at: RunningSimulator.start)
            #expect(holdings?.subscriptions[id] != nil)

            let mass = "6a1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e01"
            let all = MassExtendRenewalDateRequest(
                extendByDays: 1, extendReasonCode: Open(.other), requestIdentifier: mass,
                productId: "com.example.pro.monthly")
            #expect(try await reconciler.extendAll(all, within: Self.limit).requestIdentifier == mass)
            let status = try await reconciler.extensionStatus(
                of: "com.example.pro.monthly", requestIdentifier: mass, within: Self.limit)
            #expect(status.complete == false)

            try await simulator.command("/customers/anna/refund", "{}")
            let refunds = try await reconciler.refunds(of: id, within: Self.limit)
            #expect(refunds.report.refused == 0 && refunds.transactionIds.count == 1)
        }
    }

    /// The beginning of a PNG of 3,840 by 2,160 without transparency, of which the simulator reads no more.
    private static let image: [UInt8] =
        [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13] + Array("IHDR".utf8)
        + [0, 0, 0x0f, 0, 0, 0, 0x08, 0x70, 8, 2, 0, 0, 0, 0, 0, 0, 0]

    @Test func `images, messages and the default message are configured over HTTP, and deleted`() async throws {
        try await RunningSimulator.run { simulator in
            let (_, client) = try Self.reconciler(simulator)
            func send<Answer>(_ endpoint: Endpoint<Answer>) async throws -> Answer {
                try await client.send(endpoint, to: .sandbox, within: Self.limit)
            }
            let (picture, message) = ("6a1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e03", "6a1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e02")
            try await send(.uploadImage(Self.image, as: picture, size: .fullSize))
            let images = try await send(.images).imageIdentifiers ?? []
            #expect(images.map(\.imageIdentifier) == [picture])
            #expect(images.first?.imageState?.known == .approved)
            var body = UploadMessageRequestBody()
            (body.header, body.body) = ("Stay", "A month for free")
            var shown = UploadMessageRequestBody.MessageImage()
            (shown.imageIdentifier, shown.altText) = (picture, "A view")
            body.image = shown
            try await send(.uploadMessage(body, as: message))
            #expect(try await send(.messages).messageIdentifiers?.map(\.messageIdentifier) == [message])

            let product = "com.example.pro.monthly"
            var configuration = DefaultConfiguration()
            configuration.messageIdentifier = message
            try await send(.configureDefaultMessage(configuration, of: product, in: "en-US"))
            #expect(try await send(.defaultMessage(of: product, in: "en-US")).messageIdentifier == message)
            try await send(.deleteDefaultMessage(of: product, in: "en-US"))
            await #expect(throws: AppStoreAPIError.self) {
                _ = try await send(.defaultMessage(of: product, in: "en-US"))
            }
            try await send(.deleteMessage(message))
            try await send(.deleteImage(picture))
            #expect(try await send(.messages).messageIdentifiers?.isEmpty ?? true)
            #expect(try await send(.images).imageIdentifiers?.isEmpty ?? true)
        }
    }

    @Test func `the URL of retention messages is configured, tested and deleted over HTTP`() async throws {
        try await RunningSimulator.run { simulator in
            try await simulator.command("/customers", #"{"name":"anna","environment":"Sandbox"}"#)
            let bought = try await simulator.command(
                "/customers/anna/buy", #"{"product":"com.example.pro.monthly"}"#)
            let (_, client) = try Self.reconciler(simulator)
            func send<Answer>(_ endpoint: Endpoint<Answer>) async throws -> Answer {
                try await client.send(endpoint, to: .sandbox, within: Self.limit)
            }
            var url = RealtimeURL()
            url.realtimeURL = "https://example.com/retention"
            try await send(.configureRealtimeURL(url))
            #expect(try await send(.realtimeURL).realtimeURL == url.realtimeURL)
            var request = PerformanceTestRequest()
            request.originalTransactionId = try #require(bought["transactionId"]?.string)
            let test = try #require(try await send(.startPerformanceTest(request)).requestId)
            #expect(try await send(.performanceTestResult(test)).result?.known == .pending)
            try await simulator.command("/clock/advance", #"{"hours":1}"#)
            let result = try await send(.performanceTestResult(test))
            #expect(result.result?.known == .pass && result.target == url.realtimeURL)
            try await send(.deleteRealtimeURL)
            await #expect(throws: AppStoreAPIError.self) { _ = try await send(.realtimeURL) }
        }
    }
}
