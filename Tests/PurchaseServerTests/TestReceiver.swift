// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Synchronization

/// A server that receives webhooks on a free port of this machine.
final class TestReceiver: Sendable {
    /// A request as it arrived.
    struct Received: Sendable {
        var headers: HTTPFields
        var body: [UInt8]

        var id: String { self["webhook-id"] ?? "" }
        /// The value of a header field.
        subscript(name: String) -> String? { HTTPField.Name(name).flatMap { headers[$0] } }
        var json: JSONValue { JSONValue(readable: body) ?? .null }
    }

    private let state = Mutex<(all: [Received], delivered: [String])>(([], []))

    /// All requests, in the order in which they were answered.
    var all: [Received] { state.withLock { $0.all } }
    /// The ids of the events that were answered with success.
    var delivered: [String] { state.withLock { $0.delivered } }

    /// Lets `body` use a receiver.
    ///
    /// - Parameter answer: The answer to a request.
    static func run(
        answering answer: @escaping @Sendable (Received) async -> Response = { _ in Response(status: .noContent) },
        _ body: (TestReceiver, _ url: String) async throws -> Void
    ) async throws {
        let receiver = TestReceiver()
        let router = Router()
        router.post("/hook") { request, context in
            let bytes = Array((try await request.body.collect(upTo: 1 << 20)).readableBytesView)
            let received = Received(headers: request.headers, body: bytes)
            let response = await answer(received)
            receiver.state.withLock { state in
                state.all.append(received)
                if response.status.kind == .successful { state.delivered.append(received.id) }
            }
            return response
        }
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { port.yield($0.localAddress?.port ?? 0) }, logger: .quiet)
        // The receiver listens as long as the process: the library traps if a server is cancelled while it answers.
        Task { try await application.run() }
        for await port in ports { return try await body(receiver, "http://127.0.0.1:\(port)/hook") }
    }
}
