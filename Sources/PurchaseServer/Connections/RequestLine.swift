// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Records details that the parser does not report: the form of the request line, and the number of bytes of the
/// request.
final class RequestLine: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    /// The maximum length of a recognised method in bytes: longer than any registered method.
    private static let maxMethodBytes = 32

    private var start: [UInt8] = []
    private var end: [UInt8] = []
    private var isComplete = false
    /// The number of bytes of the line so far, without the line feed.
    private(set) var count = 0
    private var spaces = 0
    /// The number of bytes of the request so far, as sent.
    private(set) var bytes = 0

    func reset() {
        start = []
        end = []
        isComplete = false
        count = 0
        spaces = 0
        bytes = 0
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += unwrapInboundIn(data).readableBytes
        if !isComplete { observe(unwrapInboundIn(data).readableBytesView) }
        context.fireChannelRead(data)
    }

    private func observe(_ bytes: ByteBufferView) {
        var bytes = bytes
        // Empty lines before a request are ignored (RFC 9112 section 2.2).
        if count == 0 { bytes = bytes.drop { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") } }
        let lineEnd = bytes.firstIndex(of: UInt8(ascii: "\n"))
        let part = bytes[..<(lineEnd ?? bytes.endIndex)]
        start += part.prefix(Self.maxMethodBytes + 1 - start.count)
        end = (end + part.suffix(Self.version.count)).suffix(Self.version.count)
        count += part.count
        spaces += part.count { $0 == UInt8(ascii: " ") }
        isComplete = lineEnd != nil
    }

    /// The end of a line, without the line feed. Each 0 stands for any digit.
    private static let version = Array("HTTP/0.0\r".utf8)

    /// Whether the line ends with any version of HTTP (RFC 9112 section 2.3).
    var hasVersion: Bool {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return end.map { digits.contains($0) ? UInt8(ascii: "0") : $0 } == Self.version
    }

    /// Whether the line has more than its two spaces (RFC 9112 section 3). The parser skips extra spaces, but other
    /// servers on the way may read a different target from such a line.
    var hasExtraSpace: Bool { spaces > 2 }

    /// Whether the line begins with a token and a space, as a method does (RFC 9112 section 3).
    var hasMethod: Bool {
        guard let end = start.firstIndex(of: UInt8(ascii: " ")), end > 0 else { return false }
        return start[..<end].allSatisfy { $0.isLetterOrDigit || "!#$%&'*+-.^_`|~".utf8.contains($0) }
    }
}
