// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Crypto
import Foundation

/// The secrets of all endpoints, derived from the file that all servers of a ledger share (`webhookSecretFile`).
///
/// A secret follows from the file, the endpoint's id and the number of the secret. The ledger, its backups and its
/// exports therefore contain no secrets.
package struct WebhookSecrets: Sendable {
    /// A text that differs for different files, and reveals nothing about the secrets. The ledger keeps the text, so
    /// that a server with a different file notices the difference and delivers nothing.
    package let fingerprint: String

    /// The sentence for a server or a command whose file is not that of the ledger's endpoints.
    package static let otherFile = """
        The secrets of the ledger's webhooks were made with a file other than webhookSecretFile. All servers of the \
        ledger need the same file.
        """

    @Hidden private var key: SymmetricKey

    /// The minimum length of the file's content in bytes: 256 bits, the strength of the derived secrets.
    package static let minBytes = 32

    /// The maximum length of the file in bytes. A longer file is probably not the file with the secret.
    package static let maxFileBytes = 16 << 10

    /// - Parameter bytes: The content of the file. White space at the end is ignored, because editors add a line end.
    package init(file bytes: [UInt8]) throws(WebhookSecretsError) {
        let end = bytes.lastIndex { !Self.whiteSpace.contains($0) }.map { $0 + 1 } ?? 0
        guard end >= Self.minBytes else { throw WebhookSecretsError(count: end) }
        let key = HKDF<SHA256>.extract(inputKeyMaterial: SymmetricKey(data: bytes[..<end]), salt: Self.salt)
            .withUnsafeBytes { SymmetricKey(data: $0) }
        fingerprint = Self.bytes(16, from: key, for: "fingerprint").hexadecimal
        self.key = key
    }

    /// A secret of an endpoint. The derivation costs tens of microseconds, so keep the result for several requests.
    ///
    /// - Parameter generation: The number of the secret (`WebhookEndpoint.generation`).
    package func secret(of endpoint: String, generation: Int) -> WebhookSecret {
        // The id has no slash, so different endpoints and numbers have different texts.
        let purpose = "\(generation)/\(endpoint)"
        return WebhookSecret(
            key: Self.bytes(32, from: key, for: "v1/\(purpose)"),
            seed: Self.bytes(32, from: key, for: "v1a/\(purpose)"))
    }

    /// Reads the file of the setting `webhookSecretFile`. Other users of the machine must not have access to the file.
    ///
    /// - Throws: ``KeyFileError``, which contains nothing of the file.
    package static func read(_ path: String) throws(KeyFileError) -> WebhookSecrets {
        let file = SecretFile(path: path, maxBytes: maxFileBytes, content: "a secret")
        let bytes = try file.read()
        do {
            return try WebhookSecrets(file: bytes)
        } catch {
            throw file.failure(error.description)
        }
    }

    private static let whiteSpace: [UInt8] = Array(" \t\r\n".utf8)

    /// The salt of HKDF (RFC 5869 section 3.1), which keeps other uses of the same file apart.
    private static let salt = Array("quittance webhooks".utf8)

    private static func bytes(_ count: Int, from key: SymmetricKey, for purpose: String) -> [UInt8] {
        HKDF<SHA256>.expand(pseudoRandomKey: key, info: Array(purpose.utf8), outputByteCount: count)
            .withUnsafeBytes { Array($0) }
    }
}

/// The error for a secret file that is too short.
package struct WebhookSecretsError: Error, CustomStringConvertible {
    /// The length of the content in bytes, without white space at the end.
    package var count: Int

    package var description: String {
        """
        The file has \(count) bytes, and needs at least \(WebhookSecrets.minBytes). Make a new file, for example with \
        `openssl rand -base64 48`.
        """
    }
}

/// A secret of an endpoint, which signs requests as Standard Webhooks 1.0.0 prescribes.
package struct WebhookSecret: Sendable {
    @Hidden private var key: [UInt8]
    /// The beginning of each code, which depends on the key only.
    @Hidden private var emptyCode: HMAC<SHA256>
    @Hidden private var signingKey: Curve25519.Signing.PrivateKey?

    /// The lengths of a secret in bytes that Standard Webhooks allows.
    package static let lengths = 24...64

    /// - Parameters:
    ///   - key: The key of the symmetric signatures.
    ///   - seed: The 32 bytes of the Ed25519 key; `nil` for a secret without one.
    package init(key: [UInt8], seed: [UInt8]? = nil) {
        self.key = key
        emptyCode = HMAC(key: SymmetricKey(data: key))
        // Any 32 bytes are an Ed25519 key.
        signingKey = seed.flatMap { try? Curve25519.Signing.PrivateKey(rawRepresentation: $0) }
    }

    /// A secret from its text, such as `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`; `nil` if the text is not a secret.
    package init?(text: String) {
        guard text.hasPrefix(Self.prefix), let key = Data(base64Encoded: String(text.dropFirst(Self.prefix.count))),
            Self.lengths.contains(key.count)
        else { return nil }
        self.init(key: Array(key))
    }

    private static let prefix = "whsec_"

    /// The secret as receivers configure it: `whsec_` and base64.
    package var text: String { Self.prefix + Data(key).base64EncodedString() }

    /// The public key that verifies the `v1a` signatures: `whpk_` and base64. Empty for a secret without an Ed25519
    /// key.
    package var publicKey: String {
        signingKey.map { "whpk_" + $0.publicKey.rawRepresentation.base64EncodedString() } ?? ""
    }

    /// The signatures of a request, such as `v1,K5oZ…=` and `v1a,hnO3…==`.
    ///
    /// - Parameters:
    ///   - id: The value of `webhook-id`.
    ///   - timestamp: The value of `webhook-timestamp`, in seconds.
    ///   - isAsymmetric: Whether to add an Ed25519 signature.
    package func signatures(id: String, timestamp: Int64, body: [UInt8], isAsymmetric: Bool) -> [String] {
        var signed = Array("\(id).\(timestamp).".utf8)
        signed.reserveCapacity(signed.count + body.count)
        signed += body
        var code = emptyCode
        code.update(data: signed)
        let symmetric = "v1," + code.finalize().withUnsafeBytes { Data($0) }.base64EncodedString()
        // Ed25519 signs any bytes.
        guard isAsymmetric, let signature = try? signingKey?.signature(for: signed) else { return [symmetric] }
        return [symmetric, "v1a," + signature.base64EncodedString()]
    }
}

/// A request to an endpoint, without its address.
package struct WebhookMessage: Sendable {
    /// The id of the event: the same in each attempt.
    package var id: String
    /// The event as JSON.
    package var body: [UInt8]
    /// The time of this attempt.
    package var timestamp: Timestamp
    /// The signatures, such as `v1,K5oZ…=`.
    package var signatures: [String]

    package init(id: String, body: [UInt8], timestamp: Timestamp, signatures: [String]) {
        self.id = id
        self.body = body
        self.timestamp = timestamp
        self.signatures = signatures
    }

    /// A message with the signatures of all valid secrets.
    package init(
        id: String, body: [UInt8], at timestamp: Timestamp, signedBy secrets: [WebhookSecret],
        isAsymmetric: Bool = false
    ) {
        let seconds = timestamp.webhookSeconds
        self.init(
            id: id, body: body, timestamp: timestamp,
            signatures: secrets.flatMap {
                $0.signatures(id: id, timestamp: seconds, body: body, isAsymmetric: isAsymmetric)
            })
    }

    /// The fields of the request that Standard Webhooks defines.
    package var signedHeaders: [(name: String, value: String)] {
        [
            ("webhook-id", id), ("webhook-timestamp", "\(timestamp.webhookSeconds)"),
            ("webhook-signature", signatures.joined(separator: " ")),
        ]
    }
}

extension Timestamp {
    /// The value of `webhook-timestamp`: whole seconds, rounded down.
    package var webhookSeconds: Int64 { milliseconds / 1000 - (milliseconds % 1000 < 0 ? 1 : 0) }
}
