// SPDX-License-Identifier: Apache-2.0

// Signs arbitrary bytes, so that benchmarks can measure a verifier with documents that the App Store would never sign.

extension CertificateAuthority {
    /// Signs any bytes as the payload of a token.
    ///
    /// - Parameter members: JSON members to insert before the header's own, each followed by a comma.
    package func sign(tokenPayload payload: [UInt8], headerMembers members: String = "") throws -> String {
        var plan = try TokenPlan("", by: tokens)
        plan.payload = payload
        plan.headerMembers = members
        return try plan.signed()
    }

    /// Signs any bytes as the payload of an app receipt.
    ///
    /// - Parameter certificates: Certificates as DER to insert before the signer's chain.
    package func sign(receiptPayload payload: [UInt8], bringing certificates: [[UInt8]] = []) throws -> [UInt8] {
        var plan = try ReceiptPlan(payload, by: receipts)
        plan.certificates = certificates + plan.certificates
        return try plan.signed()
    }

    /// Signs any purchase as an old transaction receipt.
    ///
    /// - Parameter version: 2 or 3.
    package func sign(
        transactionReceipt purchaseInfo: [(key: String, value: String)], version: UInt8 = 3
    ) throws -> [UInt8] {
        try TransactionReceiptPlan(version: version, purchaseInfo, by: self).signed()
    }
}
