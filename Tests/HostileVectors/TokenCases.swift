// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import Foundation
import SwiftASN1
import X509

/// Faults of tokens. Each case starts from a valid token and breaks one thing.
enum TokenCases {
    static let payload =
        #"{"transactionId":"1","originalTransactionId":"1","bundleId":"com.example","environment":"Sandbox","#
        + #""signedDate":1700000500000,"new":[1]}"#

    static let all = form + header + chains + certificates + dates + signatures + claims + xcode + orders + kinds

    /// A token that `breaking` has changed.
    private static func token(
        _ id: String, _ description: String, _ expected: VerificationError.Code?, source: String,
        conflicts: [Vector.Conflict] = [], payload: String = payload, trust: String = "app",
        _ breaking: @escaping @Sendable (inout TokenPlan, World) throws -> Void = { _, _ in }
    ) -> Case {
        Case(
            id: "token::\(id)", description: description, expected: expected, trust: trust, source: source,
            conflicts: conflicts
        ) { world in
            var plan = try TokenPlan(payload, by: world.authority.tokens)
            try breaking(&plan, world)
            return try plan.signed()
        }
    }

    /// A token whose chain `breaking` has changed.
    private static func chain(
        _ id: String, _ description: String, _ expected: VerificationError.Code?, source: String,
        conflicts: [Vector.Conflict] = [], payload: String = payload,
        _ breaking: @escaping @Sendable (inout ChainPlan, World) throws -> Void
    ) -> Case {
        token(id, description, expected, source: source, conflicts: conflicts, payload: payload) { plan, world in
            var chain = world.authority.tokens
            try breaking(&chain, world)
            plan.chain = try chain.issue().map { try [UInt8](der: $0) }
            // Only P-256 keys can create ES256 signatures. With another key, the genuine leaf's key signs the token.
            if case .p256 = chain.leaf.key { plan.key = chain.leaf.key }
        }
    }

    /// A token whose finished text `breaking` has changed.
    private static func text(
        _ id: String, _ description: String, _ expected: VerificationError.Code?, source: String,
        _ breaking: @escaping @Sendable ([Substring]) -> String
    ) -> Case {
        token(id, description, expected, source: source) { plan, _ in
            plan.text = { breaking($0.split(separator: ".", omittingEmptySubsequences: false)) }
        }
    }

    // MARK: The form

    private static let form = [
        token("genuine", "As the App Store would sign it.", nil, source: "Apple's form"),
        text("two-parts", "No signature, and no dot before it.", .malformed, source: "RFC 7515 section 7.1") {
            "\($0[0]).\($0[1])"
        },
        text("four-parts", "A fourth part.", .malformed, source: "RFC 7515 section 7.1") {
            $0.joined(separator: ".") + ".e30"
        },
        text("empty-parts", "Nothing but dots.", .malformed, source: "hostile list of emindeniz99") { _ in ".." },
        text("empty-header", "An empty header.", .malformed, source: "hostile list of emindeniz99") {
            ".\($0[1]).\($0[2])"
        },
        text(
            "empty-payload", "An empty payload.", .malformed,
            source: "hostile list of emindeniz99"
        ) {
            "\($0[0])..\($0[2])"
        },
        text("empty-signature", "An empty signature.", .malformed, source: "RFC 7515 section 7.1") {
            "\($0[0]).\($0[1])."
        },
        text("trailing-newline", "A line end after the signature.", .malformed, source: "one token has one text") {
            $0.joined(separator: ".") + "\n"
        },
        text(
            "padding", "A signature with padding, which JWS forbids.", .malformed,
            source: "RFC 7515 section 2"
        ) {
            $0.joined(separator: ".") + "=="
        },
        text(
            "standard-base64", "The signature in the standard base64 alphabet.", .malformed,
            source: "RFC 7515 section 2"
        ) {
            "\($0[0]).\($0[1]).+" + $0[2].dropFirst().replacing("-", with: "+").replacing("_", with: "/")
        },
        text(
            "spare-bits", "The unused bits of the last letter are set: a second text for the same token.", .malformed,
            source: "RFC 4648 section 3.5"
        ) {
            // The last letter of 64 bytes has four unused bits.
            $0.joined(separator: ".").dropLast() + String(UnicodeScalar(($0[2].utf8.last ?? 0) + 1))
        },
        token(
            "payload-not-json", "A payload that is not JSON.", .malformed, source: "Apple's form", payload: "<plist/>"),
        token(
            "payload-array", "A payload that is an array. It has no date, so its certificates must be valid now.",
            .certificateExpired,
            source: "hostile list of emindeniz99",
            payload: "[1]"),
        token(
            "payload-scalar", "A payload that is a number. It has no date, so its certificates must be valid now.",
            .certificateExpired,
            source: "hostile list of emindeniz99",
            payload: "1"),
        token(
            "payload-trailing", "Bytes after the payload's object.", .malformed, source: "RFC 8259 section 2",
            payload: payload + "1"),
        token(
            "payload-not-utf8", "A payload with a byte that is not UTF-8.", .malformed, source: "RFC 8259 section 8.1"
        ) { plan, _ in
            plan.payload = Array(payload.utf8.dropLast(2)) + Array(#","x":""#.utf8) + [0xff] + Array(#""}"#.utf8)
        },
        token(
            "payload-too-deep", "A payload nested a thousand levels deep.", .malformed, source: "limits",
            payload: payload.replacing(
                "[1]", with: String(repeating: "[", count: 1000) + String(repeating: "]", count: 1000))),
    ]

    // MARK: The header

    private static func header(
        _ id: String, _ description: String, _ expected: VerificationError.Code?, source: String,
        conflicts: [Vector.Conflict] = [], _ change: @escaping @Sendable (String) -> String
    ) -> Case {
        token(id, description, expected, source: source, conflicts: conflicts) { plan, _ in
            plan.header = change(plan.plainHeader)
        }
    }

    private static func algorithm(_ id: String, _ name: String) -> Case {
        token(
            "algorithm-\(id)", "Algorithm \(name) in the header.", .unsupportedAlgorithm, source: "RFC 8725 section 3.1"
        ) { plan, _ in
            plan.algorithm = name
        }
    }

    private static let header =
        [
            algorithm("none", "none"), algorithm("none-mixed-case", "nOnE"), algorithm("hs256", "HS256"),
            algorithm("es384", "ES384"), algorithm("rs256", "RS256"), algorithm("lower-case", "es256"),
            token(
                "algorithm-none-unsigned", "Algorithm none, and no valid signature.", .unsupportedAlgorithm,
                source: "RFC 8725 section 3.1"
            ) { plan, _ in
                plan.algorithm = "none"
                plan.signature = { _ in [0] }
            },
            token(
                "algorithm-hs256-certificate", "HS256 with a certificate of the signer's public key as the secret.",
                .unsupportedAlgorithm, source: "RFC 8725 section 2.1"
            ) { plan, world in
                plan.algorithm = "HS256"
                let secret = SymmetricKey(data: try [UInt8](der: world.authority.tokens.leaf.issue()))
                plan.signature = { Array(HMAC<SHA256>.authenticationCode(for: $0, using: secret)) }
            },
            header("algorithm-missing", "No algorithm.", .malformed, source: "RFC 7515 section 4.1.1") {
                $0.replacing(#""alg":"ES256","#, with: "")
            },
            header("algorithm-number", "An algorithm that is a number.", .malformed, source: "RFC 7515 section 4.1.1") {
                $0.replacing(#""alg":"ES256""#, with: #""alg":256"#)
            },
            header(
                "duplicate-algorithm", "Two algorithms, of which readers may take either.", .malformed,
                source: "RFC 7515 section 4"
            ) {
                $0.replacing(#"{"alg""#, with: #"{"alg":"none","alg""#)
            },
            header(
                "duplicate-chain", "Two chains, of which readers may take either.", .malformed,
                source: "RFC 7515 section 4"
            ) {
                $0.replacing(#"{"alg""#, with: #"{"x5c":[],"alg""#)
            },
            header(
                "critical", "A header whose `crit` names an extension.", .malformed, source: "RFC 7515 section 4.1.11"
            ) {
                $0.replacing(#"{"alg""#, with: #"{"crit":["exp"],"exp":1,"alg""#)
            },
            header("array", "A header that is an array.", .malformed, source: "hostile list of emindeniz99") {
                "[\($0)]"
            },
            header("scalar", "A header that is a string.", .malformed, source: "hostile list of emindeniz99") { _ in
                #""ES256""#
            },
            header("no-chain", "No x5c.", .malformed, source: "Apple's form") { _ in #"{"alg":"ES256"}"# },
            header("chain-number", "An x5c that is a number.", .malformed, source: "RFC 7515 section 4.1.6") { _ in
                #"{"alg":"ES256","x5c":3}"#
            },
            header(
                "chain-entry-number", "An x5c with an entry that is not a string.", .malformed,
                source: "hostile list of emindeniz99"
            ) {
                $0.replacing(#""x5c":["#, with: #""x5c":[7,"#)
            },
            header("chain-entry-not-base64", "A leaf that is not base64.", .malformed, source: "RFC 7515 section 4.1.6")
            {
                $0.replacing(#""x5c":[""#, with: #""x5c":["*"#)
            },
            header(
                "chain-entry-base64url", "Certificates in base64url, which x5c does not use.", .malformed,
                source: "RFC 7515 section 4.1.6"
            ) {
                $0.replacing("+", with: "-").replacing("/", with: "_")
            },
            header("foreign-key", "A key in the header, which must be ignored.", nil, source: "RFC 8725 section 3.10") {
                $0.replacing(#"{"alg""#, with: #"{"jwk":{"kty":"EC"},"jku":"https://example.com/keys","alg""#)
            },
            token(
                "foreign-key-signed", "Signed with another key than the leaf's, and with a `jwk` in the header.",
                .invalidSignature,
                source: "RFC 8725 section 3.10"
            ) { plan, _ in
                plan.key = .newP256()
                plan.header = plan.plainHeader.replacing(#"{"alg""#, with: #"{"jwk":{"kty":"EC"},"alg""#)
            },
        ] as [Case]

    // MARK: The chain

    private static let forgery = "verification-libraries, forgery holes"

    private static let keyUsageRule = "RFC 5280 section 4.2.1.3"

    private static let ignoresMarkerOIDs = [
        Vector.Conflict(
            implementation: "go-iap 1.9.0, richzw/appstore, agisboye/app-store-server-api", actual: "verified",
            reason: "They do not check the marker OIDs.")
    ]

    private static let chains =
        [
            chain(
                "leaf-without-marker", "A leaf without the marker OID, issued for another purpose.", .untrustedChain,
                source: forgery, conflicts: ignoresMarkerOIDs
            ) { chain, _ in
                chain.leaf.markerOIDs = []
            },
            chain(
                "intermediate-without-marker", "An intermediate without the marker OID.", .untrustedChain,
                source: forgery,
                conflicts: ignoresMarkerOIDs
            ) { chain, _ in
                chain.intermediate.markerOIDs = []
            },
            chain(
                "intermediate-wwdr-g2",
                "An intermediate with the marker OID of WWDR G2, which issues developers' own certificates.",
                .untrustedChain, source: forgery, conflicts: ignoresMarkerOIDs
            ) { chain, _ in
                chain.intermediate.markerOIDs = [.worldwideDeveloperRelationsG2]
            },
            chain("markers-exchanged", "Each marker OID on the other certificate.", .untrustedChain, source: forgery) {
                chain, _ in
                swap(&chain.leaf.markerOIDs, &chain.intermediate.markerOIDs)
            },
            chain(
                "intermediate-key-8192", "An intermediate with an RSA key of 8192 bits.", .unsupportedAlgorithm,
                source: "limits"
            ) { chain, _ in
                chain.intermediate.heldKey = try ReceiptCases.key(bits: 8192)
                chain.leaf.namedIssuerKey = chain.intermediate.heldKey
            },
            chain(
                "itunes-store-markers", "A chain with the marker OIDs of transaction receipts' signers.",
                .untrustedChain,
                source: "legacy-receipts G"
            ) { chain, _ in
                chain.leaf.markerOIDs = [.purchaseReceiptSigning]
                chain.intermediate.markerOIDs = [.iTunesStoreAuthority]
            },
            chain(
                "self-made", "A chain with the same names that another authority issued.", .untrustedChain,
                source: forgery,
                conflicts: [
                    Vector.Conflict(
                        implementation: "readdle/app-store-server-api with its default rootCertificate",
                        actual: "verified",
                        reason: "Without a configured root it trusts the one in the token.")
                ]
            ) { chain, world in
                chain = world.other.tokens
            },
            token(
                "right-root-behind-self-made", "The trusted root in the third place of another authority's chain.",
                .untrustedChain, source: forgery
            ) { plan, world in
                plan.chain.replaceSubrange(
                    0..<2, with: try world.other.tokens.issue().prefix(2).map { try [UInt8](der: $0) })
                plan.key = world.other.tokens.leaf.key
            },
            token("forged-leaf", "A leaf that a genuine leaf signed.", .untrustedChain, source: "ruby_native, mnyify") {
                plan, world in
                let genuine = world.authority.tokens.leaf
                var forged = genuine
                (forged.issuer, forged.issuerKey, forged.key) = (genuine.subject, genuine.key, .newP256())
                plan.chain[1] = try [UInt8](der: genuine.issue())
                plan.chain[0] = try [UInt8](der: forged.issue())
                plan.key = forged.key
            },
            chain(
                "intermediate-no-authority",
                "An intermediate that has all marker OIDs, but may not issue certificates.",
                .untrustedChain, source: "ruby_native, mnyify",
                conflicts: [
                    Vector.Conflict(
                        implementation: "ruby_native, mnyify", actual: "verified",
                        reason: "They do not check basic constraints.")
                ]
            ) { chain, _ in
                chain.intermediate.markerOIDs += chain.leaf.markerOIDs
                chain.intermediate.constraints = .notCertificateAuthority
            },
            chain(
                "leaf-unknown-critical-extension", "A leaf with an unknown critical extension.", .untrustedChain,
                source: "RFC 5280 section 4.2"
            ) { chain, _ in
                chain.leaf.unknownExtensions = [[1, 3, 6, 1, 4, 1, 99999, 1]]
            },
            token(
                "leaf-algorithms-differ", "A leaf that names SHA-256 in its signed part, but is signed with SHA-384.",
                .malformed, source: "RFC 5280 section 4.1.1.2"
            ) { plan, world in
                let ecdsa: [UInt8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03]
                plan.chain[0] = try CertificateRewriting.signed(
                    plan.chain[0], replacing: ecdsa + [0x03], with: ecdsa + [0x02],
                    by: world.authority.tokens.leaf.issuerKey)
            },
            chain(
                "leaf-key-usage-other", "A leaf whose key usage has only keyAgreement.", .untrustedChain,
                source: keyUsageRule
            ) { chain, _ in
                chain.leaf.keyUsage = KeyUsage(keyAgreement: true)
            },
            token(
                "leaf-key-usage-unreadable", "A leaf whose key usage is not a BIT STRING.", .untrustedChain,
                source: keyUsageRule
            ) { plan, world in
                plan.chain[0] = try CertificateRewriting.signed(
                    plan.chain[0], replacing: [0x03, 0x02, 0x07, 0x80], with: [0x04, 0x02, 0x07, 0x80],
                    by: world.authority.tokens.leaf.issuerKey)
            },
            chain(
                "leaf-key-usage-absent", "A leaf without key usage, which permits each use.", nil, source: keyUsageRule
            ) { chain, _ in
                chain.leaf.keyUsage = nil
            },
            chain(
                "intermediate-key-usage-other", "An intermediate whose key usage has everything but keyCertSign.",
                .untrustedChain, source: keyUsageRule
            ) { chain, _ in
                chain.intermediate.keyUsage = KeyUsage(digitalSignature: true, keyAgreement: true, cRLSign: true)
            },
            chain(
                "intermediate-key-usage-absent", "An intermediate without key usage, which permits each use.", nil,
                source: keyUsageRule
            ) { chain, _ in
                chain.intermediate.keyUsage = nil
            },
            token(
                "root-key-usage-other", "The trusted root's key usage has only cRLSign.", .untrustedChain,
                source: keyUsageRule, trust: "roots that issue nothing"),
            token("wrong-order", "Leaf and intermediate exchanged.", .untrustedChain, source: "RFC 7515 section 4.1.6")
            { plan, _ in
                plan.chain.swapAt(0, 1)
            },
            token("root-first", "The chain upside down.", .untrustedChain, source: "RFC 7515 section 4.1.6") {
                plan, _ in
                plan.chain.reverse()
            },
            token("no-certificates", "An empty x5c.", .malformed, source: "RFC 7515 section 4.1.6") { plan, _ in
                plan.chain = []
            },
            token("one-certificate", "The leaf alone.", .untrustedChain, source: "Apple's form") { plan, _ in
                plan.chain.removeLast(2)
            },
            token(
                "two-certificates", "No root.", .untrustedChain, source: "Apple's form",
                conflicts: [
                    Vector.Conflict(
                        implementation: "go-iap 1.9.0", actual: "a trap",
                        reason: "It takes certificates by index without counting them.")
                ]
            ) { plan, _ in plan.chain.removeLast() },
            token("four-certificates", "The root twice.", .untrustedChain, source: "Apple's form") { plan, _ in
                plan.chain.append(plan.chain[2])
            },
            token("eleven-certificates", "More certificates than allowed.", .malformed, source: "limits") { plan, _ in
                plan.chain += Array(repeating: plan.chain[2], count: 8)
            },
            token(
                "third-certificate-junk", "Junk in the place of the root, which must be ignored.", nil,
                source: "hostile list of emindeniz99"
            ) { plan, _ in
                plan.chain[2] = [0xde, 0xad]
            },
            token(
                "third-certificate-other-root", "Another authority's root in the place of the root.", nil,
                source: "hostile list of emindeniz99"
            ) { plan, world in
                plan.chain[2] = try [UInt8](der: world.other.tokens.root.issue())
            },
        ] as [Case]

    // MARK: The certificates

    /// A token with changed bytes in certificate number `index`. The certificate cannot be read, so the signature of
    /// the token does not matter.
    private static func certificate(
        _ id: String, _ description: String, _ index: Int, _ change: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) -> Case {
        token("certificate-\(id)", description, .malformed, source: "hostile list of emindeniz99") { plan, _ in
            let changed = change(plan.chain[index])
            guard changed != plan.chain[index] else { throw VectorError(description: "Nothing to change for \(id)") }
            plan.chain[index] = changed
        }
    }

    private static let basicConstraints: [UInt8] = [0x55, 0x1d, 0x13]
    private static let keyUsage: [UInt8] = [0x55, 0x1d, 0x0f]
    private static let p384: [UInt8] = [0x2b, 0x81, 0x04, 0x00, 0x22]

    private static let certificates =
        [
            certificate("cut-off", "A leaf that ends early.", 0) { $0.dropLast() },
            certificate("trailing-bytes", "A leaf with a byte after it.", 0) { $0 + [0] },
            certificate("version-11", "A leaf of X.509 version 11.", 0) {
                $0.replacingFirst([0xa0, 0x03, 0x02, 0x01, 0x02], with: [0xa0, 0x03, 0x02, 0x01, 0x0a])
            },
            certificate("duplicate-extension", "A leaf with basic constraints twice.", 0) {
                $0.replacingFirst(keyUsage, with: basicConstraints)
            },
            certificate("unassigned-curve", "An intermediate with a key on an unassigned curve.", 1) {
                $0.replacingFirst(p384, with: [0x2b, 0x81, 0x04, 0x00, 0x7f])
            },
            certificate("broken-extensions", "A leaf whose extensions cannot be decoded.", 0) {
                $0.replacingFirst([0x06, 0x03] + keyUsage, with: [0x06, 0x7f] + keyUsage)
            },
            certificate("empty", "An empty leaf.", 0) { _ in [] },
            chain(
                "key-other-curve", "A leaf whose key is on P-384.", .unsupportedAlgorithm,
                source: "RFC 7518 section 3.4"
            ) { chain, _ in
                chain.leaf.key = .newP384()
            },
            chain("key-rsa", "A leaf whose key is RSA.", .unsupportedAlgorithm, source: "RFC 7518 section 3.4") {
                chain, world in
                chain.leaf.key = world.authority.receipts.leaf.key
            },
        ] as [Case]

    // MARK: Dates

    /// A token with the JSON value `date` as its `signedDate`.
    private static func dated(
        _ id: String, _ description: String, _ date: String, _ expected: VerificationError.Code?, source: String
    ) -> Case {
        token(id, description, expected, source: source, payload: payload.replacing("1700000500000", with: date))
    }

    private static let dates =
        [
            dated(
                "signed-before-leaf", "Signed a second before its leaf became valid.", "1699999999000",
                .certificateExpired,
                source: "RFC 5280 section 4.1.2.5"),
            dated(
                "signed-first-second", "Signed in its leaf's first second.", "1700000000000", nil,
                source: "RFC 5280 section 4.1.2.5"),
            dated(
                "signed-last-second", "Signed in its leaf's last second.", "1763072000999", nil,
                source: "RFC 5280 section 4.1.2.5"),
            dated(
                "signed-after-leaf", "Signed after its leaf's last second.", "1763072001000", .certificateExpired,
                source: "RFC 5280 section 4.1.2.5"),
            dated(
                "signed-1e300", "The invalid date 1e300, so its certificates must be valid now.", "1e300",
                .certificateExpired,
                source: "hostile list of emindeniz99"),
            dated(
                "signed-fraction", "A date with a fraction of zero.", "1722945600000.0", nil,
                source: "hostile list of emindeniz99"),
            dated(
                "signed-text", "A date as text, so its certificates must be valid now.", #""1700000500000""#,
                .certificateExpired,
                source: "Apple's form"),
            dated(
                "signed-null", "A date that is null, so its certificates must be valid now.", "null",
                .certificateExpired,
                source: "Apple's form"),
            dated("signed-negative", "Signed before 1970.", "-1", .certificateExpired, source: "Apple's form"),
            dated(
                "signed-infinite", "A date that is too large for a floating-point number.", "1e999999999",
                .certificateExpired,
                source: "RFC 8259 section 6"),
            token(
                "signed-never", "No date, so its certificates must be valid now.", .certificateExpired,
                source: "Apple's form",
                payload: payload.replacing("signedDate", with: "signed")),
            chain(
                "not-yet-valid-then-valid-now",
                "A leaf that became valid after the token was signed, and is valid now.",
                .certificateExpired, source: "signed-transactions A.3"
            ) { chain, _ in
                chain.leaf.from = Timestamp(milliseconds: 1_800_000_000_000)
                chain.leaf.until = Timestamp(milliseconds: 2_000_000_000_000)
            },
            chain(
                "expired-intermediate", "An intermediate that expired before the token was signed.",
                .certificateExpired,
                source: "RFC 5280 section 6.1.3"
            ) { chain, _ in
                chain.intermediate.until = Timestamp(milliseconds: World.issued.milliseconds - World.day)
            },
            chain(
                "expired-root", "An expired root, which is trusted because it is configured.", nil,
                source: "RFC 5280 section 6.1.1"
            ) { chain, _ in
                chain.root.until = Timestamp(milliseconds: World.issued.milliseconds - World.day)
            },
        ] as [Case]

    // MARK: The signature

    private static let order: [UInt8] = [
        0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ]

    private static func signature(
        _ id: String, _ description: String, source: String, _ change: @escaping @Sendable ([UInt8]) throws -> [UInt8]
    ) -> Case {
        token("signature-\(id)", description, .invalidSignature, source: source) { plan, _ in plan.signature = change }
    }

    private static let zeros = [UInt8](repeating: 0, count: 32)

    private static let signatures =
        [
            token(
                "signature-second-form",
                "The second valid ECDSA signature of the same bytes: the curve's order minus s.",
                nil, source: "FIPS 186-5 section 6.4.2"
            ) { plan, _ in
                plan.signature = { Array($0.prefix(32)) + order.subtracting(Array($0.suffix(32))) }
            },
            signature("der", "A signature in DER instead of r and s.", source: "RFC 7518 section 3.4") {
                Array(try P256.Signing.ECDSASignature(rawRepresentation: $0).derRepresentation)
            },
            signature("zeros", "A signature of zeros.", source: "CVE-2022-21449") { _ in zeros + zeros },
            signature("r-zero", "r is zero.", source: "CVE-2022-21449") { zeros + $0.suffix(32) },
            signature("s-zero", "s is zero.", source: "CVE-2022-21449") { $0.prefix(32) + zeros },
            signature("r-order", "r is the order of the curve.", source: "FIPS 186-5 section 6.4.2") {
                order + $0.suffix(32)
            },
            signature("s-order", "s is the order of the curve.", source: "FIPS 186-5 section 6.4.2") {
                $0.prefix(32) + order
            },
            signature("short", "A signature with a byte too few.", source: "RFC 7518 section 3.4") { $0.dropLast() },
            signature("long", "A signature with a byte too many.", source: "RFC 7518 section 3.4") { $0 + [0] },
            signature("exchanged", "s in front of r.", source: "RFC 7518 section 3.4") {
                $0.suffix(32) + $0.prefix(32)
            },
            token("signature-other-key", "Signed with another key.", .invalidSignature, source: "Apple's form") {
                plan, _ in
                plan.key = .newP256()
            },
            token(
                "signature-other-payload", "The signature of another payload.", .invalidSignature,
                source: "Apple's form"
            ) { plan, world in
                let key = plan.key
                plan.signature = { _ in try key.es256(Array("something else".utf8)) }
            },
            text(
                "header-trailing-space", "The header with a space after it, which was not signed.", .invalidSignature,
                source: "RFC 7515 section 5.2"
            ) { parts in
                let header = Base64.decodeURL(Array(parts[0].utf8)[...]) ?? []
                return "\(TokenPlan.base64URL(header + [0x20])).\(parts[1]).\(parts[2])"
            },
        ] as [Case]

    // MARK: Apps, environments and kinds

    private static func claim(
        _ id: String, _ description: String, _ text: String, _ change: String, _ expected: VerificationError.Code?,
        source: String = "Apple's form"
    ) -> Case {
        token(id, description, expected, source: source, payload: payload.replacing(text, with: change))
    }

    private static let claims =
        [
            claim(
                "duplicate-date", "Two dates, the last of which counts.", #""signedDate""#,
                #""signedDate":1,"signedDate""#, nil, source: "duplicate JSON keys"),
            claim(
                "duplicate-environment", "Two environments, the last of which counts.", #""environment""#,
                #""environment":"Production","environment""#, nil, source: "duplicate JSON keys"),
            claim("other-app", "Of another app.", "com.example", "com.example.notes", .otherApp),
            claim(
                "other-app-case", "A bundle id in other letter case.", "com.example", "com.Example", .otherApp),
            claim("no-app", "Of no app.", "bundleId", "bundle", .otherApp),
            claim(
                "other-environment", "From an environment that is not accepted.", "Sandbox", "Production",
                .otherEnvironment),
            claim("unknown-environment", "From an unknown environment.", "Sandbox", "Moon", .otherEnvironment),
            claim("no-environment", "Without an environment.", "environment", "place", .otherEnvironment),
            claim("xcode-environment", "From Xcode, which is not accepted.", "Sandbox", "Xcode", .otherEnvironment),
            claim(
                "field-of-other-type", "A transaction id that is a number.", #""transactionId":"1""#,
                #""transactionId":1"#,
                .unreadable),
            claim(
                "duplicate-app-last-accepted", "Two apps, the last of which counts.", #""bundleId""#,
                #""bundleId":"com.evil","bundleId""#, nil, source: "duplicate JSON keys"),
            claim(
                "duplicate-app-last-refused", "Two apps, the last of which counts.", #""environment""#,
                #""bundleId":"com.evil","environment""#, .otherApp, source: "duplicate JSON keys"),
            claim(
                "lone-surrogate", "A string with half a surrogate pair, which JSON allows.", "[1]", #"["\ud800"]"#, nil,
                source: "RFC 8259 section 8.2"),
            token(
                "other-kind", "Renewal info in place of a transaction.", .otherKind, source: "signed-transactions A.6",
                payload: #"{"environment":"Sandbox","signedDate":1700000500000,"originalTransactionId":"1"}"#),
            token(
                "other-kind-elsewhere", "Renewal info of another environment in place of a transaction.", .otherKind,
                source: "signed-transactions A.6",
                payload: #"{"environment":"Production","signedDate":1700000500000,"autoRenewStatus":1}"#),
            token(
                "unknown-kind", "A payload of no known kind.", .otherKind, source: "Apple's form",
                payload: #"{"signedDate":1700000500000}"#),
            token(
                "like-renewal-info", "A payload that only resembles renewal info, the kind that names no app.",
                .otherKind,
                source: "signed-transactions A.6",
                payload: #"{"environment":"Sandbox","signedDate":1700000500000,"unclaim":1}"#),
        ] as [Case]

    // MARK: Xcode

    private static func xcode(
        _ id: String, _ description: String, _ environment: String, _ expected: VerificationError.Code?,
        trust: String = "xcode"
    ) -> Case {
        token(
            "xcode-\(id)", description, expected, source: "signed-transactions A.4",
            payload: payload.replacing("Sandbox", with: environment), trust: trust
        ) { plan, world in
            plan.chain = [try [UInt8](der: world.xcode.token.certificate)]
            plan.key = world.xcode.token.plan.key
        }
    }

    private static let xcode =
        [
            token(
                "xcode-issues-chain", "A chain that Xcode's certificate issued, with Apple's marker OIDs.",
                .untrustedChain,
                source: "signed-transactions A.4", trust: "xcode"
            ) { plan, world in
                let xcode = world.xcode.token.plan
                var chain = world.authority.tokens
                (chain.intermediate.issuer, chain.intermediate.issuerKey) = (xcode.subject, xcode.key)
                plan.chain = try [chain.leaf, chain.intermediate].map { try [UInt8](der: $0.issue()) }
                plan.chain.append(try [UInt8](der: world.xcode.token.certificate))
            },
            token(
                "local-testing-unsigned", "Claims to be for local testing, and has no valid signature.",
                .unsupportedAlgorithm, source: "Apple's libraries skip all checks for local testing",
                payload: payload.replacing("Sandbox", with: "LocalTesting"), trust: "xcode"
            ) { plan, _ in
                plan.algorithm = "none"
                plan.signature = { _ in [0] }
            },
            xcode("root", "Signed by Xcode, whose certificate is a root here.", "Xcode", nil),
            xcode(
                "local-testing", "Signed by Xcode for local testing. Xcode's certificate is a root here.",
                "LocalTesting", nil),
            xcode(
                "not-root", "Signed by Xcode, whose certificate is no root here.", "Sandbox", .untrustedChain,
                trust: "app"),
            xcode(
                "production", "Signed by Xcode, but claims to be from production.", "Production", .otherEnvironment),
            xcode("sandbox", "Signed by Xcode, but claims to be from the sandbox.", "Sandbox", .otherEnvironment),
            token(
                "xcode-other-key", "A certificate with the same names as Xcode's, but another key.", .untrustedChain,
                source: "signed-transactions A.4", payload: payload.replacing("Sandbox", with: "Xcode"), trust: "xcode"
            ) { plan, world in
                var forged = world.xcode.token.plan
                forged.key = .newP256()
                forged.issuerKey = forged.key
                plan.chain = [try [UInt8](der: forged.issue())]
                plan.key = forged.key
            },
        ] as [Case]

    // MARK: Other kinds

    private static func kind(
        _ id: String, _ description: String, _ kind: Vector.Kind, _ payload: String, _ expected: VerificationError.Code?
    ) -> Case {
        Case(
            id: "token::\(id)", description: description, kind: kind, expected: expected, trust: "two apps",
            source: "signed-transactions A.6"
        ) { try TokenPlan(payload, by: $0.authority.tokens).signed() }
    }

    private static let renewal =
        #"{"originalTransactionId":"1","autoRenewStatus":1,"environment":"Sandbox","signedDate":1700000500000}"#
    private static let app = #"{"receiptType":"Sandbox","bundleId":"com.example","receiptCreationDate":1700000500000}"#
    private static let realtime =
        #"{"userLocale":"en-US","originalTransactionId":"1","appAppleId":7,"productId":"p","requestIdentifier":"r","#
        + #""environment":"Production","signedDate":1700000500000}"#

    private static let kinds =
        [
            kind("renewal-info", "Renewal info.", .renewalInfo, renewal, nil),
            kind(
                "renewal-info-is-transaction", "A transaction in place of renewal info.", .renewalInfo, payload,
                .otherKind),
            kind(
                "renewal-info-expired", "Renewal info that was signed before its leaf became valid.", .renewalInfo,
                renewal.replacing("1700000500000", with: "1"), .certificateExpired),
            kind("app-transaction", "An app transaction.", .appTransaction, app, nil),
            kind(
                "app-transaction-other-app", "An app transaction of another app.", .appTransaction,
                app.replacing("com.example", with: "com.evil"), .otherApp),
            kind(
                "app-transaction-no-apple-id", "A production app transaction without an Apple ID.",
                .appTransaction, app.replacing("Sandbox", with: "Production"), .otherApp),
            kind(
                "app-transaction-other-apple-id",
                "A production app transaction with the Apple ID of another app that is accepted.", .appTransaction,
                app.replacing(#""Sandbox""#, with: #""Production","appAppleId":8"#), .otherApp),
            kind(
                "app-transaction-two-dates",
                "An app transaction with a `receiptCreationDate` before its leaf. A `signedDate` does not replace it.",
                .appTransaction,
                app.replacing("1700000500000", with: #"1,"signedDate":1700000500000"#), .certificateExpired),
            kind("retention-request", "A retention request.", .retentionRequest, realtime, nil),
            kind(
                "retention-request-other-app", "A retention request of another app.", .retentionRequest,
                realtime.replacing(":7", with: ":9"), .otherApp),
            kind(
                "retention-request-no-app", "A production retention request without an Apple ID.", .retentionRequest,
                realtime.replacing(#""appAppleId":7,"#, with: ""), .otherApp),
        ] as [Case]

    // MARK: Of two faults, the first in the order of the codes is reported

    private static let orders =
        [
            token(
                "order-app-before-environment", "Another app and environment.", .otherApp, source: "order of codes",
                payload: payload.replacing("com.example", with: "x").replacing("Sandbox", with: "Moon")),
            token(
                "order-signature-before-app", "Another app, signed with another key.", .invalidSignature,
                source: "order of codes", payload: payload.replacing("com.example", with: "x")
            ) { plan, _ in
                plan.key = .newP256()
            },
            token(
                "order-chain-before-dates", "Expired, and of another authority.", .untrustedChain,
                source: "order of codes", payload: payload.replacing("1700000500000", with: "1")
            ) { plan, world in
                plan.chain = try world.other.tokens.issue().map { try [UInt8](der: $0) }
                plan.key = world.other.tokens.leaf.key
            },
            token(
                "order-algorithm-before-chain", "Of another authority, with algorithm none.", .unsupportedAlgorithm,
                source: "order of codes"
            ) { plan, world in
                plan.chain = try world.other.tokens.issue().map { try [UInt8](der: $0) }
                plan.algorithm = "none"
            },
        ] as [Case]
}
