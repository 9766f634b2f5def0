// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AsyncHTTPClient
import Logging
import NIOCore
import NIOPosix
import PurchaseServer
import SimulatorServer
import Synchronization
import Testing

/// The connections on which requests to other servers are sent.
@Suite(.timeLimit(.minutes(60))) struct ConnectionTests {
    /// A client of ours, and how it sends a request to a port with TLS.
    struct Caller: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var send: @Sendable (_ port: Int) async throws -> Void
    }

    private static let timeout = Duration.seconds(3600)

    static let callers = [
        Caller(testDescription: "questions to the App Store") { port in
            let transport = HTTPAppStoreTransport(
                hosts: [.production: "https://127.0.0.1:\(port)"], clock: ContinuousClock())
            _ = try await transport.answer(to: Endpoint.transactionInfo("1").request, in: .production, within: timeout)
        },
        Caller(testDescription: "questions to OCSP responders") { port in
            _ = try await HTTPOCSPTransport().answer(to: [0], from: "https://127.0.0.1:\(port)")
        },
        Caller(testDescription: "the clock of a simulator") { port in
            _ = try await SimulatorClock(
                "https://127.0.0.1:\(port)", clock: ContinuousClock(), logger: Logger(label: "clock"))
        },
        Caller(testDescription: "notifications of a simulator") { port in
            _ = await NotificationDeliverer.post([], to: "https://127.0.0.1:\(port)")
        },
    ]

    @Test(arguments: callers) func `no client offers HTTP 2, in which one silent connection stops all requests`(
        caller: Caller
    ) async throws {
        let hello = try #require(try await ClientHello.sent(by: caller.send))
        #expect(hello.protocols == ["http/1.1"])
    }

    @Test func `a client that the library configures offers HTTP 2`() async throws {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
        let sent = try await ClientHello.sent { port in
            _ = try await client.execute(HTTPClientRequest(url: "https://127.0.0.1:\(port)"), timeout: .hours(1))
        }
        try await client.shutdown()
        let hello = try #require(sent)
        #expect(hello.protocols.contains("h2"))
    }

    @Test func `a connection that went silent is left, and the next question is answered on a new one`() async throws {
        let server = ForgetfulServer()
        try await server.run { port in
            let key = try StoreKey(seed: 1)
            let client = AppStoreClient(
                bundleId: "com.example", key: try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem),
                transport: HTTPAppStoreTransport(
                    hosts: [.production: "http://127.0.0.1:\(port)"], clock: ContinuousClock()),
                now: RunningSimulator.wall, sleep: { _ in }, random: SystemRandomNumberGenerator())
            func ask(within limit: Duration) async throws(AppStoreAPIError) {
                _ = try await client.send(.transactionInfo("1"), to: .production, within: limit)
            }
            var error: AppStoreAPIError?
            // The client closes a connection that was idle for a minute. If this machine took that long, it asks on
            // another one, which does not fall silent before the next round.
            while error == nil {
                try await ask(within: Self.timeout)
                server.fallSilent()
                do throws(AppStoreAPIError) { try await ask(within: .milliseconds(200)) } catch let found {
                    error = found
                }
            }
            #expect(error?.code == .timedOut)
            // However long it waits, a silent connection says nothing any more.
            let connections = server.connections
            for _ in 0..<3 { try await ask(within: Self.timeout) }
            #expect(server.connections <= connections + 1)
        }
    }
}

/// A server whose connections fall silent, as if a router in between had forgotten them. On later connections it
/// answers all requests.
final class ForgetfulServer: Sendable {
    private let count = Mutex((all: 0, silent: 0))

    /// How many connections there were.
    var connections: Int { count.withLock { $0.all } }

    /// From now on, requests on the connections of up to now get no answer.
    func fallSilent() {
        count.withLock { $0.silent = $0.all }
    }

    private func isSilent(_ connection: Int) -> Bool { count.withLock { connection <= $0.silent } }

    /// Runs the server while `body` runs with its port.
    func run(_ body: (_ port: Int) async throws -> Void) async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { [self] channel in
                let number = count.withLock { count in
                    count.all += 1
                    return count.all
                }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler { self.isSilent(number) })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        try await body(channel.localAddress?.port ?? 0)
        try await channel.close()
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private static let body = #"{"signedTransactionInfo":"x"}"#
        private static let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        private let isSilent: () -> Bool
        private var request = ""

        init(isSilent: @escaping () -> Bool) {
            self.isSilent = isSilent
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            request += String(buffer: unwrapInboundIn(data))
            // A request without a body ends with an empty line.
            guard request.hasSuffix("\r\n\r\n"), !isSilent() else { return }
            request = ""
            context.writeAndFlush(NIOAny(ByteBuffer(string: Self.answer)), promise: nil)
        }
    }
}
