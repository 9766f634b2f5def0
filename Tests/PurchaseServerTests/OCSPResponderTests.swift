// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import Foundation
import Hummingbird
import HummingbirdTesting
import PurchaseServer
import TestData
import Testing
import X509

/// Tests revocation with OpenSSL's responder and real connections. The time limit only ends a test that hangs.
@Suite(.serialized, .timeLimit(.minutes(60))) struct OCSPResponderTests {
    private static func code(_ verifier: AppStoreVerifier, _ token: [UInt8]) async -> VerificationError.Code? {
        do {
            _ = try await verifier.verify(jws: token, at: ResponderWorld.now)
            return nil
        } catch {
            return error.code
        }
    }

    /// A checker whose timeouts are long enough for any machine.
    private static func checker() -> RevocationChecker {
        RevocationChecker(transport: OpenSSLResponder.transport, timeout: .seconds(3600), deadline: .seconds(3600))
    }

    @Test(.enabled(if: OpenSSLResponder.program != nil, "\(OpenSSLResponder.whyNot)"))
    func `OpenSSL's responders report good and revoked, and a stopped one leaves the status unknown`() async throws {
        let world = try ResponderWorld()
        let keyOfRoot = try world.folder.write(world.rootKey.pemRepresentation, to: "root.key")
        let keyOfDelegate = try world.folder.write(world.delegateKey.pemRepresentation, to: "delegate.key")
        let root = try world.write(world.root, to: "root.pem")
        let request = try OCSPQuestion(about: world.root, issuedBy: world.root).request()

        // The root's key signs the responses about the intermediate. The intermediate has delegated the responses about
        // the leaf to another key.
        let responderOfRoot = try await OpenSSLResponder(
            index: world.write(.valid, world.intermediateSerial, to: "root.txt"), authority: root, signer: root,
            key: keyOfRoot)
        defer { responderOfRoot.stop() }
        let intermediate = try world.intermediate(responder: "http://127.0.0.1:\(responderOfRoot.port)")
        let responder = try await OpenSSLResponder(
            index: world.write(.valid, world.leafSerial, to: "intermediate.txt"),
            authority: world.write(intermediate, to: "intermediate.pem"),
            signer: world.write(world.delegate(), to: "delegate.pem"), key: keyOfDelegate)
        defer { responder.stop() }
        let leaf = try world.leaf(responder: "http://127.0.0.1:\(responder.port)/")
        let token = try world.token([leaf, intermediate, world.root])

        let good = Self.checker()
        #expect(await Self.code(try world.verifier(good), token) == nil)

        _ = try world.write(.revoked, world.leafSerial, to: "intermediate.txt")
        try await responder.readIndexAgain(asking: request)
        #expect(await Self.code(try world.verifier(Self.checker(), acceptsUnknown: true), token) == .certificateRevoked)
        // A current answer in the cache needs no responder.
        #expect(await Self.code(try world.verifier(good), token) == nil)

        responder.stop()
        let dead = Self.checker()
        let error = await #expect(throws: VerificationError.self) {
            try await world.verifier(dead).verify(jws: token, at: ResponderWorld.now)
        }
        #expect(error?.code == .revocationUnknown)
        #expect(error?.isRetryable == true)
        #expect(error?.message.contains("Simulated token signing") == true)
        #expect(await Self.code(try world.verifier(dead, acceptsUnknown: true), token) == nil)
        #expect(await Self.code(try world.verifier(good), token) == nil)
    }

    @Test func `a responder that accepts connections and never answers does not stall a verification`() async throws {
        let world = try ResponderWorld()
        let listener = try await SilentListener()
        defer { listener.stop() }
        let address = "http://127.0.0.1:\(listener.port)"
        let leaf = try world.leaf(responder: address)
        let intermediate = try world.intermediate(responder: address)
        let token = try world.token([leaf, intermediate, world.root])
        let checker = RevocationChecker(
            transport: HTTPOCSPTransport(), timeout: .milliseconds(50), deadline: .milliseconds(100))
        let error = await #expect(throws: VerificationError.self) {
            try await world.verifier(checker).verify(jws: token, at: ResponderWorld.now)
        }
        #expect(error?.code == .revocationUnknown)
        #expect(error?.message.contains("did not answer within") == true)
        #expect(await Self.code(try world.verifier(checker, acceptsUnknown: true), token) == nil)
    }

    // MARK: HTTP

    /// A server whose paths select its responses.
    private static func server() -> some ApplicationProtocol {
        let router = Router()
        router.post("echo") { request, _ in
            let body = try await request.body.collect(upTo: 1000)
            let type = request.headers[.contentType] ?? ""
            return ByteBuffer(string: "\(request.method) \(type) \(String(buffer: body))")
        }
        router.post("redirect") { _, _ in Response(status: .temporaryRedirect, headers: [.location: "/echo"]) }
        router.post("unavailable") { _, _ in Response(status: .serviceUnavailable) }
        router.post("empty") { _, _ in Response(status: .noContent) }
        router.post("bytes/:count") { _, context in
            Response(
                status: .ok,
                body: ResponseBody(
                    byteBuffer: ByteBuffer(repeating: 1, count: try context.parameters.require("count", as: Int.self))))
        }
        router.post("chunks") { _, _ in
            Response(
                status: .ok,
                body: ResponseBody { writer in
                    for _ in 0..<10_000 { try await writer.write(ByteBuffer(repeating: 1, count: 1000)) }
                    try await writer.finish(nil)
                })
        }
        router.post("drops") { _, _ in
            Response(
                status: .ok,
                body: ResponseBody { writer in
                    while true {
                        try await writer.write(ByteBuffer(repeating: 1, count: 1))
                        try await Task.sleep(for: .milliseconds(5))
                    }
                })
        }
        return Application(router: router)
    }

    private static func answer(from path: String, _ port: Int?) async throws -> [UInt8] {
        try await HTTPOCSPTransport().answer(to: Array("question".utf8), from: "http://127.0.0.1:\(port ?? 0)/\(path)")
    }

    @Test func `a request is posted with its content type`() async throws {
        try await Self.server().test(.live) { client in
            let answer = try await Self.answer(from: "echo", client.port)
            #expect(String(decoding: answer, as: UTF8.self) == "POST application/ocsp-request question")
        }
    }

    @Test(arguments: ["redirect", "unavailable", "empty", "nowhere", "bytes/65537", "chunks"])
    func `a response that is not usable is an error`(path: String) async throws {
        try await Self.server().test(.live) { client in
            _ = await #expect(throws: (any Error).self) { try await Self.answer(from: path, client.port) }
        }
    }

    @Test func `a response of 64 KiB arrives whole`() async throws {
        try await Self.server().test(.live) { client in
            let answer = try await Self.answer(from: "bytes/65536", client.port)
            #expect(answer.count == 65_536)
        }
    }

    @Test func `an endless response can be cancelled`() async throws {
        try await Self.server().test(.live) { client in
            let task = Task { try await Self.answer(from: "drops", client.port) }
            try await Task.sleep(for: .milliseconds(100))
            task.cancel()
            guard case .failure = await task.result else {
                Issue.record("The request was not cancelled.")
                return
            }
        }
    }

    @Test(arguments: [
        "", "http://", "http://127.0.0.1:1/", "http://127.0.0.1:0/", "http://127.0.0.1:65536/", "http://127.0.0.1:-1/",
        "http://127.0.0.1:99999999999999999999/", "http://[", "http://[::1", "http://a.invalid/", "ftp://127.0.0.1/",
        "http://127.0.0.1:1/\u{0}\r\nHost: b",
    ])
    func `an unusable address is an error`(address: String) async throws {
        await #expect(throws: (any Error).self) { try await HTTPOCSPTransport().answer(to: [], from: address) }
    }
}
