// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import Foundation
import ReceiptCoding
import Testing
import X509

@Suite struct ReceiptVerificationTests {
    private static let now = Timestamp(milliseconds: 1_900_000_000_000)

    /// One fault in a receipt that would be right without it.
    struct Fault: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var expected: VerificationError.Code?
        var breaking: @Sendable (inout TestReceipt, TestAuthority) throws -> Void

        init(
            _ description: String, _ expected: VerificationError.Code?,
            _ breaking: @escaping @Sendable (inout TestReceipt, TestAuthority) throws -> Void
        ) {
            testDescription = description
            self.expected = expected
            self.breaking = breaking
        }
    }

    private static func date(_ text: String) -> [UInt8] { TestReceipt.attribute(12, TestReceipt.date(text)) }

    static let faults = [
        Fault("as the App Store would sign it", nil) { _, _ in },
        Fault("signed with SHA-1", nil) { receipt, _ in receipt.digest = TestReceipt.sha1 },
        Fault("the algorithm named with its digest, as Xcode 15 does", nil) { receipt, _ in
            receipt.signatureAlgorithm = TestReceipt.rsaWithSHA256
        },
        Fault("the algorithm named with another digest", .unsupportedAlgorithm) { receipt, _ in
            receipt.digest = TestReceipt.sha1
            receipt.signatureAlgorithm = TestReceipt.rsaWithSHA256
        },
        Fault("a digest that the App Store does not use", .unsupportedAlgorithm) { receipt, _ in
            receipt.digest = TestReceipt.sha384
        },
        Fault("a signature algorithm that the App Store does not use", .unsupportedAlgorithm) { receipt, _ in
            receipt.signatureAlgorithm = TestReceipt.sha256
        },
        Fault("a signer with a key on a curve", .unsupportedAlgorithm) { receipt, authority in
            receipt.certificates[0] = try authority.leaf()
        },
        Fault("signed attributes", .malformed) { receipt, _ in receipt.signedAttributes = [0xa0, 0x00] },
        Fault("two signers", .malformed) { receipt, _ in receipt.signers = 2 },
        Fault("no signer", .malformed) { receipt, _ in receipt.signers = 0 },
        Fault("the signer's certificate under another serial number", .malformed) { receipt, _ in
            receipt.serialNumber = [0x02, 0x01, 0x07]
        },
        Fault("a serial number with its top bit set", nil) { receipt, authority in
            receipt.certificates[0] = try authority.leaf(
                key: TestReceipt.publicKey(), serialNumber: .init(bytes: [0x80, 0xaa, 0xbb]))
        },
        Fault("ten certificates", nil) { receipt, authority in
            receipt.certificates += Array(repeating: authority.root, count: 7)
        },
        Fault("eleven certificates", .malformed) { receipt, authority in
            receipt.certificates += Array(repeating: authority.root, count: 8)
        },
        Fault("the certificates in another order", nil) { receipt, authority in
            receipt.certificates.append(try TestAuthority().intermediate())
        },
        Fault("another authority's intermediate of the same name in front", nil) { receipt, _ in
            receipt.certificates.insert(try TestAuthority().intermediate(), at: 1)
        },
        Fault("an expired intermediate of the same name and key in front", nil) { receipt, authority in
            let expired = try authority.intermediate(until: TestAuthority.issued - TestAuthority.day)
            receipt.certificates.insert(expired, at: 1)
        },
        Fault("an expired intermediate alone", .certificateExpired) { receipt, authority in
            receipt.certificates[1] = try authority.intermediate(until: TestAuthority.issued - TestAuthority.day)
        },
        Fault("no root", nil) { receipt, _ in receipt.certificates.removeLast() },
        Fault("no intermediate", .untrustedChain) { receipt, _ in receipt.certificates.remove(at: 1) },
        Fault("a chain of another authority", .untrustedChain) { receipt, _ in
            receipt.certificates = try TestReceipt(TestAuthority()).certificates
        },
        Fault("the right root behind a chain of another authority", .untrustedChain) { receipt, authority in
            receipt.certificates = try TestReceipt(TestAuthority()).certificates.dropLast() + [authority.root]
        },
        Fault("a leaf without the mark", .untrustedChain) { receipt, authority in
            receipt.certificates[0] = try authority.leaf(marked: false, key: TestReceipt.publicKey())
        },
        Fault("an intermediate without the mark", .untrustedChain) { receipt, authority in
            receipt.certificates[1] = try authority.intermediate(marked: false)
        },
        Fault("an intermediate that is no authority", .untrustedChain) { receipt, authority in
            receipt.certificates[1] = try authority.intermediate(isAuthority: false)
        },
        Fault("created before the leaf", .certificateExpired) { receipt, _ in
            receipt.attributes[2] = date("2023-11-14T22:13:19Z")
        },
        Fault("created with the leaf's first second", nil) { receipt, _ in
            receipt.attributes[2] = date("2023-11-14T22:13:20Z")
        },
        Fault("created with the leaf's last second", nil) { receipt, _ in
            receipt.attributes[2] = date("2024-11-13T22:13:20Z")
        },
        Fault("created after the leaf's last second", .certificateExpired) { receipt, _ in
            receipt.attributes[2] = date("2024-11-13T22:13:21Z")
        },
        Fault("no creation date, so judged now", .certificateExpired) { receipt, _ in receipt.attributes.removeLast() },
        Fault("a creation date that is none, so judged now", .certificateExpired) { receipt, _ in
            receipt.attributes[2] = date("yesterday")
        },
        Fault("a signature of something else", .invalidSignature) { receipt, _ in receipt.signedBytes = [1, 2, 3] },
        Fault("a purchase that cannot be read", .unreadable) { receipt, _ in
            receipt.attributes.append(TestReceipt.attribute(17, [0x02, 0x01, 0x00]))
        },
        Fault("an attribute of no consequence in another form", nil) { receipt, _ in
            receipt.attributes.append(TestReceipt.attribute(10, [0x02, 0x01, 0x00]))
        },
        Fault("another app", .otherApp) { receipt, _ in
            receipt.attributes[1] = TestReceipt.attribute(2, TestReceipt.text("com.example.notes"))
        },
        Fault("no app", .otherApp) { receipt, _ in receipt.attributes.remove(at: 1) },
        Fault("another environment", .otherEnvironment) { receipt, _ in
            receipt.attributes[0] = TestReceipt.attribute(0, TestReceipt.text("Production"))
        },
        Fault("an unknown kind of receipt", .otherEnvironment) { receipt, _ in
            receipt.attributes[0] = TestReceipt.attribute(0, TestReceipt.text("Sandbox"))
        },
        Fault("no environment", .otherEnvironment) { receipt, _ in receipt.attributes.remove(at: 0) },
        Fault("another app ID in production", .otherApp) { receipt, _ in
            receipt.attributes[0] = TestReceipt.attribute(0, TestReceipt.text("Production"))
            receipt.attributes.append(TestReceipt.attribute(1, [0x02, 0x01, 0x09]))
        },
        // Of two faults the one that is decided first is told.
        Fault("another app and signed by somebody else", .untrustedChain) { receipt, _ in
            receipt.attributes[1] = TestReceipt.attribute(2, TestReceipt.text("x"))
            receipt.certificates = try TestReceipt(TestAuthority()).certificates
        },
    ]

    @Test(arguments: faults)
    func receipt(_ fault: Fault) async throws {
        let authority = try TestAuthority()
        var receipt = try TestReceipt(authority)
        try fault.breaking(&receipt, authority)
        let document = try receipt.encoded()
        let verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example", appAppleId: 7)]), environments: [.sandbox],
            roots: try authority.roots)
        let found: VerificationError.Code?
        do {
            let verified = try await verifier.verify(receipt: document, at: Self.now)
            #expect(verified.document == document)
            #expect(verified.payload.bundleId == "com.example")
            #expect(verified.signedDate == verified.payload.receiptCreationDate)
            found = nil
        } catch {
            found = error.code
        }
        #expect(found == fault.expected)
    }

    @Test func `a receipt longer than the limit is refused before it is read`() async throws {
        let bytes = [UInt8](repeating: 0x30, count: Limits.receipt + 1)
        let error = #expect(throws: ReceiptDecodingError.self) { try SignedReceipt(decoding: bytes) }
        #expect(error?.message.contains("more than") == true)
    }
}
