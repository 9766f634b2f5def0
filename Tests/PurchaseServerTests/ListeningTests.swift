// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import Listening
import Logging
import NIOCore
import NIOPosix
import PurchaseServer
import ServiceLifecycle
import TestProcess
import Testing

/// How the server's listeners fail and end. A cancelled listener of SwiftNIO ends the process if it has accepted a
/// connection that nobody serves yet.
@Suite(.timeLimit(.minutes(60))) struct ListeningTests {
    private static let logger = Logger(label: "test") { _ in LogLines() }

    /// Begins more connections than a listener accepts at once, and waits for none.
    private static func connect(to port: Int) {
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        for _ in 0..<64 { _ = bootstrap.connect(host: "127.0.0.1", port: port) }
    }

    @Test func `a server whose task is cancelled ends while clients connect`() async throws {
        for _ in 0..<20 {
            try await withServer(ServerBounds()) { running in
                for port in [running.port, running.healthPort] { Self.connect(to: port) }
            }
        }
    }

    /// On a clock that stands still the running request is never cancelled.
    @Test func `a cancelled server closes its ports at once, and still answers a running request`() async throws {
        let server = ServerApplication(
            requestSeed: 1, now: { LedgerRoutesTests.now }, clock: StandingClock(), logger: Self.logger)
        let (listeners, listening) = AsyncStream.makeStream(of: ServerApplication.Listener.self)
        let ports = [TestPort.unused(), TestPort.unused()]
        let running = Task {
            try await server.run(hostname: "127.0.0.1", port: ports[0], healthPort: ports[1]) { listener, _ in
                listening.yield(listener)
            }
        }
        var iterator = listeners.makeAsyncIterator()
        for _ in ports { _ = await iterator.next() }
        let client = try await RawClient(port: ports[0])
        await client.send(
            "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        #expect(await client.answer(endingWith: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
        running.cancel()
        for port in ports {
            while let other = try? await RawClient(port: port) {
                await other.close()
                try await pause()
            }
        }
        await client.send("{}")
        #expect(await client.rest().hasPrefix("HTTP/1.1 200"))
        try await running.value
    }

    /// A service that only a cancellation ends.
    private struct LastingService: Service {
        func run() async throws { try? await Task.sleep(for: .seconds(86_400)) }
    }

    @Test func `a listener ends while clients connect, if the time of a group's shutdown is over`() async throws {
        for _ in 0..<20 {
            let (ports, listening) = AsyncStream.makeStream(of: Int.self)
            let application = Application(
                router: Router(), configuration: .init(address: .hostname("127.0.0.1", port: 0)),
                onServerRunning: { listening.yield($0.localAddress?.port ?? 0) }, logger: Self.logger)
            let listener = ListeningService(
                application, on: ListeningAddress(hostname: "127.0.0.1", port: 0), grace: .seconds(5),
                clock: ContinuousClock(), logger: Self.logger
            ) { _ in CancellationError() }
            var configuration = ServiceGroupConfiguration(
                services: [listener, LastingService()], logger: Self.logger)
            configuration.maximumGracefulShutdownDuration = .zero
            let group = ServiceGroup(configuration: configuration)
            let running = Task { try await group.run() }
            var iterator = ports.makeAsyncIterator()
            Self.connect(to: await iterator.next() ?? 0)
            await group.triggerGracefulShutdown()
            try await running.value
        }
    }

    @Test func `an address on which the server cannot listen is reported with its setting`() async throws {
        try await withServer(ServerBounds()) { running in
            let port = running.port
            for (ports, setting) in [((port, nil), "port"), ((0, port), "healthPort")] as [((Int, Int?), String)] {
                let error = await #expect(throws: ListeningError.self) {
                    try await running.server.run(hostname: "127.0.0.1", port: ports.0, healthPort: ports.1)
                }
                #expect(error?.description == "\(setting): 127.0.0.1:\(port) is in use.")
            }
            for hostname in ["192.0.2.1", "nowhere.invalid"] {
                let error = await #expect(throws: ListeningError.self) {
                    try await running.server.run(
                        hostname: "127.0.0.1", port: 0, healthHostname: hostname, healthPort: 0)
                }
                #expect(
                    error?.description.hasPrefix("healthHostname: \(hostname):0 cannot be listened on: ") == true,
                    "\(error?.description ?? "")")
            }
        }
    }

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1:8080"), ("notes.example", "notes.example:8080"), ("::1", "[::1]:8080"),
        ("2001:db8::7", "[2001:db8::7]:8080"),
    ])
    func `an address with a port is written as in a URL`(hostname: String, text: String) {
        #expect(ListeningAddress(hostname: hostname, port: 8080).description == text)
    }
}
