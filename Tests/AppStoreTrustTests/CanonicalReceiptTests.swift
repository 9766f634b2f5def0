// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import HostileVectors
import ReceiptCoding
import TestData
import TestProcess
import TestWorld
import Testing

/// The canonical document of a receipt: payload, certificates and signature in the App Store's container, and nothing
/// else.
@Suite struct CanonicalReceiptTests {
    private static let now = Timestamp(milliseconds: 1_700_000_500_000)

    /// Receipts of the App Store.
    private static let genuine = [
        "receipts/sandbox-2025-sha256-2-purchases.b64", "receipts/sandbox-2020-sha1-187-purchases.b64",
        "receipts/sandbox-2018-sha1-120-purchases.b64", "receipts/sandbox-2014-sha1-2-purchases.b64",
        "receipts/ios-production-2016-sha1-1-purchase.b64", "receipts/mac-production-2017-sha1.der",
        "receipts/mac-production-2023-sha1-g7.der", "golden/sandbox-2020-9-purchases.b64",
    ]
    private static let xcode = [
        "receipts/xcode-ber.b64", "receipts/xcode-ber-1-purchase.b64", "receipts/xcode-ber-no-purchase.b64",
    ]

    private static func verifier() throws -> AppStoreVerifier {
        let xcode = try TrustRoots(reading: TestData.bytes("intermediates/StoreKitTestCertificate.cer"))
        return AppStoreVerifier(apps: .any, environments: Set(Environment.allCases), roots: xcode.union(.apple))
    }

    private static func simulated() throws -> (receipt: [UInt8], verifier: AppStoreVerifier) {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        var receipt = AppReceipt()
        receipt.receiptType = Open(.productionSandbox)
        receipt.bundleId = "com.example"
        receipt.receiptCreationDate = now
        return (
            try authority.sign(receipt),
            AppStoreVerifier(apps: .any, environments: [.sandbox], roots: try authority.trust)
        )
    }

    /// The canonical documents of a receipt in all wrappings, with the names of the wrappings.
    private static func canonicalDocuments(
        _ receipt: [UInt8], _ verifier: AppStoreVerifier
    ) async throws -> [(name: String, document: [UInt8])] {
        var documents: [(String, [UInt8])] = []
        for wrapping in ReceiptWrapping.all(unsignedBytes: 1000) {
            let wrapped = try wrapping(receipt)
            #expect(wrapped != receipt, "\(wrapping.name)")
            documents.append((wrapping.name, try await verifier.verify(receipt: wrapped, at: now).document))
        }
        return documents
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"), arguments: genuine)
    func `the document of a receipt from the App Store is the receipt as received`(file: String) async throws {
        let receipt = try TestData.receipt(file)
        #expect(try await Self.verifier().verify(receipt: receipt, at: Self.now).document == receipt)
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"), arguments: genuine + xcode)
    func `the canonical document passes verification again and does not change`(file: String) async throws {
        let verifier = try Self.verifier()
        let first = try await verifier.verify(receipt: try TestData.receipt(file), at: Self.now)
        let second = try await verifier.verify(receipt: first.document, at: Self.now)
        #expect(second.document == first.document)
        #expect(second.payload == first.payload)
        #expect(second.environment == first.environment)
    }

    /// The small receipts of each era.
    @Test(
        .enabled(if: TestData.isThere, "\(TestData.whyNot)"),
        arguments: [genuine[0], genuine[3], genuine[5], genuine[6], xcode[0]])
    func `a receipt has one canonical document in every wrapping`(file: String) async throws {
        let verifier = try Self.verifier()
        let receipt = try TestData.receipt(file)
        let plain = try await verifier.verify(receipt: receipt, at: Self.now).document
        for (name, document) in try await Self.canonicalDocuments(receipt, verifier) {
            #expect(document == plain, "\(name)")
        }
    }

    @Test func `a receipt of the simulator is canonical, and so is its document in every wrapping`() async throws {
        let (receipt, verifier) = try Self.simulated()
        for (name, document) in try await Self.canonicalDocuments(receipt, verifier) {
            #expect(document == receipt, "\(name)")
        }
    }

    @Test(.enabled(if: TestData.isThere && OpenSSL.program != nil, "needs the program openssl, and \(TestData.whyNot)"))
    func `OpenSSL accepts the canonical documents`() async throws {
        let verifier = try Self.verifier()
        for file in Self.genuine + Self.xcode {
            let isXcode = file.contains("xcode")
            let root = isXcode ? "intermediates/StoreKitTestCertificate.cer" : "roots/AppleIncRootCertificate.cer"
            let rootCertificate = try TestData.bytes(root)
            let document = try await verifier.verify(receipt: try TestData.receipt(file), at: Self.now).document
            let found = try OpenSSL.signedContent(document, root: rootCertificate)
            #expect(found == Array(try SignedReceipt(decoding: document).payload), "\(file)")
            // OpenSSL checks the signature.
            var forged = document
            forged[document.count - 1] ^= 1
            #expect(try OpenSSL.signedContent(forged, root: rootCertificate) == nil)
        }
    }
}

/// OpenSSL's command line program, an independent verifier.
private enum OpenSSL {
    static let program: String? = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":")
        .map { "\($0)/openssl" }.first(where: FileManager.default.isExecutableFile)

    /// The signed content of a PKCS#7 document; `nil` if OpenSSL refuses its signature or chain. Dates are not checked.
    static func signedContent(_ document: [UInt8], root: [UInt8]) throws -> [UInt8]? {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("cms-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (input, output) = (folder.appendingPathComponent("in"), folder.appendingPathComponent("out"))
        let authority = folder.appendingPathComponent("root.pem")
        try Data(document).write(to: input)
        let base64 = Data(root).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        try Data("-----BEGIN CERTIFICATE-----\n\(base64)\n-----END CERTIFICATE-----\n".utf8).write(to: authority)
        let process = try TestProcess([
            program ?? "", "cms", "-verify", "-binary", "-inform", "DER", "-in", input.path, "-out", output.path,
            "-purpose", "any",
            "-no_check_time", "-auth_level", "0", "-CAfile", authority.path,
        ])
        return process.wait() == 0 ? Array(try Data(contentsOf: output)) : nil
    }
}
