// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOCore

/// Refuses a new connection if the server already has its maximum number of connections (``ServerBounds/connections``),
/// and all of them are handling requests. The server sends 503 without waiting for a request, and then closes the
/// connection.
///
/// This handler stands before all other handlers and passes no data to them.
final class FullServer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var discardedBytes = 0
    private var closing: Scheduled<Void>?

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: Self.response)), promise: nil)
        context.close(mode: .output, promise: nil)
        // The connection stays open for a moment, so that the client can read the response before a reset. The server
        // does the same after each response to a request whose body is unread.
        closing = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(ServerBounds.closingTime)) {
            context.close(promise: nil)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) { closing?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        discardedBytes += unwrapInboundIn(data).readableBytes
        if discardedBytes >= ServerBounds.discardedBody { context.close(promise: nil) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private static let response: [UInt8] = {
        let refusal = Refusal.overloaded
        let body = ErrorBody(refusal).json
        let fields = [
            "HTTP/1.1 \(refusal.status.code) \(refusal.status.reasonPhrase)", "Content-Type: application/json",
            "Content-Length: \(body.count)", "Cache-Control: no-store", "Connection: close",
            "Server: \(ServerApplication.serverName)",
        ]
        let more = refusal.headers.map { "\($0.name.rawName): \($0.value)" }
        return Array((fields + more + ["", ""]).joined(separator: "\r\n").utf8) + body
    }()
}
