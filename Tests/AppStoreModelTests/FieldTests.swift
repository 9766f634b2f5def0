// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Testing

/// Decodes every member that Apple documents. A failure names the member that its type lacks.
@Suite struct FieldTests {
    struct Field: Sendable, CustomTestStringConvertible {
        var type: String
        var member: JSONValue.Member
        var known: RoundTrip
        var testDescription: String { "\(type).\(member.name)" }
    }

    /// Each member of `document` is a field of `type`.
    private static func fields<Payload: Codable & SendableMetatype>(
        _ type: Payload.Type, _ document: String
    ) -> [Field] {
        let json = JSONValue(readable: document.utf8)
        return (json?.members ?? []).map { member in
            Field(type: "\(type)", member: member) { json in
                try JSONValue(encoding: json.decode(Payload.self), omittingUnknown: true)
            }
        }
    }

    static let modern: [Field] = [
        fields(
            JWSTransactionDecodedPayload.self,
            """
            {"appAccountToken":"a","bundleId":"a","currency":"EUR","environment":"Sandbox","expiresDate":1,
            "inAppOwnershipType":"PURCHASED","isUpgraded":true,"offerDiscountType":"FREE_TRIAL","offerIdentifier":"a",
            "offerType":1,"originalPurchaseDate":1,"originalTransactionId":"1","price":9223372036854775807,"productId":"a",
            "purchaseDate":1,"quantity":1,"revocationDate":1,"revocationReason":0,"signedDate":1,"storefront":"DEU",
            "storefrontId":"143443","subscriptionGroupIdentifier":"1","transactionId":"1","transactionReason":"PURCHASE",
            "type":"Consumable","webOrderLineItemId":"1","appTransactionId":"1","offerPeriod":"P1M",
            "advancedCommerceInfo":{},"previousOriginalTransactionId":"1","revocationType":"REFUND_FULL",
            "revocationPercentage":100000,"billingPlanType":"MONTHLY","commitmentInfo":{},"multiSeatInfo":{},
            "additionalTransactionReason":"SEAT_ADDITION","deviceVerification":"a","deviceVerificationNonce":"a"}
            """),
        fields(
            TransactionCommitmentInfo.self,
            #"{"billingPeriodNumber":1,"totalBillingPeriods":12,"commitmentExpiresDate":1,"commitmentPrice":1}"#),
        fields(
            TransactionMultiSeatInfo.self,
            #"{"invitationManagement":"APPLE","priceTiers":[{"price":1,"x":2}],"revokedSeatQuantity":1}"#),
        fields(
            JWSRenewalInfoDecodedPayload.self,
            """
            {"originalTransactionId":"1","productId":"a","autoRenewProductId":"a","autoRenewStatus":1,"expirationIntent":1,
            "isInBillingRetryPeriod":true,"gracePeriodExpiresDate":1,"priceIncreaseStatus":0,"offerType":2,
            "offerIdentifier":"a","signedDate":1,"environment":"Production","recentSubscriptionStartDate":1,
            "renewalDate":1,"renewalPrice":1,"currency":"EUR","offerDiscountType":"PAY_UP_FRONT",
            "eligibleWinBackOfferIds":["a"],"advancedCommerceInfo":{},"appAccountToken":"a","appTransactionId":"1",
            "offerPeriod":"P1M","renewalBillingPlanType":"MONTHLY","commitmentInfo":{},"deviceVerification":"a",
            "deviceVerificationNonce":"a","renewalQuantity":2,"multiSeatInfo":{}}
            """),
        fields(
            RenewalCommitmentInfo.self,
            """
            {"commitmentAutoRenewProductId":"a","commitmentAutoRenewStatus":0,
            "commitmentRenewalBillingPlanType":"MONTHLY","commitmentRenewalDate":1,"commitmentRenewalPrice":1}
            """),
        fields(RenewalMultiSeatInfo.self, #"{"renewalPriceTiers":[{"price":1}]}"#),
        fields(
            AdvancedCommerceTransactionInfo.self,
            """
            {"descriptors":{},"estimatedTax":1,"items":[{}],"period":"P1M","requestReferenceId":"a","taxCode":"a",
            "taxExclusivePrice":1,"taxRate":"0.15"}
            """),
        fields(
            AdvancedCommerceTransactionItem.self,
            """
            {"SKU":"a","description":"a","displayName":"a","offer":{},"price":1,"refunds":[{}],"revocationDate":1}
            """),
        fields(
            AdvancedCommerceRefund.self,
            #"{"refundAmount":1,"refundDate":1,"refundReason":"LEGAL","refundType":"FULL"}"#),
        fields(AdvancedCommerceOffer.self, #"{"period":"P1M","periodCount":1,"price":1,"reason":"RETENTION"}"#),
        fields(
            AdvancedCommerceRenewalInfo.self,
            """
            {"consistencyToken":"a","descriptors":{},"items":[{}],"period":"P1M","requestReferenceId":"a","taxCode":"a"}
            """),
        fields(
            AdvancedCommerceRenewalItem.self,
            #"{"SKU":"a","description":"a","displayName":"a","offer":{},"price":1,"priceIncreaseInfo":{}}"#),
        fields(
            AdvancedCommercePriceIncreaseInfo.self, #"{"dependentSKUs":["a"],"price":1,"status":"SCHEDULED"}"#),
        fields(
            AppTransaction.self,
            """
            {"receiptType":"Sandbox","appAppleId":1,"bundleId":"a","applicationVersion":"1",
            "versionExternalIdentifier":1,"receiptCreationDate":1,"originalPurchaseDate":-62135769600000,
            "originalApplicationVersion":"1","deviceVerification":"a","deviceVerificationNonce":"a","preorderDate":1,
            "appTransactionId":"1","originalPlatform":"visionOS","storeType":"CONSUMER","requestDate":1}
            """),
        fields(
            ResponseBodyV2DecodedPayload.self,
            """
            {"notificationType":"TEST","subtype":"SUMMARY","notificationUUID":"a","version":"2.0","signedDate":1,"data":{},
            "summary":{},"externalPurchaseToken":{},"appData":{},"unclaimInfo":{}}
            """),
        fields(
            NotificationData.self,
            """
            {"appAppleId":1,"bundleId":"a","bundleVersion":"1","environment":"Sandbox","signedTransactionInfo":"a",
            "signedRenewalInfo":"a","status":1,"consumptionRequestReason":"LEGAL"}
            """),
        fields(
            NotificationSummary.self,
            """
            {"environment":"Sandbox","appAppleId":1,"bundleId":"a","productId":"a","requestIdentifier":"a",
            "storefrontCountryCodes":["DEU"],"succeededCount":1,"failedCount":1}
            """),
        fields(
            ExternalPurchaseToken.self,
            """
            {"externalPurchaseId":"a","tokenCreationDate":1,"appAppleId":1,"bundleId":"a","tokenType":"SERVICES",
            "tokenExpirationDate":1}
            """),
        fields(
            NotificationAppData.self,
            #"{"appAppleId":1,"bundleId":"a","environment":"Sandbox","signedAppTransactionInfo":"a"}"#),
        fields(UnclaimInfo.self, #"{"unclaimSeatIds":["a"]}"#),
        fields(
            DecodedRealtimeRequestBody.self,
            """
            {"originalTransactionId":"1","appAppleId":1,"productId":"a","userLocale":"en-US","requestIdentifier":"a",
            "environment":"Sandbox","signedDate":1}
            """),
        fields(
            RealtimeResponseBody.self,
            #"{"message":{},"alternateProduct":{},"promotionalOffer":{},"advancedCommerceInfo":{}}"#),
        fields(
            RealtimeResponseBody.PromotionalOffer.self,
            #"{"messageIdentifier":"a","promotionalOfferSignatureV2":"a","promotionalOfferSignatureV1":{}}"#),
        fields(
            RealtimeResponseBody.PromotionalOfferSignatureV1.self,
            """
            {"encodedSignature":"a","productId":"a","nonce":"a","timestamp":1,"keyId":"a","offerIdentifier":"a",
            "appAccountToken":"a"}
            """),
        fields(
            NotificationHistoryResponseItem.self,
            #"{"signedPayload":"a","sendAttempts":[{}],"firstSendAttemptResult":"SUCCESS"}"#),
        fields(CustomerGroup.self, #"{"groupId":"1","groupType":"ORGANIZATION","roles":[{}]}"#),
    ].flatMap(\.self)

    static let legacy: [Field] = [
        fields(
            VerifyReceiptResponse.self,
            """
            {"status":0,"environment":"Sandbox","is_retryable":true,"receipt":{},"latest_receipt_info":[],
            "latest_receipt":"a","pending_renewal_info":[]}
            """),
        fields(
            Receipt.self,
            """
            {"receipt_type":"ProductionSandbox","adam_id":1,"app_item_id":1,"bundle_id":"a","application_version":"1",
            "download_id":503312345678901234,"version_external_identifier":1,"receipt_creation_date_ms":"1",
            "request_date_ms":"1","original_purchase_date_ms":"1","original_application_version":"1","preorder_date_ms":"1",
            "expiration_date_ms":"1","in_app":[]}
            """),
        fields(
            LatestReceiptInfo.self,
            """
            {"app_account_token":"a","cancellation_date_ms":"1","cancellation_reason":"0","expires_date_ms":"1",
            "in_app_ownership_type":"PURCHASED","is_in_intro_offer_period":"false","is_trial_period":"true",
            "is_upgraded":"true","offer_code_ref_name":"a","original_purchase_date_ms":"1","original_transaction_id":"1",
            "product_id":"a","promotional_offer_id":"a","purchase_date_ms":"1","quantity":"1",
            "subscription_group_identifier":"1","transaction_id":"1","web_order_line_item_id":"1"}
            """),
        fields(
            PendingRenewalInfo.self,
            """
            {"auto_renew_product_id":"a","auto_renew_status":"1","expiration_intent":"1",
            "grace_period_expires_date_ms":"1","is_in_billing_retry_period":"0","offer_code_ref_name":"a",
            "original_transaction_id":"1","price_consent_status":"0","price_increase_status":"1","product_id":"a",
            "promotional_offer_id":"a"}
            """),
        fields(
            VerifyTransactionReceiptResponse.self,
            """
            {"status":21006,"receipt":{},"latest_receipt_info":{},"latest_expired_receipt_info":{},"latest_receipt":"a",
            "auto_renew_status":1,"auto_renew_product_id":"a","expiration_intent":"1","is_in_billing_retry_period":"0",
            "cancellation_reason":"1","environment":"Sandbox"}
            """),
        fields(
            TransactionReceiptInfo.self,
            """
            {"bid":"a","bvrs":"1","item_id":"1","app_item_id":"1","version_external_identifier":"0","product_id":"a",
            "quantity":"1","transaction_id":"1","original_transaction_id":"1","purchase_date_ms":"1",
            "original_purchase_date_ms":"1","expires_date":"1","web_order_line_item_id":"1","unique_identifier":"a",
            "unique_vendor_identifier":"a","is_trial_period":"false","is_in_intro_offer_period":"false",
            "subscription_group_identifier":"1","in_app_ownership_type":"PURCHASED","cancellation_date_ms":"1"}
            """),
        fields(
            ResponseBodyV1.self,
            """
            {"notification_type":"CANCEL","password":"a","environment":"PROD","auto_renew_product_id":"a",
            "auto_renew_adam_id":"1","auto_renew_status":"true","auto_renew_status_change_date_ms":"1","bid":"a","bvrs":"1",
            "expiration_intent":1,"original_transaction_id":1000000000000001,"deprecation":"a","unified_receipt":{},
            "latest_receipt":"a","latest_receipt_info":{},"latest_expired_receipt":"a","latest_expired_receipt_info":{},
            "web_order_line_item_id":"1","cancellation_date_ms":"1"}
            """),
        fields(
            UnifiedReceipt.self,
            """
            {"environment":"Production","latest_receipt":"a","latest_receipt_info":[],"pending_renewal_info":[],"status":0}
            """),
        fields(
            VerifyReceiptRequest.self, #"{"receipt-data":"a","password":"a","exclude-old-transactions":true}"#),
    ].flatMap(\.self)

    @Test(arguments: modern + legacy)
    func `a documented member is decoded and encoded`(_ field: Field) throws {
        let known = try field.known(.object([field.member]))
        #expect(known[field.member.name] == field.member.value)
    }

    @Test func `the tables have as many members as Apple's payloads`() {
        // 38, 28 and 15 are the fields of the three signed payloads in all published versions.
        #expect(Self.modern.count { $0.type == "JWSTransactionDecodedPayload" } == 38)
        #expect(Self.modern.count { $0.type == "JWSRenewalInfoDecodedPayload" } == 28)
        #expect(Self.modern.count { $0.type == "AppTransaction" } == 15)
        #expect(Self.legacy.count == 7 + 14 + 18 + 11 + 11 + 20 + 19 + 5 + 3)
    }

    @Test(arguments: [
        (APIErrorCode.transactionIdNotFound.rawValue, 4_040_010, "TransactionIdNotFoundError", false),
        (APIErrorCode.accountNotFoundRetryable.rawValue, 4_040_002, "AccountNotFoundRetryableError", true),
        (APIErrorCode.rateLimitExceeded.rawValue, 4_290_000, "RateLimitExceededError", true),
        (APIErrorCode.generalInternal.rawValue, 5_000_000, "GeneralInternalError", false),
        (APIErrorCode.invalidAppAccountTokenUUID.rawValue, 4_000_183, "InvalidAppAccountTokenUUIDError", false),
    ])
    func `an error code has a number, a name and says whether a request may be retried`(
        code: Int64, number: Int64, name: String, isRetryable: Bool
    ) {
        let open = Open<APIErrorCode>(rawValue: code)
        #expect(open.rawValue == number)
        #expect(open.known?.name == name)
        #expect(open.known?.isRetryable == isRetryable)
        #expect(open.httpStatus == Int(number) / 10_000)
    }

    @Test func `the names that start with an abbreviation are Apple's`() {
        #expect(AdvancedCommerceErrorCode(rawValue: 4_000_087)?.name == "SKULengthExceededError")
        let india = AdvancedCommerceErrorCode(rawValue: 4_000_221)
        #expect(india?.name == "ACAPriceIncreaseIsNotCurrentlySupportedInIndiaError")
        #expect(Open<AdvancedCommerceErrorCode>(rawValue: 4_999_999).known == nil)
    }
}
