// SPDX-License-Identifier: Apache-2.0

// The committed signers, read from their bytes.

import Crypto
import CryptoExtras

extension StoreAuthority {
    /// The signers of seeded worlds: certificates and private keys that everybody has.
    ///
    /// With them, one seed gives the same documents in each process. Anybody can sign for them, so a server must not
    /// trust their roots outside of tests.
    ///
    /// - Throws: Never, unless the committed bytes are damaged.
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
