// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import Foundation
import ReceiptCoding
import SwiftASN1
import TestData
import Testing
import X509

/// Verifies the genuine documents in the data folder.
@Suite(.enabled(if: TestData.isThere, "\(TestData.whyNot)")) struct GenuineTests {
    static let now = Timestamp(milliseconds: 1_795_000_000_000)

    static func code(
        _ verify: () async throws(VerificationError) -> Void
    ) async -> VerificationError.Code? {
        do {
            try await verify()
            return nil
        } catch {
            return error.code
        }
    }

    @Test(
        arguments: [
            ("receipts/sandbox-2025-sha256-2-purchases.b64", "dev.bonzer.weeka.app", .sandbox, nil),
            ("receipts/sandbox-2020-sha1-187-purchases.b64", "com.nutcall.alert", .sandbox, nil),
            ("receipts/sandbox-2018-sha1-120-purchases.b64", "com.sumiapp.GridDiary", .sandbox, nil),
            ("receipts/sandbox-2014-sha1-2-purchases.b64", "com.sumiapp.GridDiary", .sandbox, nil),
            ("receipts/ios-production-2016-sha1-1-purchase.b64", "com.devsisters.gb", .production, nil),
            ("receipts/mac-production-2017-sha1.der", "com.ideasoncanvas.MindNodeMac", .production, nil),
            ("receipts/mac-production-2023-sha1-g7.der", "com.ideasoncanvas.MindNodeMac", .production, nil),
            ("golden/sandbox-2020-9-purchases.b64", "com.revenuecat.sampleapp", .sandbox, nil),
            ("golden/sandbox-2020-9-purchases.b64", "com.revenuecat.sampleapp", .production, .otherEnvironment),
            ("golden/sandbox-2020-9-purchases.b64", "com.revenuecat", .sandbox, .otherApp),
            ("receipts/xcode-ber.b64", "net.zachariadis.cyclemaps", .xcode, .untrustedChain),
            (
                "receipts/xcode-ber-1-purchase.b64", "com.example.naturelab.backyardbirds.example", .xcode,
                .untrustedChain
            ),
            (
                "receipts/xcode-ber-no-purchase.b64", "com.example.naturelab.backyardbirds.example", .xcode,
                .untrustedChain
            ),
            ("receipts/not-a-receipt.bin", "com.example", .production, .malformed),
            ("jws/transactionInfo", "com.example", .sandbox, .malformed),
        ] as [(String, String, Environment, VerificationError.Code?)])
    func `a genuine receipt has the expected result`(
        file: String, bundleId: String, environment: Environment, expected: VerificationError.Code?
    ) async throws {
        let receipt = try TestData.receipt(file)
        let verifier = AppStoreVerifier(apps: .only([.init(bundleId: bundleId)]), environments: [environment])
        let code = await Self.code { () async throws(VerificationError) in
            let verified = try await verifier.verify(receipt: receipt, at: Self.now)
            #expect(verified.environment == environment)
            #expect(verified.bundleId == bundleId)
            #expect(verified.document == receipt)
            #expect(verified.signedDate == verified.payload.receiptCreationDate)
        }
        #expect(code == expected)
    }

    @Test(
        arguments: [
            ("jws/apple-sandbox-renewal-2023.jws", .renewalInfo, nil),
            ("jws/apple-sandbox-test-notification-2022.jws", .notification, nil),
            ("jws/transactionInfo", .transaction, .untrustedChain),
            ("jws/renewalInfo", .renewalInfo, .untrustedChain),
            ("jws/testNotification", .notification, .untrustedChain),
            ("jws/wrongBundleId", .notification, .untrustedChain),
            ("jws/missingX5CHeaderClaim", .notification, .malformed),
            ("jws/legacyTransaction", .transaction, .malformed),
            ("jws/xcode-signed-transaction", .transaction, .untrustedChain),
            ("jws/xcode-signed-renewal-info", .renewalInfo, .untrustedChain),
            ("jws/xcode-signed-app-transaction", .appTransaction, .untrustedChain),
        ] as [(String, SignedKind, VerificationError.Code?)])
    func `a genuine token has the expected result under Apple's roots`(
        file: String, kind: SignedKind, expected: VerificationError.Code?
    ) async throws {
        let token = try TestData.bytes(file)
        let verifier = AppStoreVerifier(apps: .any, environments: Set(Environment.allCases))
        let code = await Self.code { () async throws(VerificationError) in
            let verified = try await verifier.verify(jws: token, at: Self.now)
            #expect(verified.kind == kind)
            #expect(verified.environment == .sandbox)
            #expect(verified.bundleId == (kind == .notification ? "com.Abilities" : nil))
        }
        #expect(code == expected)
    }

    @Test(
        arguments: [
            ("jws/transactionInfo", .transaction, nil), ("jws/renewalInfo", .renewalInfo, nil),
            ("jws/testNotification", .notification, nil), ("jws/wrongBundleId", .notification, .otherApp),
            ("jws/missingX5CHeaderClaim", .notification, .malformed),
            ("jws/apple-sandbox-renewal-2023.jws", .renewalInfo, .untrustedChain),
            ("jws/xcode-signed-transaction", .transaction, .untrustedChain),
        ] as [(String, SignedKind, VerificationError.Code?)])
    func `a token of Apple's mocks has the expected result under the mocks' root`(
        file: String, kind: SignedKind, expected: VerificationError.Code?
    ) async throws {
        let token = try TestData.bytes(file)
        for root in ["jws/certs/testCA.der", "jws/certs/testCA.pem"] {
            let verifier = AppStoreVerifier(
                apps: .only([.init(bundleId: "com.example", appAppleId: 1234)]), environments: [.sandbox],
                roots: try TrustRoots(reading: TestData.bytes(root)))
            let code = await Self.code { () async throws(VerificationError) in
                #expect(try await verifier.verify(jws: token, at: Self.now).kind == kind)
            }
            #expect(code == expected)
        }
    }

    /// The certificates in the tests of Apple's libraries, each with one fault.
    @Test(arguments: [
        ("testLeaf", "testIntermediate", true), ("testInvalidOIDLeaf", "testIntermediate", false),
        ("testLeaf", "testInvalidOIDIntermediate", false),
        ("testInvalidIntermediateLeaf", "testInvalidOIDIntermediate", false),
        ("testIntermediate", "testLeaf", false), ("testLeaf", "testLeaf", false),
    ])
    func `a chain is trusted only with both marker OIDs in their places`(
        leaf: String, intermediate: String, isTrusted: Bool
    ) async throws {
        let roots = try TrustRoots(reading: TestData.bytes("jws/certs/testCA.pem"))
        let leaf = try Self.certificate("jws/certs/\(leaf).pem")
        let intermediate = try Self.certificate("jws/certs/\(intermediate).pem")
        let code = await Self.code { () async throws(VerificationError) in
            _ = try await SignerChain.check(leaf: leaf, intermediate: intermediate, roots: roots)
        }
        #expect(code == (isTrusted ? nil : .untrustedChain))
    }

    /// WWDR G2 leads to Apple's root G3, but has the marker OID of Apple Pay.
    @Test func `Apple's intermediate for Apple Pay is refused`() async throws {
        let g2 = try Certificate(derEncoded: TestData.bytes("intermediates/AppleWWDRCAG2.cer"))
        let token = try JWS(TestData.bytes("jws/apple-sandbox-renewal-2023.jws"))
        let leaf = try Certificate(derEncoded: #require(Base64.decode(token.header().x5c[0].utf8)))
        let error = await #expect(throws: VerificationError.self) {
            try await SignerChain.check(leaf: leaf, intermediate: g2, roots: .apple)
        }
        #expect(error?.code == .untrustedChain)
        #expect(error?.message.contains("1.2.840.113635.100.6.2.1") == true)
    }

    @Test(
        arguments: [
            ("receipts/xcode-ber.b64", "net.zachariadis.cyclemaps"),
            ("receipts/xcode-ber-1-purchase.b64", "com.example.naturelab.backyardbirds.example"),
            ("receipts/xcode-ber-no-purchase.b64", "com.example.naturelab.backyardbirds.example"),
        ])
    func `Xcode's receipts are valid if its certificate is a root, for the environment Xcode alone`(
        file: String, bundleId: String
    ) async throws {
        let roots = try TrustRoots(reading: TestData.bytes("intermediates/StoreKitTestCertificate.cer"))
        var verifier = AppStoreVerifier(
            apps: .only([.init(bundleId: bundleId)]), environments: [.xcode], roots: roots.union(.apple))
        let receipt = try TestData.receipt(file)
        #expect(try await verifier.verify(receipt: receipt, at: Self.now).environment == .xcode)
        verifier.environments = [.production, .sandbox, .localTesting]
        let code = await Self.code { () async throws(VerificationError) in
            _ = try await verifier.verify(receipt: receipt, at: Self.now)
        }
        #expect(code == .otherEnvironment)
    }

    @Test(arguments: ["transaction", "renewal-info", "app-transaction"])
    func `Xcode's tokens are valid if their certificate is a root`(file: String) async throws {
        let token = try TestData.bytes("jws/xcode-signed-\(file)")
        let certificate = try #require(Base64.decode(JWS(token).header().x5c[0].utf8))
        let verifier = AppStoreVerifier(
            apps: .any, environments: [.xcode], roots: try TrustRoots(reading: certificate))
        let code = await Self.code { () async throws(VerificationError) in
            #expect(try await verifier.verify(jws: token, at: Self.now).environment == .xcode)
        }
        #expect(code == nil)
    }

    @Test(arguments: ["v2-a", "v2-b"])
    func `an old transaction receipt that says Sandbox is refused for production, and valid in the sandbox`(
        file: String
    ) async throws {
        let document = try TestData.receipt("transaction-receipts/\(file).b64")
        var verifier = AppStoreVerifier(
            apps: .only([.init(bundleId: "com.d--buzz.gag-plus.ios.001")]), environments: [.sandbox])
        verifier.intermediates = try Intermediates(reading: TestData.bytes("intermediates/AppleiTunesStoreCA.cer"))
        let verified = try await verifier.verify(transactionReceipt: document, at: Self.now)
        #expect(verified.bundleId == "com.d--buzz.gag-plus.ios.001")
        #expect(verified.payload.transactionId == verified.receipt.purchase["transaction-id"])
        #expect(verified.purchaseDate?.iso8601.hasPrefix("2012-12-") == true)

        let production = String(decoding: document, as: UTF8.self)
            .replacing(#""environment" = "Sandbox";"#, with: "")
        #expect(production.utf8.count < document.count)
        verifier.environments = [.production]
        let refusal = await Self.code { [verifier] () async throws(VerificationError) in
            _ = try await verifier.verify(transactionReceipt: document, at: Self.now)
        }
        #expect(refusal == .otherEnvironment)
        // The word is not signed: without it nothing says where the receipt is from.
        let other = try await verifier.verify(transactionReceipt: production.utf8, at: Self.now)
        #expect(other.payload == verified.payload)
    }

    @Test(
        arguments: [
            ("intermediates/AppleWWDRCA-2013.cer", .untrustedChain),
            ("intermediates/StoreKitTestCertificate.cer", .untrustedChain),
        ] as [(String, VerificationError.Code)])
    func `an old transaction receipt needs the intermediate that issued its signer`(
        intermediate: String, expected: VerificationError.Code
    ) async throws {
        let document = try TestData.receipt("transaction-receipts/v2-a.b64")
        var verifier = AppStoreVerifier(apps: .any, environments: [.sandbox])
        verifier.intermediates = try Intermediates(reading: TestData.bytes(intermediate))
        let code = await Self.code { () async throws(VerificationError) in
            _ = try await verifier.verify(transactionReceipt: document, at: Self.now)
        }
        #expect(code == expected)
    }

    @Test(arguments: [
        ("receipts/sandbox-2025-sha256-2-purchases.b64", "956328D9-CC6A-47F4-BE40-6953FB0AB6C7", true),
        ("receipts/sandbox-2025-sha256-2-purchases.b64", "956328d9cc6a47f4be406953fb0ab6c7", true),
        ("receipts/sandbox-2025-sha256-2-purchases.b64", "956328D9-CC6A-47F4-BE40-6953FB0AB6C8", false),
        ("receipts/mac-production-2017-sha1.der", "6c:40:08:b5:94:5e", true),
        ("receipts/mac-production-2017-sha1.der", "6c:40:08:b5:94:5f", false),
    ])
    func `the device hash matches only the device of the receipt`(
        file: String, device: String, matches: Bool
    ) async throws {
        let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox, .production])
        let receipt = try await verifier.verify(receipt: try TestData.receipt(file), at: Self.now)
        let device = try #require(DeviceIdentifier(device))
        let code = await Self.code { () async throws(VerificationError) in try receipt.requireDevice(device) }
        #expect(code == (matches ? nil : .otherDevice))
    }

    private static func certificate(_ file: String) throws -> Certificate {
        let text = String(decoding: try TestData.bytes(file), as: UTF8.self)
        let pem = text[try #require(text.range(of: "-----BEGIN")).lowerBound...]
        return try Certificate(pemEncoded: String(pem))
    }
}

/// Reads root certificates and device identifiers.
@Suite struct AppleRootsTests {
    @Test func `the embedded roots have the fingerprints that Apple publishes`() throws {
        let fingerprints = try TrustRoots.apple.certificates.map { root in
            var serializer = DER.Serializer()
            try serializer.serialize(root)
            return SHA256.hash(data: serializer.serializedBytes).map { String(format: "%02x", $0) }.joined()
        }
        #expect(
            fingerprints == [
                "b0b1730ecbc7ff4505142c49f1295e6eda6bcaed7e2c68c5be91b5a11001f024",
                "c2b9b042dd57830e7d117dac55ac8ae19407d38e41d88f3215bc3a890444a050",
                "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179",
            ])
    }

    @Test(arguments: [
        "", "x", "-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
    ])
    func `a file without a certificate is refused as a root`(text: String) {
        let error = #expect(throws: VerificationError.self) { try TrustRoots(reading: text.utf8) }
        #expect(error?.code == .malformed)
    }

    @Test(arguments: [
        "", "1", "00:11:22:33:44", "zz:zz:zz:zz:zz:zz", "956328D9-CC6A-47F4-BE40-6953FB0AB6C", "００:11:22:33:44:55",
    ])
    func `a text other than a UUID or a MAC address is refused as a device`(text: String) {
        #expect(DeviceIdentifier(text) == nil)
    }
}
