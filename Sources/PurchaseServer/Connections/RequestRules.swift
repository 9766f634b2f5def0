// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHTTP1

/// Refuses requests that break the rules of HTTP itself, with a response like that to any other error, and decides
/// which requests are the last of their connection.
///
/// The types behind this handler have neither the version of a request nor the number of its Host fields.
final class RequestRules: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private let line: RequestLine
    private var isReadingBody = false
    private var hasFailed = false

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
            part = .head(Self.applied(to: head))
        case .body: break
        case .end:
            isReadingBody = false
            line.reset()
        }
        context.fireChannelRead(wrapInboundOut(part))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The parser reports each byte behind an error as another error.
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

    private static func applied(to head: HTTPRequestHead) -> HTTPRequestHead {
        var head = head
        if let fault = MalformedRequest(head) {
            head.uri = fault.path
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        }
        // The parser stops behind a request to upgrade, which the server ignores (RFC 9110 section 7.8).
        if !head.isKeepAlive || head.version != .http1_1 || head.headers.contains(name: "upgrade") {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        }
        // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored.
        if head.version != .http1_1 { head.headers.remove(name: "expect") }
        // What is about the whole server is answered at its root.
        if head.uri == "*" { head.uri = "/" }
        return head
    }
}

/// Remembers what the parser's errors do not say about the request line.
final class RequestLine: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// The longest method that is recognised as one, in bytes: longer than any registered one.
    private static let longestMethod = 32

    private var start: [UInt8] = []
    private var end: [UInt8] = []
    private var isComplete = false
    /// The number of its bytes so far, without the line feed.
    private(set) var count = 0

    func reset() { (start, end, isComplete, count) = ([], [], false, 0) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isComplete { observe(unwrapInboundIn(data).readableBytesView) }
        context.fireChannelRead(data)
    }

    private func observe(_ bytes: ByteBufferView) {
        let lineEnd = bytes.firstIndex(of: UInt8(ascii: "\n"))
        let part = bytes[..<(lineEnd ?? bytes.endIndex)]
        start += part.prefix(Self.longestMethod + 1 - start.count)
        end = (end + part.suffix(Self.version.count)).suffix(Self.version.count)
        count += part.count
        isComplete = lineEnd != nil
    }

    /// The end of a line, without the line feed. Each 0 stands for any digit.
    private static let version = Array("HTTP/0.0\r".utf8)

    /// Whether the line ends with any version of HTTP (RFC 9112 section 2.3).
    var hasVersion: Bool {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return end.map { digits.contains($0) ? UInt8(ascii: "0") : $0 } == Self.version
    }

    /// Whether the line begins with a token and a space, as a method does (RFC 9112 section 3).
    var hasMethod: Bool {
        guard let end = start.firstIndex(of: UInt8(ascii: " ")), end > 0 else { return false }
        return start[..<end].allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                true
            default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
        }
    }
}
