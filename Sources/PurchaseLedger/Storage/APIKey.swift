// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto

/// What lets somebody ask the ledger: a name, what it may do, for which app. The secret itself is not kept, only its hash.
public struct APIKey: Hashable, Sendable {
    /// What the holder of a key may do.
    public enum Role: String, CaseIterable, Sendable {
        /// Submit purchases, and read the customer that it names: for apps, whose keys are not secret for long.
        case client
        /// Everything: for the app's own servers.
        case server
    }

    /// The public part, by which a key is found and revoked.
    public var id: String
    /// What people call it.
    public var name: String
    public var role: Role
    public var bundleId: String
    /// SHA-256 of the secret part, whose 220 random bits nobody tries out, so that nothing slower is needed.
    public var secretHash: [UInt8]
    public var createdAt: Timestamp
    public var revokedAt: Timestamp?

    public init(
        id: String, name: String, role: Role, bundleId: String, secretHash: [UInt8], createdAt: Timestamp,
        revokedAt: Timestamp? = nil
    ) {
        self.id = id
        self.name = name
        self.role = role
        self.bundleId = bundleId
        self.secretHash = secretHash
        self.createdAt = createdAt
        self.revokedAt = revokedAt
    }
}

extension APIKey {
    /// Makes a key.
    ///
    /// - Returns: The key, and the text that its holder sends, which cannot be had again.
    public static func make(
        name: String, role: Role, bundleId: String, at now: Timestamp,
        using random: inout some RandomNumberGenerator
    ) -> (key: APIKey, text: String) {
        let id = letters(8, using: &random)
        // 44 letters of 32 make 220 bits.
        let secret = letters(44, using: &random)
        let key = APIKey(
            id: id, name: name, role: role, bundleId: bundleId, secretHash: hash(secret), createdAt: now)
        return (key, "qt_\(id)_\(secret)")
    }

    /// The id and the secret in a text that somebody sent; `nil` where it has not the form of a key.
    public static func parts(of text: some StringProtocol) -> (id: String, secret: String)? {
        let bytes = Array(text.utf8)
        guard bytes.count == 56, bytes.starts(with: "qt_".utf8), bytes[11] == UInt8(ascii: "_") else { return nil }
        return (String(decoding: bytes[3..<11], as: UTF8.self), String(decoding: bytes[12...], as: UTF8.self))
    }

    /// Whether `secret` is this key's and it was not revoked. Takes the same time wherever the first difference is.
    public func admits(_ secret: String) -> Bool {
        guard revokedAt == nil else { return false }
        return SHA256.hash(data: Array(secret.utf8)) == secretHash
    }

    private static func hash(_ secret: String) -> [UInt8] { Array(SHA256.hash(data: Array(secret.utf8))) }

    /// Without letters that look alike.
    private static func letters(_ count: Int, using random: inout some RandomNumberGenerator) -> String {
        let alphabet = Array("abcdefghijkmnpqrstuvwxyz23456789")
        return String((0..<count).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &random)] })
    }
}
