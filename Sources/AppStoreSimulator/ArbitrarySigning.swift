// SPDX-License-Identifier: Apache-2.0

// Signatures over anything: what a verifier makes of the strangest that the App Store could sign, only an authority can try.

extension CertificateAuthority {
    /// Signs any bytes as the payload of a token.
    ///
    /// - Parameter members: JSON members, each with a comma behind it, to stand before the header's own.
    public func sign(tokenPayload payload: [UInt8], headerMembers members: String = "") throws -> String {
        var plan = try TokenPlan("", by: tokens)
        plan.payload = payload
        plan.header = "{" + members + plan.plainHeader.dropFirst()
        return try plan.signed()
    }

    /// A signer of many tokens.
    ///
    /// - Parameter members: As above.
    public func tokenSigner(headerMembers members: String = "") throws -> TokenSigner {
        var plan = try TokenPlan("", by: tokens)
        plan.header = "{" + members + plan.plainHeader.dropFirst()
        return TokenSigner(plan: plan)
    }

    /// Signs any bytes as the payload of an app receipt.
    ///
    /// - Parameter certificates: Certificates as DER that the receipt brings along besides the signer's chain.
    public func sign(receiptPayload payload: [UInt8], bringing certificates: [[UInt8]] = []) throws -> [UInt8] {
        var plan = try ReceiptPlan(payload, by: receipts)
        plan.certificates = certificates + plan.certificates
        return try plan.signed()
    }

    /// Signs any purchase as an old transaction receipt.
    ///
    /// - Parameter version: 2 or 3.
    public func sign(
        transactionReceipt purchaseInfo: [(key: String, value: String)], version: UInt8 = 3
    ) throws -> [UInt8] {
        try TransactionReceiptPlan(version: version, purchaseInfo, by: self).signed()
    }
}

/// Signs any bytes as the payload of tokens that all have one header, as the App Store's do. An authority issues its
/// certificates anew for each.
public struct TokenSigner: Sendable {
    fileprivate let plan: TokenPlan

    public func sign(_ payload: [UInt8]) throws -> String {
        var plan = plan
        plan.payload = payload
        return try plan.signed()
    }
}
