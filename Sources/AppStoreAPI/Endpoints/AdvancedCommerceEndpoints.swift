// SPDX-License-Identifier: Apache-2.0

// Endpoints of the Advanced Commerce API. An endpoint for subscriptions accepts any transaction id of the subscription.
// Each body has an id chosen by the app's server, `requestInfo.requestReferenceId`. Reuse an id only to repeat a
// request that got no answer.

public import AppStoreModel

extension Endpoint where Answer == AdvancedCommerceSubscriptionResponse {
    /// Cancel a Subscription: turns auto-renewal off.
    public static func cancelSubscription(
        _ body: AdvancedCommerceSubscriptionCancelRequest, of transactionId: String
    ) -> Self {
        subscription("Cancel a Subscription", "cancel", transactionId, body, rate: 5)
    }

    /// Change Subscription Metadata: names, descriptions, SKUs or the tax code.
    public static func changeSubscriptionMetadata(
        _ body: AdvancedCommerceSubscriptionChangeMetadataRequest, of transactionId: String
    ) -> Self {
        subscription("Change Subscription Metadata", "changeMetadata", transactionId, body, rate: 50)
    }

    /// Change Subscription Price.
    public static func changeSubscriptionPrice(
        _ body: AdvancedCommerceSubscriptionPriceChangeRequest, of transactionId: String
    ) -> Self {
        subscription("Change Subscription Price", "changePrice", transactionId, body, rate: 50)
    }

    /// Migrate a Subscription to Advanced Commerce.
    public static func migrateSubscription(
        _ body: AdvancedCommerceSubscriptionMigrateRequest, of transactionId: String
    ) -> Self {
        subscription("Migrate a Subscription", "migrate", transactionId, body, rate: 50)
    }

    /// Revoke Subscription: ends the subscription at once, with a refund.
    public static func revokeSubscription(
        _ body: AdvancedCommerceSubscriptionRevokeRequest, of transactionId: String
    ) -> Self {
        subscription("Revoke Subscription", "revoke", transactionId, body, rate: 5)
    }

    private static func subscription(
        _ name: String, _ path: String, _ id: String, _ body: some Encodable, rate: Int
    ) -> Self {
        let request = APIRequest("POST", "/advancedCommerce/v1/subscription/\(path)/*", [id])
        let row = EndpointRow(
            name: name, request: request, rate: rate, repetition: .ifUnanswered, errors: .advancedCommerce)
        return Self(row.with(body), requiring: "signedTransactionInfo")
    }
}

extension Endpoint where Answer == AdvancedCommerceRequestRefundResponse {
    /// Request Transaction Refund.
    public static func requestRefund(
        _ body: AdvancedCommerceRequestRefundRequest, of transactionId: String
    ) -> Self {
        let request = APIRequest("POST", "/advancedCommerce/v1/transaction/requestRefund/*", [transactionId])
        let row = EndpointRow(
            name: "Request Transaction Refund", request: request, rate: 5, repetition: .ifUnanswered,
            errors: .advancedCommerce)
        return Self(row.with(body), requiring: "signedTransactionInfo")
    }
}
