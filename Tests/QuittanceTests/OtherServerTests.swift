// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import TestData
import Testing

/// Tests what commands make of servers that answer otherwise than ours.
@Suite(.timeLimit(.minutes(60))) struct OtherServerTests {
    /// Gives each request the same answer; closes the connection if the status is 0.
    private final class Handler: ChannelInboundHandler, Sendable {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart
        private let status: Int
        private let body: String

        init(_ status: Int, _ body: String) { (self.status, self.body) = (status, body) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard case .end = unwrapInboundIn(data) else { return }
            guard status > 0 else { return context.close(promise: nil) }
            let headers: HTTPHeaders = ["Content-Length": "\(body.utf8.count)"]
            let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: headers)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil)
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }
    }

    /// Lets `body` use a server at an address.
    private static func withServer(
        _ status: Int, _ answer: String, _ body: (_ address: String) throws -> Void
    ) async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(status, answer))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            try body("http://127.0.0.1:\(listener.localAddress?.port ?? 0)")
        } catch {
            try await listener.close()
            throw error
        }
        try await listener.close()
    }

    private static let key = ["QUITTANCE_KEY": "qt_x"]

    private static func run(_ command: String, _ address: String) throws -> CommandLineTests.Outcome {
        try CommandLineTests.run(
            command.split(separator: " ").map(String.init) + ["--server", address], environment: key)
    }

    @Test(
        .takesLong,
        arguments: [
            (200, "{}"), (200, "[]"), (200, "null"), (200, "<html>"), (200, #"{"items":[]}"#), (200, #"{"ok":true}"#),
            (200, #"{"id":null,"attributes":null}"#), (202, #"{"id":"x","attributes":{}}"#), (404, "<html>"),
        ])
    func `an answer that no server of ours gives is no success`(status: Int, body: String) async throws {
        try await Self.withServer(status, body) { address in
            for command in [
                "grants make anna --entitlement pro --forever --why w", "customer set anna plan=x", "customer get anna",
                "webhooks add https://example.com/x", "customer move 1 --to anna --reason x",
                "customer consent anna --customer-consented", "webhooks pause x", "events",
            ] where command != "events" || status != 200 {
                let outcome = try Self.run(command, address)
                #expect(outcome.status == 1 && outcome.output.isEmpty, "\(command): \(outcome)")
                // A list of customers without this one is an answer of ours.
                let isKnown = body.contains("items") && command == "customer get anna"
                let message = isKnown ? "No customer has the id" : "answers \(status), but is no Quittance server"
                #expect(outcome.error.contains(message), "\(command): \(outcome.error)")
            }
        }
    }

    @Test(
        .takesLong,
        arguments: [
            (404, "notFound", "There is no such route.", "webhooks pause x", 1, "ADDRESS answers 404. There is no"),
            (
                404, "notFound", "The endpoint is not known.", "webhooks pause x", 1,
                "quittance: The endpoint is not known."
            ),
            (404, "notFound", "It is not known.", "events", 1, "ADDRESS answers 404. It is not known."),
            (
                403, "forbidden", "This route needs a server key.", "webhooks pause x", 1,
                "ADDRESS answers 403. This route"
            ),
            (418, "new", "A word of a later server.", "webhooks pause x", 1, "ADDRESS answers 418. A word"),
            (
                400, "invalidRequest", "It needs “until”, or “forever”.",
                "grants make anna --entitlement pro --why w", 2, "It needs --until, or --forever."
            ),
            (
                404, "unknownCustomer", "“new” makes “id”: qt_abc\u{202e}",
                "grants make anna --entitlement pro --why w", 1,
                "--new makes --id: qt_…\u{fffd}"
            ),
            (
                404, "unknownEntitlement", "No pro.", "grants make anna --entitlement pro --why w", 1,
                "quittance: No pro."
            ),
        ] as [(Int, String, String, String, Int32, String)])
    func `a refusal reads as on the ledger, and one that is not the operation's names the server`(
        status: Int, code: String, message: String, command: String, exit: Int32, expected: String
    ) async throws {
        let body = #"{"error":{"code":"\#(code)","message":"\#(message)","retryable":false}}"#
        try await Self.withServer(status, body) { address in
            let outcome = try Self.run(command, address)
            #expect(outcome.status == exit && outcome.output.isEmpty, "\(outcome)")
            #expect(outcome.error.contains(expected.replacing("ADDRESS", with: address)), "\(outcome.error)")
        }
    }

    @Test func `an unknown transaction is said to be unknown in one environment`() async throws {
        let body = #"{"error":{"code":"appStoreRefused","message":"No.","retryable":false,"appStoreCode":4040010}}"#
        try await Self.withServer(404, body) { address in
            let outcome = try Self.run("app-store refunds 1", address)
            let hint = "quittance: No. Only one environment was asked: pass --environment for the other.\n"
            #expect(outcome.status == 1 && outcome.error == hint, "\(outcome)")
        }
    }

    @Test(arguments: [("http://127.0.0.1:1", false), (nil, true)] as [(String?, Bool)])
    func `a change may have been made if the request was sent, and only then`(away: String?, mayBe: Bool) async throws {
        try await Self.withServer(0, "") { address in
            let outcome = try Self.run("grants make anna --entitlement pro --forever --why a", away ?? address)
            #expect(outcome.status == 2 && outcome.error.contains("may have done it") == mayBe, "\(outcome)")
        }
    }

    @Test func `a failure of TLS is said in words, without the names of libraries`() async throws {
        try await Self.withServer(200, "{}") { address in
            let outcome = try Self.run("webhooks list", address.replacing("http:", with: "https:"))
            #expect(outcome.status == 2 && outcome.error.contains("does not answer: "), "\(outcome)")
            #expect(outcome.error.firstMatch(of: /SSL|HTTPClient|\.(?:cc|swift)/) == nil, "\(outcome)")
        }
    }

    @Test func `the question before what cannot be undone names the server and what was given`() async throws {
        try await Self.withServer(200, #"{"items":[{"ids":["anna"]}],"found":[]}"#) { address in
            let command = [CommandLineTests.program.path, "customer", "delete", "anna", "--environment", "sandbox"]
            let script = #"export QUITTANCE_KEY=qt_x; exec "$@" 2>&1"#
            let asked = try PseudoTerminal.run(
                ["sh", "-c", script, "sh"] + command + ["--server", address], answer: "n\n")
            let question = "Erases a customer. At \(address): customer anna, environment sandbox. It cannot be undone."
            #expect(asked.status == 1 && asked.text.contains(question), "\(asked)")
            #expect(asked.text.contains("Nothing was done."), "\(asked)")
        }
    }
}
