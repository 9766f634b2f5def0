// SPDX-License-Identifier: Apache-2.0

import CZlib

/// DEFLATE (RFC 1951) with a dictionary of what App Store payloads say again and again. One of 1 KB comes down to a third, of
/// which most is its ids.
enum Deflate {
    /// Part of what is on disk: another dictionary is another form of ``Packing``, and never a change of this one.
    ///
    /// What is nearest to the end costs least, so the commonest comes last.
    private static let dictionary = Array(
        (#"<key></key><string></string>"appData":{"signedAppTransactionInfo":"#
            + #","applicationVersion":"","originalApplicationVersion":"","deviceVerification":""#
            + #","deviceVerificationNonce":"","receiptType":","receiptCreationDate":,"requestDate":"#
            + #""consumptionRequestReason":"UNINTENDED_PURCHASE","externalPurchaseToken":{"externalPurchaseId":""#
            + #"CONSUMPTION_REQUEST","REFUND","REVOKE","PRICE_INCREASE","OFFER_REDEEMED","RENEWAL_EXTENDED","#
            + #""DID_CHANGE_RENEWAL_PREF","GRACE_PERIOD_EXPIRED","subtype":"GRACE_PERIOD","VOLUNTARY","#
            + #""BILLING_RETRY","UPGRADE","DOWNGRADE","RESUBSCRIBE","BILLING_RECOVERY","AUTO_RENEW_ENABLED","#
            + #""revocationReason":0,"revocationDate":1,"revocationType":"REFUND_PRORATED","revocationPercentage":"#
            + #""REFUND_FULL","isUpgraded":true,"offerDiscountType":"FREE_TRIAL","PAY_AS_YOU_GO","PAY_UP_FRONT","#
            + #""offerType":1,"offerPeriod":"P1M","offerIdentifier":"","Non-Consumable","Consumable","#
            + #""Non-Renewing Subscription","FAMILY_SHARED","Sandbox","eligibleWinBackOfferIds":["#
            + #""billingPlanType":","commitmentInfo":{"billingPeriodNumber":1,"totalBillingPeriods":12,"#
            + #""commitmentExpiresDate":1,"commitmentPrice":,"priceIncreaseStatus":0,"expirationIntent":1,"#
            + #""isInBillingRetryPeriod":true,"gracePeriodExpiresDate":1,"isInBillingRetryPeriod":false,"#
            + #"{"notificationType":"DID_FAIL_TO_RENEW","notificationType":"EXPIRED","#
            + #"{"notificationType":"SUBSCRIBED","subtype":"INITIAL_BUY","#
            + #"{"notificationType":"DID_CHANGE_RENEWAL_STATUS","subtype":"AUTO_RENEW_DISABLED","#
            + #"{"notificationType":"DID_RENEW","notificationUUID":"","data":{"appAppleId":1,"bundleId":""#
            + #"","bundleVersion":"1","environment":"Production","signedTransactionInfo":"","signedRenewalInfo":"","#
            + #""status":1},"version":"2.0","signedDate":17"#
            + #"{"originalTransactionId":"","autoRenewProductId":"com.","productId":"com.","autoRenewStatus":1,"#
            + #""renewalPrice":9990,"currency":"USD","signedDate":17,"environment":"Production","#
            + #""recentSubscriptionStartDate":17,"renewalDate":17,"appTransactionId":"","appAccountToken":""}"#
            + #"{"transactionId":"","originalTransactionId":"","webOrderLineItemId":"","bundleId":"com."#
            + #"","productId":"com.","subscriptionGroupIdentifier":"2","purchaseDate":17,"#
            + #""originalPurchaseDate":17,"expiresDate":17,"quantity":1,"type":"Auto-Renewable Subscription","#
            + #""appAccountToken":"","inAppOwnershipType":"PURCHASED","signedDate":17,"environment":"Production","#
            + #""transactionReason":"PURCHASE","storefront":"USA","storefrontId":"143441","price":9990,"#
            + #""currency":"USD","appTransactionId":"70"}"#).utf8)

    /// No header and no checksum: the ledger knows a document's digest.
    private static let rawWindow = -MAX_WBITS

    /// `nil` where zlib has no memory.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        let version = (ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        guard
            deflateInit2_(
                &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, rawWindow, 8, Z_DEFAULT_STRATEGY, version.0, version.1)
                == Z_OK
        else { return nil }
        defer { deflateEnd(&stream) }
        guard deflateSetDictionary(&stream, dictionary, UInt32(dictionary.count)) == Z_OK else { return nil }
        return run(&stream, on: bytes[...], capacity: Int(deflateBound(&stream, UInt(bytes.count))), deflate)
    }

    /// - Parameter count: How many bytes come out: no more are made, however long the input would go on.
    /// - Returns: `nil` where it is not what ``compress(_:)`` made of so many bytes.
    static func decompress(_ bytes: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
        var stream = z_stream()
        guard inflateInit2_(&stream, rawWindow, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { return nil }
        defer { inflateEnd(&stream) }
        guard inflateSetDictionary(&stream, dictionary, UInt32(dictionary.count)) == Z_OK else { return nil }
        // One more byte, so that the end is seen also where nothing comes out.
        let result = run(&stream, on: bytes, capacity: count + 1, inflate)
        return result?.count == count ? result : nil
    }

    private static func run(
        _ stream: inout z_stream, on bytes: ArraySlice<UInt8>, capacity: Int,
        _ step: (UnsafeMutablePointer<z_stream>, Int32) -> Int32
    ) -> [UInt8]? {
        var code = Z_OK
        let result = bytes.withUnsafeBufferPointer { input in
            [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(capacity)
                code = step(&stream, Z_FINISH)
                count = capacity - Int(stream.avail_out)
            }
        }
        return code == Z_STREAM_END ? result : nil
    }
}
