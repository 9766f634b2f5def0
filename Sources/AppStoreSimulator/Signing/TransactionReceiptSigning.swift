// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import X509

/// The plan of an old transaction receipt. Tests can make any part invalid.
package struct TransactionReceiptPlan: Sendable {
    package var version: UInt8
    package var purchaseInfo: [(key: String, value: String)]
    /// The bytes to sign; if `nil`, version and purchase info.
    package var signedBytes: [UInt8]?
    /// The signer's certificate as DER.
    package var certificate: [UInt8]
    package var key: SigningKey
    /// Changes the valid blob of version, signature and certificate before it is inserted; for invalid receipts.
    package var blob: @Sendable ([UInt8]) -> [UInt8] = { $0 }
    /// The entries of the property list that the signature does not cover.
    package var otherEntries = [("environment", "Sandbox"), ("pod", "100"), ("signing-status", "0")]

    /// Plans a receipt of a purchase.
    ///
    /// - Parameter version: 2 (2012 to 2015, RSA-1024) or 3 (since 2015, RSA-2048).
    package init(
        version: UInt8, _ purchaseInfo: [(key: String, value: String)], by authority: CertificateAuthority
    ) throws {
        let chain = version == 2 ? authority.purchases : authority.receipts
        self.version = version
        self.purchaseInfo = purchaseInfo
        certificate = try [UInt8](der: chain.leaf.issue())
        key = chain.leaf.key
    }

    /// Plans a receipt of version 3 by a signer of app receipts.
    init(_ purchaseInfo: [(key: String, value: String)], by chain: SigningChain) {
        version = 3
        self.purchaseInfo = purchaseInfo
        certificate = chain.certificates.first ?? []
        key = chain.key
    }

    /// Signs the receipt, and returns the property list that StoreKit gave to apps.
    package func signed() throws -> [UInt8] {
        let info = Array(Self.propertyList(purchaseInfo).utf8)
        let signature = try key.rsa(Insecure.SHA1.hash(data: signedBytes ?? [version] + info))
        let length = withUnsafeBytes(of: UInt32(certificate.count).bigEndian) { Array($0) }
        let entries = [
            ("signature", Data(blob([version] + signature + length + certificate)).base64EncodedString()),
            ("purchase-info", Data(info).base64EncodedString()),
        ]
        return Array(Self.propertyList(entries + otherEntries).utf8)
    }

    private static func propertyList(_ entries: [(key: String, value: String)]) -> String {
        "{\n" + entries.map { "\t\"\($0.key)\" = \"\($0.value)\";\n" }.joined() + "}"
    }
}
