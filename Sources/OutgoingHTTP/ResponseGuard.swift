// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHTTP1

/// Lets only answers pass that are a head, the parts of its body, and an end, in this order.
///
/// async-http-client takes each status below 200 for that of an interim answer, which has no body, and ends the process
/// if a body comes (RFC 9110 section 15: a status has a value from 100 to 599).
final class ResponseGuard: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    private enum Expected {
        case head, body
        /// The answer was refused: nothing of it passes.
        case nothing
    }

    private var expected = Expected.head

    /// Adds a guard right after the decoder of answers.
    static func add(to pipeline: ChannelPipeline.SynchronousOperations) throws {
        let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
        try pipeline.addHandler(ResponseGuard(), position: .after(decoder))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (unwrapInboundIn(data), expected) {
        case (_, .nothing): return
        // An interim answer says nothing, unless it changes the protocol, which nobody has asked for.
        case (.head(let head), .head) where (100...199).contains(head.status.code) && head.status.code != 101: return
        case (.head(let head), .head) where (200...599).contains(head.status.code): expected = .body
        case (.body, .body): break
        case (.end, .body): expected = .head
        default:
            expected = .nothing
            context.fireErrorCaught(HTTPParserError.invalidStatus)
            context.close(promise: nil)
            return
        }
        context.fireChannelRead(data)
    }
}
