// SPDX-License-Identifier: Apache-2.0

import CZlib
import Synchronization

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
    private static let window = -MAX_WBITS

    private static let compressors = Mutex<[Compressor]>([])
    private static let decompressors = Mutex<[Decompressor]>([])

    /// `nil` where zlib has no memory.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        guard let compressor = compressors.withLock({ $0.popLast() }) ?? Compressor(window: window) else { return nil }
        defer { compressors.withLock { $0.append(compressor) } }
        return compressor.compress(bytes, with: dictionary)
    }

    /// - Parameter count: How many bytes come out: no more are made, however long the input would go on.
    /// - Returns: `nil` where it is not what ``compress(_:)`` made of so many bytes.
    static func decompress(_ bytes: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
        guard let decompressor = decompressors.withLock({ $0.popLast() }) ?? Decompressor(window: window) else {
            return nil
        }
        defer { decompressors.withLock { $0.append(decompressor) } }
        return decompressor.decompress(bytes, count: count, with: dictionary)
    }
}

/// A stream of zlib's, which is used again and again: making one, with the memory that it needs, takes longer than
/// compressing a payload.
///
/// Sendable though it has state, since whoever uses one has taken it out of the pool.
private class Stream: @unchecked Sendable {
    /// Where it stays: zlib's own state points back at it.
    fileprivate let state = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)

    fileprivate init?(_ start: (UnsafeMutablePointer<z_stream>) -> Int32) {
        state.initialize(to: z_stream())
        guard start(state) == Z_OK else { return nil }
    }

    deinit {
        state.deallocate()
    }

    fileprivate func run(
        on bytes: ArraySlice<UInt8>, capacity: Int, _ step: (UnsafeMutablePointer<z_stream>, Int32) -> Int32
    ) -> [UInt8]? {
        var code = Z_OK
        let result = bytes.withUnsafeBufferPointer { input in
            [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
                state.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                state.pointee.avail_in = UInt32(input.count)
                state.pointee.next_out = output.baseAddress
                state.pointee.avail_out = UInt32(capacity)
                code = step(state, Z_FINISH)
                count = capacity - Int(state.pointee.avail_out)
            }
        }
        return code == Z_STREAM_END ? result : nil
    }
}

private final class Compressor: Stream, @unchecked Sendable {
    /// With a table of 16 KiB, which is emptied for every payload, in place of 64 KiB for long texts, and a search that does
    /// not look for the very best: some bytes more, in half of the time.
    convenience init?(window: Int32) {
        let (level, memory) = (Int32(3), Int32(6))
        let version = (ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        self.init { state in
            deflateInit2_(
                state, level, Z_DEFLATED, window, memory, Z_DEFAULT_STRATEGY, version.0, version.1)
        }
    }

    deinit {
        deflateEnd(state)
    }

    func compress(_ bytes: [UInt8], with dictionary: [UInt8]) -> [UInt8]? {
        guard deflateReset(state) == Z_OK,
            deflateSetDictionary(state, dictionary, UInt32(dictionary.count)) == Z_OK
        else { return nil }
        return run(on: bytes[...], capacity: Int(deflateBound(state, UInt(bytes.count))), deflate)
    }
}

private final class Decompressor: Stream, @unchecked Sendable {
    convenience init?(window: Int32) {
        self.init { inflateInit2_($0, window, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) }
    }

    deinit {
        inflateEnd(state)
    }

    func decompress(_ bytes: ArraySlice<UInt8>, count: Int, with dictionary: [UInt8]) -> [UInt8]? {
        guard inflateReset(state) == Z_OK,
            inflateSetDictionary(state, dictionary, UInt32(dictionary.count)) == Z_OK
        else { return nil }
        // One more byte, so that the end is seen also where nothing comes out.
        let result = run(on: bytes, capacity: count + 1, inflate)
        return result?.count == count ? result : nil
    }
}
