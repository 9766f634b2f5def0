// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto

/// The key with which an app's server signs its requests: an In-App Purchase key of App Store Connect.
public struct StoreKey: Sendable, CustomStringConvertible {
    /// `kid` of tokens: ten upper-case letters and digits.
    public let id: String
    /// `iss` of tokens: a UUID.
    public let issuer: String
    @Hidden private var privateKey: P256.Signing.PrivateKey

    /// Creates a key from the text of a file.
    ///
    /// - Parameter pem: The text of a `.p8` file: PKCS#8 of a key on the curve P-256.
    /// - Throws: `SimulatorError` if the text contains no such key.
    public init(id: String, issuer: String, pem: String) throws(SimulatorError) {
        do {
            privateKey = try P256.Signing.PrivateKey(pemRepresentation: pem)
        } catch {
            throw SimulatorError("The API key is not the text of a .p8 file: \(error)")
        }
        self.id = id
        self.issuer = issuer
    }

    /// Creates a key from random numbers. Equal numbers give equal keys.
    public init(using generator: inout some RandomNumberGenerator) throws(SimulatorError) {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
        id = String((0..<10).map { _ in letters[Int.random(in: 0..<letters.count, using: &generator)] })
        issuer = String(uuidOf: generator.bytes(16))
        var number = generator.bytes(32)
        // A private key must be less than the order of the curve. Without its highest bit, the number certainly is.
        number[0] &= 0x7f
        do {
            privateKey = try P256.Signing.PrivateKey(rawRepresentation: number)
        } catch {
            throw SimulatorError("The random numbers make no key: \(error)")
        }
    }

    /// The text of the `.p8` file.
    public var pem: String { privateKey.pemRepresentation }

    /// The key's id. The description contains no secret.
    public var description: String { "StoreKey \(id)" }

    /// A bearer token with the claims that Apple's own libraries sign. These libraries make a new token for each
    /// request.
    ///
    /// - Parameters:
    ///   - bundleId: The app's bundle identifier.
    ///   - now: The wall clock's time.
    ///   - seconds: The validity of the token in seconds: at most 3,600.
    public func bearerToken(
        for bundleId: String, at now: Timestamp, seconds: Int64 = 300
    ) throws -> String {
        let issued = now.milliseconds / 1000
        let claims: [(String, JSONValue)] = [
            ("iss", .string(issuer)), ("iat", .number("\(issued)")), ("exp", .number("\(issued + seconds)")),
            ("aud", .string("appstoreconnect-v1")), ("bid", .string(bundleId)),
        ]
        let header = JSONValue.object([
            .init("alg", .string("ES256")), .init("kid", .string(id)), .init("typ", .string("JWT")),
        ])
        return try sign(header, .object(claims.map { JSONValue.Member($0, $1) }))
    }

    /// Signs any token, so that tests can make any part invalid.
    package func sign(_ header: JSONValue, _ claims: JSONValue) throws -> String {
        let parts = [header, claims].map { TokenPlan.base64URL(Array($0.compactText.utf8)) }
        let input = parts.joined(separator: ".")
        let signature = try SigningKey.p256(privateKey).es256(Array(input.utf8))
        return "\(input).\(TokenPlan.base64URL(signature))"
    }

    /// Whether this key signed a token.
    func signed(_ token: JWS) -> Bool {
        // The library throws only if the signature has the wrong length. Then the key did not sign the token.
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: token.signature) else { return false }
        return privateKey.publicKey.isValidSignature(signature, for: Array(token.signingInput))
    }
}

extension RandomNumberGenerator {
    mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) }
    }
}

extension String {
    /// A UUID of version 4 in lower case (RFC 9562) from 16 random bytes.
    init(uuidOf bytes: [UInt8]) {
        var bytes = Array((bytes + Array(repeating: 0, count: 16)).prefix(16))
        bytes[6] = bytes[6] & 0x0f | 0x40
        bytes[8] = bytes[8] & 0x3f | 0x80
        let hex = bytes.map { byte in String(byte >> 4, radix: 16) + String(byte & 15, radix: 16) }
        self = [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { hex[$0].joined() }.joined(separator: "-")
    }
}
