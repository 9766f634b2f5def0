// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The routes that sign values for StoreKit: offers, and requests of the Advanced Commerce API.
///
/// With a server key, the server signs any value for the key's app. With a client key, the server signs only
/// promotional offers that the configuration allows, and only for the customer in the path.
struct SignatureRoutes: Sendable {
    let authentication: Authentication
    let signing: AppSigning?
    let apps: [String: AppConfiguration]

    /// The maximum length of a body in bytes: enough for an Advanced Commerce request with about a hundred items.
    private static let bodyLimit = 64 << 10

    private static let promotionalOffer = APIBody(
        ["productId", "offerIdentifier", "transactionId", "appAccountToken", "version"],
        ["productId": .catalogueName, "offerIdentifier": .catalogueName], upTo: bodyLimit)
    private static let introductoryOffer = APIBody(
        ["productId", "allowIntroductoryOffer", "transactionId"], ["productId": .catalogueName], upTo: bodyLimit)

    var routes: [APIRoute] {
        [
            authentication.route(
                .post, "/v1/signatures/promotional-offer", "signs a promotional offer for any customer", role: .server,
                parameters: [.environment], body: Self.promotionalOffer, errors: [.noSigningKey]
            ) { request in try await request.withBody { try await Answer(promotionalOffer($1, $0)) } },
            authentication.route(
                .post, "/v1/signatures/introductory-offer", "signs whether a customer gets an introductory offer",
                role: .server, parameters: [.environment], body: Self.introductoryOffer, errors: [.noSigningKey]
            ) { request in try await request.withBody { try Answer(introductoryOffer($1, $0)) } },
            authentication.route(
                .post, "/v1/signatures/advanced-commerce", "signs a request of the Advanced Commerce API",
                role: .server,
                parameters: [.environment], body: APIBody([], upTo: Self.bodyLimit), errors: [.noSigningKey]
            ) { request in try await request.withBody { try Answer(advancedCommerce($1, $0)) } },
            authentication.route(
                .post, "/v1/customers/{id}/signatures/promotional-offer", "signs a promotional offer for the customer",
                role: .client, parameters: [.customer, .environments], body: Self.promotionalOffer,
                unknown: "The customer", errors: [.noSigningKey, .offerNotAllowed]
            ) { request in try await request.withBody { try await Answer(promotionalOffer($1, $0)) } },
        ]
    }

    /// The signer for the app of the request's key, and a new nonce.
    private func signer(for request: AuthenticatedRequest) throws(Refusal) -> (StoreKitSigner, nonce: String) {
        guard let signing, let signer = signing.signer(for: request.scope.bundleId) else { throw .noSigningKey }
        return (signer, signing.nonce())
    }

    // MARK: - Offers

    private func promotionalOffer(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> SignatureBody? {
        let asked = try PromotionalOfferRequest(BodyMembers(parsing: body, known: Self.promotionalOffer))
        if request.role == .client, try await !isAllowed(asked, for: request) { return nil }
        let (signer, nonce) = try signer(for: request)
        return try asked.signed(by: signer, nonce: nonce, at: request.now)
    }

    /// Checks whether a client key may get the offer.
    ///
    /// - Returns: `false` if the customer is unknown.
    /// - Throws: ``Refusal`` if the configuration does not allow the offer, or the offer would be for another customer.
    private func isAllowed(_ asked: PromotionalOfferRequest, for request: AuthenticatedRequest) async throws -> Bool {
        let offers = apps[request.scope.bundleId]?.clientOffers[asked.offer.productId] ?? []
        guard offers.contains(asked.offer.offerIdentifier) else { throw Refusal.offerNotAllowed }
        let id = try request.customerId
        // Compared byte by byte, as the ledger's storage compares ids.
        if let account = asked.appAccountToken, !account.utf8.elementsEqual(id.normalizedCustomerID.utf8) {
            throw Refusal.offerForOtherCustomer("appAccountToken is not the customer in the path.")
        }
        guard asked.version == 2 else { return true }
        guard let transaction = asked.transactionId else {
            throw Refusal.invalid("transactionId is missing: with a client key, an offer is for a single customer.")
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
            throw Refusal.offerForOtherCustomer("transactionId is no purchase of the customer in the path.")
        }
        guard !customer.refuses(transaction) else { throw Refusal.offerOfRefusedPurchase }
        return true
    }

    private func introductoryOffer(_ body: [UInt8], _ request: AuthenticatedRequest) throws -> SignatureBody? {
        let members = try BodyMembers(parsing: body, known: Self.introductoryOffer)
        let product = try members.text("productId")
        let transaction = try members.text("transactionId")
        guard let isAllowed = try members.flag("allowIntroductoryOffer") else {
            throw Refusal.invalid("allowIntroductoryOffer is missing.")
        }
        let (signer, nonce) = try signer(for: request)
        return .jws(
            try signer.introductoryOffer(
                of: product ?? "", isAllowed: isAllowed, transactionId: transaction ?? "", nonce: nonce,
                at: request.now))
    }

    // MARK: - Advanced Commerce

    private func advancedCommerce(_ body: [UInt8], _ request: AuthenticatedRequest) throws -> SignatureBody? {
        guard let json = JSONValue(readable: body) else { throw Refusal.invalid("The body is not JSON.") }
        let (signer, nonce) = try signer(for: request)
        return .jws(try signer.advancedCommerce(AdvancedCommerceInAppRequest(json), nonce: nonce, at: request.now))
    }
}

extension Ledger.CustomerAnswer {
    /// Whether the transaction belongs to a refused purchase.
    fileprivate func refuses(_ transactionId: String) -> Bool {
        purchases.contains { $0.transactionId == transactionId && holdings.refused.contains($0.chainName) }
    }
}

// MARK: - Bodies

/// `{"productId", "offerIdentifier", "transactionId"?, "appAccountToken"?, "version"?}`.
private struct PromotionalOfferRequest: Sendable {
    let offer: PromotionalOffer
    let transactionId: String?
    let appAccountToken: String?
    /// The version of the signature: 2 for a JWS, 1 for the original form.
    let version: Int64

    init(_ members: BodyMembers) throws(Refusal) {
        offer = PromotionalOffer(
            productId: try members.text("productId") ?? "", offerIdentifier: try members.text("offerIdentifier") ?? "")
        transactionId = try members.text("transactionId")
        appAccountToken = try members.text("appAccountToken")?.lowercased()
        version = members.json["version"].map { $0.integer ?? 0 } ?? 2
        guard [1, 2].contains(version) else { throw .invalid("version is neither 1 nor 2.") }
        guard version == 2 || transactionId == nil, version == 1 || appAccountToken == nil else {
            throw .invalid("transactionId is for version 2, appAccountToken for version 1.")
        }
    }

    func signed(by signer: StoreKitSigner, nonce: String, at now: Timestamp) throws(SigningError) -> SignatureBody {
        if version == 1 {
            return .promotionalOfferV1(
                try signer.promotionalOfferV1(offer, appAccountToken: appAccountToken, nonce: nonce, at: now))
        }
        return .jws(try signer.promotionalOffer(offer, transactionId: transactionId, nonce: nonce, at: now))
    }
}

extension Refusal {
    fileprivate static let offerNotAllowed = Refusal(
        .offerNotAllowed,
        "With a client key, only the clientOffers of the product in the server's configuration are signed.")

    fileprivate static let offerOfRefusedPurchase = Refusal(
        .offerNotAllowed,
        "The purchase of transactionId is refused: it was denied, or the configuration has it in refusedPurchases.")

    fileprivate static func offerForOtherCustomer(_ message: String) -> Refusal {
        Refusal(.otherCustomer, message)
    }
}
