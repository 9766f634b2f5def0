// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Crypto
import TestData
import TestWorld
import Testing

/// One seed gives the same documents in each process, on each day, in debug and in release.
@Suite struct SameSeedTests {
    /// SHA-256 of all documents of a year, by the number of customers; without ECDSA signatures, which are random.
    ///
    /// They change with everything that the simulator signs differently. The test prints the new ones.
    private static let goldens = [
        10: "10488d9d8efa383eb43033179b6c934a08732c8c087014d927e60324c7e9103a",
        100: "7009c0037606daad6e596f8c75995edcfcbd120f4d61cfefe9ac2bc99cf1c17e",
    ]

    @Test(arguments: Seeds.isOptimised ? [10, 100] : [10])
    func `a year of customers gives the documents of another process`(customers: Int) throws {
        let world = try RandomWorld(seed: 2026, customers: customers, days: 365, actions: 10).world
        let signer = WorldSigner(try StoreAuthority.fixture())
        var hash = SHA256()
        for occurrence in world.occurrences {
            let token = try signer.notification(occurrence, from: world.catalogue)
            for part in try Self.unsignedParts(of: token) { hash.update(data: Array(part.utf8)) }
        }
        for name in world.customers.keys.sorted() {
            let receipt = try #require(world.receipt(of: name))
            hash.update(data: try signer.sign(receipt, at: world.now))
            let app = try #require(world.appTransaction(of: name))
            hash.update(data: Array(Self.withoutSignature(try signer.sign(app, at: world.now)).utf8))
        }
        let digest = hash.finalize().map { byte in
            String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
        }.joined()
        #expect(
            digest == Self.goldens[customers],
            "If the simulator is meant to sign otherwise now, the new hash is \(digest)")
    }

    /// The payload of a notification without its tokens, and its tokens without their signatures.
    private static func unsignedParts(of token: String) throws -> [String] {
        let payload = try #require(Base64.decodeURL(Array(token.utf8).split(separator: UInt8(ascii: "."))[1]))
        var decoded = try JSONValue(parsing: payload).decode(ResponseBodyV2DecodedPayload.self)
        let tokens = [
            decoded.data?.signedTransactionInfo, decoded.data?.signedRenewalInfo,
            decoded.appData?.signedAppTransactionInfo,
        ]
        decoded.data?.signedTransactionInfo = nil
        decoded.data?.signedRenewalInfo = nil
        decoded.appData?.signedAppTransactionInfo = nil
        return [try JSONValue(encoding: decoded).compactText] + tokens.compactMap { $0.map(withoutSignature) }
    }

    /// A token up to its last dot.
    private static func withoutSignature(_ token: String) -> String {
        token.split(separator: ".").dropLast().joined(separator: ".")
    }
}
