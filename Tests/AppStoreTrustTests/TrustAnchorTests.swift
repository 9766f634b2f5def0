// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import TestData
import TestWorld
import Testing

/// Tests that what was verified knows the root that it was trusted for.
@Suite struct TrustAnchorTests {
    @Test(
        .enabled(if: TestData.isThere, "\(TestData.whyNot)"),
        arguments: [
            "receipts/ios-production-2016-sha1-1-purchase.b64", "receipts/sandbox-2025-sha256-2-purchases.b64",
        ])
    func `receipts of the App Store are anchored by Apple's roots, whichever of them`(file: String) async throws {
        let verifier = AppStoreVerifier(apps: .any, environments: [.production, .sandbox])
        let verified = try await verifier.verify(receipt: TestData.receipt(file), at: GenuineTests.now)
        #expect(verified.anchor == .apple && TrustRoots.apple.anchors == [.apple])
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"))
    func `a token of the App Store is anchored by the same, also if other roots are trusted too`() async throws {
        let token = try TestData.bytes("jws/apple-sandbox-test-notification-2022.jws")
        let roots = TrustRoots.apple.union(try TestStore().roots)
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: roots)
        #expect(try await verifier.verify(jws: token, at: GenuineTests.now).anchor == .apple)
    }

    @Test func `a simulator's documents are anchored by its root, by the SHA-256 of its DER`() async throws {
        let store = try TestStore()
        let names = store.signer.authority.roots.map { "\(SHA256.hash(data: $0))".split(separator: " ").last ?? "" }
        let verifier = store.verifier()
        let token = try await verifier.verify(
            jws: Array(store.sign(TestStore.transaction()).utf8), at: TestStore.start)
        let receipt = try await verifier.verify(receipt: store.sign(TestStore.receipt()), at: TestStore.start)
        #expect([token.anchor?.name, receipt.anchor?.name] == names.map(String.init))
        #expect(names.allSatisfy { $0.count == 64 })
        #expect([token.anchor, receipt.anchor].allSatisfy { $0?.isSimulated == true && $0?.family == .simulator })
        #expect(store.roots.anchors == Set([token.anchor, receipt.anchor].compactMap(\.self)))
        // From the cache of known signers too.
        let again = try await verifier.verify(
            jws: Array(store.sign(TestStore.transaction("2")).utf8), at: TestStore.start)
        #expect(again.anchor == token.anchor)
    }
}
