// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto

// The documents that StoreKit gives the app on a customer's device. Only these documents have the members by which an
// app can check that a document is for its device. Documents in responses of the App Store Server API lack them.

extension World {
    /// A transaction in the form in which StoreKit gives it to the customer's device, before signing; `nil` if the id
    /// is unknown.
    ///
    /// Each call gives a new nonce.
    public mutating func transactionOnDevice(_ id: String) -> JWSTransactionDecodedPayload? {
        guard var transaction = transaction(id), let customer = customer(ofTransaction: id) else { return nil }
        let (nonce, proof) = deviceVerification(of: customer)
        transaction.deviceVerificationNonce = nonce
        transaction.deviceVerification = proof
        return transaction
    }

    /// The app transaction of the customer in the form in which StoreKit gives it to the device, before signing; `nil`
    /// if the world has no such customer.
    ///
    /// Each call gives a new nonce.
    public mutating func appTransactionOnDevice(of name: String) -> AppTransaction? {
        guard var app = appTransaction(of: name), let customer = customers[name] else { return nil }
        app.applicationVersion = catalogue.appVersion
        // Receipts have the same number.
        app.versionExternalIdentifier = customer.environment == .production ? catalogue.appAppleId &+ 1 : 0
        let (nonce, proof) = deviceVerification(of: customer)
        app.deviceVerificationNonce = nonce
        app.deviceVerification = proof
        return app
    }

    /// A new nonce, and the base64 of SHA-384 over the nonce and the device's verification id, both UUIDs in lower
    /// case.
    private mutating func deviceVerification(of customer: StoreCustomer) -> (nonce: String, proof: String) {
        let nonce = identifiers.uuid(.deviceNonce)
        let digest = SHA384.hash(data: Array((nonce + customer.deviceVerificationID).utf8))
        return (nonce, Base64.encode(Array(digest)))
    }
}
