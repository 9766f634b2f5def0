// SPDX-License-Identifier: Apache-2.0

public import AppStoreTrust
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import OutgoingHTTP

/// Sends requests to OCSP responders over HTTP (RFC 6960 appendix A.1).
public struct HTTPOCSPTransport: OCSPTransport {
    private let client: PlainClient
    private let timeout: Duration
}

extension HTTPOCSPTransport {
    /// Creates a transport with a client of its own. The client lives as long as the process.
    ///
    /// - Parameter timeout: The longest time for everything.
    /// - Parameter addresses: As of ``PlainClient``.
    package init(timeout: Duration, addresses: [String: String] = [:]) {
        self.init(client: PlainClient(timeout: TimeAmount(timeout), addresses: addresses), timeout: timeout)
    }

    /// Creates a transport. All transports created in this way share one client, which lives as long as the process.
    ///
    /// The client follows no redirects: the connection has no TLS, so an attacker on the network could redirect a
    /// request to an internal address.
    public init() {
        self.init(client: Self.client, timeout: Self.timeout)
    }

    /// The default deadline of ``RevocationChecker``, at which the checker cancels a request.
    private static let timeout = Duration.seconds(10)

    private static let client = PlainClient(timeout: TimeAmount(timeout))

    /// Sends a request by POST and returns the body of the response.
    ///
    /// - Parameters:
    ///   - request: The DER of the OCSP request.
    ///   - responder: The URL in the certificate.
    /// - Throws: An error if the URL has no valid port, the connection fails, no response arrives in time, the status
    ///   is not 200, or the body is longer than `RevocationChecker.responseLimit`.
    public func answer(to request: [UInt8], from responder: String) async throws -> [UInt8] {
        var post = HTTPClientRequest(url: responder)
        post.method = .POST
        post.headers.add(name: "Content-Type", value: "application/ocsp-request")
        post.headers.add(name: "Accept", value: "application/ocsp-response")
        post.body = .bytes(request)
        let answer = try await client.answer(to: post, within: timeout, upTo: RevocationChecker.responseLimit)
        guard answer.status == .ok else {
            throw NoAnswer(description: "it answered with HTTP status \(answer.status.code)")
        }
        return Array(answer.body.readableBytesView)
    }
}

/// The error for a response that is unusable although the client itself reports no error.
private struct NoAnswer: Error, CustomStringConvertible {
    let description: String
}
