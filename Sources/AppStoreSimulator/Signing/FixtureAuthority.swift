// SPDX-License-Identifier: Apache-2.0

// Reads the signers whose keys and certificates are committed with this source code.

import Crypto
import CryptoExtras

extension StoreAuthority {
    /// The signers of reproducible simulations: keys and certificates that are part of the source code, and so public.
    ///
    /// With these signers, a seed gives the same certificates and payloads in each process; only the ECDSA signatures
    /// differ. The private keys are no secret, so a server must not trust the roots outside of tests.
    ///
    /// - Throws: Only if the committed bytes are damaged.
    public static func fixture() throws -> StoreAuthority {
        StoreAuthority(
            tokens: try SigningFixture.tokens.map { entry in
                let key = try P256.Signing.PrivateKey(rawRepresentation: SigningFixture.bytes(entry.key))
                return try SigningChain(certificates: entry.certificates.map(SigningFixture.bytes), key: .p256(key))
            },
            receipts: try SigningFixture.receipts.map { entry in
                let key = try _RSA.Signing.PrivateKey(derRepresentation: SigningFixture.bytes(entry.key))
                return try SigningChain(certificates: entry.certificates.map(SigningFixture.bytes), key: .rsa(key))
            })
    }
}
