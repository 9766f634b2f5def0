// SPDX-License-Identifier: Apache-2.0

package import Crypto
package import CryptoExtras
import Foundation
import Synchronization
package import X509

/// A private key of a type used in the App Store's certificates.
package enum SigningKey: Sendable {
    case p256(P256.Signing.PrivateKey)
    case p384(P384.Signing.PrivateKey)
    case rsa(_RSA.Signing.PrivateKey)

    package static func newP256() -> SigningKey { .p256(P256.Signing.PrivateKey()) }
    package static func newP384() -> SigningKey { .p384(P384.Signing.PrivateKey()) }

    /// Creates an RSA key.
    ///
    /// - Parameter bits: 2048, or 1024 as in the certificates that signed the oldest transaction receipts.
    package static func newRSA(bits: Int = 2048) throws -> SigningKey {
        .rsa(try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: bits)))
    }

    /// Creates RSA keys of 2048 bits on all cores. This is worthwhile, because the search for the keys' primes takes
    /// most of the time in which a simulator starts.
    static func newRSA(count: Int) throws -> [SigningKey] {
        let keys = Mutex<[Result<SigningKey, any Error>]>([])
        DispatchQueue.concurrentPerform(iterations: count) { _ in
            let key = Result { try newRSA() }
            keys.withLock { $0.append(key) }
        }
        return try keys.withLock { $0 }.map { try $0.get() }
    }

    package var publicKey: Certificate.PublicKey {
        switch self {
        case .p256(let key): .init(key.publicKey)
        case .p384(let key): .init(key.publicKey)
        case .rsa(let key): .init(key.publicKey)
        }
    }

    var certificateKey: Certificate.PrivateKey {
        switch self {
        case .p256(let key): .init(key)
        case .p384(let key): .init(key)
        case .rsa(let key): .init(key)
        }
    }

    /// The algorithm with which Apple's authorities sign certificates if their own key is of this kind.
    var certificateAlgorithm: Certificate.SignatureAlgorithm {
        switch self {
        case .p256: .ecdsaWithSHA256
        case .p384: .ecdsaWithSHA384
        case .rsa: .sha256WithRSAEncryption
        }
    }

    /// An ES256 signature: r and s, 32 bytes each (RFC 7518 section 3.4).
    package func es256(_ input: [UInt8]) throws -> [UInt8] {
        guard case .p256(let key) = self else { throw SimulatorError("ES256 needs a key on the curve P-256") }
        return Array(try key.signature(for: input).rawRepresentation)
    }

    /// An RSA signature with PKCS#1 v1.5 padding (RFC 8017 section 8.2).
    package func rsa(_ digest: some Digest) throws -> [UInt8] {
        guard case .rsa(let key) = self else { throw SimulatorError("The signer's key is not RSA") }
        return Array(try key.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation)
    }
}

extension SigningKey {
    /// Whether this RSA key made an SHA-256 signature with PKCS#1 v1.5 padding.
    func isValidSignature(_ signature: [UInt8], of bytes: ArraySlice<UInt8>) -> Bool {
        guard case .rsa(let key) = self else { return false }
        let signature = _RSA.Signing.RSASignature(rawRepresentation: signature)
        return key.publicKey.isValidSignature(signature, for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5)
    }

    /// The private key: 32 bytes of a P-256 key, 48 bytes of a P-384 key, or PKCS#1 of an RSA key.
    package var bytes: [UInt8] {
        switch self {
        case .p256(let key): Array(key.rawRepresentation)
        case .p384(let key): Array(key.rawRepresentation)
        case .rsa(let key): Array(key.derRepresentation)
        }
    }
}
