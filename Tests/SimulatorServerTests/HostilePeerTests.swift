// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import OutgoingHTTP
import PurchaseServer
import SimulatorServer
import Synchronization
import TestData
import Testing

/// What our requests do when somebody on the way answers in the peer's place: they fail, the process goes on, and the
/// next true answer is read. The time limit only ends a test that hangs.
@Suite(.timeLimit(.minutes(60))) struct HostilePeerTests {
    /// How an answer's body ends.
    enum Framing: String, CaseIterable, Sendable {
        case nothing, length, chunks, close, oldVersion, afterInterim, twice

        /// The bytes of an answer with a status.
        func answer(_ status: String) -> String {
            let head = "HTTP/1.1 \(status) X\r\nConnection: close\r\n"
            return switch self {
            case .nothing: head + "\r\n"
            case .length: head + "Content-Length: 5\r\n\r\nhello"
            case .chunks: head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            case .close: head + "\r\nhello"
            case .oldVersion: "HTTP/1.0 \(status) X\r\nContent-Length: 5\r\n\r\nhello"
            case .afterInterim: "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n" + Self.length.answer(status)
            case .twice: Self.length.answer(status) + Self.length.answer(status)
            }
        }

        /// The bytes of an answer that suffice: without a length, a body ends with the connection.
        func end(_ status: String) -> Int {
            switch self {
            case .nothing: answer(status).utf8.count
            case .close: answer(status).utf8.count - 5
            case .twice: Self.length.answer(status).utf8.count
            default: answer(status).utf8.count
            }
        }
    }

    /// One of our clients, and how it asks a port. It returns `nil` unless it read an answer.
    struct Asker: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var status: @Sendable (_ port: Int) async -> Int?
    }

    private static let hour = Duration.seconds(3600)
    private static let client = PlainClient(timeout: .hours(1), redirects: 5)
    /// Whoever answers for the names in a network decides who is asked at the address in a certificate.
    private static let responder = HTTPOCSPTransport(timeout: hour, addresses: ["ocsp.example.com": "127.0.0.1"])

    private static func ask(_ port: Int, upTo limit: Int = 1 << 20) async throws -> PlainAnswer {
        let request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/")
        return try await client.answer(to: request, within: hour, upTo: limit)
    }

    static let askers = [
        Asker(testDescription: "questions to the App Store") { port in
            let transport = HTTPAppStoreTransport(
                hosts: [.production: "http://127.0.0.1:\(port)"], clock: ContinuousClock())
            let request = Endpoint.transactionInfo("1").request
            return try? await transport.answer(to: request, in: .production, within: hour).status
        },
        Asker(testDescription: "questions to OCSP responders") { port in
            // Its answers are those with status 200.
            (try? await responder.answer(to: [0], from: "http://ocsp.example.com:\(port)")).map { _ in 200 }
        },
        Asker(testDescription: "the clock of a simulator") { port in
            _ = try? await SimulatorClock(
                "http://127.0.0.1:\(port)", clock: ContinuousClock(), logger: Logger(label: "clock"))
            return nil
        },
        Asker(testDescription: "notifications of a simulator") { port in
            await NotificationDeliverer.post([], to: "http://127.0.0.1:\(port)") == .success ? 200 : nil
        },
        Asker(testDescription: "webhooks") { port in await deliver(to: "http://127.0.0.1:\(port)/").status },
    ]

    private static let sender = WebhookSender(
        networks: ["127.0.0.1"].compactMap { IPNetwork($0) }, clock: ContinuousClock(), limit: hour)

    /// Sends a webhook.
    private static func deliver(to url: String) async -> (status: Int?, failure: String?) {
        let message = WebhookMessage(
            id: "1", body: [], timestamp: Timestamp(milliseconds: 0), signatures: ["v1,YQ=="])
        do {
            let url = try WebhookURL(url, allowing: ["127.0.0.1"].compactMap { IPNetwork($0) })
            let outcome = await sender.send(message, to: url, of: url.text)
            return (outcome.failure == nil ? outcome.status : nil, outcome.failure.map { "\($0)" })
        } catch {
            return (nil, "\(error)")
        }
    }

    @Test func `only statuses from 200 to 599 are answers, however their bodies end`() async throws {
        try await drive([0, 1, 99, 100, 101, 103, 199, 200, 204, 299, 301, 304, 404, 599, 600, 999])
    }

    @Test(.takesLong) func `so it is with every status of three digits`() async throws {
        try await drive(Array(0...999))
    }

    private func drive(_ statuses: [Int]) async throws {
        let current = Mutex("")
        try await RawServer.run(.closesAfterCurrent { current.withLock { $0 } }) { port in
            for status in statuses {
                for framing in Framing.allCases {
                    let text = String(status)
                    let digits = String(repeating: "0", count: 3 - text.count) + text
                    current.withLock { $0 = framing.answer(digits) }
                    let answer = try? await Self.ask(port)
                    let expected = (200...599).contains(status) ? status : nil
                    #expect(answer.map { Int($0.status.code) } == expected, "\(framing) \(status)")
                }
            }
            current.withLock { $0 = Framing.length.answer("200") }
            let last = try await Self.ask(port)
            #expect(String(buffer: last.body) == "hello")
        }
    }

    @Test(arguments: askers) func `no status ends a client of ours, and the next answer is read`(
        asker: Asker
    ) async throws {
        let current = Mutex("")
        try await RawServer.run(.closesAfterCurrent { current.withLock { $0 } }) { port in
            for status in ["000", "001", "099", "100", "101", "102", "199", "204", "304", "600", "999"] {
                for framing in Framing.allCases {
                    current.withLock { $0 = framing.answer(status) }
                    let found = await asker.status(port)
                    if status.hasPrefix("0") || status.hasPrefix("1") { #expect(found == nil, "\(status) \(framing)") }
                }
            }
            current.withLock { $0 = Framing.length.answer("200") }
            let last = await asker.status(port)
            #expect(last == 200 || asker.testDescription == "the clock of a simulator")
        }
    }

    @Test func `the address of an OCSP responder is resolved, and the request names its host`() async throws {
        let seen = Mutex<[String]>([])
        let behaviour = RawServer.Behaviour.closesAfter(Framing.length.answer("200"))
        try await RawServer.run(behaviour, onRequest: { text in seen.withLock { $0.append(text) } }) { port in
            let answer = try await Self.responder.answer(to: [0], from: "http://ocsp.example.com:\(port)/x")
            #expect(answer == Array("hello".utf8))
            let request = seen.withLock { $0.first } ?? ""
            #expect(request.hasPrefix("POST /x HTTP/1.1\r\n"))
            #expect(request.lowercased().contains("\r\nhost: ocsp.example.com:\(port)\r\n"), "\(request)")
        }
    }

    @Test(arguments: Framing.allCases)
    func `an answer that is cut before its end is no answer`(framing: Framing) async throws {
        let current = Mutex("")
        let whole = framing.answer("200")
        try await RawServer.run(.closesAfterCurrent { current.withLock { $0 } }) { port in
            for count in 0..<framing.end("200") {
                current.withLock { $0 = String(decoding: whole.utf8.prefix(count), as: UTF8.self) }
                await #expect(throws: (any Error).self, "\(count) bytes") { try await Self.ask(port) }
            }
            for count in framing.end("200")...whole.utf8.count {
                current.withLock { $0 = String(decoding: whole.utf8.prefix(count), as: UTF8.self) }
                let last = try await Self.ask(port)
                #expect("hello".hasPrefix(String(buffer: last.body)))
            }
        }
    }

    /// What comes instead of TLS's answer to a client's first message (RFC 8446 sections 4 to 6).
    static let faultsOfTLS: [(name: String, answer: String)] = [
        ("nothing", ""), ("HTTP in clear", Framing.length.answer("200")), ("zeros", String(repeating: "\0", count: 99)),
        ("a refusal", "\u{15}\u{3}\u{1}\0\u{2}\u{2}\u{28}"), ("an unknown name", "\u{15}\u{3}\u{3}\0\u{2}\u{1}\u{70}"),
        ("its end", "\u{15}\u{3}\u{3}\0\u{2}\u{1}\0"), ("half an alert", "\u{15}\u{3}\u{3}\0\u{2}\u{2}"),
        ("an alert without content", "\u{15}\u{3}\u{3}\0\0"),
        ("a record that is too long", "\u{16}\u{3}\u{3}\u{7f}\u{7f}" + String(repeating: "a", count: 40_000)),
        ("records without content", String(repeating: "\u{16}\u{3}\u{3}\0\0", count: 20_000)),
        ("a message that stops", "\u{16}\u{3}\u{3}\0\u{50}\u{2}\0\0\u{4c}\u{3}\u{3}"),
        ("a message of three zeros' length", "\u{16}\u{3}\u{3}\0\u{4}\u{2}\0\0\0"),
        (
            "a message of 8 MB",
            "\u{16}\u{3}\u{3}\0\u{4}\u{2}\u{7f}\u{7f}\u{7f}" + String(repeating: "a", count: 9 << 20)
        ),
        ("an older version", serverHello("\u{3}\u{1}", "\0\u{2f}")),
        ("a version of the future", serverHello("\u{3}\u{9}", "\0\u{2f}")),
        ("an unknown cipher", serverHello("\u{3}\u{3}", "\0\0")),
        ("changes of the cipher", String(repeating: "\u{14}\u{3}\u{3}\0\u{1}\u{1}", count: 20_000)),
        ("content before the handshake", "\u{17}\u{3}\u{3}\0\u{5}hello"),
        ("a heartbeat", "\u{18}\u{3}\u{3}\0\u{3}\u{1}\u{40}\0"),
        ("a client's message", "\u{16}\u{3}\u{1}\0\u{4}\u{1}\0\0\0"),
    ]

    /// The server's first message, with a version and a cipher, and without extensions.
    private static func serverHello(_ version: String, _ cipher: String) -> String {
        let body = version + String(repeating: "r", count: 32) + "\0" + cipher + "\0"
        let message = "\u{2}\0\0" + String(UnicodeScalar(UInt8(body.utf8.count))) + body
        return "\u{16}\u{3}\u{3}\0" + String(UnicodeScalar(UInt8(message.utf8.count))) + message
    }

    @Test(arguments: faultsOfTLS) func `no fault of TLS is an answer, or ends or stops a client`(
        fault: (name: String, answer: String)
    ) async throws {
        try await RawServer.run(.closesAfter(fault.answer)) { port in
            let request = HTTPClientRequest(url: "https://127.0.0.1:\(port)/")
            await #expect(throws: (any Error).self) {
                try await Self.client.answer(to: request, within: Self.hour, upTo: 1000)
            }
            let delivery = await Self.deliver(to: "https://127.0.0.1:\(port)/")
            #expect(delivery.status == nil && delivery.failure != nil)
        }
    }

    @Test(arguments: [
        "http://127.0.0.1:70000/", "http://127.0.0.1:65536", "http://127.0.0.1:0/", "http://127.0.0.1:-1/",
        "//127.0.0.1:99999/", "http://[::1]:70000/", "http://a:b@127.0.0.1:70000/", "https://127.0.0.1:4294967377/",
        "http://127.0.0.1:99999999999999999999/", "http://127.0.0.1:x/", "ftp://127.0.0.1/", "file:///etc/hostname",
        "http+unix://%2Ftmp%2Fa.sock/", "https+unix://%2Ftmp%2Fa.sock/", "unix:///tmp/a.sock", "javascript:1",
        "data:,x", "http://%5B/", "http://%5D:1/", "http://%5B%5D/", "https://a@%5B/", "http://[::1%25lo]:1/", "http:",
        "http://", "http:///", "http://:80/", "//", "http://[", "http://[::1", "http://a b/", "?",
        "#", "/%zz", "", "/",
    ])
    func `a redirect to where nobody can be asked, or in a circle, is an error`(location: String) async throws {
        let answer = "HTTP/1.1 302 X\r\nLocation: \(location)\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        try await RawServer.run(.closesAfter(answer)) { port in
            await #expect(throws: (any Error).self) { try await Self.ask(port) }
        }
    }

    @Test func `a redirect to another server takes the key along only within the server`() async throws {
        let seen = Mutex<[String]>([])
        let behaviour = RawServer.Behaviour.closesAfter(Framing.length.answer("200"))
        try await RawServer.run(behaviour, onRequest: { text in seen.withLock { $0.append(text) } }) { other in
            let answer = "HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:\(other)/b\r\nContent-Length: 0\r\n\r\n"
            try await RawServer.run(.closesAfter(answer)) { port in
                var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/a")
                request.headers.add(name: "Authorization", value: "Bearer secret")
                let found = try await Self.client.answer(to: request, within: Self.hour, upTo: 1000)
                #expect(found.status == .ok)
            }
        }
        let requests = seen.withLock { $0 }
        #expect(requests.count == 1)
        #expect(requests.first?.hasPrefix("GET /b") == true && requests.first?.contains("secret") == false)
    }

    /// The test's output shows the beginning of an answer, not a megabyte.
    private struct LongAnswer: CustomTestStringConvertible {
        let text: String
        var testDescription: String { String(reflecting: String(text.prefix(60))) }
    }

    @Test(
        arguments: [
            "HTTP/1.1 200 X\r\nA: " + String(repeating: "a", count: 1 << 20) + "\r\n\r\n",
            "HTTP/1.1 200 X\r\n" + String(repeating: "A: b\r\n", count: 200_000) + "\r\n",
            String(repeating: "HTTP/1.1 100 X\r\n\r\n", count: 100_000),
            "HTTP/1.1 200 X\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
            "HTTP/1.1 200 X\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 X\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "HTTP/2.0 200 X\r\n\r\n",
            "\0\0\0",
            "HTTP/1.1 200 X\r\nContent-Length: 2097152\r\n\r\n" + String(repeating: "a", count: 2 << 20),
        ].map(LongAnswer.init))
    private func `an answer that is too long, or none of HTTP, is an error`(answer: LongAnswer) async throws {
        try await RawServer.run(.closesAfter(answer.text)) { port in
            await #expect(throws: (any Error).self) { try await Self.ask(port) }
        }
    }

    @Test(arguments: ["", "HTTP/1.1 200", "HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nhe", "HTTP/1.1 100 X\r\n\r\n"])
    func `an answer that stops is left after the time for all of it`(answer: String) async throws {
        try await RawServer.run(.pausesAfter(answer)) { port in
            let request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/")
            await #expect(throws: (any Error).self) {
                try await Self.client.answer(to: request, within: .milliseconds(100), upTo: 1000)
            }
        }
    }
}
