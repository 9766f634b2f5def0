// SPDX-License-Identifier: Apache-2.0

import Crypto
package import ReceiptCoding
import SwiftASN1
import X509

/// The plan of an app receipt. Tests can make any part invalid.
package struct ReceiptPlan: Sendable {
    /// The OID of the digest algorithm.
    package var digest = OID.sha256
    package var signatureAlgorithm = OID.rsaEncryption
    /// The certificates in the container, each as DER.
    package var certificates: [[UInt8]]
    /// Issuer and serial number of the signer, as DER.
    package var signer: [UInt8]
    package var payload: [UInt8]
    /// The encoded content; if `nil`, an OCTET STRING with the payload.
    package var content: [UInt8]?
    /// The bytes to sign; if `nil`, the payload.
    package var signedBytes: [UInt8]?
    /// DER to insert between digest algorithm and signature algorithm.
    package var signedAttributes: [UInt8] = []
    /// The number of times that the receipt contains its signature (`SignerInfo`).
    package var signers = 1
    package var key: SigningKey
    /// Changes the valid signature before it is inserted; for invalid receipts.
    package var signature: @Sendable ([UInt8]) -> [UInt8] = { $0 }
    /// Changes the finished receipt.
    package var document: @Sendable ([UInt8]) -> [UInt8] = { $0 }

    package init(_ payload: [UInt8], by chain: ChainPlan) throws {
        self.init(payload, by: try SigningChain(chain))
    }

    /// A receipt with the certificates of an issued chain.
    package init(_ payload: [UInt8], by chain: SigningChain) {
        self.payload = payload
        certificates = chain.certificates
        signer = chain.signer
        key = chain.key
    }

    /// Signs the receipt in the App Store's form, with all planned faults.
    package func signed() throws -> [UInt8] {
        let signerInfo = SignedReceipt.signerInfo(
            signer: signer, digest: digest, signedAttributes: signedAttributes,
            signatureAlgorithm: signatureAlgorithm, signature: signature(try plainSignature()))
        return document(
            SignedReceipt.container(
                digest: digest, content: [content?[...] ?? DEREncoding.octetString(payload)[...]],
                certificates: certificates,
                signerInfos: DEREncoding.concatenation(Array(repeating: signerInfo, count: signers))))
    }

    private func plainSignature() throws -> [UInt8] {
        let bytes = signedBytes ?? payload
        return digest == .sha1 ? try key.rsa(Insecure.SHA1.hash(data: bytes)) : try key.rsa(SHA256.hash(data: bytes))
    }
}

extension CertificateAuthority {
    /// Signs a receipt in the App Store's form since 2023: PKCS#7 with SHA-256, and the chain inside.
    package func sign(_ receipt: AppReceipt) throws -> [UInt8] {
        try ReceiptPlan(receipt.encoded, by: receipts).signed()
    }
}
