// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOHTTP1

/// The fault of a request that no route receives: the request breaks a rule of HTTP itself, or needs a part of HTTP
/// that the server lacks.
///
/// ``RequestRules`` finds the fault before the routes, and replaces the request's path by the fault's ``path``. The
/// response therefore has the same body, header fields and log line as the response to any other error.
enum MalformedRequest: String, CaseIterable {
    case syntax
    case host
    case target
    case framing
    case coding
    case expectation
    case uri
    case head
    case method
    case version

    /// The beginning of each fault's path. No client can send such a path, since a request line ends its target at a
    /// space.
    private static let prefix = "malformed "

    /// The path of a request with this fault.
    var path: String { Self.prefix + rawValue }

    init?(path: String?) {
        guard let path, path.hasPrefix(Self.prefix) else { return nil }
        self.init(rawValue: String(path.dropFirst(Self.prefix.count)))
    }

    var refusal: Refusal {
        switch self {
        case .syntax: .badRequest("The request is not valid HTTP/1.1.")
        case .host: .badRequest("Send a single valid Host header field.")
        case .target: .badRequest("The request target is neither a path that begins with / nor an http URL.")
        case .framing: .badRequest("The length of the body is not clear from Content-Length and Transfer-Encoding.")
        case .coding: .refused(.notImplemented, "The server reads no transfer coding but chunked.")
        case .expectation: .refused(.expectationFailed, "The server meets no expectation but 100-continue.")
        case .uri: .refused(.uriTooLong, "The request target has more than \(ServerBounds.head) bytes.")
        case .head:
            .refused(
                .requestHeaderFieldsTooLarge,
                "The header has more than \(ServerBounds.head) bytes or \(ServerBounds.headFields) fields.")
        case .method: .refused(.notImplemented, "The server does not know this method.")
        case .version: .refused(.httpVersionNotSupported, "The server speaks HTTP/1.1 and HTTP/1.0.")
        }
    }
}

extension MalformedRequest {
    /// The fault behind an error of the parser.
    init(_ error: HTTPParserError, _ line: RequestLine) {
        self =
            switch error {
            case .headerOverflow: line.count > ServerBounds.head ? .uri : .head
            case .invalidMethod: line.hasMethod ? .method : .syntax
            case .invalidVersion: line.hasVersion ? .version : .syntax
            case .unexpectedContentLength, .invalidContentLength: .framing
            default: .syntax
            }
    }

    /// The fault of a parsed head; `nil` if the head is valid.
    init?(_ head: HTTPRequestHead, _ line: RequestLine) {
        guard let fault = Self.rules.first(where: { $0.isBroken(head, line) })?.fault else { return nil }
        self = fault
    }

    /// The rules in order. The first broken rule counts.
    private static let rules: [(fault: MalformedRequest, isBroken: @Sendable (HTTPRequestHead, RequestLine) -> Bool)] =
        [
            (.syntax, { $1.hasExtraSpace }),
            (.method, { head, _ in !head.method.isKnown }),
            (.host, { head, _ in !head.hasValidHost }),
            (.target, { head, _ in !head.hasValidTarget }),
            (.framing, { head, _ in head.hasUnclearLength }),
            (.coding, { head, _ in head.hasUnknownCoding }),
            (.expectation, { head, _ in head.hasUnknownExpectation }),
        ]
}

extension HTTPMethod {
    /// Whether RFC 9110 or RFC 5789 defines the method. CONNECT is for proxies.
    fileprivate var isKnown: Bool { Self.known.contains(self) }

    private static let known: [HTTPMethod] = [.GET, .HEAD, .POST, .PUT, .DELETE, .PATCH, .OPTIONS, .TRACE]
}

extension HTTPRequestHead {
    /// Whether the Host field is valid (RFC 9112 section 3.2). Only a client of HTTP/1.0 may omit the field.
    fileprivate var hasValidHost: Bool {
        let hosts = headers["host"]
        guard hosts.count == 1, let host = hosts.first else { return hosts.isEmpty && version != .http1_1 }
        return host.isEmpty || RequestAuthority.isValid(host[...])
    }

    /// Whether the target is valid (RFC 9112 section 3.2): no fragment, and `*` only for OPTIONS of the whole server.
    fileprivate var hasValidTarget: Bool {
        if uri == "*" { return method == .OPTIONS }
        guard let target = RequestTarget(uri) else { return false }
        return target.authority.map(RequestAuthority.isValid) ?? true
    }

    /// Whether the length of the body is unclear (RFC 9112 section 6.3): the last coding must be chunked, and HTTP/1.0
    /// has no codings. The parser checks the rest.
    fileprivate var hasUnclearLength: Bool {
        guard headers.contains(name: "transfer-encoding") else { return false }
        return version != .http1_1 || codings.last != "chunked"
    }

    fileprivate var hasUnknownCoding: Bool { headers.contains(name: "transfer-encoding") && codings != ["chunked"] }

    private var codings: [String] { headers[canonicalForm: "transfer-encoding"].map { $0.lowercased() } }

    /// Whether the request has an `Expect` field with anything other than `100-continue` (RFC 9110 section 10.1.1). An
    /// expectation in HTTP/1.0 is ignored.
    fileprivate var hasUnknownExpectation: Bool {
        version == .http1_1 && headers["expect"].contains { $0.lowercased() != "100-continue" }
    }
}
