// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Sends requests to Apple's servers, for an ``AppStoreClient``.
public protocol AppStoreTransport: Sendable {
    /// Sends a request to the host of an environment, once, and returns the answer, whatever its status.
    ///
    /// It must not follow redirects, since the request carries a bearer token, nor inflate a compressed body, nor read
    /// more than ``APIAnswer/bodyLimit`` bytes of it.
    ///
    /// - Parameters:
    ///   - environment: Production or sandbox.
    ///   - timeout: The longest time until the whole answer has arrived.
    /// - Throws: ``TransportError``, or `CancellationError` if the task is cancelled. Any other error counts as
    ///   ``TransportError/unreachable(_:)``.
    func answer(
        to request: APIRequest, in environment: Environment, within timeout: Duration
    ) async throws -> APIAnswer
}

/// Why there is no answer. The server may have carried out the request nevertheless.
public enum TransportError: Error, Sendable {
    /// The answer did not arrive in time.
    case timedOut
    /// There is no connection, or it broke: a sentence for developers.
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
