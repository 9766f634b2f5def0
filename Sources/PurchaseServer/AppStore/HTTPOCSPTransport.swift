// SPDX-License-Identifier: Apache-2.0

public import AppStoreTrust
import AsyncHTTPClient
import Foundation
package import NIOCore
import NIOHTTP1
import OutgoingHTTP

/// Sends requests to OCSP responders over HTTP (RFC 6960 appendix A.1).
public struct HTTPOCSPTransport: OCSPTransport {
    private let client: HTTPClient
    private let timeout: TimeAmount
}

extension HTTPOCSPTransport {
    /// Creates a transport with a client of its own. The client lives as long as the process.
    ///
    /// - Parameter timeout: The longest time until the head of the response, and the longest pause within its body.
    package init(timeout: TimeAmount) {
        self.init(client: HTTPClient.plain(timeout: timeout), timeout: timeout)
    }

    /// Creates a transport. All transports created in this way share one client, which lives as long as the process.
    ///
    /// The client follows no redirects: the connection has no TLS, so an attacker on the network could redirect a
    /// request to an internal address.
    public init() {
        self.init(client: Self.client, timeout: Self.timeout)
    }

    /// The default deadline of ``RevocationChecker``, at which the checker cancels a request.
    private static let timeout = TimeAmount.seconds(10)

    private static let client = HTTPClient.plain(timeout: timeout)

    /// Sends a request by POST and returns the body of the response.
    ///
    /// - Parameters:
    ///   - request: The DER of the OCSP request.
    ///   - responder: The URL in the certificate.
    /// - Throws: An error if the URL has no valid port, the connection fails, no response arrives in time, the status
    ///   is not 200, or the body is longer than `RevocationChecker.responseLimit`.
    public func answer(to request: [UInt8], from responder: String) async throws -> [UInt8] {
        // The client would crash on an invalid port, and the URL comes from a certificate, so it may have any port.
        guard let port = URL(string: responder).map({ $0.port ?? 80 }), (1...65_535).contains(port) else {
            throw NoAnswer(description: "its URL has no valid port")
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

/// The error for a URL or a response that is unusable although the client itself reports no error.
private struct NoAnswer: Error, CustomStringConvertible {
    let description: String
}
