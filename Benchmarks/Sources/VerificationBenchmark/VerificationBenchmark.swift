// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import CryptoExtras
import Foundation
import ReceiptCoding
import X509

/// Times verification beside the raw cost of the signature checks inside it, in one process, and prints medians.
@main
struct VerificationBenchmark {
    static func main() async throws {
        let small = try data("receipts/sandbox-2025-sha256-2-purchases.b64", isBase64: true)
        let large = try data("receipts/sandbox-2020-sha1-187-purchases.b64", isBase64: true)
        let token = try data("jws/apple-sandbox-renewal-2023.jws")
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox])
        let now = Timestamp(milliseconds: 1_795_000_000_000)

        let (rawSmall, rawLarge, rawToken) = (try RawReceipt(small), try RawReceipt(large), try RawToken(token))
        let rsaSmall = try await median { try require(rawSmall.isSignatureValid) }
        let rsaLarge = try await median { try require(rawLarge.isSignatureValid) }
        let ecdsa = try await median { try require(rawToken.isSignatureValid) }
        let chain = try await median { try require(rawToken.isSignatureValid && rawToken.isChainValid) }

        print("what                                    median        compared to    ratio")
        // A verifier that has just been made knows no signer.
        @Sendable func newVerifier() -> AppStoreVerifier { AppStoreVerifier(apps: .any, environments: [.sandbox]) }
        try await row("receipt, 2 purchases, known signer", rsaSmall) {
            _ = try await verifier.verify(receipt: small, at: now)
        }
        try await row("receipt, 2 purchases, new signer", rsaSmall) {
            _ = try await newVerifier().verify(receipt: small, at: now)
        }
        let verification = try await row("receipt, 187 purchases, known signer", rsaLarge) {
            _ = try await verifier.verify(receipt: large, at: now)
        }
        try await row("  decoding alone", rsaLarge) {
            _ = try AppReceipt(decoding: SignedReceipt(decoding: large).payload)
        }
        let decoded = try AppReceipt(decoding: SignedReceipt(decoding: large).payload)
        try await row("  its answer, to its verification", verification) {
            _ =
                VerifyReceiptResponse(
                    status: .valid, environment: .sandbox, receipt: Receipt(decoded, requestDate: now)
                ).json
        }
        try await row("JWS, known signer", ecdsa) { _ = try await verifier.verify(jws: token, at: now) }
        try await row("JWS, new signer", chain) { _ = try await newVerifier().verify(jws: token, at: now) }
    }

    private static func data(_ path: String, isBase64: Bool = false) throws -> [UInt8] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let file = try Data(contentsOf: folder.appendingPathComponent("../shared/data/\(path)"))
        return Array(isBase64 ? Data(base64Encoded: file) ?? Data() : file)
    }

    @discardableResult
    private static func row(
        _ name: String, _ raw: Duration, _ body: @Sendable () async throws -> Void
    ) async throws
        -> Duration
    {
        let time = try await median(body)
        let cells = [name.padding(toLength: 38, withPad: " ", startingAt: 0), cell(time), "    ", cell(raw)]
        print(cells.joined() + String(format: "    %5.2f ×", time / raw))
        return time
    }

    private static func cell(_ duration: Duration) -> String {
        String(format: "%7.1f µs", duration / .microseconds(1))
    }

    /// The median of 21 rounds, each long enough for the clock.
    private static func median(_ body: @Sendable () async throws -> Void) async throws -> Duration {
        let clock = ContinuousClock()
        for _ in 0..<20 { try await body() }
        var rounds: [Duration] = []
        for _ in 0..<21 {
            let repetitions = 20
            let start = clock.now
            for _ in 0..<repetitions { try await body() }
            rounds.append((clock.now - start) / repetitions)
        }
        return rounds.sorted()[rounds.count / 2]
    }

    struct InvalidSignature: Error {}

    private static func require(_ isValid: Bool) throws {
        guard isValid else { throw InvalidSignature() }
    }
}

// The signature checks that a verification cannot do without, and nothing else: keys and bytes are at hand.

/// A receipt's RSA signature over its payload.
struct RawReceipt {
    private let key: _RSA.Signing.PublicKey
    private let signature: _RSA.Signing.RSASignature
    private let payload: ArraySlice<UInt8>
    private let isSHA1: Bool

    init(_ bytes: [UInt8]) throws {
        let container = try SignedReceipt(decoding: bytes)
        guard let leaf = container.certificates.first,
            let key = _RSA.Signing.PublicKey(try Certificate(derEncoded: Array(leaf)).publicKey)
        else { throw VerificationBenchmark.InvalidSignature() }
        self.key = key
        signature = .init(rawRepresentation: container.signer.signature)
        payload = container.payload
        isSHA1 = container.signer.digestAlgorithm == .sha1
    }

    var isSignatureValid: Bool {
        isSHA1
            ? key.isValidSignature(signature, for: Insecure.SHA1.hash(data: payload), padding: .insecurePKCS1v1_5)
            : key.isValidSignature(signature, for: SHA256.hash(data: payload), padding: .insecurePKCS1v1_5)
    }
}

/// A token's P-256 signature, and the two P-384 signatures of its chain.
struct RawToken {
    private let key: P256.Signing.PublicKey
    private let signature: P256.Signing.ECDSASignature
    private let input: ArraySlice<UInt8>
    private let chain: [Certificate]

    init(_ bytes: [UInt8]) throws {
        let jws = try JWS(bytes)
        chain = try jws.header().x5c.map { try Certificate(derEncoded: Array(Data(base64Encoded: $0) ?? Data())) }
        guard chain.count == 3, let key = P256.Signing.PublicKey(chain[0].publicKey) else {
            throw VerificationBenchmark.InvalidSignature()
        }
        self.key = key
        signature = try .init(rawRepresentation: jws.signature)
        input = jws.signingInput
    }

    var isSignatureValid: Bool { key.isValidSignature(signature, for: SHA256.hash(data: input)) }

    var isChainValid: Bool {
        chain[1].publicKey.isValidSignature(chain[0].signature, for: chain[0])
            && chain[2].publicKey.isValidSignature(chain[1].signature, for: chain[1])
    }
}
