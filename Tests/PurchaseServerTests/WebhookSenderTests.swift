// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import NIOCore
import NIOPosix
import PurchaseServer
import Synchronization
import TestData
import TestProcess
import Testing

/// Requests to receivers that behave well and badly, and where requests go.
@Suite struct WebhookSenderTests {
    private static let loopback = ["127.0.0.1"].compactMap { IPNetwork($0) }

    private static let message = WebhookMessage(
        id: "7.e1", body: Array(#"{"id":"7.e1"}"#.utf8), timestamp: Timestamp(milliseconds: 1_700_000_000_999),
        signatures: ["v1,YQ==", "v1a,Yg=="])

    /// A sender to 127.0.0.1 alone.
    private static func sender(
        _ resolver: TestResolver = TestResolver([:]), allowing networks: [IPNetwork] = loopback,
        clock: any Clock<Duration> = ContinuousClock(), limit: Duration = .seconds(60), roots: String? = nil
    ) -> WebhookSender {
        WebhookSender(
            networks: networks, resolver: resolver, clock: clock, limit: limit, idle: .seconds(3600), roots: roots)
    }

    private static func url(_ text: String) throws -> WebhookURL { try WebhookURL(text, allowing: loopback) }

    /// Sends a message to a new receiver with an answer.
    private static func outcome(
        of answer: WebhookReceiver.Answer, limit: Duration = .seconds(60)
    ) async throws -> (WebhookOutcome, WebhookReceiver) {
        let receiver = try await WebhookReceiver(answer)
        let sender = sender(limit: limit)
        let outcome = await sender.send(message, to: try url("http://127.0.0.1:\(receiver.port)/a?b=c"), of: "e")
        sender.shutdown()
        await receiver.stop()
        return (outcome, receiver)
    }

    @Test func `a request has the fields of Standard Webhooks, and the body byte for byte`() async throws {
        let (outcome, receiver) = try await Self.outcome(of: .status("204 No Content"))
        #expect(outcome.status == 204 && outcome.failure == nil)
        let request = try #require(receiver.requests.first)
        let lines = request.split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init)
        #expect(lines.first == "POST /a?b=c HTTP/1.1")
        #expect(lines.last == #"{"id":"7.e1"}"#)
        let fields = lines.dropFirst().dropLast(2).map { $0.lowercased() }
        #expect(
            Set(fields) == [
                "content-type: application/json", "user-agent: quittance", "host: 127.0.0.1:\(receiver.port)",
                "webhook-id: 7.e1", "webhook-timestamp: 1700000000", "webhook-signature: v1,yq== v1a,yg==",
                "content-length: 13",
            ])
    }

    @Test func `requests in succession use the same connection`() async throws {
        let receiver = try await WebhookReceiver(.status("200 OK", body: "thanks"))
        let sender = Self.sender()
        for _ in 0..<20 {
            let outcome = await sender.send(
                Self.message, to: try Self.url("http://127.0.0.1:\(receiver.port)/"), of: "e")
            #expect(outcome.failure == nil && outcome.answer == "thanks")
        }
        #expect(receiver.connections == 1 && receiver.requests.count == 20)
        sender.shutdown()
    }

    @Test func `a connection that the receiver has closed after an answer costs no attempt`() async throws {
        let receiver = try await WebhookReceiver(.last("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
        let sender = Self.sender()
        let url = try Self.url("http://127.0.0.1:\(receiver.port)/")
        for _ in 0..<100 { #expect(await sender.send(Self.message, to: url, of: "e").failure == nil) }
        #expect(receiver.requests.count >= 100)
        sender.shutdown()
    }

    @Test(.timeLimit(.minutes(60)))
    func `a receiver that resets each connection keeps no request waiting`() async throws {
        let receiver = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
                    .flatMap { channel.close() } ?? channel.close()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let sender = Self.sender(limit: .seconds(3 * 3600))
        let url = try Self.url("http://127.0.0.1:\(receiver.localAddress?.port ?? 0)/")
        // In some of these, the reset arrives in the moment of connecting.
        for _ in 0..<300 { #expect(await sender.send(Self.message, to: url, of: "e").failure != nil) }
        sender.shutdown()
        try await receiver.close()
    }

    @Test func `all endpoints together have a limited number of connections`() async throws {
        let receiver = try await WebhookReceiver()
        let sender = WebhookSender(
            networks: Self.loopback, clock: ContinuousClock(), limit: .seconds(3600), maxConnections: 10)
        let url = try Self.url("http://127.0.0.1:\(receiver.port)/")
        #expect(sender.share == 10)
        for (number, share) in [10, 5, 3, 2].enumerated() {
            #expect(await sender.send(Self.message, to: url, of: "\(number)").failure == nil)
            #expect(sender.share == share)
        }
        sender.forget("1")
        #expect(sender.share == 3)
        sender.shutdown()
    }

    @Test(
        arguments: [
            ("200 OK", nil), ("201 Created", nil), ("299 X", nil),
            ("301 Moved Permanently", "301 (redirects are not followed)"),
            ("304 Not Modified", "304 (redirects are not followed)"), ("400 Bad Request", "400"), ("410 Gone", "410"),
            ("500 Internal Server Error", "500"), ("999 X", "999"),
        ] as [(String, String?)])
    func `a status from 200 to 299 is a success, and any other is the failure`(
        status: String, failure: String?
    ) async throws {
        let (outcome, _) = try await Self.outcome(of: .last("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n"))
        #expect(outcome.failure == failure)
        #expect(outcome.status == Int(status.prefix(3)))
    }

    @Test func `a redirect into a private network is a failure, and is not followed`() async throws {
        let inside = try await WebhookReceiver(on: "127.0.0.2")
        let target = "http://127.0.0.2:\(inside.port)/"
        let (outcome, _) = try await Self.outcome(of: .status("302 Found", fields: "Location: \(target)\r\n"))
        #expect(outcome.failure == "302 (redirects are not followed)")
        #expect(inside.connections == 0)
        // The receiver would have noticed.
        #expect(
            await Self.sender(allowing: ["127.0.0.2"].compactMap { IPNetwork($0) }).send(
                Self.message, to: try WebhookURL(target, allowing: ["127.0.0.2"].compactMap { IPNetwork($0) }), of: "e"
            ).failure == nil)
        #expect(inside.connections == 1)
    }

    @Test(
        arguments: [
            (.last(""), nil, "the connection was closed without an answer"),
            (.last("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), 200, "the answer ended early"),
            (.last("HTTP/1.1 200 OK\r\nContent-Le"), nil, "the answer ended early"),
            (.last("SSH-2.0-OpenSSH_9.6\r\n"), nil, "the answer is not HTTP"),
            (
                .text(
                    "HTTP/1.1 200 OK\r\n"
                        + String(repeating: "A: \(String(repeating: "x", count: 50_000))\r\n", count: 60)),
                nil, "the fields of the answer are too long"
            ),
            (
                .text("HTTP/1.1 200 OK\r\nA: \(String(repeating: "x", count: 1_000_000))\r\n\r\n"), nil,
                "the fields of the answer are too long"
            ),
        ] as [(WebhookReceiver.Answer, Int?, String)])
    func `an answer that is broken or missing is a failure, and says so`(
        answer: WebhookReceiver.Answer, status: Int?, failure: String
    ) async throws {
        let (outcome, receiver) = try await Self.outcome(of: answer)
        #expect(outcome.failure == failure)
        #expect(outcome.status == status)
        #expect(receiver.requests.count == 1)
    }

    @Test(
        arguments: [
            (WebhookReceiver.Answer.silence, nil, "no answer within"),
            (.text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), 200, "the answer did not end within"),
            (.text("HTTP/1.1 200 OK\r\n"), nil, "no answer within"),
        ] as [(WebhookReceiver.Answer, Int?, String)])
    func `an answer that does not end in time is a failure`(
        answer: WebhookReceiver.Answer, status: Int?, failure: String
    ) async throws {
        // On a busy machine even the connection takes long.
        for limit in [200, 2000, 20_000, 200_000] {
            let (outcome, receiver) = try await Self.outcome(of: answer, limit: .milliseconds(limit))
            #expect(outcome.milliseconds >= limit - 10 && outcome.failure != nil)
            guard receiver.requests.count == 1, outcome.status == status else { continue }
            return #expect(outcome.failure == "\(failure) \(limit == 200 ? "200 ms" : "\(limit / 1000) s")")
        }
    }

    private static let tooLong = "the fields of the answer are too long"

    @Test(
        arguments: [
            ("Transfer-Encoding: identity\r\nConnection: close\r\n\r\n", "x", 200, nil),
            ("Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", 200, nil),
            ("Transfer-Encoding: chunked\r\n\r\n1;", "x", 200, nil),
            ("Transfer-Encoding: chunked\r\n\r\n0\r\n", "A: x\r\n", 200, nil),
            ("A: ", "x", nil, tooLong), (nil, "x", nil, tooLong), ("", "A: x\r\n", nil, tooLong),
            ("", "\r\nHTTP/1.1 103 X\r\n", nil, tooLong),
        ] as [(String?, String, Int?, String?)])
    func `no more than 64 KiB of an endless answer are read, and its status counts`(
        fields: String?, rest: String, status: Int?, failure: String?
    ) async throws {
        let line = rest.contains("103") ? "103 X\r\n" : "200 OK\r\n"
        // Without fields the status line has no end.
        let head = "HTTP/1.1 " + (fields.map { line + $0 } ?? "200 ")
        let (outcome, receiver) = try await Self.outcome(of: .endless(head, rest))
        #expect(outcome.status == status && outcome.failure == failure)
        // What the buffers of the sockets take comes on top.
        #expect(receiver.sent < 16 << 20)
    }

    @Test func `the beginning of an endless body is kept`() async throws {
        let (outcome, _) = try await Self.outcome(of: .endless("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "x"))
        #expect(outcome.answer == String(repeating: "x", count: 1024))
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxx",
    ])
    func `a connection whose answer ends it, or has too much, is not used again`(answer: String) async throws {
        let receiver = try await WebhookReceiver(.text(answer))
        let sender = Self.sender()
        let url = try Self.url("http://127.0.0.1:\(receiver.port)/")
        for _ in 0..<3 { _ = await sender.send(Self.message, to: url, of: "e") }
        #expect(receiver.connections == 3 && receiver.requests.count == 3)
        sender.shutdown()
    }

    @Test func `the first KiB of an answer is kept as text, with blanks for control characters`() async throws {
        let (short, _) = try await Self.outcome(of: .status("500 X", body: "no\u{1b}[31m \u{202e}é\r\n\u{0}"))
        #expect(short.answer == "no [31m  é   ")
        let (long, _) = try await Self.outcome(of: .status("500 X", body: String(repeating: "é", count: 600)))
        #expect(long.answer.utf8.count <= 1024 && long.answer.hasPrefix(String(repeating: "é", count: 511)))
    }

    @Test(
        arguments: [
            ("120", 120), ("0", 0), ("90000", 86_400), ("999999999999999", 86_400), ("-1", nil), ("soon", nil),
            ("1.5", nil),
            ("Tue, 14 Nov 2023 22:14:20 GMT", 59), ("Tue, 14 Nov 2000 22:14:20 GMT", 0),
            ("Tue, 14 Nov 2099 22:14:20 GMT", 86_400),
        ] as [(String, Int?)])
    func `Retry-After has seconds or a date, and counts for a day at most`(value: String, seconds: Int?) async throws {
        let (outcome, _) = try await Self.outcome(of: .status("503 X", fields: "Retry-After: \(value)\r\n"))
        let pause = outcome.retryAfter.map { Int(($0 / .seconds(1)).rounded()) }
        #expect(pause == seconds)
        let (success, _) = try await Self.outcome(of: .status("200 OK", fields: "Retry-After: \(value)\r\n"))
        #expect(success.retryAfter == nil)
    }

    @Test func `a refused connection says so`() async throws {
        let receiver = try await WebhookReceiver()
        await receiver.stop()
        let outcome = await Self.sender().send(
            Self.message, to: try Self.url("http://127.0.0.1:\(receiver.port)/"), of: "e")
        #expect(outcome.failure == "connection refused" && outcome.status == nil)
    }

    @Test func `a cancelled request ends at once`() async throws {
        let receiver = try await WebhookReceiver(.silence)
        let sender = Self.sender(limit: .seconds(3600))
        let url = try Self.url("http://127.0.0.1:\(receiver.port)/")
        let task = Task { await sender.send(Self.message, to: url, of: "e") }
        while receiver.requests.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
        task.cancel()
        #expect(await task.value.failure == "cancelled")
        // Shutting down ends requests too, and lets none begin.
        let other = Task { await sender.send(Self.message, to: url, of: "e") }
        while receiver.requests.count < 2 { try await Task.sleep(for: .milliseconds(1)) }
        sender.shutdown()
        #expect(await other.value.failure == "cancelled")
        #expect(await sender.send(Self.message, to: url, of: "e").failure == "cancelled")
        #expect(receiver.requests.count == 2)
    }

    @Test func `a lookup that does not end is a failure after the limit, and is cancelled with the request`()
        async throws
    {
        struct Stuck: AddressResolver {
            func addresses(of host: String) async throws -> [IPAddress] {
                try await Task.sleep(for: .seconds(3600))
                return []
            }
        }
        let url = try WebhookURL("https://stuck.test/", allowing: [])
        let short = WebhookSender(networks: [], resolver: Stuck(), clock: ContinuousClock(), limit: .milliseconds(50))
        #expect(
            await short.send(Self.message, to: url, of: "e").refusal
                == "the name stuck.test was not resolved within 50 ms")
        let long = WebhookSender(networks: [], resolver: Stuck(), clock: ContinuousClock(), limit: .seconds(3600))
        let task = Task { await long.send(Self.message, to: url, of: "e") }
        task.cancel()
        #expect(await task.value.failure == "cancelled")
    }

    // MARK: - Where requests go

    /// A clock whose time a test moves, and on which nobody waits.
    private final class MovedClock: Clock {
        private let offset = Mutex(Duration.zero)
        var now: VirtualClock.Instant { VirtualClock.Instant(offset: offset.withLock { $0 }) }
        var minimumResolution: Duration { .zero }
        func move(by duration: Duration) { offset.withLock { $0 += duration } }
        func sleep(until deadline: VirtualClock.Instant, tolerance: Duration?) async throws {
            try await Task.sleep(for: .seconds(3600))
        }
    }

    @Test func `a name that resolves to a forbidden address the second time is not called there`() async throws {
        let outside = try await WebhookReceiver(on: "127.0.0.1")
        let inside = try await WebhookReceiver(on: "127.0.0.2", port: outside.port)
        let resolver = TestResolver(["rebinding.test": [["127.0.0.1"], ["127.0.0.2"]]])
        let clock = MovedClock()
        let sender = Self.sender(resolver, clock: clock)
        let url = try Self.url("http://rebinding.test:\(outside.port)/")
        func send() async -> String? { await sender.send(Self.message, to: url, of: "e").refusal }

        #expect(await send() == nil)
        clock.move(by: .milliseconds(29_999))
        #expect(await send() == nil)
        #expect(resolver.questions.count == 1)
        #expect(outside.requests.first?.contains("rebinding.test:\(outside.port)\r\n") == true)
        clock.move(by: .milliseconds(1))
        #expect(await send() == "the address 127.0.0.2 is forbidden")
        #expect(await send() == "the address 127.0.0.2 is forbidden")
        #expect(resolver.questions.count == 3)
        #expect(outside.requests.count == 2 && inside.connections == 0)
        sender.shutdown()
    }

    @Test func `a receiver that moves to another permitted address is found after 30 seconds`() async throws {
        let old = try await WebhookReceiver(on: "127.0.0.1")
        let new = try await WebhookReceiver(on: "127.0.0.2", port: old.port)
        let resolver = TestResolver(["moving.test": [["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"]]])
        let clock = MovedClock()
        let sender = Self.sender(resolver, allowing: ["127.0.0.0/8"].compactMap { IPNetwork($0) }, clock: clock)
        let url = try Self.url("http://moving.test:\(old.port)/")
        for count in 1...3 {
            #expect(await sender.send(Self.message, to: url, of: "e").failure == nil)
            #expect(resolver.questions.count == count)
            clock.move(by: .seconds(30))
        }
        #expect(old.requests.count == 2 && new.requests.count == 1)
        // The second request used the connection of the first.
        #expect(old.connections == 1)
        sender.shutdown()
    }

    @Test func `if a receiver does not listen at an address of its name, the request goes to the next one`()
        async throws
    {
        let receiver = try await WebhookReceiver(on: "127.0.0.1")
        let resolver = TestResolver(["two.test": [["127.0.0.3", "127.0.0.1"]]])
        let sender = Self.sender(resolver, allowing: ["127.0.0.0/8"].compactMap { IPNetwork($0) }, clock: MovedClock())
        let url = try Self.url("http://two.test:\(receiver.port)/")
        for _ in 1...3 { #expect(await sender.send(Self.message, to: url, of: "e").failure == nil) }
        #expect(receiver.requests.count == 3 && receiver.connections == 1)
        // Once at the beginning, and once after the failed connection.
        #expect(resolver.questions.count == 2)
        await receiver.stop()
        sender.shutdown()
        let other = Self.sender(resolver, allowing: ["127.0.0.0/8"].compactMap { IPNetwork($0) }, clock: MovedClock())
        #expect(await other.send(Self.message, to: url, of: "e").failure == "connection refused")
        #expect(resolver.questions.count == 4)
    }

    @Test(arguments: [
        (["127.0.0.2"], "127.0.0.2"), (["127.0.0.1", "127.0.0.2"], "127.0.0.2"),
        (["127.0.0.1", "10.0.0.1"], "10.0.0.1"),
        (["127.0.0.1", "::1"], "::1"), (["::ffff:127.0.0.2"], "127.0.0.2"), (["64:ff9b::127.0.0.1"], "64:ff9b::7f00:1"),
        (["2002:7f00:2::"], "2002:7f00:2::"), (["::127.0.0.2"], "::127.0.0.2"),
        (["169.254.169.254"], "169.254.169.254"),
        (["fe80::1"], "fe80::1"), (["0.0.0.0"], "0.0.0.0"),
    ])
    func `a name with a single forbidden address is never called`(addresses: [String], culprit: String) async throws {
        let outside = try await WebhookReceiver(on: "127.0.0.1")
        let inside = try await WebhookReceiver(on: "127.0.0.2", port: outside.port)
        for scheme in ["https", "http"] {
            let sender = Self.sender(TestResolver(["mixed.test": [addresses]]))
            let url = try Self.url("\(scheme)://mixed.test:\(outside.port)/")
            let outcome = await sender.send(Self.message, to: url, of: "e")
            #expect(outcome.refusal == "the address \(culprit) is forbidden" && outcome.failure == "refused")
        }
        #expect(outside.connections == 0 && inside.connections == 0)
    }

    @Test func `a name without addresses, and one that has none yet, are failures`() async throws {
        let sender = Self.sender(TestResolver(["empty.test": [[]]]))
        #expect(
            await sender.send(Self.message, to: try Self.url("https://empty.test/"), of: "a").refusal
                == "the name empty.test has no address")
        #expect(
            await sender.send(Self.message, to: try Self.url("https://missing.test/"), of: "b").refusal
                == "the name missing.test cannot be resolved: no such name")
        #expect(
            await sender.send(Self.message, to: try Self.url("http://public.test/"), of: "c").failure != nil)
        let open = Self.sender(TestResolver(["public.test": [["8.8.8.8"]]]))
        #expect(
            await open.send(Self.message, to: try Self.url("http://public.test/"), of: "c").refusal
                == "http to the address 8.8.8.8 is forbidden")
    }

    /// What a key may see: the outcomes must differ in the time alone.
    @Test func `an unknown name and one with a forbidden address have the same failure`() async throws {
        let sender = Self.sender(TestResolver(["inside.test": [["10.0.0.7"]], "empty.test": [[]]]))
        for host in ["inside.test", "empty.test", "missing.test"] {
            var outcome = await sender.send(Self.message, to: try Self.url("https://\(host)/"), of: host)
            #expect(outcome.refusal != nil)
            (outcome.refusal, outcome.milliseconds) = (nil, 0)
            #expect(outcome == WebhookOutcome(failure: "refused", milliseconds: 0))
        }
        sender.shutdown()
    }

    @Test func `localhost is forbidden for the resolver of the system, and permitted with its network`() async throws {
        let receiver = try await WebhookReceiver(on: "127.0.0.1")
        let url = try Self.url("http://localhost:\(receiver.port)/")
        let strict = WebhookSender(networks: [], clock: ContinuousClock())
        #expect(await strict.send(Self.message, to: url, of: "e").refusal?.hasSuffix(" is forbidden") == true)
        #expect(receiver.connections == 0)
        let networks = ["127.0.0.0/8", "::1"].compactMap { IPNetwork($0) }
        let free = WebhookSender(networks: networks, clock: ContinuousClock())
        // On a machine where `localhost` is first the IPv6 address, the second request goes to the other address.
        var failure = await free.send(Self.message, to: url, of: "e").failure
        if failure != nil { failure = await free.send(Self.message, to: url, of: "e").failure }
        #expect(failure == nil)
        #expect(
            await free.send(Self.message, to: try Self.url("http://no-such-name.invalid/"), of: "e").refusal?
                .hasPrefix("the name no-such-name.invalid cannot be resolved: ") == true)
    }

    @Test func `an endpoint with a new URL has nothing from the old one`() async throws {
        let one = try await WebhookReceiver()
        let two = try await WebhookReceiver()
        let sender = Self.sender()
        for receiver in [one, two, one] {
            let url = try Self.url("http://127.0.0.1:\(receiver.port)/")
            #expect(await sender.send(Self.message, to: url, of: "e").failure == nil)
        }
        #expect(one.requests.count == 2 && two.requests.count == 1)
        sender.forget("e")
        #expect(
            await sender.send(Self.message, to: try Self.url("http://127.0.0.1:\(one.port)/"), of: "e").failure == nil)
        sender.shutdown()
    }

    // MARK: - TLS

    /// A receiver with TLS in Python, which answers 200.
    private static let secureReceiver = """
        import http.server, ssl, sys
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
            def log_message(self, *arguments): pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("chain.pem", "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print(server.server_port, flush=True)
        server.serve_forever()
        """

    private static func has(_ program: String...) -> Bool { (try? TestProcess.run(program))?.status == 0 }

    @Test(.enabled(if: has("openssl", "version") && has("python3", "--version"), "needs openssl and python3"))
    func `the certificate is checked for the name, although the connection goes to an address`() async throws {
        let folder = try TemporaryFolder()
        let outcome = try TestProcess.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-days",
                "2", "-subj", "/CN=Test", "-addext", "subjectAltName=DNS:right.test", "-keyout", "key.pem", "-out",
                "chain.pem",
            ], in: folder.url)
        try #require(outcome.status == 0, "\(outcome.error)")
        let process = try TestProcess(["python3", "-c", Self.secureReceiver], in: folder.url, output: .pipe)
        defer {
            process.send(SIGKILL)
            process.wait()
        }
        let port = try #require(Int(await TestLines.first(of: process.output)))
        let roots = try String(contentsOf: folder.url.appendingPathComponent("chain.pem"), encoding: .utf8)
        let resolver = TestResolver(["right.test": [["127.0.0.1"]], "wrong.test": [["127.0.0.1"]]])
        func failure(_ host: String, roots: String?) async throws -> String? {
            let sender = Self.sender(resolver, roots: roots)
            let url = try Self.url("https://\(host):\(port)/")
            let first = await sender.send(Self.message, to: url, of: "e")
            sender.shutdown()
            return first.failure
        }
        #expect(try await failure("right.test", roots: roots) == nil)
        #expect(try await failure("wrong.test", roots: roots) == "the certificate is for another name")
        #expect(try await failure("127.0.0.1", roots: roots) == "the certificate is for another name")
        #expect(try await failure("right.test", roots: nil) == "the certificate is not trusted")
        // A receiver without TLS.
        let plain = try await WebhookReceiver(.unasked("HTTP/1.1 400 Bad Request\r\n\r\n"))
        let reply = await Self.sender().send(
            Self.message, to: try Self.url("https://127.0.0.1:\(plain.port)/"), of: "e")
        #expect(reply.status == nil && reply.failure?.hasPrefix("the TLS connection failed") == true, "\(reply)")
    }
}

/// Lines that a program prints.
enum TestLines {
    /// The first line, or the part of it that was written when the program ended.
    static func first(of file: FileHandle?) async -> String {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                var line = Data()
                while let byte = try? file?.read(upToCount: 1), byte != Data("\n".utf8), !byte.isEmpty { line += byte }
                continuation.resume(returning: String(decoding: line, as: UTF8.self))
            }
        }
    }
}
