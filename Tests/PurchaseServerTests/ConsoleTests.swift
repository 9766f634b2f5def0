// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import PurchaseServer
import TestData
import Testing

/// The port of the console: its files, its operations, and what it lets other pages do.
@Suite struct ConsoleTests {
    /// The answer to a request on a connection of its own: the status, the fields in lower case, and the body.
    private static func ask(
        _ method: String, _ path: String, at port: Int, _ fields: [String] = []
    ) async throws -> (status: Int, fields: [String: String], body: String) {
        let client = try await RawClient(port: port)
        let lines = ["\(method) \(path) HTTP/1.1", "Host: x", "Connection: close"] + fields
        await client.send(lines.joined(separator: "\r\n") + "\r\n\r\n")
        let answer = await client.rest()
        let parts = answer.components(separatedBy: "\r\n\r\n")
        let head = parts[0].components(separatedBy: "\r\n")
        let pairs = head.dropFirst().map { line in
            (line.prefix { $0 != ":" }.lowercased(), String(line.drop { $0 != ":" }.dropFirst(2)))
        }
        let status = head[0].split(separator: " ").dropFirst().first.flatMap { Int($0) }
        return (
            try #require(status), Dictionary(pairs) { first, _ in first },
            parts.dropFirst().joined(separator: "\r\n\r\n")
        )
    }

    private static let files = [
        ("/", "text/html; charset=utf-8", "console.html"), ("/console.css", "text/css; charset=utf-8", "console.css"),
        ("/console.js", "text/javascript; charset=utf-8", "console.js"), ("/icon.svg", "image/svg+xml", "icon.svg"),
    ]

    private static func withConsole(
        _ body: @escaping @Sendable (_ console: Int, _ running: RunningServer, _ key: String) async throws -> Void
    ) async throws {
        let world = try await LedgerRoutesTests.World()
        let key = try #require(world.keys[.support])
        try await withServer(ServerBounds(), ledger: world.server.ledger) { running in
            try await body(#require(running.consolePort), running, key)
        }
    }

    @Test func `the console's port has four files and the operations, and no other route`() async throws {
        try await Self.withConsole { console, running, key in
            for (path, type, file) in Self.files {
                let text = try Project.text("Sources/CConsole/files/\(file)")
                let answer = try await Self.ask("GET", path, at: console)
                #expect(answer.status == 200 && answer.fields["content-type"] == type && answer.body == text, "\(path)")
                let head = try await Self.ask("HEAD", path, at: console)
                #expect(head.status == 200 && head.body.isEmpty, "\(path)")
                for method in ["POST", "PUT", "DELETE", "PATCH"] {
                    let other = try await Self.ask(method, path, at: console, ["Content-Length: 0"])
                    #expect(other.status == 405, "\(method) \(path)")
                }
                #expect(try await Self.ask("GET", path, at: running.port).status == 404, "\(path)")
            }
            let fields = ["Authorization: Bearer \(key)"]
            let own = try await Self.ask("GET", "/v1/key", at: console, fields)
            #expect(own.status == 200 && own.body.contains(#""role":"support""#), "\(own)")
            for path in ["/health/live", "/health/ready", "/openapi.json", "/console.html", "/index.html", "/files/"] {
                #expect(try await Self.ask("GET", path, at: console, fields).status == 404, "\(path)")
            }
            for path in ["/verifyReceipt", "/notifications/v2"] {
                let answer = try await Self.ask("POST", path, at: console, fields + ["Content-Length: 0"])
                #expect(answer.status == 404, "\(path)")
            }
        }
    }

    @Test func `each answer of the console's port, also an error, keeps to its own origin`() async throws {
        try await Self.withConsole { console, _, key in
            let asking = ["Origin: https://evil.example", "Authorization: Bearer \(key)"]
            let preflight =
                asking + [
                    "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization",
                ]
            for (method, path) in [
                ("GET", "/"), ("GET", "/console.js"), ("HEAD", "/"), ("GET", "/nowhere"), ("GET", "/v1/key"),
                ("GET", "/v1/customers/anna"), ("OPTIONS", "/v1/key"), ("OPTIONS", "/"), ("DELETE", "/"),
            ] {
                let answer = try await Self.ask(method, path, at: console, method == "OPTIONS" ? preflight : asking)
                #expect(
                    answer.fields["content-security-policy"] == """
                        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                        form-action 'none'; frame-ancestors 'none'; base-uri 'none'
                        """, "\(path)")
                #expect(answer.fields["referrer-policy"] == "no-referrer", "\(path)")
                #expect(answer.fields["cache-control"] == "no-store", "\(path)")
                #expect(answer.fields["x-content-type-options"] == "nosniff", "\(path)")
                #expect(!answer.fields.keys.contains { $0.hasPrefix("access-control-") }, "\(path)")
                #expect(answer.fields["set-cookie"] == nil, "\(path)")
            }
        }
    }

    @Test func `the connections of the console count among those of the server`() async throws {
        let world = try await LedgerRoutesTests.World()
        var bounds = ServerBounds()
        bounds.connections = 2
        try await withServer(bounds, ledger: world.server.ledger) { running in
            let console = try #require(running.consolePort)
            let first = try await RawClient(port: console)
            await first.send("GET /icon.svg HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(await first.answer(endingWith: "</svg>\n").contains("200"))
            // Two requests at the other port, which wait for the rest of their bodies, take all places.
            for _ in 0..<2 {
                let client = try await RawClient(port: running.port)
                await client.post("/verifyReceipt", length: 1000, sent: 1)
            }
            // The oldest connection waits for a request, and so made room.
            #expect(await first.rest().isEmpty)
        }
    }

    @Test func `the files of the console have at most 120 KB`() throws {
        let sizes = try Self.files.map { try Project.text("Sources/CConsole/files/\($0.2)").utf8.count }
        #expect(sizes.reduce(0, +) <= 120_000)
    }
}
