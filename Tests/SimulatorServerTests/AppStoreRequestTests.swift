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
@Suite(.timeLimit(.minutes(10))) struct AppStoreRequestTests {
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
            let extended = try await reconciler.extend(request, of: id, within: Self.limit)
            #expect(extended.success == true)
            let known = try #require(try await reconciler.ledger.chain(key))
            #expect(known.purchases.contains { $0.expiresDate == extended.effectiveDate })
            let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
            try await simulator.command("/clock/advance", #"{"seconds":1}"#)
            try await reconciler.setAppAccountToken(account, of: id, within: Self.limit)
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

    @Test func `messages are configured over HTTP`() async throws {
        try await RunningSimulator.run { simulator in
            let (_, client) = try Self.reconciler(simulator)
            let message = "6a1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e02"
            var body = UploadMessageRequestBody()
            (body.header, body.body) = ("Stay", "A month for free")
            try await client.send(.uploadMessage(body, as: message), to: .sandbox, within: Self.limit)
            let messages = try await client.send(.messages, to: .sandbox, within: Self.limit)
            #expect(messages.messageIdentifiers?.map(\.messageIdentifier) == [message])
            try await client.send(.deleteMessage(message), to: .sandbox, within: Self.limit)
            #expect(try await client.send(.images, to: .sandbox, within: Self.limit).imageIdentifiers?.isEmpty ?? true)
        }
    }
}
