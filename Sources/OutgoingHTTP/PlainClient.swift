// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
import Foundation
package import NIOCore
import NIOPosix

// The HTTP client for all outgoing requests: to Apple, to OCSP responders, to simulators, and from the command line to
// running servers of this project.

extension HTTPClient {
    /// The maximum number of simultaneous connections to a host. Over HTTP/1.1 each concurrent request needs its own
    /// connection. The limit suffices for eight apps with eight requests at a time each. Further requests wait for a
    /// free connection.
    private static let connectionsPerHost = 64

    /// A client that decompresses no bodies, and speaks only HTTP/1.1.
    ///
    /// Over HTTP/2, all requests to a host share a connection. If a router on the way silently drops that connection,
    /// no request gets a response. The client goes on using the connection all the same, because it looks open as long
    /// as the client writes to it. Over HTTP/1.1, a request that times out closes its connection, and the next request
    /// opens a new one.
    ///
    /// - Parameters:
    ///   - timeout: The longest time for connecting, and the longest pause within a response.
    ///   - redirects: The number of redirects to follow. With 0, redirects are not followed.
    package static func plain(timeout: TimeAmount, redirects: Int = 0) -> HTTPClient {
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: redirects == 0 ? .disallow : .follow(max: redirects, allowCycles: false),
            timeout: .init(connect: timeout, read: timeout))
        configuration.httpVersion = .http1Only
        // If no server listens on the port, the request fails at once instead of after the timeout.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connectionsPerHost
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }
}

/// The reason why a request failed, in words for people: `connection refused` instead of a list of all attempts.
///
/// - Parameter error: The error thrown by the client.
package func reason(of error: any Error) -> String {
    let failure = (error as? NIOConnectionError)?.connectionErrors.last?.error ?? error
    guard let failure = failure as? IOError else { return "\(error)" }
    return String(cString: strerror(failure.errnoCode)).lowercased()
}
