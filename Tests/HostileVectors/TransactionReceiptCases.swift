// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import Foundation
import SwiftASN1
import X509

/// Faults of old transaction receipts. Each case starts from a valid receipt and breaks one thing.
enum TransactionReceiptCases {
    private static let purchase: [(key: String, value: String)] = [
        ("bid", "com.example"), ("product-id", "com.example.coins"), ("transaction-id", "1000000000000001"),
        ("original-transaction-id", "1000000000000001"), ("quantity", "1"), ("purchase-date-ms", "1700000500000"),
    ]

    /// A transaction receipt that `breaking` has changed.
    private static func receipt(
        _ id: String, _ description: String, _ expected: VerificationError.Code?, version: UInt8 = 2,
        trust: String = "app", source: String = "legacy-receipts G",
        _ breaking: @escaping @Sendable (inout TransactionReceiptPlan, World) throws -> Void = { _, _ in }
    ) -> Case {
        Case(
            id: "transaction-receipt::\(id)", description: description, kind: .transactionReceipt, expected: expected,
            trust: trust, source: source
        ) { world in
            var plan = try TransactionReceiptPlan(version: version, purchase, by: world.authority)
            try breaking(&plan, world)
            return Data(try plan.signed()).base64EncodedString()
        }
    }

    /// A transaction receipt whose signer's certificate `breaking` has changed.
    private static func leaf(
        _ id: String, _ description: String, version: UInt8 = 2, source: String = "legacy-receipts G",
        _ breaking: @escaping @Sendable (inout CertificatePlan) -> Void
    ) -> Case {
        receipt("leaf-\(id)", description, .untrustedChain, version: version, source: source) { plan, world in
            var leaf = version == 2 ? world.authority.purchases.leaf : world.authority.receipts.leaf
            breaking(&leaf)
            plan.certificate = try [UInt8](der: leaf.issue())
        }
    }

    private static func entry(
        _ id: String, _ description: String, _ key: String, _ value: String?, _ expected: VerificationError.Code?
    ) -> Case {
        receipt(id, description, expected) { plan, _ in
            plan.purchaseInfo = purchase.compactMap { $0.key == key ? value.map { (key, $0) } : $0 }
        }
    }

    private static let keyUsageRule = "RFC 5280 section 4.2.1.3"

    static let all =
        [
            receipt("genuine-2", "Version 2, as issued until 2015.", nil),
            receipt("genuine-3", "Version 3, as issued since 2015.", nil, version: 3),
            receipt(
                "environment-removed", "Without its environment, which is not signed.", nil,
                source: "verification-libraries: venice's and mbaasy's samples have the same signature"
            ) { plan, _ in
                plan.otherEntries.removeFirst()
            },
            receipt(
                "environment-production", "It says Production, which is not signed and not accepted.",
                .otherEnvironment, source: "verification-libraries: venice's and mbaasy's samples have the same signature"
            ) { plan, _ in
                plan.otherEntries[0].1 = "Production"
            },
            receipt(
                "environment-sandbox-in-production", "It says Sandbox, and the caller accepts production only.",
                .otherEnvironment, trust: "production", source: "verification-libraries: venice's and mbaasy's samples have the same signature"),
            receipt(
                "environment-sandbox-lower-case", "It says sandbox, and the caller accepts production only.",
                .otherEnvironment, trust: "production", source: "verification-libraries: venice's and mbaasy's samples have the same signature"
            ) { plan, _ in
                plan.otherEntries[0].1 = "sandbox"
            },
            receipt(
                "environment-unknown", "It says Moon, which is no environment.", .otherEnvironment,
                source: "verification-libraries: venice's and mbaasy's samples have the same signature"
            ) { plan, _ in
                plan.otherEntries[0].1 = "Moon"
            },
            receipt(
                "environment-removed-in-production",
                "A sandbox receipt without its environment, which is not signed: it looks like one from production.",
                nil, trust: "production", source: "verification-libraries: venice's and mbaasy's samples have the same signature"
            ) { plan, _ in
                plan.otherEntries.removeFirst()
            },
            receipt("purchase-changed", "The signature covers another purchase.", .invalidSignature) { plan, _ in
                plan.signedBytes = [2] + Array("{}".utf8)
            },
            receipt(
                "version-not-signed", "The signature covers neither the version nor most of the purchase.",
                .invalidSignature
            ) { plan, _ in
                plan.signedBytes = Array("{\n\t\"bid\" = \"com.example\";\n}".utf8)
            },
            receipt("version-1", "An unknown version.", .malformed) { plan, _ in
                plan.blob = { [1] + $0.dropFirst() }
            },
            receipt("version-exchanged", "Version 3 in the place of 2.", .malformed) { plan, _ in
                plan.blob = { [3] + $0.dropFirst() }
            },
            receipt(
                "signature-missing", "The entry `signature` is empty: no version, signature or certificate.", .malformed
            ) { plan, _ in plan.blob = { _ in [] } },
            receipt("signature-changed", "One bit of the signature is changed.", .invalidSignature) { plan, _ in
                plan.blob = { [$0[0], $0[1] ^ 1] + $0.dropFirst(2) }
            },
            receipt("signature-zeros", "A signature of zeros.", .invalidSignature) { plan, _ in
                plan.blob = { $0.prefix(1) + [UInt8](repeating: 0, count: 128) + $0.dropFirst(129) }
            },
            receipt("certificate-length", "The length of the certificate is 2^32 − 1.", .malformed) { plan, _ in
                plan.blob = { $0.prefix(129) + [0xff, 0xff, 0xff, 0xff] + $0.dropFirst(133) }
            },
            receipt("certificate-cut-off", "The certificate's last byte is missing.", .malformed) { plan, _ in
                plan.certificate.removeLast()
            },
            receipt(
                "certificate-parameters-absent",
                "The certificate's outer algorithm without its NULL parameters. The signed part is unchanged.",
                .malformed,
                source: "RFC 5280 section 4.1.1.2"
            ) { plan, _ in
                plan.certificate = try CertificateRewriting.withoutParameters(plan.certificate)
            },
            receipt("certificate-empty", "No certificate.", .malformed) { plan, _ in plan.certificate = [] },
            receipt("certificate-key-on-curve", "A signer with an elliptic-curve key.", .unsupportedAlgorithm) {
                plan, world in
                var leaf = world.authority.purchases.leaf
                leaf.key = .newP256()
                plan.certificate = try [UInt8](der: leaf.issue())
            },
            receipt(
                "no-intermediates", "The intermediate is not configured.", .untrustedChain, trust: "no intermediates"),
            receipt(
                "intermediate-no-authority", "An intermediate that may not issue certificates.", .untrustedChain,
                trust: "intermediate without authority"),
            receipt(
                "intermediate-other-marker", "An intermediate with the marker OID of WWDR.", .untrustedChain,
                trust: "intermediate marked as WWDR"),
            receipt(
                "intermediate-expired", "An intermediate that expired before the purchase.", .certificateExpired,
                trust: "expired intermediate"),
            receipt(
                "intermediate-self-made", "An intermediate of the same name that another authority issued.",
                .untrustedChain,
                trust: "intermediate of another authority"),
            receipt(
                "intermediate-root", "The root in the place of the intermediate.", .untrustedChain,
                trust: "root as intermediate"),
            receipt(
                "entry-like-another", "`product-id` and `product_id`, which are one member in verifyReceipt's answer.",
                .unreadable
            ) {
                plan, _ in
                plan.purchaseInfo.append(("product_id", "com.evil"))
            },
            receipt(
                "entry-app-with-hyphen",
                "The entry `bid` names another app, and an added entry `bid-` names the accepted one.", .otherApp
            ) {
                plan, _ in
                plan.purchaseInfo[0].value = "com.evil"
                plan.purchaseInfo.append(("bid-", "com.example"))
            },
            leaf("without-marker", "A leaf without the marker OID, issued for another purpose.") { $0.markerOIDs = [] },
            leaf("app-receipt-marker", "Version 2, signed by a signer of app receipts.") {
                $0.markerOIDs = [.appStoreReceiptSigning]
            },
            leaf("purchase-marker", "Version 3, signed by a signer of version 2.", version: 3) {
                $0.markerOIDs = [.purchaseReceiptSigning]
            },
            leaf(
                "unknown-critical-extension", "A leaf with an unknown critical extension.",
                source: "RFC 5280 section 4.2"
            ) {
                $0.unknownExtensions = [[1, 3, 6, 1, 4, 1, 99999, 1]]
            },
            leaf("key-usage-other", "A leaf whose key usage has only keyAgreement.", source: keyUsageRule) {
                $0.keyUsage = KeyUsage(keyAgreement: true)
            },
            receipt(
                "leaf-key-usage-absent", "A leaf without key usage, which permits each use.", nil, source: keyUsageRule
            ) { plan, world in
                var leaf = world.authority.purchases.leaf
                leaf.keyUsage = nil
                plan.certificate = try [UInt8](der: leaf.issue())
            },
            receipt(
                "intermediate-key-usage-other", "An intermediate whose key usage has only digitalSignature.",
                .untrustedChain, trust: "intermediate for documents", source: keyUsageRule),
            receipt(
                "intermediate-key-usage-absent", "An intermediate without key usage, which permits each use.", nil,
                trust: "intermediate without key usage", source: keyUsageRule),
            receipt(
                "root-key-usage-other", "The trusted root's key usage has only cRLSign.", .untrustedChain,
                trust: "roots that issue nothing", source: keyUsageRule),
            receipt("leaf-of-other-intermediate", "Version 2, signed by a leaf that WWDR issued.", .untrustedChain) {
                plan, world in
                var leaf = world.authority.purchases.leaf
                (leaf.issuer, leaf.issuerKey) = (
                    world.authority.receipts.intermediate.subject, world.authority.receipts.intermediate.key
                )
                plan.certificate = try [UInt8](der: leaf.issue())
            },
            receipt("leaf-changed", "One bit of the leaf's name is changed after the leaf was issued.", .untrustedChain)
            { plan, _ in
                plan.certificate = plan.certificate.replacingFirst(
                    Array("Simulated purchase".utf8), with: Array("simulated purchase".utf8))
            },
            receipt("self-made", "A chain with the same names that another authority issued.", .untrustedChain) {
                plan, world in
                plan = try TransactionReceiptPlan(version: 2, purchase, by: world.other)
            },
            entry(
                "bought-before-leaf", "Bought a second before its leaf became valid.", "purchase-date-ms",
                "1699999999000",
                .certificateExpired),
            entry(
                "bought-after-leaf", "Bought after its leaf's last second.", "purchase-date-ms", "1763072001000",
                .certificateExpired),
            entry(
                "bought-never", "No date, so its certificates must be valid now.", "purchase-date-ms", nil,
                .certificateExpired),
            entry(
                "bought-absurd", "An invalid date, so its certificates must be valid now.", "purchase-date-ms", "soon",
                .certificateExpired),
            entry(
                "bought-beyond-calendar", "The largest 64-bit integer as the date.", "purchase-date-ms",
                "9223372036854775807",
                .certificateExpired),
            entry("other-app", "Of another app.", "bid", "com.evil", .otherApp),
            entry("no-app", "Of no app.", "bid", nil, .otherApp),
            entry("quantity-text", "A quantity that is not a number.", "quantity", "many", .unreadable),
            receipt("entry-twice", "Two entries for the app.", .malformed) { plan, _ in
                plan.purchaseInfo.append(("bid", "com.evil"))
            },
            receipt("trailing", "A second property list after the first.", .malformed) { plan, _ in
                plan.otherEntries.append(("x", "\";\n}\n{\"y\" = \""))
            },
        ] as [Case]
}
