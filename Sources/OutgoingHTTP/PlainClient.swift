// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
import Foundation
package import NIOCore
package import NIOHTTP1
import NIOPosix
import NIOSSL

/// The HTTP client for all outgoing requests but webhooks: to Apple, to OCSP responders, to simulators, from simulators
/// to the servers under test, and from the command line to running servers of this project.
///
/// It trusts no peer: an answer that HTTP does not allow, an odd redirect, an answer without end or a slow one is an
/// error of that request.
package struct PlainClient: Sendable {
    private let client: HTTPClient
    private let redirects: Int

    /// The maximum number of simultaneous connections to a host. Over HTTP/1.1 each concurrent request needs its own
    /// connection. The limit suffices for eight apps with eight requests at a time each. Further requests wait for a
    /// free connection.
    private static let connectionsPerHost = 64

    /// A client that decompresses no bodies, and speaks only HTTP/1.1. It lives as long as the process.
    ///
    /// Over HTTP/2, all requests to a host share a connection. If a router on the way silently drops that connection,
    /// no request gets a response. The client goes on using the connection all the same, because it looks open as long
    /// as the client writes to it. Over HTTP/1.1, a request that times out closes its connection, and the next request
    /// opens a new one.
    ///
    /// - Parameters:
    ///   - timeout: The longest time for connecting, and the longest pause within a response.
    ///   - redirects: The number of redirects to follow. With 0, a redirect is an answer like any other.
    ///   - addresses: The addresses of hosts that the system does not resolve, for tests.
    package init(timeout: TimeAmount, redirects: Int = 0, addresses: [String: String] = [:]) {
        // The library would end the process for a redirect to a port above 65535.
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow, timeout: .init(connect: timeout, read: timeout))
        configuration.httpVersion = .http1Only
        configuration.dnsOverride = addresses
        // If no server listens on the port, the request fails at once instead of after the timeout.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Self.connectionsPerHost
        configuration.http1_1ConnectionDebugInitializer = { channel in
            // Later, when the connection is active: the library ends the process if the first request fails before.
            channel.eventLoop.submit { try ResponseGuard.add(to: channel.pipeline.syncOperations) }
        }
        client = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
        self.redirects = redirects
    }

    /// Sends a request, and reads the whole answer.
    ///
    /// - Parameters:
    ///   - timeout: The time for everything: a connection, the request, all redirects, and the whole answer.
    ///   - limit: The greatest size of the body in bytes.
    /// - Throws: `HTTPClientError.invalidURL` if nobody can be asked at the URL, `HTTPClientError.deadlineExceeded`
    ///   after the timeout, and ``BrokenBody`` if the head has arrived, but the body is broken or too long.
    package func answer(
        to request: HTTPClientRequest, within timeout: Duration, upTo limit: Int,
        clock: any Clock<Duration> = ContinuousClock()
    ) async throws -> PlainAnswer {
        // The library's own deadline covers only the head of an answer. Without the second task, a body that arrives
        // one byte at a time could take for ever.
        try await withThrowingTaskGroup(of: PlainAnswer.self) { group in
            group.addTask { try await answer(to: request, within: TimeAmount(timeout), upTo: limit) }
            group.addTask {
                try await clock.sleep(for: timeout)
                throw HTTPClientError.deadlineExceeded
            }
            defer { group.cancelAll() }
            guard let answer = try await group.next() else { throw CancellationError() }
            return answer
        }
    }

    private func answer(
        to request: HTTPClientRequest, within timeout: TimeAmount, upTo limit: Int
    ) async throws -> PlainAnswer {
        var request = request
        var count = 0
        while true {
            guard URL(string: request.url)?.isReachable == true else { throw HTTPClientError.invalidURL }
            let response = try await client.execute(request, timeout: timeout)
            if redirects > 0, let next = try request.redirected(by: response) {
                guard count < redirects else { throw HTTPClientError.redirectLimitReached }
                request = next
                count += 1
                continue
            }
            do {
                let body = try await response.body.collect(upTo: limit)
                return PlainAnswer(status: response.status, headers: response.headers, body: body)
            } catch {
                throw BrokenBody(status: response.status, reason: error)
            }
        }
    }
}

/// A whole answer.
package struct PlainAnswer: Sendable {
    package var status: HTTPResponseStatus
    package var headers: HTTPHeaders
    package var body: ByteBuffer
}

/// The error of an answer whose body is broken or too long.
package struct BrokenBody: Error {
    /// The status in the head of the answer.
    package var status: HTTPResponseStatus
    /// `NIOTooManyBytesError` if the body is too long, or the client's error.
    package var reason: any Error
}

extension HTTPClientRequest {
    /// The request to which a response redirects (RFC 9110 section 15.4); `nil` if it does not.
    ///
    /// - Throws: `HTTPClientError.invalidURL` if nobody can be asked there.
    fileprivate func redirected(by response: HTTPClientResponse) throws -> HTTPClientRequest? {
        let code = response.status.code
        guard [301, 302, 303, 307, 308].contains(code), let location = response.headers.first(name: "Location") else {
            return nil
        }
        guard let current = URL(string: url), let next = URL(string: location, relativeTo: current)?.absoluteURL else {
            throw HTTPClientError.invalidURL
        }
        var request = self
        request.url = next.absoluteString
        if code == 303 || code <= 302 && method == .POST {
            request.method = .GET
            request.body = nil
            request.headers.remove(name: "Content-Type")
        }
        // Another server must not learn the key.
        if (next.scheme, next.host(), next.port) != (current.scheme, current.host(), current.port) {
            request.headers.remove(name: "Authorization")
        }
        return request
    }
}

extension URL {
    /// Whether the URL names a host and a port over HTTP. The library would end the process for any other port, and for
    /// a host of brackets that are percent-encoded.
    package var isReachable: Bool {
        guard let host = host(percentEncoded: true), !host.isEmpty, !host.contains("%") else { return false }
        // A port with more digits than a number can have is none for Foundation.
        let authority = absoluteString.drop { $0 != "/" }.dropFirst(2).prefix { !"/?#".contains($0) }
        let digits = authority.reversed().prefix { ("0"..."9").contains($0) }
        let hasPort = authority.dropLast(digits.count).last == ":" && !digits.isEmpty
        return ["http", "https"].contains(scheme?.lowercased())
            && (hasPort ? (1...65_535).contains(port ?? 0) : port == nil)
    }
}

/// Whether a request failed before it was sent, so that nobody has done what it asked for.
package func isUnsent(_ error: any Error) -> Bool {
    error is NIOConnectionError || error as? HTTPClientError == .connectTimeout
        || (error as? IOError)?.errnoCode == ECONNREFUSED
}

/// The reason why a request failed, in words for people: `connection refused` instead of a list of all attempts.
///
/// - Parameter error: The error thrown by the client.
package func reason(of error: any Error) -> String {
    let failure = (error as? BrokenBody)?.reason ?? error
    let last = (failure as? NIOConnectionError)?.connectionErrors.last?.error ?? failure
    switch last as? HTTPClientError {
    case .invalidURL: return "nobody can be asked at this address, or where it redirects to"
    case .redirectLimitReached: return "it redirects too often"
    case .deadlineExceeded: return "the time for the answer is over"
    case let error?: return error.shortDescription.lowercased()
    case nil: break
    }
    if last is HTTPParserError { return "the answer is not HTTP" }
    if last as? NIOSSLExtraError == .failedToValidateHostname { return "the certificate is for another name" }
    if last is NIOSSLExtraError || last is NIOSSLError || last is BoringSSLError {
        // The library's texts have paths of the machine on which it was built.
        return "\(last)".contains("CERTIFICATE_VERIFY_FAILED")
            ? "the certificate is not trusted" : "the TLS connection failed"
    }
    guard let last = last as? IOError else { return "\(last)" }
    return String(cString: strerror(last.errnoCode)).lowercased()
}
