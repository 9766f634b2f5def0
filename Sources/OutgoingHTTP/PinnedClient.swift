// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
package import NIOCore
import NIOSSL

/// An HTTP client whose requests to a host go to a single address, which somebody has checked before. A certificate is
/// checked for the host all the same.
///
/// The client opens no connection to any other address: it follows no redirects, uses no proxy and resolves no name.
/// The client is shut down with its last reference, and so never during a request.
package final class PinnedClient: Sendable {
    package let client: HTTPClient

    /// The time for which a connection without requests is kept. Node.js closes such connections after 5 seconds, and
    /// a request on a connection that the receiver is just closing would fail.
    private static let idle = TimeAmount.seconds(4)

    /// - Parameters:
    ///   - host: The host in the requests' URLs.
    ///   - address: The IP address of the host.
    ///   - connections: The maximum number of simultaneous connections. Further requests wait for a free connection.
    ///   - connectTimeout: The longest time for connecting.
    ///   - roots: The trusted root certificates as PEM; `nil` trusts those of the operating system.
    /// - Throws: An error if the roots are unreadable.
    package init(
        host: String, address: String, connections: Int, connectTimeout: TimeAmount, roots: String? = nil
    ) throws {
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow, timeout: .init(connect: connectTimeout))
        configuration.httpVersion = .http1Only
        configuration.dnsOverride = [host: address]
        // If no server listens on the port, the request fails at once instead of after the timeout.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.connectionPool.idleTimeout = Self.idle
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        if let roots {
            var tls = TLSConfiguration.makeClientConfiguration()
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(roots.utf8)))
            configuration.tlsConfiguration = tls
        }
        client = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }

    /// Closes the connections. Requests that are not answered yet fail.
    package func shutdown() async {
        // The only error is that the client is shut down already.
        try? await client.shutdown()
    }

    deinit { client.shutdown { _ in } }
}

/// The reason why a TLS connection failed, in words for people; `nil` for errors of other kinds.
package func tlsReason(of error: any Error) -> String? {
    if let error = error as? NIOSSLExtraError {
        return error == .failedToValidateHostname
            ? "the certificate is for another name" : "the TLS connection failed: \(error)"
    }
    guard let error = error as? NIOSSLError else { return error is BoringSSLError ? "the TLS connection failed" : nil }
    let text = "\(error)"
    return text.contains("CERTIFICATE_VERIFY_FAILED")
        ? "the certificate is not trusted" : "the TLS connection failed: \(text.prefix(200))"
}
