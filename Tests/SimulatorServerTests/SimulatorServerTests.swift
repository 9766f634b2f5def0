// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import ReceiptCoding
import SimulatorServer
import Testing

/// The simulator over sockets: what is bought arrives at the server under test, and the API says the same.
@Suite(.timeLimit(.minutes(60))) struct SimulatorServerTests {
    private static let purchase = #"{"product":"com.example.pro.monthly"}"#

    @Test func `a purchase's notification arrives and verifies, and the API says the same`() async throws {
        try await Receiver.run { receiver in
            try await RunningSimulator.run(notifying: receiver.url) { simulator in
                try await simulator.command("/customers", #"{"name":"anna"}"#)
                let bought = try await simulator.command("/customers/anna/buy", Self.purchase)
                let id = try #require(bought["transactionId"]?.string)

                let payload = try await receiver.next()
                let verified = try await simulator.verifier.verify(
                    notification: payload.utf8, at: RunningSimulator.start)
                #expect(verified.notification.payload.notificationType == .subscribed)
                #expect(verified.transaction?.payload.originalTransactionId == id)

                let statuses = try await simulator.call(.GET, "/inApps/v1/subscriptions/\(id)")
                let last = statuses["data"]?.array?.first?["lastTransactions"]?.array?.first
                #expect(last?["originalTransactionId"]?.string == id)
                #expect(last?["status"]?.integer == 1)
                let token = try #require(last?["signedTransactionInfo"]?.string)
                let transaction = try await simulator.verifier.verify(
                    token.utf8, as: JWSTransactionDecodedPayload.self, at: RunningSimulator.start)
                #expect(transaction.payload.transactionId == id)
            }
        }
    }

    @Test(arguments: ["GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n", "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"])
    func `a simulator takes few bytes after a request to speak another protocol`(request: String) async throws {
        try await RunningSimulator.run { simulator in
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: "127.0.0.1", port: simulator.ports[.control] ?? 0).get()
            try await channel.writeAndFlush(ByteBuffer(string: request))
            let (part, limit) = (ByteBuffer(repeating: 0, count: 64 << 10), 512)
            var parts = 0
            while parts < limit, (try? await channel.writeAndFlush(part)) != nil { parts += 1 }
            #expect(parts < limit)
            try? await channel.close()
        }
    }

    @Test func `the device's receipt verifies, and verifyReceipt shows the purchase`() async throws {
        try await RunningSimulator.run { simulator in
            try await simulator.command("/customers", #"{"name":"anna"}"#)
            let bought = try await simulator.command("/customers/anna/buy", #"{"product":"com.example.coins"}"#)
            let receipt = try await simulator.send(.GET, .control, "/customers/anna/receipt").body
            let verified = try await simulator.verifier.verify(receipt: receipt, at: RunningSimulator.start)
            let id = bought["transactionId"]?.string
            #expect(verified.payload.inAppPurchases.map(\.transactionId) == [id])
            let body = #"{"receipt-data":"\#(Data(receipt).base64EncodedString())"}"#
            for (listener, status) in [(SimulatorListener.production, 0), (.sandbox, 21008)] {
                let answer = try await simulator.send(.POST, listener, "/verifyReceipt", body)
                #expect(try JSONValue(parsing: answer.body)["status"]?.integer == Int64(status))
            }
        }
    }

    @Test func `a purchase in the sandbox is in the sandbox alone`() async throws {
        try await Receiver.run { receiver in
            try await RunningSimulator.run(notifying: receiver.url) { simulator in
                try await simulator.command("/customers", #"{"name":"ben","environment":"sandbox"}"#)
                let bought = try await simulator.command("/customers/ben/buy", Self.purchase)
                let id = try #require(bought["transactionId"]?.string)
                let path = "/inApps/v1/transactions/\(id)"
                #expect(try await simulator.call(.GET, path)["errorCode"]?.integer == 4_040_010)
                #expect(try await simulator.call(.GET, path, in: .sandbox)["signedTransactionInfo"] != nil)
            }
        }
    }

    /// The results of the attempts to send the test notification, oldest first.
    private func attempts(_ simulator: RunningSimulator, _ token: String) async throws -> [String] {
        let status = try await simulator.call(.GET, "/inApps/v1/notifications/test/\(token)")
        return status["sendAttempts"]?.array?.compactMap { $0["sendAttemptResult"]?.string } ?? []
    }

    @Test func `a failed notification comes again after an hour of virtual time, with the same bytes`() async throws {
        try await Receiver.run(answering: [500, 404]) { receiver in
            try await RunningSimulator.run(notifying: receiver.url) { simulator in
                let request = try await simulator.call(.POST, "/inApps/v1/notifications/test")
                let token = try #require(request["testNotificationToken"]?.string)
                let first = try await receiver.next()
                while try await attempts(simulator, token).isEmpty { try await Task.sleep(for: .milliseconds(1)) }
                let failed = SendAttemptResult.unsuccessfulHTTPResponseCode.rawValue
                var expected = [failed]
                for (hours, result) in [(1, failed), (12, SendAttemptResult.success.rawValue)] {
                    try await simulator.command("/clock/advance", #"{"seconds":\#(hours * 3600 - 1)}"#)
                    #expect(try await attempts(simulator, token) == expected)
                    let answer = try await simulator.command("/clock/advance", #"{"seconds":1}"#)
                    #expect(answer["complete"] == .bool(true))
                    expected.append(result)
                    #expect(try await attempts(simulator, token) == expected)
                    #expect(try await receiver.next() == first)
                }
            }
        }
    }

    @Test(arguments: [Faults.none, .unkindInOrder])
    func `a notification that is not answered does not hold up the others`(faults: Faults) async throws {
        try await Receiver.run(answering: [0]) { receiver in
            try await RunningSimulator.run(notifying: receiver.url, faults: faults) { simulator in
                let request = try await simulator.call(.POST, "/inApps/v1/notifications/test")
                #expect(request["testNotificationToken"] != nil)
                let silent = try await receiver.next()
                for _ in 0..<3 {
                    try await simulator.command("/notifications/test")
                    #expect(try await receiver.next() != silent)
                }
            }
        }
    }

    /// What an answer says of deliveries.
    private static func fates(_ answer: JSONValue) -> String {
        ["notificationCount", "delivered", "failed", "postponed", "complete"]
            .map { answer[$0]?.compactText ?? "-" }.joined(separator: " ")
    }

    @Test func `a year's renewals have arrived when the answer comes, each at its time`() async throws {
        try await Receiver.run { receiver in
            try await RunningSimulator.run(notifying: receiver.url) { simulator in
                try await simulator.command("/customers", #"{"name":"anna"}"#)
                let bought = try await simulator.command("/customers/anna/buy", Self.purchase)
                #expect(Self.fates(bought) == "1 1 0 0 true")
                let year = try await simulator.command("/clock/advance", #"{"days":365}"#)
                #expect(Self.fates(year) == "12 12 0 0 true")
                var dates: [Int64] = []
                for _ in 0..<13 {
                    let payload = try await receiver.next()
                    let claims = try JSONValue(parsing: JWS(payload.utf8).payload)
                    dates.append(claims["signedDate"]?.integer ?? 0)
                }
                #expect(dates == dates.sorted() && Set(dates).count == 13)
            }
        }
    }

    @Test func `a server that is away, or answers nothing, does not make a command hang`() async throws {
        // Port 9 is discard, which no system runs.
        try await RunningSimulator.run(notifying: "http://127.0.0.1:9/") { simulator in
            try await simulator.command("/customers", #"{"name":"anna"}"#)
            let bought = try await simulator.command("/customers/anna/buy", Self.purchase)
            #expect(Self.fates(bought) == "1 0 1 0 true")
            // The first notification and twelve more, each with six attempts.
            let year = try await simulator.command("/clock/advance", #"{"days":365}"#)
            #expect(Self.fates(year) == "12 0 13 0 true")
        }
        try await Receiver.run(answering: Array(repeating: 0, count: 20)) { receiver in
            let patience = Duration.milliseconds(200)
            try await RunningSimulator.run(notifying: receiver.url, patience: patience) { simulator in
                try await simulator.command("/customers", #"{"name":"anna"}"#)
                let bought = try await simulator.command("/customers/anna/buy", Self.purchase)
                #expect(Self.fates(bought) == "1 0 0 0 false")
                let year = try await simulator.command("/clock/advance", #"{"days":365}"#)
                #expect(Self.fates(year) == "12 0 0 0 false")
                let end = RunningSimulator.start.milliseconds + 365 * 86_400_000 + 1
                #expect(year["date"]?.string == Timestamp(milliseconds: end).iso8601)
                let now = try await simulator.command(
                    "/customers/anna/buy", #"{"product":"com.example.coins","deliver":false}"#)
                #expect(Self.fates(now) == "1 - - - -")
            }
        }
    }

    @Test func `version 1 is sent to a URL that is set while the simulator runs`() async throws {
        try await Receiver.run { receiver in
            try await RunningSimulator.run { simulator in
                try await simulator.command("/customers", #"{"name":"anna"}"#)
                try await simulator.command("/settings", #"{"notify":"\#(receiver.url)","notifyVersion":1}"#)
                try await simulator.command("/customers/anna/buy", Self.purchase)
                let body = try await receiver.nextBody()
                let receipt = try #require(ResponseBodyV1.latestReceipt(in: body))
                let verified = try await simulator.verifier.verify(receipt: receipt, at: RunningSimulator.start)
                #expect(verified.payload.inAppPurchases.map(\.productId) == ["com.example.pro.monthly"])
                #expect(try JSONValue(parsing: body)["notification_type"]?.string == "INITIAL_BUY")
            }
        }
    }

    @Test func `the virtual clock runs, and what falls due is sent`() async throws {
        try await Receiver.run { receiver in
            // A day in a tenth of a second: the clock does not reach its end on any machine.
            try await RunningSimulator.run(notifying: receiver.url, speed: 864_000) { simulator in
                try await simulator.command("/customers", #"{"name":"anna"}"#)
                try await simulator.command("/customers/anna/buy", Self.purchase)
                _ = try await receiver.next()
                let renewal = try await receiver.next()
                let claims = try JSONValue(parsing: JWS(renewal.utf8).payload)
                #expect(claims["notificationType"]?.string == "DID_RENEW")
            }
        }
    }

    @Test func `a request that is to run into its time limit gets no answer, and takes effect`() async throws {
        var faults = Faults.none
        faults.timeouts = 1
        try await Receiver.run { [faults] receiver in
            try await RunningSimulator.run(notifying: receiver.url, faults: faults) { simulator in
                let token = try simulator.key.bearerToken(for: "com.example", at: RunningSimulator.wall())
                let error = await #expect(throws: HTTPClientError.self) {
                    try await simulator.send(
                        .POST, .production, "/inApps/v1/notifications/test", nil,
                        headers: ["Authorization": "Bearer \(token)"], within: .milliseconds(500))
                }
                #expect(error == .deadlineExceeded)
                #expect(try await !receiver.next().isEmpty)
            }
        }
    }

    @Test(arguments: [
        ([:], 200), (["Host": "localhost:9000"], 200), (["Host": "[::1]:9000"], 200), (["Host": "evil.example"], 403),
        (["Host": "127.0.0.1.evil.example:9000"], 403), (["Origin": "http://evil.example"], 403),
        (["Origin": "null"], 403),
        (["Host": "localhost:9000", "Origin": "http://localhost:9000"], 200),
        (["Host": "localhost:9000", "Origin": "http://localhost:9001"], 403),
        (["Sec-Fetch-Site": "cross-site"], 403), (["Sec-Fetch-Site": "same-site"], 403),
        (["Sec-Fetch-Site": "same-origin"], 200), (["Sec-Fetch-Site": "none"], 200),
        (["Host": "simulator:9000"], 200), (["Host": "192.168.1.7"], 200), (["Host": "[fd00::7]:9000"], 200),
        (["Host": "host.docker.internal:9000"], 200), (["Host": "sim.internal.example"], 403),
        (["Host": "evil.example.:9000"], 403), (["Host": "300.1.1.1"], 403), (["Host": ""], 403),
        (["Host": "evil.example:9000", "Origin": "http://evil.example:9000"], 403),
    ])
    func `pages of other sites cannot command a simulator`(headers: [String: String], status: Int) async throws {
        // A port that others can reach is reached by a browser's pages too.
        for hostname in ["127.0.0.1", "0.0.0.0"] {
            try await RunningSimulator.run(hostname: hostname) { simulator in
                let found = try await simulator.send(.GET, .control, "/state", headers: headers).status
                #expect(found == status, "\(hostname)")
            }
        }
    }

    @Test func `the page runs its own script and nothing else`() async throws {
        try await RunningSimulator.run { simulator in
            let page = try await simulator.send(.GET, .control, "/")
            let text = String(decoding: page.body, as: UTF8.self)
            let policy = try #require(page.headers.first(name: "Content-Security-Policy"))
            #expect(page.status == 200)
            #expect(page.headers.first(name: "Cross-Origin-Resource-Policy") == "same-origin")
            #expect(page.headers.first(name: "X-Content-Type-Options") == "nosniff")
            #expect(policy.contains("default-src 'none'; script-src 'sha256-"))
            #expect(!policy.contains("unsafe"))
            #expect(text.matches(of: /\s(src|href|style|on[a-z]+)=|https?:/).map { String($0.0) } == [])
            #expect(try await simulator.send(.GET, .production, "/").status == 401)
        }
    }

    /// A cancelled listener of SwiftNIO ends the process if a connection has been accepted that nobody serves yet.
    @Test func `a simulator whose task is cancelled ends while clients connect`() async throws {
        for _ in 0..<20 {
            try await RunningSimulator.run { simulator in
                let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                for _ in 0..<64 { _ = bootstrap.connect(host: "127.0.0.1", port: simulator.ports[.production] ?? 0) }
            }
        }
    }

    @Test func `a port in use is named`() async throws {
        try await RunningSimulator.run { simulator in
            let port = try #require(simulator.ports[.control])
            let store = try SimulatedStore(
                World(seed: 1, catalogue: .example(bundleId: "x", appAppleId: 1), now: RunningSimulator.start),
                WorldSigner(StoreAuthority.fixture()), StoreKey(seed: 1))
            let roots = try SimulatorRoots(StoreAuthority.fixture())
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let second = SimulatorServer(
                Simulator(store, roots: roots, speed: 0, at: RunningSimulator.start), ports: [.control: port],
                wall: RunningSimulator.wall, clock: ContinuousClock(), logger: logger)
            let error = await #expect(throws: SimulatorListeningError.self) { try await second.run { _ in } }
            #expect(error?.description == "control: 127.0.0.1:\(port) is in use.")
        }
    }
}

extension Faults {
    /// No fault that chance decides, but not a kind network, so that the order is not kept.
    fileprivate static var unkindInOrder: Faults {
        var faults = Faults.none
        faults.retryAfter = 2
        return faults
    }
}
