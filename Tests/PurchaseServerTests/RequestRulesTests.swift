// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import HTTPTypes
import HummingbirdTesting
import NIOCore
import PurchaseLedger
import PurchaseServer
import Testing

/// The duties of an origin server (RFC 9110, RFC 9112), byte by byte. No test reads a clock: each waits for the server.
@Suite(.timeLimit(.minutes(60))) struct RequestRulesTests {
    /// The response to these bytes, on a connection of its own.
    private static func response(to request: String, _ world: LedgerRoutesTests.World? = nil) async throws -> String {
        let answers = AsyncStream.makeStream(of: String.self)
        try await withServer(ServerBounds(), ledger: world?.server.ledger) { running in
            let client = try await RawClient(port: running.port)
            await client.send(request)
            answers.continuation.yield(await client.rest())
        }
        var iterator = answers.stream.makeAsyncIterator()
        return await iterator.next() ?? ""
    }

    /// The value of a header field, whatever the case of its name.
    private static func field(_ name: String, of response: String) -> String? {
        let head = response.components(separatedBy: "\r\n\r\n").first ?? ""
        let fields = head.components(separatedBy: "\r\n").dropFirst().filter {
            $0.lowercased().hasPrefix(name.lowercased() + ": ")
        }
        #expect(fields.count <= 1, "\(response)")
        return fields.first.map { String($0.dropFirst(name.count + 2)) }
    }

    private static let long = String(repeating: "x", count: 20_000)
    private static let chunked = "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"

    @Test(arguments: [
        // The request line.
        ("NONSENSE\r\n\r\n", 400), ("\u{16}\u{3}\u{1} \r\n\r\n", 400), ("GET / HTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("get /health/live HTTP/1.1\r\nHost: x\r\n\r\n", 501), ("BREW /health/live HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        ("PROPFIND /health/live HTTP/1.1\r\nHost: x\r\n\r\n", 501), ("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        // No version 1.2 exists. The parser knows those that do.
        ("GET /health/live HTTP/1.2\r\nHost: x\r\n\r\n", 505), ("GET /health/live HTTP/0.9\r\nHost: x\r\n\r\n", 505),
        ("GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505), ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        ("GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400), ("GET health HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET ftp://x/health/live HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1 \r\nHost: x\r\n\r\n", 400),
        ("GET /malformed uri HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET  /health/live HTTP/1.1\r\nHost: x\r\n\r\n", 400), ("GET /health/live  HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("\r\nGET /health/live   HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET http:///health/live HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET http://u@x/health/live HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET http://x:99999/health/live HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET /health/live#x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET /\(long) HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        // Header fields.
        ("GET / HTTP/1.1\r\nHost: x\r\nX: \(long)\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\nHost: x\r\n" + String(repeating: "X: y\r\n", count: 101) + "\r\n", 431),
        ("GET /health/live HTTP/1.1\r\n\r\n", 400), ("GET /health/live HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost: a b@/\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\nHost: x\n\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost: x\r\nX: a\u{0}b\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n", 417),
        // The length of the body.
        (chunked + "Content-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
        ("POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        ("POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}", 400),
        ("POST /verifyReceipt HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
        ("POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n{}", 400),
        ("POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (chunked + "\r\nzz\r\n{}\r\n0\r\n\r\n", 400), (chunked + "\r\n2\n{}\n0\n\n", 400),
    ])
    func `a request against HTTP's rules gets its status with an error body, and ends the connection`(
        request: String, status: Int
    ) async throws {
        let response = try await Self.response(to: request)
        #expect(response.hasPrefix("HTTP/1.1 \(status) "), "\(response)")
        #expect(Self.field("Connection", of: response) == "close")
        #expect(Self.field("Date", of: response)?.hasSuffix(" GMT") == true)
        #expect(Self.field("X-Request-Id", of: response) != nil)
        #expect(Self.field("Cache-Control", of: response) == "no-store")
        #expect(Self.field("Content-Type", of: response) == "application/json")
        let body = response.components(separatedBy: "\r\n\r\n").dropFirst().joined(separator: "\r\n\r\n")
        let error = try JSONValue(parsing: body.utf8)["error"]
        #expect(error?["code"]?.string == (status == 400 ? "badRequest" : "refused"))
        #expect(error?["message"]?.string?.isEmpty == false && error?["retryable"] == .bool(false))
        #expect(Self.field("Content-Length", of: response) == "\(body.utf8.count)")
    }

    @Test(arguments: [
        "GET /health/live HTTP/1.0\r\n\r\n", "GET /health/live HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
        "GET /health/live HTTP/1.0\r\nExpect: tea\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: CLOSE\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive, Close\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: x\r\nConnection: cLose\r\n\r\n",
        // The parser reads no further request after this one, so the connection must end.
        "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
        "GET http://x/health/live HTTP/1.1\r\nHost: y\r\nConnection: close\r\n\r\n",
        "GET /health/live?x HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
        "\r\nGET /health/live HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
    ])
    func `the response to the last request of a connection ends the connection`(request: String) async throws {
        let response = try await Self.response(to: request)
        #expect(response.hasPrefix("HTTP/1.1 200 ") && response.hasSuffix(#"{"status":"live"}"#), "\(response)")
        #expect(Self.field("Connection", of: response) == "close")
    }

    @Test(arguments: [
        "GET /health/live HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n", "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ])
    func `the server takes few bytes after the last request of a connection`(request: String) async throws {
        try await withServer(ServerBounds()) { running in
            let client = try await RawClient(port: running.port)
            await client.send(request)
            let (part, limit) = (String(repeating: "x", count: 64 << 10), 512)
            var parts = 0
            while parts < limit, await client.send(part) { parts += 1 }
            #expect(parts < limit)
        }
    }

    @Test(arguments: [
        ("", 200), ("x", 200), ("x:", 200), ("x:80", 200), ("x:65535", 200), ("127.0.0.1:8080", 200), ("[::1]", 200),
        ("[::1]:80", 200), ("[2001:db8::192.0.2.1]:", 200), ("a_b.example", 200), ("%C3%A4.example", 200),
        ("a:xx", 400), ("a:65536", 400), ("a:99999", 400), ("a:+1", 400), ("a:-1", 400), ("a:80:80", 400), (":80", 400),
        ("[::1", 400), ("::1", 400), ("[::1]x", 400), ("[::1]:x", 400), ("[]", 400), ("[1.2.3.4]", 400), ("[x]", 400),
        ("a[::1]", 400), ("a]", 400), ("a%", 400), ("a%2", 400), ("a%zz", 400), ("u@a", 400), ("a/b", 400),
        ("a,b", 200),
    ])
    func `a Host field is a host with or without a port`(host: String, status: Int) async throws {
        let response = try await Self.response(
            to: "GET /health/live HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
        #expect(response.hasPrefix("HTTP/1.1 \(status) "), "\(response)")
    }

    @Test(arguments: [
        ("/health/live", 200), ("/health/live/", 200), ("/health/%6cive", 200), ("/%68ealth/li%76%65", 200),
        ("/health/%6Cive?x=%6c", 200), ("http://x/health/%6cive", 200), ("/health%2Flive", 404),
        ("/health/%2e/live", 404),
        ("//health/live", 404), ("/health//live", 404), ("/health/live//", 404), ("http://x//health/live", 404),
        ("/health/live?x=//y", 200), ("/Health/live", 404), ("/health/live%", 404), ("/health/%6cive%zz", 404),
        ("/no%20route", 404), ("/whole%20server", 404), ("/malformed%20host", 404),
    ])
    func `a path is compared segment by segment, and an escape that is not needed changes nothing`(
        target: String, status: Int
    ) async throws {
        let response = try await Self.response(
            to: "GET \(target) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        #expect(response.hasPrefix("HTTP/1.1 \(status) "), "\(response)")
    }

    @Test(arguments: [
        "//v1/events", "/v1//events", "/v1/customers//purchases", "/v1/customers//", "/v1/customers/",
        "/v1/%63ustomers/", "/v1/customers/?after=1",
    ])
    func `a path with an empty segment reaches no other route`(path: String) async throws {
        let world = try await LedgerRoutesTests.World()
        let key = "Authorization: Bearer \(try #require(world.keys[.server]))"
        let response = try await Self.response(
            to: "GET \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\(key)\r\n\r\n", world)
        #expect(response.hasPrefix("HTTP/1.1 404 ") && response.contains(#""code":"notFound""#), "\(response)")
    }

    @Test func `an escaped percent sign in a customer's id is decoded once`() async throws {
        let world = try await LedgerRoutesTests.World()
        try await world.submit(for: "a%2541")
        let key = "Authorization: Bearer \(try #require(world.keys[.server]))"
        for (id, status) in [("%61%2541", 200), ("a%2%35", 400)] {
            let response = try await Self.response(
                to: "GET /v1/customers/\(id) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\(key)\r\n\r\n", world)
            #expect(response.hasPrefix("HTTP/1.1 \(status) "), "\(response)")
        }
    }

    @Test func `bytes that follow a request and are not HTTP get no second response`() async throws {
        let response = try await Self.response(to: "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nNONSENSE\r\n\r\n")
        #expect(response.components(separatedBy: "HTTP/1.1 ").count == 2, "\(response)")
        #expect(response.hasSuffix(#"{"status":"live"}"#))
    }

    @Test(arguments: [
        "/health/live", "/health/ready", "/v1/events", "/v1/events?limit=x", "/v1/customers/anna",
        "/v1/customers/nobody", "/v1/customers/anna/entitlements/pro", "/v1/transactions/1", "/v1/subscriptions/1",
        "/v1/evidence/x", "/nowhere", "/verifyReceipt", "/notifications/v2",
    ])
    func `HEAD has the status and the header fields of GET, and no body`(path: String) async throws {
        let world = try await LedgerRoutesTests.World()
        try await world.submit()
        var heads: [[String]] = []
        for method in ["GET", "HEAD"] {
            let key = "Authorization: Bearer \(try #require(world.keys[.server]))"
            let fields = "Host: x\r\nConnection: close\r\nX-Request-Id: 1\r\n"
            let response = try await Self.response(
                to: "\(method) \(path) HTTP/1.1\r\n\(fields)\(key)\r\n\r\n", world)
            let parts = response.components(separatedBy: "\r\n\r\n")
            #expect(parts.dropFirst().joined().isEmpty == (method == "HEAD"), "\(response)")
            heads.append(parts[0].components(separatedBy: "\r\n").filter { !$0.hasPrefix("Date: ") }.sorted())
        }
        #expect(heads[0] == heads[1])
        #expect(heads[1].contains { $0.hasPrefix("Content-Length: ") && $0 != "Content-Length: 0" })
    }

    // MARK: Methods

    @Test(arguments: ["HTTP/1.1\r\nHost: x\r\nConnection: close", "HTTP/1.0"])
    func `OPTIONS of the whole server lists the methods of its routes`(rest: String) async throws {
        let world = try await LedgerRoutesTests.World()
        let response = try await Self.response(to: "OPTIONS * \(rest)\r\n\r\n", world)
        #expect(response.hasPrefix("HTTP/1.1 204 ") && response.hasSuffix("\r\n\r\n"), "\(response)")
        #expect(Self.field("Content-Length", of: response) == nil)
        #expect(Self.field("Allow", of: response) == "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS")
    }

    @Test(arguments: ["/verifyReceipt", "/sandbox/verifyReceipt"])
    func `verifyReceipt answers other methods as the App Store does, but neither OPTIONS nor TRACE`(
        path: String
    ) async throws {
        let world = try await LedgerRoutesTests.World()
        for method in [HTTPRequest.Method.get, .put, .delete, .patch] {
            let response = try await world.respond(method, path, key: nil)
            #expect(response.status == .ok && String(buffer: response.body) == #"{"status":21000}"#)
        }
        for (method, status) in [(.options, .noContent), (.trace, .methodNotAllowed)]
            as [(HTTPRequest.Method, HTTPResponse.Status)]
        {
            let response = try await world.respond(method, path, key: nil)
            #expect(response.status == status && response.headers[.allow] == "POST, OPTIONS")
        }
    }

    @Test func `an unknown path is not found, whatever the method`() async throws {
        let world = try await LedgerRoutesTests.World()
        for (method, path) in [
            (.get, "/nowhere"), (.post, "/nowhere"), (.options, "/nowhere"), (.trace, "/nowhere"), (.get, "/"),
            (.options, "/"), (.trace, "/"),
        ] as [(HTTPRequest.Method, String)] {
            let response = try await world.respond(method, path, key: nil)
            #expect(response.status == .notFound && response.headers[.allow] == nil)
        }
    }

    // MARK: Bodies

    @Test func `a client that expects 100-continue gets it when the server reads the body`() async throws {
        try await withServer(ServerBounds()) { running in
            let client = try await RawClient(port: running.port)
            let head = "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n"
            await client.send(head + "Expect: 100-Continue\r\n\r\n")
            #expect(await client.answer(endingWith: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            await client.send("{}")
            let response = await client.rest()
            #expect(response.hasPrefix("HTTP/1.1 200 ") && response.hasSuffix(#"{"status":21002}"#), "\(response)")
        }
    }

    @Test(arguments: [
        ("POST /v1/customers/a/purchases HTTP/1.1\r\nContent-Length: 2\r\n", 401),
        ("POST /verifyReceipt HTTP/1.1\r\nContent-Length: 3145729\r\n", 413),
        ("POST /verifyReceipt HTTP/1.1\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n", 415),
        ("GET /notifications/v2 HTTP/1.1\r\nContent-Length: 2\r\n", 405),
    ])
    func `a request that is refused by its head gets no 100`(head: String, status: Int) async throws {
        let world = try await LedgerRoutesTests.World()
        let response = try await Self.response(to: head + "Host: x\r\nExpect: 100-continue\r\n\r\n", world)
        #expect(response.hasPrefix("HTTP/1.1 \(status) "), "\(response)")
        #expect(Self.field("Connection", of: response) == "close")
        #expect(Self.field("Accept-Encoding", of: response) == (status == 415 ? "identity" : nil))
    }

    // MARK: Keys

    private static let authorizations: [(value: String?, status: Int, challenge: String?)] = [
        (nil, 401, #"Bearer realm="quittance""#),
        ("Basic eDp5", 401, #"Bearer realm="quittance", error="invalid_token""#),
        ("Bearer qt_x", 401, #"Bearer realm="quittance", error="invalid_token""#),
        ("Bearer CLIENT", 403, #"Bearer realm="quittance", error="insufficient_scope""#),
        ("bEARER   SERVER", 200, nil),
    ]

    @Test(arguments: authorizations)
    func `a refused key is answered with a challenge`(
        authorization: String?, status: Int, challenge: String?
    ) async throws {
        let world = try await LedgerRoutesTests.World()
        let value = authorization?.replacing("CLIENT", with: world.keys[.client] ?? "")
            .replacing("SERVER", with: world.keys[.server] ?? "")
        let field = value.map { "Authorization: \($0)\r\n" } ?? ""
        let response = try await Self.response(
            to: "GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\(field)\r\n", world)
        #expect(response.hasPrefix("HTTP/1.1 \(status) "), "\(response)")
        #expect(Self.field("WWW-Authenticate", of: response) == challenge)
    }

    @Test func `a missing or invalid customer token is answered with a challenge`() async throws {
        let proof = try #require(CustomerProof(secret: String(repeating: "s", count: 32)))
        let world = try await LedgerRoutesTests.World(proof: proof)
        for (token, code) in [(nil, "customerTokenRequired"), ("x", "customerTokenInvalid")] as [(String?, String)] {
            let response = try await world.respond(.get, "/v1/customers/anna", key: .client, token: token)
            #expect(response.status == .unauthorized)
            #expect(
                response.headers[.wwwAuthenticate]
                    == #"Bearer realm="quittance", error="invalid_token", error_description="\#(code)""#)
        }
    }
}
