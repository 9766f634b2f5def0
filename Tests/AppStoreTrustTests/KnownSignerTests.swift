// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import HostileVectors
import ReceiptCoding
import TestData
import TestWorld
import Testing

/// The cache of known signers changes the time of a verification, but never its result.
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

    @Test func `a token of a known signer passes the same checks as the first`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.trust)
        let chain = try TokenPlan("", by: authority.tokens).chain
        func sign(_ payload: String) throws -> [UInt8] {
            var plan = try TokenPlan(payload, by: authority.tokens)
            plan.chain = chain
            return Array(try plan.signed().utf8)
        }
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

    @Test func `a signer is known only after a valid signature`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.trust)
        var plan = try TokenPlan(Self.payload, by: authority.tokens)
        plan.signature = { _ in [UInt8](repeating: 0, count: 64) }
        let token = Array(try plan.signed().utf8)
        for _ in 0..<2 { #expect(await Self.code(verifier, token) == .invalidSignature) }
    }

    @Test func `setting other roots clears the known signers`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        var verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.trust)
        let token = Array(try TokenPlan(Self.payload, by: authority.tokens).signed().utf8)
        #expect(await Self.code(verifier, token) == nil)
        verifier.roots = .apple
        #expect(await Self.code(verifier, token) == .untrustedChain)
        verifier.roots = try authority.trust
        #expect(await Self.code(verifier, token) == nil)
    }

    @Test func `a changed container is refused even if its signer is known`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.trust)
        var receipt = AppReceipt()
        receipt.receiptType = Open(.productionSandbox)
        receipt.receiptCreationDate = Self.now
        var plan = try ReceiptPlan(receipt.encoded, by: authority.receipts)
        for _ in 0..<2 { _ = try await verifier.verify(receipt: plan.signed(), at: Self.now) }
        var unmarked = authority.receipts.intermediate
        unmarked.markerOIDs = []
        plan.certificates[1] = try [UInt8](der: unmarked.issue())
        let error = await #expect(throws: VerificationError.self) {
            try await verifier.verify(receipt: plan.signed(), at: Self.now)
        }
        #expect(error?.code == .untrustedChain)
    }

    @Test func `more signers than the cache holds are all accepted, from many threads`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.trust)
        // Each token gets newly issued certificates with other serial numbers, and therefore another header.
        let tokens = try (0..<70).map { _ in Array(try TokenPlan(Self.payload, by: authority.tokens).signed().utf8) }
        let accepted = await withTaskGroup(of: Int.self) { group in
            for token in tokens + tokens {
                group.addTask { await Self.code(verifier, token) == nil ? 1 : 0 }
            }
            return await group.reduce(0, +)
        }
        #expect(accepted == 140)
    }

    /// A receipt whose leaf has an ECDSA signature, which has two valid forms.
    private static func receiptPlan() throws -> (plan: ReceiptPlan, verifier: AppStoreVerifier) {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        var chain = authority.receipts
        chain.intermediate.key = .newP384()
        chain.leaf.issuerKey = chain.intermediate.key
        var receipt = AppReceipt()
        receipt.receiptType = Open(.productionSandbox)
        receipt.receiptCreationDate = now
        return (
            try ReceiptPlan(receipt.encoded, by: chain),
            AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.trust)
        )
    }

    @Test func `re-encoded certificates of a signer add no known signer`() async throws {
        let (plan, verifier) = try Self.receiptPlan()
        _ = try await verifier.verify(receipt: plan.signed(), at: Self.now)
        let known = verifier.knownReceiptSigners.keys
        #expect(known.count == 1)
        var rewritten = plan
        rewritten.certificates[0] = try CertificateRewriting.withOtherSignature(plan.certificates[0])
        for receipt in [rewritten, plan, rewritten] {
            _ = try await verifier.verify(receipt: receipt.signed(), at: Self.now)
        }
        rewritten.certificates =
            [
                CertificateRewriting.withLongLength(plan.certificates[0]),
                try CertificateRewriting.withoutParameters(plan.certificates[1]),
            ] + plan.certificates
        _ = try await verifier.verify(receipt: rewritten.signed(), at: Self.now)
        #expect(verifier.knownReceiptSigners.keys == known)
    }

    @Test func `the document of a receipt does not depend on the known signers`() async throws {
        let (plan, verifier) = try Self.receiptPlan()
        // Two forms of the leaf, either of which may come first.
        var exchanged = plan
        exchanged.certificates[1] = try CertificateRewriting.withOtherSignature(plan.certificates[0])
        exchanged.certificates[0] = plan.certificates[1]
        exchanged.certificates.append(plan.certificates[0])
        var reversed = exchanged
        reversed.certificates.reverse()
        for receipt in [plan, exchanged, reversed, plan, exchanged, reversed] {
            let document = try receipt.signed()
            let fresh = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: verifier.roots)
            let expected = try await fresh.verify(receipt: document, at: Self.now).document
            #expect(try await verifier.verify(receipt: document, at: Self.now).document == expected)
        }
    }

    @Test(.takesLong, arguments: VectorTests.files)
    func `a verdict does not depend on what was verified before`(file: String) async throws {
        let file = try VectorTests.committed(file)
        for (name, trust) in file.trust.sorted(by: { $0.key < $1.key }) {
            let vectors = file.vectors.filter { $0.trust == name }
            var alone: [String: String] = [:]
            for vector in vectors { alone[vector.id] = try await vector.error(of: trust.verifier)?.message ?? "" }
            let together = try trust.verifier
            for vector in vectors + vectors.reversed() + vectors.sorted(by: { $0.input < $1.input }) {
                let message = try await vector.error(of: together)?.message ?? ""
                #expect(message == alone[vector.id], "\(vector.id)")
            }
        }
    }

    @Test func `a full cache drops the least recently used signer`() {
        let known = KnownSigners<Int, String>()
        for number in 1...Limits.knownSigners { known.insert("signer \(number)", for: number) }
        #expect(known.signer { key, _ in key == 1 } == "signer 1")
        known.insert("another", for: 0)
        #expect(known.signer { key, _ in key == 2 } == nil)
        #expect(known.keys == Array(3...Limits.knownSigners) + [1, 0])
        known.insert("the same", for: 3)
        #expect(known.keys.count == Limits.knownSigners)
        #expect(known.signer { key, _ in key == 3 } == "the same")
    }
}
