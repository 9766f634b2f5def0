// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
import Foundation
package import NIOCore
import NIOPosix

// What all requests to other servers have in common: Apple, OCSP responders, simulators, and servers under test.

extension HTTPClient {
    /// The most connections to one host at a time. Over HTTP/1.1 each request needs its own: eight workers for each of
    /// eight apps have one. More requests wait for their turn.
    private static let connectionsPerHost = 64

    /// A client that inflates no bodies, and speaks HTTP/1.1 alone.
    ///
    /// Over HTTP/2 all requests to a host share one connection. If a router in between forgets it, no request is
    /// answered, and the connection lives as long as somebody writes to it. Over HTTP/1.1 a request that is not
    /// answered in time takes its connection with it, and the next request has a new one.
    ///
    /// - Parameters:
    ///   - timeout: The longest time for connecting, and the longest pause within a response.
    ///   - redirects: How many are followed.
    package static func plain(timeout: TimeAmount, redirects: Int = 0) -> HTTPClient {
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: redirects == 0 ? .disallow : .follow(max: redirects, allowCycles: false),
            timeout: .init(connect: timeout, read: timeout))
        configuration.httpVersion = .http1Only
        // If no server listens there, the request fails at once and not after the timeout.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connectionsPerHost
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }
}

/// Why a request had no answer, for people: `connection refused` instead of all that was tried.
///
/// - Parameter error: What a client threw.
package func reason(of error: any Error) -> String {
    guard let failure = error as? NIOConnectionError, let last = failure.connectionErrors.last?.error as? IOError
    else { return "\(error)" }
    return String(cString: strerror(last.errnoCode)).lowercased()
}
