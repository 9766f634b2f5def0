// SPDX-License-Identifier: Apache-2.0

// Values that the server signs for StoreKit: offers, and requests of the Advanced Commerce API.
//
// With a server key, the server signs any value for the key's app. With a client key, the server signs only promotional
// offers that the configuration allows, and only for the customer in the path. `quittance sign` signs without a ledger,
// also with a key that no configuration names.

package import AppStoreAPI
package import AppStoreModel
import HTTPTypes
import PurchaseLedger

/// The maximum length of a body in bytes: enough for an Advanced Commerce request with about a hundred items.
private let bodyLimit = 64 << 10

private let product = Field("productId", "the product of the subscription", .text(.catalogueName), isRequired: true)
private let offer = Field(
    "offerIdentifier", "the offer's identifier in App Store Connect", .text(.catalogueName), isRequired: true)
private let transaction = Field("transactionId", "any transaction of the customer, for whom alone the offer then is")
private let account = Field("appAccountToken", "the account that the app passes with the purchase")
private let version = Field("version", "2 for a JWS, 1 for the original form", .number(1...2), standard: "2")
private let promotionalOffer = [product, offer, transaction, account, version]

package enum SignPromotionalOffer: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/signatures/promotional-offer", "signs a promotional offer for any customer",
        [.environment] + promotionalOffer, upTo: bodyLimit, changes: false, errors: [.noSigningKey]
    ) { request in try Answer(request.signPromotionalOffer()) }
}

package enum SignIntroductoryOffer: NamedOperation {
    private static let isAllowed = Field(
        "allowIntroductoryOffer", "whether the customer may have the offer", .flag, isRequired: true)
    private static let customer = Field(
        "transactionId", "any transaction of the customer, or its appTransactionId", isRequired: true)

    package static let operation = Operation(
        .post, "/v1/signatures/introductory-offer", "signs whether a customer gets an introductory offer",
        [.environment, product, isAllowed, customer], upTo: bodyLimit, changes: false, errors: [.noSigningKey]
    ) { request in
        let (signer, nonce) = try request.signer()
        return try Answer(
            SignatureBody.jws(
                signer.introductoryOffer(
                    of: request.text(product), isAllowed: request[isAllowed]?.bool ?? false,
                    transactionId: request.text(customer), nonce: nonce, at: request.now)))
    }
}

package enum SignAdvancedCommerce: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/signatures/advanced-commerce", "signs a request of the Advanced Commerce API",
        [.environment], upTo: bodyLimit, changes: false, readsBody: true, errors: [.noSigningKey]
    ) { request in
        guard let json = request.body else { throw Refusal.invalid("The body is not JSON.") }
        let (signer, nonce) = try request.signer()
        return try Answer(
            SignatureBody.jws(
                signer.advancedCommerce(AdvancedCommerceInAppRequest(json), nonce: nonce, at: request.now)))
    }
}

package enum SignCustomerOffer: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/customers/{id}/signatures/promotional-offer", "signs a promotional offer for the customer",
        roles: .submitters, [.customer, .environments] + promotionalOffer, upTo: bodyLimit,
        unknown: "The customer", errors: [.noSigningKey, .offerNotAllowed]
    ) { request -> Answer<SignatureBody>? in
        if Roles.apps.contains(request.role), try await !isAllowed(request) { return nil }
        return try Answer(request.signPromotionalOffer())
    }

    /// Checks whether a client key may get the offer.
    ///
    /// - Returns: `false` if the customer is unknown.
    /// - Throws: ``Refusal`` if the configuration does not allow the offer, or the offer would be for another customer.
    private static func isAllowed(_ request: AuthenticatedRequest) async throws -> Bool {
        let asked = try request.promotionalOffer()
        let offers = request.service.app(request.scope.bundleId).clientOffers[exactly: asked.offer.productId] ?? []
        guard offers.contains(asked.offer.offerIdentifier) else { throw Refusal.offerNotAllowed }
        let id = request.customerId
        // Compared byte by byte, as the ledger's storage compares ids.
        if let account = asked.appAccountToken, !account.utf8.elementsEqual(id.normalizedCustomerID.utf8) {
            throw Refusal.offerForOtherCustomer("“appAccountToken” is not the customer in the path.")
        }
        guard asked.version == 2 else { return true }
        guard let transaction = asked.transactionId else {
            throw Refusal.invalid("“transactionId” is missing: with a client key, an offer is for a single customer.")
        }
        let rule = request.environmentRule
        let found = try await request.ledger.customer(
            id, of: request.scope.bundleId, in: rule.loaded, at: request.now)
        guard let found else { return false }
        // An app does not know its environment before the first purchase, so the transaction may be in any environment
        // that counts for the customer.
        let customer = rule.counted(for: found.values.first?.ids ?? []).compactMap { found[$0] }
            .first { $0.purchases.contains { $0.transactionId == transaction } }
        guard let customer else {
            throw Refusal.offerForOtherCustomer("“transactionId” is no purchase of the customer in the path.")
        }
        guard !customer.refuses(transaction) else { throw Refusal.offerOfRefusedPurchase }
        return true
    }
}

extension Ledger.CustomerAnswer {
    /// Whether the transaction belongs to a refused purchase.
    fileprivate func refuses(_ transactionId: String) -> Bool {
        purchases.contains { $0.transactionId == transactionId && holdings.refused.contains($0.chainName) }
    }
}

/// What a promotional offer is for.
package struct PromotionalOfferRequest: Sendable {
    let offer: PromotionalOffer
    let transactionId: String?
    let appAccountToken: String?
    /// The version of the signature: 2 for a JWS, 1 for the original form.
    let version: Int64

    /// - Throws: A fault if there is a value of the other version.
    package init(
        _ offer: PromotionalOffer, transactionId: String?, appAccountToken: String?, version: Int64
    ) throws(FieldFault) {
        guard version == 2 || transactionId == nil, version == 1 || appAccountToken == nil else {
            throw FieldFault("“transactionId”", " is for version 2, “appAccountToken” for version 1.")
        }
        self.offer = offer
        self.transactionId = transactionId
        self.appAccountToken = appAccountToken?.lowercased()
        self.version = version
    }

    package func signed(by signer: StoreKitSigner, nonce: String, at now: Timestamp) throws -> SignatureBody {
        guard version == 1 else {
            return .jws(try signer.promotionalOffer(offer, transactionId: transactionId, nonce: nonce, at: now))
        }
        return .promotionalOfferV1(
            try signer.promotionalOfferV1(offer, appAccountToken: appAccountToken, nonce: nonce, at: now))
    }
}

extension AuthenticatedRequest {
    /// The signer for the app of the request's key, and a new nonce.
    fileprivate func signer() throws(Refusal) -> (StoreKitSigner, nonce: String) {
        guard let signing = service.signing, let signer = signing.signer(for: scope.bundleId) else {
            throw .noSigningKey
        }
        return (signer, signing.nonce())
    }

    @inline(never)
    fileprivate func promotionalOffer() throws(FieldFault) -> PromotionalOfferRequest {
        try PromotionalOfferRequest(
            PromotionalOffer(productId: text(product), offerIdentifier: text(offer)),
            transactionId: self[transaction]?.string, appAccountToken: self[account]?.string,
            version: Int64(number(version)))
    }

    fileprivate func signPromotionalOffer() throws -> SignatureBody {
        let asked = try promotionalOffer()
        let (signer, nonce) = try signer()
        return try asked.signed(by: signer, nonce: nonce, at: now)
    }
}

extension Refusal {
    fileprivate static let offerNotAllowed = Refusal(
        .offerNotAllowed,
        "With a client key, only the clientOffers of the product in the server's configuration are signed.")

    fileprivate static let offerOfRefusedPurchase = Refusal(
        .offerNotAllowed,
        "The purchase of “transactionId” is refused: it was denied, or the configuration has it in refusedPurchases.")

    fileprivate static func offerForOtherCustomer(_ message: String) -> Refusal {
        Refusal(.otherCustomer, message)
    }
}
