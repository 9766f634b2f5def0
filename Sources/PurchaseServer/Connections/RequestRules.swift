// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import NIOCore
import NIOHTTP1

/// Refuses requests that break the rules of HTTP itself. The response has the same form as the response to any other
/// error. The handler also decides which requests are the last of their connection.
///
/// The rules are checked here, directly after the parser, because the request types of the later handlers have neither
/// the version of a request nor the number of its Host fields.
final class RequestRules: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private let line: RequestLine
    private var isReadingBody = false
    private var hasFailed = false
    /// Whether the connection ends after this request.
    private var isLast = false
    /// The number of bytes of the body so far, without the framing of its chunks.
    private var bodyBytes = 0

    private init(_ line: RequestLine) {
        self.line = line
    }

    /// Adds the rules to the pipeline of a connection, around its parser.
    static func add(to pipeline: ChannelPipeline.SynchronousOperations) throws {
        let line = RequestLine()
        let parser = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
        try pipeline.addHandler(line, position: .before(parser))
        try pipeline.addHandler(RequestRules(line), position: .after(parser))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var part = unwrapInboundIn(data)
        switch part {
        case .head(let head):
            isReadingBody = true
            bodyBytes = 0
            part = .head(applied(to: head))
        case .body(let bytes): bodyBytes += bytes.readableBytes
        case .end:
            isReadingBody = false
            line.reset()
        }
        context.fireChannelRead(wrapInboundOut(part))
    }

    /// Refuses a body with more framing than any client sends. The parser drops extensions of chunks (RFC 9112 section
    /// 7.1.1), so the bounds on bodies do not count them.
    func channelReadComplete(context: ChannelHandlerContext) {
        let maxBytes = 2 * ServerBounds.head + (1 + ServerBounds.chunkFraming) * bodyBytes
        if isReadingBody, !hasFailed, line.bytes > maxBytes {
            hasFailed = true
            // The route that reads the body throws this error.
            context.fireErrorCaught(HTTPError(.contentTooLarge))
        }
        // After a request to upgrade, the parser keeps all bytes instead of reading them.
        if isLast, !isReadingBody, line.bytes > ServerBounds.discardedBody { return context.close(promise: nil) }
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The parser reports each byte after an error as a further error.
        guard !hasFailed else { return }
        guard let error = error as? HTTPParserError, !isReadingBody else { return context.fireErrorCaught(error) }
        hasFailed = true
        // A client that has disconnected gets no response.
        guard context.channel.isActive else { return context.fireErrorCaught(error) }
        let fault = MalformedRequest(error, line)
        let head = HTTPRequestHead(
            version: .http1_1, method: .RAW(value: "-"), uri: fault.path, headers: ["Connection": "close"])
        context.fireChannelRead(wrapInboundOut(.head(head)))
        context.fireChannelRead(wrapInboundOut(.end(nil)))
        context.fireChannelReadComplete()
    }

    private func applied(to head: HTTPRequestHead) -> HTTPRequestHead {
        var head = head
        if let fault = MalformedRequest(head, line) {
            head.uri = fault.path
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        } else {
            head.uri = Self.routed(head.uri)
        }
        // The server ignores a request to upgrade (RFC 9110 section 7.8). The connection must end after such a request,
        // because the parser reads no further request.
        if head.version != .http1_1 || head.headers.contains(name: "upgrade") {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        }
        isLast = !head.isKeepAlive
        if isLast { head.headers.replaceOrAdd(name: "Connection", value: "close") }
        // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored.
        if head.version != .http1_1 { head.headers.remove(name: "expect") }
        return head
    }

    /// The path of OPTIONS of the whole server, `*`. No client can send this path, since a request line has no third
    /// space.
    static let wholeServer = "/whole server"

    /// A path without a route.
    private static let noRoute = "/no route"

    /// The path of a customer without an id. The router would drop the slash, and a client that forgot the id would get
    /// the list of all customers.
    private static let noCustomer = "/v1/customers/"

    /// The target for the router, which compares paths byte by byte and drops empty segments.
    private static func routed(_ target: String) -> String {
        if target == "*" { return wholeServer }
        guard let parts = RequestTarget(target) else { return target }
        // The router would drop the empty segment, and the request would reach the route of another path.
        if parts.hasEmptySegment { return noRoute }
        guard parts.path.utf8.contains(UInt8(ascii: "%")) else { return parts.path == noCustomer ? noRoute : target }
        let path = parts.normalizedPath
        return path == noCustomer ? noRoute : path + parts.query
    }
}
