// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import ReceiptCoding

/// A simulated App Store. It signs the documents that the code in the articles verifies.
struct SimulatedStore: Sendable {
    let now = Timestamp(milliseconds: 1_750_000_000_000)
    let authority: CertificateAuthority

    init() throws {
        authority = try CertificateAuthority(from: Timestamp(milliseconds: now.milliseconds - 86_400_000))
    }

    var roots: TrustRoots {
        get throws {
            let roots = try TrustRoots(reading: authority.roots[0]).union(TrustRoots(reading: authority.roots[1]))
            return roots
        }
    }

    var verifier: AppStoreVerifier {
        get throws {
            AppStoreVerifier(
                apps: .only([AppIdentity(bundleId: "com.example.notes", appAppleId: 1_234_567_890)]),
                environments: [.production], roots: try roots)
        }
    }

    /// A year of a subscription.
    func transaction(revokedAt: Timestamp? = nil) -> JWSTransactionDecodedPayload {
        var payload = JWSTransactionDecodedPayload()
        payload.transactionId = "1"
        payload.originalTransactionId = "1"
        payload.bundleId = "com.example.notes"
        payload.productId = "com.example.notes.pro.annual"
        payload.type = Open(.autoRenewableSubscription)
        payload.purchaseDate = now
        payload.expiresDate = Timestamp(milliseconds: now.milliseconds + 365 * 86_400_000)
        payload.environment = Open(.production)
        payload.signedDate = now
        payload.revocationDate = revokedAt
        return payload
    }

    func notification(about transaction: JWSTransactionDecodedPayload) throws -> String {
        var data = NotificationData()
        data.appAppleId = 1_234_567_890
        data.bundleId = transaction.bundleId
        data.environment = transaction.environment
        data.signedTransactionInfo = try authority.sign(transaction)
        var payload = ResponseBodyV2DecodedPayload()
        payload.notificationType = Open(.refund)
        payload.notificationUUID = "7e3fb20b-4cdb-47cc-936d-99d65f608138"
        payload.signedDate = now
        payload.data = data
        return try authority.sign(payload)
    }

    func receipt() throws -> [UInt8] {
        var purchase = InAppPurchase()
        purchase.productId = "com.example.notes.pro.annual"
        var receipt = AppReceipt()
        receipt.receiptType = Open(.production)
        receipt.appItemId = 1_234_567_890
        receipt.bundleId = "com.example.notes"
        receipt.receiptCreationDate = now
        receipt.inAppPurchases = [purchase]
        return try authority.sign(receipt)
    }
}
