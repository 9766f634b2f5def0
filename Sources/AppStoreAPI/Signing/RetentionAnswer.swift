// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The answer to the App Store's real-time request for a retention message: a message to a customer who is about to
/// cancel. There are four kinds.
public enum RetentionAnswer: Hashable, Sendable {
    /// A text, with or without an image.
    case message(String)
    /// An alternate product of the same subscription group.
    case alternateProduct(message: String, productId: String, billingPlanType: Open<BillingPlanType>?)
    /// A promotional offer, signed as a JWS.
    case promotionalOffer(message: String, PromotionalOffer)
    /// A change of an Advanced Commerce subscription. Apple requires exactly one item in `changeItems`.
    case advancedCommerce(message: String, AdvancedCommerceSubscriptionModifyInAppRequest)

    /// Apple's JSON object for the answer, signed if necessary.
    ///
    /// - Parameters:
    ///   - signer: Signs promotional offers and Advanced Commerce changes; messages and alternate products need no
    ///     signer.
    ///   - transactionId: The original transaction id in Apple's request. A promotional offer requires the id, so that
    ///     the offer is for this customer alone.
    ///   - nonce: A new UUID.
    /// - Throws: ``SigningError`` if an identifier is missing or no UUID, or the offer cannot be signed.
    @inline(never)
    public func body(
        signedBy signer: StoreKitSigner?, for transactionId: String?, nonce: String, at now: Timestamp
    ) throws(SigningError) -> RealtimeResponseBody {
        try SigningError.requireUUID(messageIdentifier, "messageIdentifier")
        var body = RealtimeResponseBody()
        switch self {
        case .message(let message):
            body.message = .init()
            body.message?.messageIdentifier = message
        case .alternateProduct(let message, let productId, let plan):
            try SigningError.require(productId, "productId")
            body.alternateProduct = .init()
            body.alternateProduct?.messageIdentifier = message
            body.alternateProduct?.productId = productId
            body.alternateProduct?.billingPlanType = plan
        case .promotionalOffer(let message, let offer):
            // Without the transaction id the offer would be valid for any customer.
            try SigningError.require(transactionId ?? "", "originalTransactionId")
            body.promotionalOffer = .init()
            body.promotionalOffer?.messageIdentifier = message
            body.promotionalOffer?.promotionalOfferSignatureV2 = try Self.required(signer).promotionalOffer(
                offer, transactionId: transactionId, nonce: nonce, at: now)
        case .advancedCommerce(let message, let request):
            guard request.changeItems?.count == 1 else {
                throw SigningError(.invalid, "changeItems", "A retention answer has exactly one.")
            }
            body.advancedCommerceInfo = .init()
            body.advancedCommerceInfo?.messageIdentifier = message
            body.advancedCommerceInfo?.advancedCommerceData = try Self.required(signer).advancedCommerceData(
                .modifySubscription(request), nonce: nonce, at: now)
        }
        return body
    }

    /// Whether the answer needs a signature of the app's key.
    package var isSigned: Bool {
        switch self {
        case .message, .alternateProduct: false
        case .promotionalOffer, .advancedCommerce: true
        }
    }

    /// The UUID of the message.
    package var messageIdentifier: String {
        switch self {
        case .message(let message), .alternateProduct(let message, _, _), .promotionalOffer(let message, _),
            .advancedCommerce(let message, _):
            message
        }
    }

    private static func required(_ signer: StoreKitSigner?) throws(SigningError) -> StoreKitSigner {
        guard let signer else { throw SigningError(.unsigned, "There is no key to sign the offer with.") }
        return signer
    }
}
