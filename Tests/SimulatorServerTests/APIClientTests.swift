// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseServer
import Reconciliation
import SimulatorServer
import Synchronization
import Testing

/// The client of the App Store over HTTP: against the simulator's listeners, and against servers that misbehave.
@Suite(.timeLimit(.minutes(60))) struct APIClientTests {
    private static func client(_ hosts: [AppStoreModel.Environment: String]) throws -> AppStoreClient {
        let key = try StoreKey(seed: 1)
        return AppStoreClient(
            bundleId: "com.example", key: try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem),
            transport: HTTPAppStoreTransport(hosts: hosts, clock: ContinuousClock()), now: RunningSimulator.wall,
            sleep: { _ in }, random: SystemRandomNumberGenerator())
    }

    @Test func `what a simulator answers over HTTP verifies`() async throws {
        try await Receiver.run { receiver in
            try await RunningSimulator.run(notifying: receiver.url) { simulator in
                try await simulator.command("/customers", #"{"name":"anna","environment":"Sandbox"}"#)
                let bought = try await simulator.command(
                    "/customers/anna/buy", #"{"product":"com.example.pro.monthly"}"#)
                let id = try #require(bought["transactionId"]?.string)
                let client = try Self.client([
                    .production: simulator.address(.production), .sandbox: simulator.address(.sandbox),
                ])
                let (now, verifier) = (RunningSimulator.start, simulator.verifier)

                let info = try await client.find(.transactionInfo(id), within: .seconds(3600))
                #expect(info.environment == .sandbox)
                #expect(try await verifier.checked(info.answer, at: now)?.result.get().payload.transactionId == id)
                let statuses = try await client.send(.subscriptionStatuses(id), to: .sandbox)
                let subscription = try #require(await verifier.checked(statuses, at: now).first)
                #expect(subscription.status == .active)
                #expect(try subscription.renewalInfo?.result.get().payload.originalTransactionId == id)
                var history: [String?] = []
                for try await page in client.pages(.transactionHistory(id), in: .sandbox) {
                    for document in await verifier.checked(page, at: now) {
                        history.append(try document.result.get().payload.transactionId)
                    }
                }
                #expect(history == [id])
                let app = try await client.send(.appTransactionInfo(id), to: .sandbox)
                #expect(try await verifier.checked(app, at: now)?.result.get().payload.bundleId == "com.example")
                _ = try await receiver.next()
                let request = NotificationHistoryRequest(
                    startDate: Timestamp(milliseconds: now.milliseconds - 1000),
                    endDate: Timestamp(milliseconds: now.milliseconds + 1000))
                let notifications = try await client.send(.notificationHistory(request), to: .sandbox)
                let types = await verifier.checked(notifications, at: now)
                    .map { try? $0.result.get().notification.payload.notificationType }
                #expect(types.first??.known == .subscribed)
                let refunds = try await client.send(.refundHistory(id), to: .sandbox)
                #expect(await verifier.checked(refunds, at: now).isEmpty)
            }
        }
    }

    @Test func `a document that does not verify spoils no other`() async throws {
        try await RunningSimulator.run { simulator in
            try await simulator.command("/customers", #"{"name":"anna"}"#)
            let bought = try await simulator.command("/customers/anna/buy", #"{"product":"com.example.coins"}"#)
            let client = try Self.client([.production: simulator.address(.production)])
            let id = try #require(bought["transactionId"]?.string)
            var page = try await client.send(.transactionHistory(id), to: .production)
            // The same transaction of another app, which the same App Store has signed.
            let own = try #require(await simulator.verifier.checked(page, at: RunningSimulator.start).first)
            var payload = try own.result.get().payload
            payload.bundleId = "com.example.other"
            let foreign = try WorldSigner(try StoreAuthority.fixture()).sign(payload, at: RunningSimulator.start)
            page.signedTransactions?.insert(contentsOf: ["x.y.z", foreign], at: 0)
            let documents = await simulator.verifier.checked(page, at: RunningSimulator.start)
            #expect(documents.map { (try? $0.result.get()) != nil } == [false, false, true])
            #expect(documents.first?.document == "x.y.z")
            #expect(throws: VerificationError.self) { try documents[1].result.get() }
        }
    }

    /// What a server sends after the first bytes of a request, before it closes.
    @Test(
        arguments: [
            ("", .unreachable), ("nonsense\r\n\r\n", .unreachable),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", .unreachable),
            ("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", .malformedAnswer),
            ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]", .malformedAnswer),
            (
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2097152\r\n\r\n"
                    + String(repeating: " ", count: 2 << 20), .malformedAnswer
            ),
        ] as [(String, AppStoreAPIError.Code)]) func `a server that misbehaves is a clear error`(
            text: String, code: AppStoreAPIError.Code
        ) async throws
    {
        try await RawServer.run(.closesAfter(text)) { port in
            let client = try Self.client([.production: "http://127.0.0.1:\(port)"])
            let error = await #expect(throws: AppStoreAPIError.self) {
                try await client.send(.transactionInfo("1"), to: .production, within: .seconds(3600))
            }
            #expect(error?.code == code, "\(error?.description ?? "")")
        }
    }

    @Test(
        arguments: [
            ("401 Unauthorized", "text/plain", "Unauthenticated", true), ("401 Unauthorized", "", "", true),
            ("200 OK", "application/json", "{}", true), ("202 Accepted", "", "", true),
            ("404 Not Found", "application/json", #"{"errorCode":4040010}"#, true),
            ("404 Not Found", "application/json", #"{"errorCode":404}"#, false),
            ("403 Forbidden", "text/html", "<p>No.", false), ("401 Unauthorized", "text/html", "<p>No.", false),
            ("200 OK", "text/html", "<p>Sign in.", false), ("503 Unavailable", "", "", false),
        ]) func `only an answer that may be Apple's shows Apple's time`(
            status: String, type: String, body: String, isApples: Bool
        ) async throws
    {
        let head = "HTTP/1.1 \(status)\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: \(type)\r\n"
        try await RawServer.run(.closesAfter(head + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")) { port in
            let dates = Mutex<[Timestamp]>([])
            var transport = HTTPAppStoreTransport(
                hosts: [.production: "http://127.0.0.1:\(port)"], clock: ContinuousClock())
            transport.onDate = { date in dates.withLock { $0.append(date) } }
            _ = try await transport.answer(
                to: Endpoint.transactionInfo("1").request, in: .production, within: .seconds(3600))
            #expect(dates.withLock { $0 } == (isApples ? [Timestamp(milliseconds: 784_111_777_000)] : []))
        }
    }

    @Test func `a server that stays silent is waited for as long as the caller says`() async throws {
        try await RawServer.run(.staysSilent) { port in
            let transport = HTTPAppStoreTransport(
                hosts: [.production: "http://127.0.0.1:\(port)"], clock: ContinuousClock())
            let request = Endpoint.transactionInfo("1").request
            await #expect(throws: TransportError.self) {
                _ = try await transport.answer(to: request, in: .production, within: .milliseconds(200))
            }
        }
    }
}
