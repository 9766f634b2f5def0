// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
package import NIOCore

// What all requests to other servers have in common: OCSP responders, and Apple.

extension HTTPClient {
    /// A client that neither follows redirects nor inflates bodies, unlike `HTTPClient.shared`.
    ///
    /// - Parameter timeout: The longest time for connecting, and the longest pause within a response.
    package static func plain(timeout: TimeAmount) -> HTTPClient {
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow, timeout: .init(connect: timeout, read: timeout))
        // If no server listens there, the request fails at once and not after the timeout.
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }
}
