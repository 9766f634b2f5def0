// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The transport of an ``AppStoreClient``: sends requests to Apple's servers.
public protocol AppStoreTransport: Sendable {
    /// Sends a request to the host of an environment, once, and returns the answer, whatever its status.
    ///
    /// The transport must not follow redirects, because the request carries a bearer token. The transport must not
    /// inflate a compressed body, nor read more than ``APIAnswer/bodyLimit`` bytes of a body.
    ///
    /// - Parameters:
    ///   - environment: Production or sandbox.
    ///   - timeout: The maximum duration until the whole answer has arrived.
    /// - Throws: ``TransportError``, or `CancellationError` if the task is cancelled. Any other error counts as
    ///   ``TransportError/unreachable(_:)``.
    func answer(
        to request: APIRequest, in environment: Environment, within timeout: Duration
    ) async throws -> APIAnswer
}

/// The reason for a missing answer. The server may nevertheless have carried out the request.
public enum TransportError: Error, Sendable {
    /// The answer did not arrive in time.
    case timedOut
    /// No connection was possible, or the connection broke: a sentence for developers.
    case unreachable(String)
    /// The body is longer than ``APIAnswer/bodyLimit``.
    case answerTooLong
}

/// The addresses of Apple's servers.
public enum AppStoreHosts {
    /// The hosts that Apple recommends since 2026-05-05, by environment.
    public static let apple: [Environment: String] = [
        .production: "https://api.storekit.apple.com", .sandbox: "https://api.storekit-sandbox.apple.com",
    ]
}
