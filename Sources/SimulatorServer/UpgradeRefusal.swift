// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Ends a connection after a request to speak another protocol (RFC 9110 sections 7.8 and 9.3.6). The parser reads no
/// further request from such a connection, and would keep all later bytes in memory.
final class UpgradeRefusal: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private var isLast = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var part = unwrapInboundIn(data)
        switch part {
        case .head(var head):
            isLast = head.method == .connect || head.headerFields[.upgrade] != nil
            if isLast { head.headerFields[.connection] = "close" }
            part = .head(head)
        case .end where isLast:
            do {
                try context.pipeline.syncOperations.addHandler(DiscardedBytes(), position: .first)
            } catch {
                context.close(promise: nil)
            }
        case .body, .end: break
        }
        context.fireChannelRead(wrapInboundOut(part))
    }
}

/// Discards what a client sends after its last request. It closes the connection at a bound, and not at the first byte,
/// which could reset the connection before the client has read its response.
private final class DiscardedBytes: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var count = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        count += unwrapInboundIn(data).readableBytes
        if count > SimulatorBounds.discarded { context.close(promise: nil) }
    }
}
