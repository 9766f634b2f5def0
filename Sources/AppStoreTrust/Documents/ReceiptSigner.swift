// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding

/// A known signer of receipts, with its issuer and serial number as named in receipts.
package struct ReceiptSigner: Sendable {
    let chain: SignerChain
    private let issuer: [UInt8]
    private let serialNumber: [UInt8]

    init(_ signer: SignedReceipt.Signer, _ chain: SignerChain) {
        self.chain = chain
        issuer = Array(signer.issuer)
        serialNumber = Array(signer.serialNumber)
    }

    /// Whether a receipt names this signer, and the receipt's certificates begin with the signer's chain, as in the App
    /// Store's own receipts. Without the cache, the verifier would also try that chain first, so the cache does not
    /// change the result.
    func isNamedFirst(in receipt: SignedReceipt) -> Bool {
        let certificates = chain.encodedCertificates.prefix(chain.presented.count)
        return receipt.signer.serialNumber.elementsEqual(serialNumber) && receipt.signer.issuer.elementsEqual(issuer)
            && receipt.certificates.count >= certificates.count
            && zip(certificates, receipt.certificates).allSatisfy { $0.isSame(as: $1) }
    }
}
