// SPDX-License-Identifier: Apache-2.0

public import AppStoreTrust
package import AsyncHTTPClient
package import NIOCore
import NIOHTTP1

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The way to OCSP responders over HTTP (RFC 6960 appendix A.1).
public struct HTTPOCSPTransport: OCSPTransport {
    private let client: HTTPClient
    private let timeout: TimeAmount

    /// - Parameters:
    ///   - client: Sends the requests. It should not follow redirects: responders are reached without TLS, so that anybody in
    ///     between could lead it to any internal address.
    ///   - timeout: How long an answer may take.
    package init(client: HTTPClient, timeout: TimeAmount) {
        self.client = client
        self.timeout = timeout
    }

    /// Sends its requests through a client of its own, which all such transports share and which lives as long as the
    /// process.
    ///
    /// Not through `HTTPClient.shared`, since that one follows redirects and inflates what is compressed.
    public init() {
        self.init(client: Self.client, timeout: Self.timeout)
    }

    /// As long as a ``RevocationChecker`` gives an answer, which cancels what takes longer.
    private static let timeout = TimeAmount.seconds(10)

    private static let client = makeClient(timeout: timeout)

    /// - Parameter timeout: How long a connection may take, and how long a responder may pause within an answer.
    package static func makeClient(timeout: TimeAmount) -> HTTPClient {
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow, timeout: .init(connect: timeout, read: timeout))
        // Where nobody listens is known at once, instead of after the timeout.
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }

    /// Sends a request by POST and returns the body of the answer.
    ///
    /// - Throws: Where there is no connection, no answer in time, another status than 200, or a body of more than
    ///   ``RevocationChecker/responseLimit``.
    public func answer(to request: [UInt8], from responder: String) async throws -> [UInt8] {
        // The client traps at other ports, and the address is the certificate's.
        guard let port = URL(string: responder).map({ $0.port ?? 80 }), (1...65_535).contains(port) else {
            throw NoAnswer(description: "its address has no port")
        }
        var post = HTTPClientRequest(url: responder)
        post.method = .POST
        post.headers.add(name: "Content-Type", value: "application/ocsp-request")
        post.headers.add(name: "Accept", value: "application/ocsp-response")
        post.body = .bytes(request)
        let response = try await client.execute(post, timeout: timeout)
        guard response.status == .ok, response.history.count <= 1 else {
            throw NoAnswer(description: "it answered with HTTP status \(response.status.code)")
        }
        let body = try await response.body.collect(upTo: RevocationChecker.responseLimit)
        return Array(body.readableBytesView)
    }
}

/// Why there is no answer, where the client itself finds nothing wrong.
private struct NoAnswer: Error, CustomStringConvertible {
    let description: String
}
