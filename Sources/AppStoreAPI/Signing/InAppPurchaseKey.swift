// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Crypto

/// An In-App Purchase key of App Store Connect: the private key with which an app's server signs its requests to the
/// App Store, and the offers that its app presents.
///
/// The private key is never printed or logged.
public struct InAppPurchaseKey: Sendable, CustomStringConvertible {
    /// The key's id in App Store Connect, `kid` of everything that it signs: ten upper-case letters and digits.
    public let id: String
    /// The issuer id of the App Store Connect account, `iss` of tokens: a UUID.
    public let issuer: String
    private let privateKey: P256.Signing.PrivateKey

    /// Reads a key.
    ///
    /// - Parameter pem: The text of the `.p8` file from App Store Connect: PKCS#8 (RFC 5958) in PEM (RFC 7468).
    /// - Throws: ``InAppPurchaseKeyError`` if the text does not hold a private key on the curve P-256.
    public init(id: String, issuer: String, pem: String) throws(InAppPurchaseKeyError) {
        do {
            privateKey = try P256.Signing.PrivateKey(pemRepresentation: pem)
        } catch {
            throw InAppPurchaseKeyError()
        }
        self.id = id
        self.issuer = issuer
    }

    /// The key's id. The private key is not printed.
    public var description: String { "InAppPurchaseKey \(id)" }

    /// Signs bytes with ECDSA on P-256 and SHA-256.
    package func signature(of bytes: [UInt8]) throws -> P256.Signing.ECDSASignature {
        try privateKey.signature(for: bytes)
    }

    /// A JWS in compact serialization (RFC 7515 section 3.1) with `alg` ES256, this key's `kid`, and `typ` JWT.
    ///
    /// - Parameter claims: The payload: a JSON object.
    package func token(_ claims: JSONValue) throws -> String {
        let header = JSONValue.object([
            .init("alg", .string("ES256")), .init("kid", .string(id)), .init("typ", .string("JWT")),
        ])
        let input = [header, claims].map { Self.base64URL(Array($0.compactText.utf8)) }.joined(separator: ".")
        return "\(input).\(Self.base64URL(Array(try signature(of: Array(input.utf8)).rawRepresentation)))"
    }

    private static func base64URL(_ bytes: [UInt8]) -> String {
        String(decoding: Base64.encodeURL(bytes[...]), as: UTF8.self)
    }
}

/// A text is not an In-App Purchase key. It does not say what was found instead, since that may be a secret.
public struct InAppPurchaseKeyError: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String { "This is not the text of a .p8 file: a private key on the curve P-256 in PEM." }
}
