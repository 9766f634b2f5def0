// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Crypto

/// An In-App Purchase key of App Store Connect. With this private key, an app's server signs the app's offers and its
/// own requests to the App Store.
///
/// The private key is never printed or logged.
public struct InAppPurchaseKey: Sendable, CustomStringConvertible {
    /// The key's id in App Store Connect: ten upper-case letters and digits. Every JWS signed with the key names the id
    /// as `kid`.
    public let id: String
    /// The issuer id of the App Store Connect account: a UUID, the `iss` of tokens.
    public let issuer: String
    @Hidden private var privateKey: P256.Signing.PrivateKey

    /// Parses a key.
    ///
    /// - Parameter pem: The text of the `.p8` file from App Store Connect: PKCS#8 (RFC 5958) in PEM (RFC 7468). A byte
    ///   order mark, blanks around lines and empty lines are ignored.
    /// - Throws: ``InAppPurchaseKeyError`` if the text does not hold a private key on the curve P-256.
    public init(id: String, issuer: String, pem: String) throws(InAppPurchaseKeyError) {
        privateKey = try KeyText(pem).privateKey()
        self.id = id
        self.issuer = issuer
    }

    /// The form of a key's id, for error texts.
    package static let idRule = "ten capital letters and digits, such as ABCDEF1234"

    /// Whether a text has the form of a key's id.
    package static func isID(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 || UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0
            }
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
