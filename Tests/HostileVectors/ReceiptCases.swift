// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import CryptoExtras
import Foundation
import ReceiptCoding
import SwiftASN1
import X509

/// Faults of app receipts. Each case starts from a valid receipt and breaks one thing.
enum ReceiptCases {
    static let all = containers + wrappings + signers + chains + keys + certificates + dates + payloads + claims + xcode

    /// The attributes of the valid receipt from which all cases start.
    private static let attributes: [(type: Int64, value: [UInt8])] = [
        (0, DEREncoding.utf8String("ProductionSandbox")), (2, DEREncoding.utf8String("com.example")),
        (12, DEREncoding.ia5String("2023-11-14T22:21:40Z")),
    ]

    static func payload(_ attributes: [(type: Int64, value: [UInt8])]) -> [UInt8] {
        DEREncoding.element(0x31, attributes.flatMap { attribute($0.type, $0.value) })
    }

    private static func attribute(_ type: Int64, _ value: [UInt8]) -> [UInt8] {
        ReceiptAttribute(type: type, version: 1, value: value[...]).encoded
    }

    /// A receipt that `breaking` has changed.
    private static func receipt(
        _ id: String, _ description: String, _ expected: VerificationError.Code?, source: String = "legacy-receipts A",
        trust: String = "app", conflicts: [Vector.Conflict] = [],
        _ breaking: @escaping @Sendable (inout ReceiptPlan, World) throws -> Void = { _, _ in }
    ) -> Case {
        Case(
            id: "receipt::\(id)", description: description, kind: .receipt, expected: expected, trust: trust,
            source: source, conflicts: conflicts
        ) { world in
            var plan = try ReceiptPlan(payload(attributes), by: world.authority.receipts)
            try breaking(&plan, world)
            return Data(try plan.signed()).base64EncodedString()
        }
    }

    /// A receipt whose finished bytes `breaking` has changed.
    private static func document(
        _ id: String, _ description: String, _ expected: VerificationError.Code?, source: String = "legacy-receipts A",
        _ breaking: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) -> Case {
        receipt(id, description, expected, source: source) { plan, _ in plan.document = breaking }
    }

    // MARK: The container

    private static let containers =
        [
            receipt("genuine", "As the App Store would sign it.", nil),
            receipt("genuine-sha1", "Signed with SHA-1, as until 2023.", nil) { plan, _ in plan.digest = .sha1 },
            document("empty", "No bytes.", .malformed) { _ in [] },
            document("cut-off", "The last byte is missing.", .malformed) { $0.dropLast() },
            document(
                "trailing-bytes", "Bytes after the receipt, which the App Store ignores.", nil,
                source: "legacy-receipts A.5"
            ) {
                $0 + [0xde, 0xad]
            },
            document("length-absurd", "A length of 2^64 − 1 bytes.", .malformed) { _ in
                [0x30, 0x88] + [UInt8](repeating: 0xff, count: 8) + [0x06]
            },
            document("other-content-type", "PKCS#7 that is not signed data.", .malformed) {
                $0.replacingFirst([0xf7, 0x0d, 0x01, 0x07, 0x02], with: [0xf7, 0x0d, 0x01, 0x07, 0x03])
            },
            document(
                "indefinite-lengths", "An indefinite outer length, as in Xcode's receipts.", nil,
                source: "legacy-receipts A.5"
            ) {
                // Drops the outer tag and its length: `0x82` and two more bytes.
                [0x30, 0x80] + $0.dropFirst(4) + [0, 0]
            },
            receipt("chunks", "The payload in chunks, as in Xcode's receipts.", nil, source: "legacy-receipts A.5") {
                plan, _ in
                let chunks = plan.payload.chunks(of: 10).map { DEREncoding.octetString($0) }
                plan.content = [0x24, 0x80] + chunks.joined() + [0, 0]
            },
            receipt("chunks-nested-30", "The payload in chunks within chunks, 30 deep.", nil, source: "limits") {
                plan, _ in
                plan.content = nested(plan.payload, 30)
            },
            receipt(
                "chunks-nested-1000", "The payload in chunks within chunks, a thousand deep.", .malformed,
                source: "limits"
            ) { plan, _ in
                plan.content = nested(plan.payload, 1000)
            },
            document("endless", "An indefinite length that never ends.", .malformed, source: "limits") { _ in
                Array(repeatElement([0x30, 0x80], count: 10_000).joined())
            },
            receipt("two-signers", "The signer twice.", .malformed, source: "legacy-receipts A.2") { plan, _ in
                plan.signers = 2
            },
            receipt("no-signer", "No signer.", .malformed, source: "legacy-receipts A.2") { plan, _ in
                plan.signers = 0
            },
            receipt(
                "signed-attributes",
                "Signed attributes: with them, the signature covers them and not the payload directly.", .malformed,
                source: "RFC 5652 section 5.4"
            ) { plan, _ in
                plan.signedAttributes = DEREncoding.context0([])
            },
            receipt(
                "signer-by-key", "A signer named by the identifier of its key.", .malformed,
                source: "legacy-receipts A.2"
            ) { plan, _ in
                plan.signer = [0x80, 0x02, 0x01, 0x02]
            },
        ] as [Case]

    /// The payload's OCTET STRING inside constructed ones.
    private static func nested(_ payload: [UInt8], _ depth: Int) -> [UInt8] {
        Array(repeatElement([0x24, 0x80], count: depth).joined()) + DEREncoding.octetString(payload)
            + Array(repeatElement([0x00, 0x00], count: depth).joined())
    }

    /// Changes outside the signature. The verifier must return the same document for all of them.
    private static let wrappings = ReceiptWrapping.all(unsignedBytes: 300).map { wrapping in
        Case(
            id: "receipt::wrapped-\(wrapping.name)", description: wrapping.description, kind: .receipt, expected: nil,
            source: "RFC 5652 section 5.4: the signature covers the content alone"
        ) { world in
            let receipt = try ReceiptPlan(payload(attributes), by: world.authority.receipts).signed()
            return Data(try wrapping(receipt)).base64EncodedString()
        }
    }

    // MARK: The signer and the signature

    private static func signature(
        _ id: String, _ description: String, _ change: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) -> Case {
        receipt("signature-\(id)", description, .invalidSignature, source: "RFC 8017 section 8.2.2") { plan, _ in
            plan.signature = change
        }
    }

    private static let signers =
        [
            receipt(
                "algorithm-with-digest", "A signature algorithm that names its digest, as in Xcode 15's receipts.", nil,
                source: "legacy-receipts A.2"
            ) { plan, _ in
                plan.signatureAlgorithm = .sha256WithRSAEncryption
            },
            receipt(
                "algorithm-with-other-digest",
                "A signature algorithm that names SHA-256, with the digest algorithm SHA-1.",
                .unsupportedAlgorithm
            ) { plan, _ in
                plan.digest = .sha1
                plan.signatureAlgorithm = .sha256WithRSAEncryption
            },
            receipt(
                "digest-unknown", "A digest that the App Store does not use.", .unsupportedAlgorithm,
                conflicts: [
                    Vector.Conflict(
                        implementation: "TPInAppReceipt 4.0.2", actual: "verified as SHA-256",
                        reason: "Every digest but SHA-1 is taken for SHA-256.")
                ]
            ) { plan, _ in plan.digest = .sha256WithRSAEncryption },
            receipt(
                "algorithm-unknown", "A signature algorithm that the App Store does not use.", .unsupportedAlgorithm
            ) { plan, _ in
                plan.signatureAlgorithm = .sha256
            },
            receipt("key-on-curve", "A signer with an elliptic-curve key.", .unsupportedAlgorithm) { plan, world in
                var chain = world.authority.receipts
                chain.leaf.key = .newP256()
                let certificates = try chain.issue()
                plan.certificates = try certificates.map { try [UInt8](der: $0) }
                plan.signer = try SigningChain.issuerAndSerialNumber(of: certificates[0])
            },
            receipt("signature-other-payload", "The signature of other bytes.", .invalidSignature) { plan, _ in
                plan.signedBytes = [1, 2, 3]
            },
            signature("empty", "An empty signature.") { _ in [] },
            signature("zeros", "A signature of zeros.") { [UInt8](repeating: 0, count: $0.count) },
            signature("ones", "A signature whose value exceeds the key's modulus.") {
                [UInt8](repeating: 0xff, count: $0.count)
            },
            signature("short", "A signature with a byte too few.") { Array($0.dropFirst()) },
            signature("long", "A signature with a byte too many.") { [0] + $0 },
            receipt(
                "signature-changed", "One bit of the signature is changed.", .invalidSignature,
                source: "RFC 8017 section 8.2.2"
            ) { plan, _ in
                plan.signature = { [$0[0] ^ 1] + $0.dropFirst() }
            },
            receipt("payload-changed", "One letter of the payload is changed after signing.", .invalidSignature) {
                plan, _ in
                plan.document = { $0.replacingFirst(Array("com.example".utf8), with: Array("com.examplf".utf8)) }
            },
            receipt(
                "other-serial-number", "The signer is named with a serial number that no certificate has.", .malformed
            ) {
                plan, _ in
                plan.signer = plan.signer.dropLast() + [plan.signer.last.map { $0 ^ 1 } ?? 0]
            },
            receipt(
                "serial-number-padded", "The signer's serial number with superfluous zeros in front.",
                .malformed, source: "X.690 section 8.3.2"
            ) { plan, _ in
                plan.signer = padded(plan.signer)
            },
            receipt(
                "order-chain-before-contents", "An unreadable payload that another authority signed.", .untrustedChain,
                source: "devsisters/go-applereceipt"
            ) { plan, world in
                plan = try ReceiptPlan([0x30, 0x00], by: world.other.receipts)
            },
            receipt(
                "serial-number-shared-first", "The signer before another leaf of its issuer and serial number.", nil,
                source: "RFC 5652 section 5.3"
            ) { plan, world in
                plan.certificates.append(try secondLeaf(&plan, world))
            },
            receipt(
                "serial-number-shared-second", "The signer after another leaf of its issuer and serial number.", nil,
                source: "RFC 5652 section 5.3"
            ) { plan, world in
                plan.certificates.insert(try secondLeaf(&plan, world), at: 0)
            },
            receipt(
                "serial-number-shared-other", "Only another leaf of the signer's issuer and serial number.",
                .invalidSignature, source: "RFC 5652 section 5.3"
            ) { plan, world in
                plan.certificates[0] = try secondLeaf(&plan, world)
            },
            receipt("serial-number-top-bit", "A serial number with its top bit set.", nil) { plan, world in
                var chain = world.authority.receipts
                chain.leaf.serialNumber = [0x80, 0xaa, 0xbb]
                plan = try ReceiptPlan(plan.payload, by: chain)
            },
        ] as [Case]

    /// Gives the signer a serial number, and issues another leaf with the same one.
    private static func secondLeaf(_ plan: inout ReceiptPlan, _ world: World) throws -> [UInt8] {
        var chain = world.authority.receipts
        chain.leaf.serialNumber = [0x11, 0x22, 0x33]
        plan = try ReceiptPlan(plan.payload, by: chain)
        chain.leaf.key = try .newRSA()
        return try [UInt8](der: chain.leaf.issue())
    }

    /// An IssuerAndSerialNumber whose serial number has superfluous zeros in front. The number is the last element.
    private static func padded(_ signer: [UInt8]) -> [UInt8] {
        let content = Array(signer.dropFirst(signer[1] < 0x80 ? 2 : 2 + Int(signer[1] & 0x7f)))
        let nameLength = 2 + Int(content[1])
        let number = Array(content[(nameLength + 2)...])
        return DEREncoding.sequence(Array(content[..<nameLength]), DEREncoding.element(0x02, [0, 0] + number))
    }

    // MARK: The chain

    private static func chain(
        _ id: String, _ description: String, _ expected: VerificationError.Code?,
        source: String = "legacy-receipts A.6",
        conflicts: [Vector.Conflict] = [], _ breaking: @escaping @Sendable (inout ChainPlan, World) throws -> Void
    ) -> Case {
        receipt(id, description, expected, source: source, conflicts: conflicts) { plan, world in
            var chain = world.authority.receipts
            try breaking(&chain, world)
            plan = try ReceiptPlan(plan.payload, by: chain)
        }
    }

    private static let ignoresMarkerOIDs = [
        Vector.Conflict(
            implementation: "readdle/app-store-receipt-verification, devsisters/go-applereceipt, IdeasOnCanvas",
            actual: "verified", reason: "They do not check the marker OIDs.")
    ]

    private static let keyUsageRule = "RFC 5280 section 4.2.1.3"

    private static let chains =
        [
            chain(
                "leaf-without-marker", "A leaf without the marker OID, issued for another purpose.", .untrustedChain,
                conflicts: ignoresMarkerOIDs
            ) { chain, _ in
                chain.leaf.markerOIDs = []
            },
            chain(
                "intermediate-without-marker", "An intermediate without the marker OID.", .untrustedChain,
                conflicts: ignoresMarkerOIDs
            ) { chain, _ in
                chain.intermediate.markerOIDs = []
            },
            chain(
                "intermediate-wwdr-g2", "An intermediate with the marker OID of WWDR G2.", .untrustedChain,
                conflicts: ignoresMarkerOIDs
            ) {
                chain, _ in
                chain.intermediate.markerOIDs = [.worldwideDeveloperRelationsG2]
            },
            chain("intermediate-no-authority", "An intermediate that may not issue certificates.", .untrustedChain) {
                chain, _ in
                chain.intermediate.constraints = .notCertificateAuthority
            },
            chain(
                "leaf-unknown-critical-extension", "A leaf with an unknown critical extension.", .untrustedChain,
                source: "RFC 5280 section 4.2"
            ) { chain, _ in
                chain.leaf.unknownExtensions = [[1, 3, 6, 1, 4, 1, 99999, 1]]
            },
            chain(
                "leaf-key-usage-other", "A leaf whose key usage has only keyAgreement.", .untrustedChain,
                source: keyUsageRule
            ) { chain, _ in
                chain.leaf.keyUsage = KeyUsage(keyAgreement: true)
            },
            chain(
                "leaf-key-usage-absent", "A leaf without key usage, which permits each use.", nil, source: keyUsageRule
            ) { chain, _ in
                chain.leaf.keyUsage = nil
            },
            chain(
                "intermediate-key-usage-other", "An intermediate whose key usage has only digitalSignature.",
                .untrustedChain, source: keyUsageRule
            ) { chain, _ in
                chain.intermediate.keyUsage = .signer
            },
            chain(
                "intermediate-key-usage-absent", "An intermediate without key usage, which permits each use.", nil,
                source: keyUsageRule
            ) { chain, _ in
                chain.intermediate.keyUsage = nil
            },
            receipt(
                "root-key-usage-other", "The trusted root's key usage has only cRLSign.", .untrustedChain,
                source: keyUsageRule, trust: "roots that issue nothing"),
            chain("self-made", "A chain with the same names that another authority issued.", .untrustedChain) {
                chain, world in
                chain = world.other.receipts
            },
            chain("markers-exchanged", "Each marker OID on the other certificate.", .untrustedChain) { chain, _ in
                swap(&chain.leaf.markerOIDs, &chain.intermediate.markerOIDs)
            },
            chain(
                "itunes-store-markers", "A chain with the marker OIDs of transaction receipts' signers.",
                .untrustedChain
            ) {
                chain, _ in
                chain.leaf.markerOIDs = [.purchaseReceiptSigning]
                chain.intermediate.markerOIDs = [.iTunesStoreAuthority]
            },
            chain(
                "rotated", "Another signer and intermediate under the same root, as Apple changes them.", nil,
                source: "imdhemy/appstore-iap#252"
            ) { chain, _ in
                chain.intermediate.key = try .newRSA()
                chain.leaf.issuerKey = chain.intermediate.key
                chain.leaf.key = try .newRSA()
            },
            receipt("forged-leaf", "A leaf that a genuine leaf signed.", .untrustedChain) { plan, world in
                let genuine = world.authority.receipts.leaf
                var forged = genuine
                (forged.issuer, forged.issuerKey, forged.key) = (genuine.subject, genuine.key, try .newRSA())
                let certificate = try forged.issue()
                plan.certificates[1] = plan.certificates[0]
                plan.certificates[0] = try [UInt8](der: certificate)
                plan.signer = try SigningChain.issuerAndSerialNumber(of: certificate)
                plan.key = forged.key
            },
            receipt(
                "right-root-behind-self-made", "The trusted root behind another authority's chain.", .untrustedChain
            ) { plan, world in
                let root = plan.certificates[2]
                plan = try ReceiptPlan(plan.payload, by: world.other.receipts)
                plan.certificates[2] = root
            },
            receipt("no-root", "The root is left out.", nil) { plan, _ in plan.certificates.removeLast() },
            receipt("no-intermediate", "The intermediate is left out.", .untrustedChain) { plan, _ in
                plan.certificates.remove(at: 1)
            },
            receipt("no-certificates", "All certificates are left out.", .malformed) { plan, _ in plan.certificates = []
            },
            receipt("other-order", "The certificates in another order.", nil) { plan, _ in plan.certificates.reverse()
            },
            receipt("junk-certificate", "An entry that is not a certificate, which must be ignored.", nil) { plan, _ in
                plan.certificates.append(DEREncoding.sequence([0x02, 0x01, 0x00]))
            },
            receipt("ten-certificates", "As many certificates as allowed.", nil, source: "limits") { plan, _ in
                plan.certificates += Array(repeating: plan.certificates[2], count: 7)
            },
            receipt("eleven-certificates", "More certificates than allowed.", .malformed, source: "limits") {
                plan, _ in
                plan.certificates += Array(repeating: plan.certificates[2], count: 8)
            },
            receipt("other-intermediate-in-front", "Another authority's intermediate of the same name in front.", nil) {
                plan, world in
                plan.certificates.insert(try [UInt8](der: world.other.receipts.intermediate.issue()), at: 1)
            },
            receipt(
                "expired-intermediate-in-front",
                "An expired intermediate of the same name and key in front, like WWDR's of 2008 and 2013.",
                nil
            ) { plan, world in
                var expired = world.authority.receipts.intermediate
                expired.until = Timestamp(milliseconds: World.issued.milliseconds - World.day)
                plan.certificates.insert(try [UInt8](der: expired.issue()), at: 1)
            },
        ] as [Case]

    // MARK: Keys and many certificates

    /// An RSA key that nobody has: its modulus has only ones.
    static func key(bits: Int, exponent: [UInt8] = [1, 0, 1]) throws -> Certificate.PublicKey {
        Certificate.PublicKey(
            try _RSA.Signing.PublicKey(n: [UInt8](repeating: 0xff, count: bits / 8), e: exponent))
    }

    private static let keyRule = "limits"

    private static let keys =
        [
            chain(
                "leaf-key-8192", "A leaf with an RSA key of 8192 bits.", .unsupportedAlgorithm, source: keyRule
            ) { chain, _ in chain.leaf.heldKey = try key(bits: 8192) },
            chain(
                "leaf-exponent-3", "A leaf with an RSA key whose exponent is 3.", .unsupportedAlgorithm, source: keyRule
            ) { chain, _ in chain.leaf.heldKey = try key(bits: 2048, exponent: [3]) },
            chain(
                "leaf-exponent-large", "A leaf with an RSA key whose exponent has 32 bits.", .unsupportedAlgorithm,
                source: keyRule
            ) { chain, _ in chain.leaf.heldKey = try key(bits: 2048, exponent: [0xff, 0xff, 0xff, 0xff]) },
            chain(
                "intermediate-key-8192", "An intermediate with an RSA key of 8192 bits.", .unsupportedAlgorithm,
                source: keyRule
            ) { chain, _ in
                chain.intermediate.heldKey = try key(bits: 8192)
                chain.leaf.namedIssuerKey = chain.intermediate.heldKey
            },
            chain(
                "leaf-names-other-key",
                "A leaf that its intermediate signed, and that names another key as its issuer's.",
                .untrustedChain, source: "RFC 5280 section 4.2.1.1"
            ) { chain, world in chain.leaf.namedIssuerKey = world.other.receipts.intermediate.key.publicKey },
            receipt(
                "three-intermediates-in-front", "Three other intermediates of the same name and key in front.", nil,
                source: keyRule
            ) { plan, world in
                plan.certificates.insert(contentsOf: try intermediates(3, world), at: 1)
            },
            receipt(
                "four-intermediates-in-front", "Four other intermediates of the same name and key in front.",
                .untrustedChain, source: keyRule
            ) { plan, world in
                plan.certificates.insert(contentsOf: try intermediates(4, world), at: 1)
            },
            receipt(
                "five-leaves-five-intermediates",
                "Five leaves of one issuer and serial number, and five intermediates of one name and key.",
                .untrustedChain, source: keyRule
            ) { plan, world in
                var chain = world.authority.receipts
                chain.leaf.serialNumber = [7]
                plan = try ReceiptPlan(plan.payload, by: chain)
                plan.certificates.removeLast()
                let leaves = try (1...4).map { number in
                    var leaf = chain.leaf
                    leaf.from = Timestamp(milliseconds: leaf.from.milliseconds - Int64(number) * 1000)
                    (leaf.issuerKey, leaf.namedIssuerKey) = (leaf.key, chain.intermediate.key.publicKey)
                    return try [UInt8](der: leaf.issue())
                }
                plan.certificates = leaves + (try intermediates(4, world)) + plan.certificates
            },
            receipt(
                "large-keys-in-front",
                "Leaves and intermediates of the same names with RSA keys of 8192 bits in front.",
                nil, source: keyRule
            ) { plan, world in
                var chain = world.authority.receipts
                chain.leaf.serialNumber = [7]
                plan = try ReceiptPlan(plan.payload, by: chain)
                chain.leaf.heldKey = try key(bits: 8192)
                chain.intermediate.heldKey = try key(bits: 8192)
                chain.leaf.namedIssuerKey = chain.intermediate.heldKey
                let large = try [chain.leaf, chain.intermediate].map { try [UInt8](der: $0.issue()) }
                plan.certificates = large + plan.certificates
            },
        ] as [Case]

    /// Intermediates with the name and key of the genuine one that name the genuine root as their issuer. Somebody else
    /// signed them.
    private static func intermediates(_ count: Int, _ world: World) throws -> [[UInt8]] {
        let genuine = world.authority.receipts.intermediate
        return try (1...count).map { number in
            var forged = genuine
            forged.from = Timestamp(milliseconds: genuine.from.milliseconds - Int64(number) * 1000)
            (forged.issuerKey, forged.namedIssuerKey) = (world.other.receipts.leaf.key, genuine.issuerKey.publicKey)
            return try [UInt8](der: forged.issue())
        }
    }

    // MARK: Re-encoded certificates

    private static let certificates =
        [
            receipt(
                "leaf-parameters-absent",
                "The leaf's outer algorithm without its NULL parameters. The signed part is unchanged.",
                .malformed, source: "RFC 5280 section 4.1.1.2"
            ) { plan, _ in
                plan.certificates[0] = try CertificateRewriting.withoutParameters(plan.certificates[0])
            },
            receipt(
                "intermediate-parameters-absent",
                "The intermediate's outer algorithm without its NULL parameters. The signed part is unchanged.",
                .untrustedChain,
                source: "RFC 5280 section 4.1.1.2"
            ) { plan, _ in
                plan.certificates[1] = try CertificateRewriting.withoutParameters(plan.certificates[1])
            },
            receipt(
                "leaf-algorithms-differ", "A leaf that names SHA-1 in its signed part, but is signed with SHA-256.",
                .malformed, source: "RFC 5280 section 4.1.1.2"
            ) { plan, world in
                let withRSA: [UInt8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01]
                plan.certificates[0] = try CertificateRewriting.signed(
                    plan.certificates[0], replacing: withRSA + [0x0b], with: withRSA + [0x05],
                    by: world.authority.receipts.leaf.issuerKey)
            },
            receipt(
                "leaf-unused-bit", "A leaf whose signature ends with an unused bit.", .malformed,
                source: "X.690 section 11.2"
            ) { plan, world in
                var chain = world.authority.receipts
                // `withUnusedBit` needs a signature whose last bit is zero: tries serial numbers until there is one.
                for number in 1...UInt8.max where plan.certificates[0].last.map({ $0 & 1 == 1 }) == true {
                    chain.leaf.serialNumber = [number]
                    plan = try ReceiptPlan(plan.payload, by: chain)
                }
                plan.certificates[0] = try CertificateRewriting.withUnusedBit(plan.certificates[0])
            },
            receipt(
                "leaf-long-length", "A leaf whose length is encoded in one byte more than needed.", .malformed,
                source: "X.690 section 10.1"
            ) { plan, _ in
                plan.certificates[0] = CertificateRewriting.withLongLength(plan.certificates[0])
            },
            receipt(
                "rewritten-leaf-beside-genuine", "A re-encoded leaf in front of the genuine one.", nil,
                source: "RFC 5280 section 4.1.1.2"
            ) { plan, _ in
                plan.certificates.insert(try CertificateRewriting.withoutParameters(plan.certificates[0]), at: 0)
            },
            receipt(
                "leaf-other-signature",
                "A leaf with the second valid ECDSA signature of the same bytes: the curve's order minus s.",
                nil,
                source: "FIPS 186-5 section 6.4"
            ) { plan, world in
                var chain = world.authority.receipts
                chain.intermediate.key = .newP384()
                chain.leaf.issuerKey = chain.intermediate.key
                plan = try ReceiptPlan(plan.payload, by: chain)
                plan.certificates[0] = try CertificateRewriting.withOtherSignature(plan.certificates[0])
            },
            receipt(
                "serial-number-negative", "The signer's serial number without the zero that makes it positive.",
                .malformed, source: "RFC 5280 section 4.1.2.2"
            ) { plan, world in
                var chain = world.authority.receipts
                chain.leaf.serialNumber = [0x80, 0xaa, 0xbb]
                plan = try ReceiptPlan(plan.payload, by: chain)
                let issuer = plan.signer.dropFirst(2).dropLast(6)
                plan.signer = DEREncoding.sequence(Array(issuer), [0x02, 0x03, 0x80, 0xaa, 0xbb])
            },
        ] as [Case]

    // MARK: Dates

    private static func dated(
        _ id: String, _ description: String, _ date: String, _ expected: VerificationError.Code?
    ) -> Case {
        replacing("created-\(id)", description, 12, DEREncoding.ia5String(date), expected)
    }

    private static let dates =
        [
            dated(
                "before-leaf", "Created a second before its leaf became valid.", "2023-11-14T22:13:19Z",
                .certificateExpired),
            dated("first-second", "Created in its leaf's first second.", "2023-11-14T22:13:20Z", nil),
            dated("last-second", "Created in its leaf's last second.", "2025-11-13T22:13:20Z", nil),
            dated("after-leaf", "Created after its leaf's last second.", "2025-11-13T22:13:21Z", .certificateExpired),
            dated(
                "absurd", "An invalid date, so its certificates must be valid now.", "yesterday", .certificateExpired),
            dated(
                "30-february", "A date that is not in the calendar, so its certificates must be valid now.",
                "2024-02-30T00:00:00Z",
                .certificateExpired),
            dated("empty", "An empty date, so its certificates must be valid now.", "", .certificateExpired),
            replacing("created-never", "No date, so its certificates must be valid now.", 12, nil, .certificateExpired),
            adding(
                "created-empty-first", "An empty date in front of the valid one: it counts as missing.", in: .front, 12,
                DEREncoding.ia5String(""), nil),
            adding(
                "created-twice", "Two dates. The first counts: it is before the leaf.", in: .front, 12,
                DEREncoding.ia5String("2020-01-01T00:00:00Z"), .certificateExpired),
            adding(
                "created-twice-behind", "Two dates. The first counts, and the leaf was valid then.", in: .back, 12,
                DEREncoding.ia5String("2020-01-01T00:00:00Z"), nil),
            chain(
                "expired-intermediate", "An intermediate that expired before the receipt was created.",
                .certificateExpired
            ) { chain, _ in
                chain.intermediate.until = Timestamp(milliseconds: World.issued.milliseconds - World.day)
            },
            chain(
                "not-yet-valid-then-valid-now",
                "A leaf that became valid after the receipt was created, and is valid now.",
                .certificateExpired
            ) { chain, _ in
                chain.leaf.from = Timestamp(milliseconds: 1_800_000_000_000)
                chain.leaf.until = Timestamp(milliseconds: 2_000_000_000_000)
            },
        ] as [Case]

    // MARK: The payload

    private enum Place { case front, back }

    /// A receipt with one more attribute.
    private static func adding(
        _ id: String, _ description: String, in place: Place = .back, _ type: Int64, _ value: [UInt8],
        _ expected: VerificationError.Code?, source: String = "legacy-receipts B"
    ) -> Case {
        receipt(id, description, expected, source: source) { plan, _ in
            plan.payload = payload(place == .front ? [(type, value)] + attributes : attributes + [(type, value)])
        }
    }

    /// A receipt with another value of an attribute, or without it.
    private static func replacing(
        _ id: String, _ description: String, _ type: Int64, _ value: [UInt8]?, _ expected: VerificationError.Code?,
        source: String = "legacy-receipts B"
    ) -> Case {
        receipt(id, description, expected, source: source) { plan, _ in
            plan.payload = payload(attributes.compactMap { $0.type == type ? value.map { (type, $0) } : $0 })
        }
    }

    private static func bytes(
        _ id: String, _ description: String, _ payload: [UInt8], _ expected: VerificationError.Code?
    ) -> Case {
        receipt(id, description, expected, source: "legacy-receipts B") { plan, world in
            // These payloads have no date, so the certificates must be valid now.
            var chain = world.authority.receipts
            chain.leaf.until = Timestamp(milliseconds: 2_000_000_000_000)
            plan = try ReceiptPlan(payload, by: chain)
        }
    }

    private static let payloads =
        [
            bytes("payload-empty", "A payload of no bytes.", [], .unreadable),
            bytes("payload-no-set", "A payload that is a sequence.", [0x30, 0x00], .unreadable),
            bytes("payload-no-attributes", "A payload without attributes.", [0x31, 0x00], .otherApp),
            adding(
                "attribute-beyond-int32", "An attribute of the type 2^32.", 0x1_0000_0000, [0x0c, 0x00], nil,
                source: "hostile list of emindeniz99"),
            receipt(
                "attribute-beyond-int64", "An attribute of a type beyond 2^63.", .unreadable,
                source: "hostile list of emindeniz99"
            ) { plan, _ in
                let type = DEREncoding.element(0x02, [UInt8](repeating: 0x7f, count: 9))
                let attribute = DEREncoding.sequence(type, DEREncoding.integer(1), DEREncoding.octetString([]))
                plan.payload = DEREncoding.element(
                    0x31, attributes.flatMap { Self.attribute($0.type, $0.value) } + attribute)
            },
            adding("attribute-negative", "An attribute of a negative type.", -1, [0x0c, 0x00], nil),
            receipt("attributes-10000-empty", "Ten thousand empty attributes.", nil, source: "limits") { plan, _ in
                plan.payload = payload(attributes + Array(repeating: (99, []), count: 10_000))
            },
            receipt("attributes-20001", "More attributes than allowed.", .unreadable, source: "limits") { plan, _ in
                plan.payload = payload(attributes + Array(repeating: (99, []), count: 20_001 - attributes.count))
            },
            receipt("attributes-20000", "As many attributes as allowed.", nil, source: "limits") { plan, _ in
                plan.payload = payload(attributes + Array(repeating: (99, []), count: 20_000 - attributes.count))
            },
            adding("purchase-no-set", "A purchase that is a number.", 17, [0x02, 0x01, 0x00], .unreadable),
            adding("purchase-empty", "A purchase without attributes.", 17, [0x31, 0x00], nil),
            adding(
                "deciding-attribute-wrong-form", "A purchase whose product is a number.", 17,
                DEREncoding.element(0x31, attribute(1702, [0x02, 0x01, 0x00])), .unreadable),
            adding(
                "informative-attribute-wrong-form", "An age rating that is a number: no decision depends on it.", 10,
                [0x02, 0x01, 0x00], nil),
            adding(
                "text-not-utf8", "An app version that is not UTF-8, on which no decision depends.", 3,
                [0x0c, 0x01, 0xff], nil),
            replacing("app-not-utf8", "A bundle id that is not UTF-8.", 2, [0x0c, 0x01, 0xff], .unreadable),
            receipt(
                "octet-string-around", "The payload's set inside one more OCTET STRING.", nil,
                source: "legacy-receipts A.5"
            ) { plan, _ in
                plan.payload = DEREncoding.octetString(plan.payload)
            },
        ] as [Case]

    // MARK: Apps and environments

    private static let claims =
        [
            replacing("other-app", "Of another app.", 2, DEREncoding.utf8String("com.example.notes"), .otherApp),
            replacing("no-app", "Of no app.", 2, nil, .otherApp),
            replacing("empty-app", "With an empty bundle id.", 2, DEREncoding.utf8String(""), .otherApp),
            adding(
                "two-apps-first-refused", "Two apps, the first of which counts.", in: .front, 2,
                DEREncoding.utf8String("com.evil"), .otherApp),
            adding(
                "two-apps-first-accepted", "Two apps, the first of which counts.", in: .back, 2,
                DEREncoding.utf8String("com.evil"), nil),
            replacing(
                "other-environment", "From an environment that is not accepted.", 0,
                DEREncoding.utf8String("Production"), .otherEnvironment),
            replacing(
                "unknown-environment", "The receipt type `Sandbox`. The sandbox's receipts have `ProductionSandbox`.",
                0,
                DEREncoding.utf8String("Sandbox"), .otherEnvironment),
            replacing("no-environment", "Without an environment.", 0, nil, .otherEnvironment),
            replacing(
                "xcode-environment", "Claims to be from Xcode.", 0, DEREncoding.utf8String("Xcode"),
                .otherEnvironment),
            receipt("other-apple-id", "A production receipt with another Apple ID.", .otherApp) { plan, _ in
                plan.payload = payload(
                    [(0, DEREncoding.utf8String("Production")), (1, DEREncoding.integer(9))]
                        + Array(attributes.dropFirst()))
            },
            receipt(
                "order-chain-before-app", "Another app, signed by another authority.", .untrustedChain,
                source: "order of codes"
            ) { plan, world in
                plan = try ReceiptPlan(payload([(2, DEREncoding.utf8String("x"))]), by: world.other.receipts)
            },
        ] as [Case]

    // MARK: Xcode

    private static func xcode(
        _ id: String, _ description: String, _ type: String, _ expected: VerificationError.Code?,
        trust: String = "xcode"
    ) -> Case {
        receipt("xcode-\(id)", description, expected, source: "legacy-receipts A.3", trust: trust) { plan, world in
            let certificate = world.xcode.receipt.certificate
            plan.certificates = [try [UInt8](der: certificate)]
            plan.signer = try SigningChain.issuerAndSerialNumber(of: certificate)
            plan.key = world.xcode.receipt.plan.key
            plan.payload = payload([(0, DEREncoding.utf8String(type))] + Array(attributes.dropFirst()))
        }
    }

    private static let xcode =
        [
            receipt(
                "xcode-other-key", "A certificate with the same names as Xcode's, but another key.", .untrustedChain,
                source: "TPInAppReceipt 4.0.2", trust: "xcode"
            ) { plan, world in
                var forged = world.xcode.receipt.plan
                forged.key = try .newRSA()
                forged.issuerKey = forged.key
                let certificate = try forged.issue()
                plan.certificates = [try [UInt8](der: certificate)]
                plan.signer = try SigningChain.issuerAndSerialNumber(of: certificate)
                plan.key = forged.key
                plan.payload = payload([(0, DEREncoding.utf8String("Xcode"))] + Array(attributes.dropFirst()))
            },
            receipt(
                "xcode-issues-chain", "A chain that Xcode's certificate issued, with Apple's marker OIDs.",
                .untrustedChain,
                source: "legacy-receipts A.3", trust: "xcode"
            ) { plan, world in
                let xcode = world.xcode.receipt.plan
                var chain = world.authority.receipts
                chain.root = xcode
                (chain.intermediate.issuer, chain.intermediate.issuerKey) = (xcode.subject, xcode.key)
                plan = try ReceiptPlan(plan.payload, by: chain)
                plan.certificates[2] = try [UInt8](der: world.xcode.receipt.certificate)
            },
            xcode("root", "Signed by Xcode, whose certificate is a root here.", "Xcode", nil),
            xcode(
                "not-root", "Signed by Xcode, whose certificate is no root here.", "ProductionSandbox",
                .untrustedChain, trust: "app"),
            xcode(
                "production", "Signed by Xcode, but claims to be from production.", "Production", .otherEnvironment),
            xcode(
                "sandbox", "Signed by Xcode, but claims to be from the sandbox.", "ProductionSandbox",
                .otherEnvironment),
        ] as [Case]
}
