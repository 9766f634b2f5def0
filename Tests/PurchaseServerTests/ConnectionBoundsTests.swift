// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import HTTPTypes
import Logging
import PurchaseServer
import ReceiptCoding
import Synchronization
import TestData
import TestWorld
import Testing

/// The bounds on connections and their deadlines. No test reads a clock: each waits for the server.
@Suite(.timeLimit(.minutes(60))) struct ConnectionBoundsTests {
    /// Bounds that allow one open connection, so that the server answers a second one only after the first is
    /// closed. All timeouts are longer than the test, except those that `change` sets.
    private static func single(_ change: (inout ServerBounds) -> Void = { _ in }) -> ServerBounds {
        var bounds = ServerBounds()
        bounds.connections = 1
        (bounds.idleTimeout, bounds.bodyTimeout) = (.seconds(3600), .seconds(3600))
        (bounds.requestTimeout, bounds.writeTimeout) = (.seconds(3600), .seconds(3600))
        change(&bounds)
        return bounds
    }

    @Test(arguments: [
        ("POST /nowhere HTTP/1.1\r\nContent-Length: 10000000\r\n", "404"),
        ("POST /verifyReceipt HTTP/1.1\r\nContent-Length: 3145729\r\n", "413"),
        // 2^63 and 2^64 - 1.
        ("POST /verifyReceipt HTTP/1.1\r\nContent-Length: 9223372036854775808\r\nExpect: 100-continue\r\n", "413"),
        ("POST /verifyReceipt HTTP/1.1\r\nContent-Length: 18446744073709551615\r\nExpect: 100-continue\r\n", "413"),
        ("POST /v1/customers/a/purchases HTTP/1.1\r\nContent-Length: 100000\r\n", "401"),
        ("PUT /verifyReceipt HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "200"),
        ("GET /health/live HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n", "200"),
    ])
    func `an unread body ends the connection, after the response`(head: String, status: String) async throws {
        let world = try await LedgerRoutesTests.World()
        try await withServer(ServerBounds(), ledger: world.server.ledger) { running in
            let client = try await RawClient(port: running.port)
            await client.send(head + "Host: x\r\n\r\n1\r\n")
            let answer = await client.rest()
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
            #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
        }
    }

    @Test func `a body that continues after its response is not read further`() async throws {
        try await withServer(Self.single()) { running in
            let client = try await RawClient(port: running.port, isReading: false)
            await client.post("/nowhere", length: 1 << 30)
            #expect(await client.trickle(String(repeating: " ", count: 100_000)))
        }
    }

    @Test func `the connection stays open after a request whose body was read whole`() async throws {
        try await withServer(ServerBounds()) { running in
            let client = try await RawClient(port: running.port)
            for _ in 0..<3 {
                await client.post("/verifyReceipt", length: 100_000, sent: 100_000)
                #expect(await client.answer(endingWith: "}").hasSuffix(#"{"status":21000}"#))
            }
        }
    }

    @Test(arguments: [
        ("Content-Length: 100000\r\n\r\n", " "), ("Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n"),
        ("Transfer-Encoding: chunked\r\n\r\n1;", "x"), ("Content-Length: 100000\r\n\r\n", ""),
    ])
    func `a body that takes too long is answered 408, and ends the connection`(head: String, more: String) async throws
    {
        try await withServer(Self.single { $0.bodyTimeout = .milliseconds(50) }) { running in
            let client = try await RawClient(port: running.port)
            await client.send("POST /verifyReceipt HTTP/1.1\r\nHost: x\r\n" + head)
            async let isEnded = more.isEmpty ? true : client.trickle(more)
            let answer = await client.rest()
            #expect(answer.hasPrefix("HTTP/1.1 408 "))
            #expect(answer.contains(#""code":"timeout""#))
            #expect(await isEnded)
            #expect(try await RawClient.isLive(port: running.port))
        }
    }

    @Test(arguments: ["", "G", "GET / HTTP/1.1\r\nX: "])
    func `a head that takes too long ends the connection`(head: String) async throws {
        try await withServer(Self.single { $0.idleTimeout = .milliseconds(50) }) { running in
            let client = try await RawClient(port: running.port)
            await client.send(head)
            #expect(head.isEmpty ? await client.rest() == "" : await client.trickle("x"))
            // On a busy machine 50 milliseconds may be too short even for this complete request, so it is retried.
            while try await !RawClient.isLive(port: running.port) {}
        }
    }

    @Test(arguments: [
        ("GET /\(String(repeating: "x", count: 20_000)) HTTP/1.1\r\n\r\n", 414),
        ("GET / HTTP/1.1\r\n" + String(repeating: "X: y\r\n", count: 101) + "\r\n", 431),
    ])
    func `a head that is too long is refused, and ends the connection`(head: String, status: Int) async throws {
        try await withServer(Self.single()) { running in
            let client = try await RawClient(port: running.port)
            await client.send(head)
            #expect(await client.rest().hasPrefix("HTTP/1.1 \(status) "))
            #expect(try await RawClient.isLive(port: running.port))
        }
    }

    @Test(arguments: ["5;x=", "5\r\nhello\r\n0\r\nX: "])
    func `what frames the chunks of a body is counted`(start: String) async throws {
        try await withServer(Self.single()) { running in
            let client = try await RawClient(port: running.port)
            await client.send("POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + start)
            #expect(await client.trickle(String(repeating: "x", count: 10_000)))
            let answer = await client.rest()
            #expect(["HTTP/1.1 413", "HTTP/1.1 431", "HTTP/1.1 400"].contains { answer.hasPrefix($0) }, "\(answer)")
            #expect(try await RawClient.isLive(port: running.port))
        }
    }

    @Test func `a body in chunks of one byte is read`() async throws {
        try await withServer(Self.single()) { running in
            let client = try await RawClient(port: running.port)
            await client.send("POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            await client.send(String(repeating: "1\r\n \r\n", count: 60_000) + "0\r\n\r\n")
            #expect(await client.answer(endingWith: "}").hasSuffix(#"{"status":21000}"#))
        }
    }

    /// A request whose response is larger than the kernels' buffers.
    private static func longRequest(_ world: LedgerRoutesTests.World) throws -> String {
        let purchases = (1...1500).map { TestStore.purchase("\($0)", product: "book", until: nil) }
        let receipt = try world.store.sign(TestStore.receipt(purchases))
        let body = #"{"receipt-data":"\#(Base64.encode(receipt))"}"#
        return "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test(.takesLong, arguments: [\ServerBounds.writeTimeout, \.requestTimeout])
    func `a client that does not read its response is disconnected`(
        bound: any WritableKeyPath<ServerBounds, Duration> & Sendable
    ) async throws {
        let world = try await LedgerRoutesTests.World()
        let request = try Self.longRequest(world)
        try await withServer(Self.single { $0[keyPath: bound] = .seconds(10) }, ledger: world.server.ledger) {
            running in
            let client = try await RawClient(port: running.port, isReading: false)
            await client.send(request)
            // The bound also applies to this request, which a slow machine may not answer in time. Before the other
            // client is disconnected, no request is answered.
            while try await !RawClient.isLive(port: running.port) { try await pause() }
        }
    }

    @Test func `a request that is sent before the previous response is not read, and ends the connection`() async throws
    {
        try await withServer(Self.single()) { running in
            let client = try await RawClient(port: running.port)
            await client.send(String(repeating: "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n", count: 1000))
            let answers = await client.rest().components(separatedBy: "HTTP/1.1 200").count - 1
            #expect(answers >= 1 && answers < 1000)
            #expect(try await RawClient.isLive(port: running.port))
        }
    }

    @Test func `a client that closes its sending side still gets its response`() async throws {
        try await withServer(ServerBounds()) { running in
            let client = try await RawClient(port: running.port)
            await client.post("/verifyReceipt", length: 2, sent: 2)
            await client.finish()
            #expect(await client.rest().hasSuffix(#"{"status":21000}"#))
        }
    }

    // MARK: Counts

    @Test func `a client has a bound on its connections, and a trusted proxy has none`() async throws {
        var bounds = ServerBounds()
        bounds.trustsLoopback = false
        bounds.connectionsPerPeer = 2
        bounds.trustedProxies = [try #require(IPNetwork("127.0.0.2/31"))]
        let log = LogLines()
        try await withServer(bounds, log: log) { running in
            let held = [try await RawClient(port: running.port), try await RawClient(port: running.port)]
            for client in held {
                await client.send("GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                #expect(await client.answer(endingWith: "}").contains("live"))
            }
            for _ in 0..<3 { #expect(try await RawClient(port: running.port).rest() == "") }
            #expect(try await RawClient.isLive(port: running.port, from: "127.0.0.4"))
            var proxied: [RawClient] = []
            for _ in 0..<4 { proxied.append(try await RawClient(port: running.port, from: "127.0.0.3")) }
            for client in proxied {
                await client.send("GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                #expect(await client.answer(endingWith: "}").contains("live"))
            }
            #expect(try await RawClient.isLive(port: running.healthPort))
            await held[0].close()
            while try await !RawClient.isLive(port: running.port) {}
        }
        // Logged once, however often it happened.
        let warnings = log.text.filter { $0.hasPrefix("Connections were closed") }
        #expect(warnings.count == 1 && warnings[0].contains("\"maxConnectionsPerPeer\": 2"), "\(log.text)")
    }

    /// A connection whose request is being handled: its body is to come.
    private static func busy(_ port: Int) async throws -> RawClient {
        let client = try await RawClient(port: port)
        await client.send(
            "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        #expect(await client.answer(endingWith: "\r\n\r\n").hasPrefix("HTTP/1.1 100"))
        return client
    }

    @Test func `if all connections have requests, a new one gets 503, and health is answered on its own port`()
        async throws
    {
        let log = LogLines()
        try await withServer(Self.single(), log: log) { running in
            let holder = try await Self.busy(running.port)
            for _ in 0..<3 {
                let answer = try await RawClient(port: running.port).rest()
                #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 5\r\n"), "\(answer)")
                #expect(answer.contains("\r\nConnection: close\r\n") && answer.contains(#""code":"overloaded""#))
                #expect(try await RawClient.isLive(port: running.healthPort))
            }
            let other = try await RawClient(port: running.healthPort)
            await other.send("GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            #expect(await other.rest().hasPrefix("HTTP/1.1 404"))
            // The request that was there goes on, and makes room.
            await holder.send("{}")
            #expect(await holder.answer(endingWith: "}").hasSuffix(#"{"status":21002}"#))
            #expect(try await RawClient.isLive(port: running.port))
        }
        let warnings = log.text.filter { $0.hasPrefix("All connections are in use, and none waits") }
        #expect(warnings.count == 1 && warnings[0].contains("\"maxConnections\": 1"), "\(log.text)")
    }

    @Test func `silent connections keep nobody out, however often they are renewed`() async throws {
        let log = LogLines()
        var bounds = Self.single()
        bounds.connections = 5
        try await withServer(bounds, log: log) { [bounds] running in
            var silent: [RawClient] = []
            for _ in 0..<10 {
                for _ in 0..<bounds.connections { silent.append(try await RawClient(port: running.port)) }
                let client = try await RawClient(port: running.port)
                await client.send("GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                #expect(await client.rest().hasPrefix("HTTP/1.1 200"))
            }
            // The first ones were closed for others, without an answer.
            for client in silent.prefix(5 * 9) { #expect(await client.rest() == "") }
        }
        #expect(log.text.contains { $0.hasPrefix("All connections are in use: those that wait") }, "\(log.text)")
    }

    @Test func `the place of the connection that waited longest for a head is given away, and of none with a request`()
        throws
    {
        var bounds = ServerBounds()
        bounds.connections = 3
        let closed = Mutex<[Int]>([])
        let logger = Logger(label: "test") { _ in LogLines() }
        let counter = ConnectionCounter(bounds, clock: ContinuousClock(), logger: logger)
        var numbers: [Int] = []
        func enter() throws -> Bool {
            let place = numbers.count
            switch counter.enter(nil, close: { closed.withLock { $0.append(place) } }) {
            case .admitted(let number):
                numbers.append(number)
                return true
            case .full(let isTold):
                #expect(isTold)
                counter.leaveRefused()
                return false
            case .tooMany: throw CancellationError()
            }
        }
        for _ in 0..<3 { #expect(try enter()) }
        // The first one has had a request since, so the second one waits longest.
        #expect(counter.endWait(numbers[0]))
        counter.beginWait(numbers[0])
        #expect(try enter())
        #expect(closed.withLock { $0 } == [1])
        // A head that arrives too late is not handled.
        #expect(!counter.endWait(numbers[1]))
        counter.leave(numbers[1], of: nil)
        #expect(counter.endWait(numbers[2]) && counter.endWait(numbers[0]))
        #expect(try enter())
        #expect(closed.withLock { $0 } == [1, 3])
        #expect(counter.endWait(numbers[4]))
        #expect(try !enter())
        counter.leave(numbers[0], of: nil)
        #expect(try enter())
        #expect(closed.withLock { $0 } == [1, 3])
    }

    @Test func `more connections than may be told that all are in use are closed at once`() {
        var bounds = ServerBounds()
        bounds.connections = 0
        let logger = Logger(label: "test") { _ in LogLines() }
        let counter = ConnectionCounter(bounds, clock: ContinuousClock(), logger: logger)
        let told = (0..<ServerBounds.refusedConnections + 2).count { _ in
            if case .full(isTold: true) = counter.enter(nil, close: {}) { true } else { false }
        }
        #expect(told == ServerBounds.refusedConnections)
    }

    @Test func `health on its own port has a bound of its own`() async throws {
        let log = LogLines()
        try await withServer(Self.single(), log: log) { running in
            var clients: [RawClient] = []
            for _ in 0...ServerBounds.healthConnections {
                let client = try await RawClient(port: running.healthPort)
                await client.send("GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                #expect(await client.answer(endingWith: "}").contains("live"))
                clients.append(client)
            }
            #expect(try await RawClient.isLive(port: running.port))
        }
        let warnings = log.text.filter { $0.hasPrefix("All connections are in use: those that wait") }
        #expect(warnings.contains { $0.contains("\"healthConnections\": 50") }, "\(log.text)")
    }

    @Test func `requests have different ids, whichever port they arrive at`() async throws {
        try await withServer(ServerBounds()) { running in
            var ids: Set<String> = []
            for port in [running.port, running.healthPort, running.port] {
                let client = try await RawClient(port: port)
                await client.send("GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                let id = try #require(await client.rest().firstMatch(of: /(?i)x-request-id: (\S+)/))
                ids.insert(String(id.1))
            }
            #expect(ids.count == 3, "\(ids)")
        }
    }

    @Test func `each response names the server with its version, also an error`() async throws {
        try await withServer(ServerBounds()) { running in
            for (port, path) in [(running.port, "/health/live"), (running.port, "/nowhere"), (running.healthPort, "/")]
            {
                let client = try await RawClient(port: port)
                await client.send("GET \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                let response = await client.rest()
                #expect(response.contains("\r\nServer: quittance/\(ServerApplication.version)\r\n"), "\(response)")
            }
        }
    }

    @Test(arguments: [
        ("192.0.2.1", "", "192.0.2.1"), ("192.0.2.1", "198.51.100.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "", "192.0.2.1"), ("2001:db8::1:2:3:4", "", "2001:db8::"),
        ("127.0.0.1", "", nil), ("::1", "192.0.2.1", "192.0.2.1"), ("10.1.2.3", "192.0.2.1, 10.9.9.9", "192.0.2.1"),
        ("10.1.2.3", "198.51.100.1, 192.0.2.1", "192.0.2.1"), ("10.1.2.3", "unknown", nil),
        ("10.1.2.3", "192.0.2.1:567", "192.0.2.1"), ("10.1.2.3", "192.0.2.1:567, 10.9.9.9:1", "192.0.2.1"),
        ("10.1.2.3", "[2001:db8::1]:567", "2001:db8::"), ("10.1.2.3", "[2001:db8::1]", "2001:db8::"),
        ("10.1.2.3", "2001:db8::1", "2001:db8::"), ("10.1.2.3", "192.0.2.1, [::1]:567", "192.0.2.1"),
        ("10.1.2.3", "192.0.2.1:", nil), ("10.1.2.3", "192.0.2.1:x", nil), ("10.1.2.3", "192.0.2.1:65536", nil),
        ("10.1.2.3", "[2001:db8::1", nil), ("10.1.2.3", "[2001:db8::1]567", nil),
        ("10.1.2.3", "[]:567", nil), ("10.1.2.3", ":567", nil),
        ("11.1.2.3", "192.0.2.1", "11.1.2.3"), (nil, "192.0.2.1", nil),
    ])
    func `the client's address is the last one that is not a trusted proxy's`(
        peer: String?, forwarded: String, client: String?
    ) throws {
        var bounds = ServerBounds()
        bounds.trustedProxies = [try #require(IPNetwork("10.0.0.0/8"))]
        var headers = HTTPFields()
        headers[try #require(HTTPField.Name("X-Forwarded-For"))] = forwarded.isEmpty ? nil : forwarded
        let address = peer.flatMap { IPAddress($0) }
        #expect(bounds.client(address, headers) == client.flatMap { IPAddress($0) })
    }

    @Test func `a network is an address, with a number of bits or without`() {
        for text in ["10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0/8", "x", "", "10.0.0.1/-1"] {
            #expect(IPNetwork(text) == nil, "\(text)")
        }
        for text in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::1"] { #expect(IPNetwork(text) != nil, "\(text)") }
    }
}
