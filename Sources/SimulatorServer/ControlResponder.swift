// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// Answers requests to the control port: the page, and commands.
struct ControlResponder: Sendable {
    let host: SimulatorHost
    /// The hostname to which the port is bound.
    let hostname: String
    /// The longest time for which a command waits for answers to its notifications.
    let patience: Duration
    /// Measures how long a command waits.
    let clock: any Clock<Duration>
    let logger: Logger
    private let page = ControlPage()

    var responder: CallbackResponder<ChannelContext> {
        CallbackResponder { request, _ in
            var response = try await response(to: request)
            // Keeps pages of different sites from loading a response, even as an image or a script.
            response.headers[.crossOriginResourcePolicy] = "same-origin"
            response.headers[.xContentTypeOptions] = "nosniff"
            return response
        }
    }

    private func response(to request: Request) async throws -> Response {
        guard request.hasOwnOrigin(hostname: hostname) else { return Self.foreign }
        let path = request.uri.path
        if path == "/", request.method == .get {
            return Response(
                status: .ok,
                headers: [
                    .contentType: "text/html; charset=utf-8", .contentSecurityPolicy: page.policy,
                    .cacheControl: "no-store",
                ],
                body: .init(byteBuffer: ByteBuffer(bytes: page.body)))
        }
        guard let body = try await request.body(upTo: SimulatorBounds.controlBody) else { return Self.tooLong }
        let begun = await host.update {
            $0.control(request.method.rawValue, path, Array(body.readableBytesView), delivers: true, at: $1)
        }
        let answer = await complete(begun, clock)
        return Response(
            status: .init(code: answer.status), headers: [.contentType: answer.type, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(bytes: answer.body)))
    }

    /// Waits until the notifications of a command have an answer, as long as ``patience`` allows.
    private func complete(_ response: ControlResponse, _ clock: some Clock<Duration>) async -> ControlResponse {
        let start = clock.now
        // Shutdown ends the wait early.
        return await cancelWhenGracefulShutdown {
            var nextReport = SimulatorBounds.progress
            while true {
                let elapsed = start.duration(to: clock.now)
                let isOver = Task.isCancelled || elapsed >= patience
                if let final = await host.update({ $0.complete(response, isOver: isOver, at: $1) }) { return final }
                if elapsed >= nextReport {
                    nextReport += SimulatorBounds.progress
                    let date = host.clock.now().iso8601
                    logger.info("A command waits for answers to its notifications", metadata: ["date": "\(date)"])
                }
                // A cancelled sleep needs no handling, because the loop checks for cancellation.
                try? await clock.sleep(for: SimulatorBounds.look)
            }
        }
    }

    private static var foreign: Response {
        error(
            .forbidden, "foreignOrigin",
            """
            A page of a different site may have sent the request. Use the address that quittance simulate printed, or \
            another numeric address of the machine.
            """)
    }

    private static var tooLong: Response {
        error(.contentTooLarge, "bodyTooLong", "The body is longer than \(SimulatorBounds.controlBody) bytes.")
    }

    private static func error(_ status: HTTPResponse.Status, _ code: String, _ message: String) -> Response {
        Response(
            status: status, headers: [.contentType: "application/json"],
            body: .init(
                byteBuffer: ByteBuffer(string: #"{"error":{"code":"\#(code)","message":"\#(message)"}}"# + "\n")))
    }
}
