// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import Testing

/// A signer that is known costs less, and is asked no less.
@Suite struct KnownSignerTests {
    private static let now = Timestamp(milliseconds: 1_700_000_500_000)
    private static let payload = #"{"environment":"Sandbox","autoRenewStatus":1,"signedDate":1700000500000}"#

    private static func code(_ verifier: AppStoreVerifier, _ token: [UInt8]) async -> VerificationError.Code? {
        do {
            _ = try await verifier.verify(jws: token, at: now)
            return nil
        } catch {
            return error.code
        }
    }

    @Test func `a token of a known signer is judged like the first`() async throws {
        let authority = try TestAuthority()
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.roots)
        let chain = [try authority.leaf(), try authority.intermediate(), authority.root]
        func sign(_ payload: String) throws -> [UInt8] { try authority.sign(payload, chain: chain) }
        for _ in 0..<2 {
            #expect(await Self.code(verifier, try sign(Self.payload)) == nil)
            let early = Self.payload.replacing("1700000500000", with: "1699999999000")
            #expect(await Self.code(verifier, try sign(early)) == .certificateExpired)
            #expect(
                await Self.code(verifier, try sign(Self.payload.replacing("Sandbox", with: "Xcode")))
                    == .otherEnvironment)
            var changed = try sign(Self.payload)
            changed[changed.count - 10] = UInt8(ascii: changed[changed.count - 10] == UInt8(ascii: "A") ? "B" : "A")
            #expect(await Self.code(verifier, changed) == .invalidSignature)
        }
    }

    @Test func `a signer is not known before a signature of its was right`() async throws {
        let authority = try TestAuthority()
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.roots)
        let token = try authority.sign(Self.payload) { _ in Data(count: 64) }
        for _ in 0..<2 { #expect(await Self.code(verifier, token) == .invalidSignature) }
    }

    @Test func `other roots forget what was known`() async throws {
        let authority = try TestAuthority()
        var verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.roots)
        let token = try authority.sign(Self.payload)
        #expect(await Self.code(verifier, token) == nil)
        verifier.roots = .apple
        #expect(await Self.code(verifier, token) == .untrustedChain)
        verifier.roots = try authority.roots
        #expect(await Self.code(verifier, token) == nil)
    }

    @Test func `a known signer of receipts is no leave to change the envelope`() async throws {
        let authority = try TestAuthority()
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.roots)
        var receipt = try TestReceipt(authority)
        for _ in 0..<2 { _ = try await verifier.verify(receipt: receipt.encoded(), at: Self.now) }
        receipt.certificates[1] = try authority.intermediate(marked: false)
        let error = await #expect(throws: VerificationError.self) {
            try await verifier.verify(receipt: receipt.encoded(), at: Self.now)
        }
        #expect(error?.code == .untrustedChain)
    }

    @Test func `more signers than are remembered are all accepted, from many threads`() async throws {
        let authority = try TestAuthority()
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.roots)
        // Each certificate is issued anew, with another serial number, so each header is another.
        let tokens = try (0..<70).map { _ in try authority.sign(Self.payload) }
        let accepted = await withTaskGroup(of: Int.self) { group in
            for token in tokens + tokens {
                group.addTask { await Self.code(verifier, token) == nil ? 1 : 0 }
            }
            return await group.reduce(0, +)
        }
        #expect(accepted == 140)
    }
}
