// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// Answers requests to the App Store in one environment.
struct StoreResponder: Sendable {
    let host: SimulatorHost
    let environment: AppStoreModel.Environment
    let clock: any Clock<Duration>
    let logger: Logger

    var responder: CallbackResponder<ChannelContext> {
        CallbackResponder { request, context in try await response(to: request, context) }
    }

    private func response(to request: Request, _ context: ChannelContext) async throws -> Response {
        guard let body = try await request.body(upTo: SimulatorBounds.storeBody) else {
            return Response(status: .contentTooLarge)
        }
        let storeRequest = StoreRequest(request, body)
        let answer = try await host.update { try $0.respond(to: storeRequest, in: environment, at: $1) }
        if let note = answer.note {
            logger.info(
                "Refused",
                metadata: [
                    "environment": .string(environment.rawValue), "path": .string(request.uri.path),
                    "status": "\(answer.status)", "why": .string(note),
                ])
        }
        if answer.isWithheld { try await stayed(silentOn: context.channel) }
        return Response(answer)
    }

    /// Lets the client wait for a response that never comes, then closes the connection.
    private func stayed(silentOn channel: any Channel) async throws {
        // Shutdown ends the silence early.
        try? await cancelWhenGracefulShutdown { try await clock.sleep(for: SimulatorBounds.silence) }
        channel.close(promise: nil)
        throw CancellationError()
    }
}

extension Request {
    /// The whole body; `nil` if the body is longer than `limit` bytes.
    func body(upTo limit: Int) async throws -> ByteBuffer? {
        do {
            return try await body.collect(upTo: limit)
        } catch is NIOTooManyBytesError {
            return nil
        }
    }
}

extension StoreRequest {
    fileprivate init(_ request: Request, _ body: ByteBuffer) {
        var headers: [String: String] = [:]
        for field in request.headers { headers[field.name.canonicalName] = field.value }
        self.init(
            request.method.rawValue, request.uri.description, headers: headers, body: Array(body.readableBytesView))
    }
}

extension Response {
    fileprivate init(_ answer: StoreResponse) {
        var headers = HTTPFields()
        for (name, value) in answer.headers {
            if let name = HTTPField.Name(name) { headers[name] = value }
        }
        self.init(
            status: .init(code: answer.status), headers: headers,
            body: answer.body.isEmpty ? .init() : .init(byteBuffer: ByteBuffer(bytes: answer.body)))
    }
}
