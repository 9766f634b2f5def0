// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The bearer token of a key and an app, signed once and used until shortly before it expires.
package struct BearerToken: Sendable {
    /// The duration from `iat` to `exp` in seconds. Apple refuses more than 3,600.
    package static let lifetime: Int64 = 1800

    /// The age of a new token in seconds: `iat` lies in the past, in case Apple's clock is behind.
    package static let backdating: Int64 = 60

    /// The seconds between a token's replacement and its expiry. They exceed the duration of a request, and leave room
    /// in case Apple's clock is ahead.
    package static let margin: Int64 = 120

    let key: InAppPurchaseKey
    private let bundleId: String
    private var text: String?
    /// The UNIX time in seconds when `text` was signed.
    private var signed: Int64 = 0

    /// - Parameter bundleId: The app.
    package init(_ key: InAppPurchaseKey, for bundleId: String) {
        self.key = key
        self.bundleId = bundleId
    }

    /// The token for a request at this time. If the clock was set back, a new token is signed.
    @inline(never)
    package mutating func text(at now: Timestamp) throws -> String {
        let seconds = now.milliseconds / 1000
        let age = seconds - signed
        if let text, 0..<(Self.lifetime - Self.backdating - Self.margin) ~= age { return text }
        let issued = seconds - Self.backdating
        let claims: [(String, JSONValue)] = [
            ("iss", .string(key.issuer)), ("iat", .number("\(issued)")),
            ("exp", .number("\(issued + Self.lifetime)")), ("aud", .string("appstoreconnect-v1")),
            ("bid", .string(bundleId)),
        ]
        let new = try key.token(.object(claims.map { JSONValue.Member($0, $1) }))
        text = new
        signed = seconds
        return new
    }

    /// Drops the token, for example after Apple refused it. The next request gets a new token.
    package mutating func discard() {
        text = nil
    }
}
