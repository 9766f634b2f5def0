// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The terms of a subscription's next renewal, with the names and values of Apple's renewal info. Answers and events
/// have them as `renewal`. They say what the renewal would cost, also if the subscription will not renew. A member is
/// absent if no document says it.
public struct RenewalTerms: Hashable, Sendable, Codable {
    /// The product of the next period.
    public var autoRenewProductId: String?
    /// The price of the next period after any offer, in thousandths of ``currency``.
    public var renewalPrice: Int64?
    /// The ISO 4217 code of the price's currency.
    public var currency: String?
    /// The kind of offer for the next period.
    public var offerType: Open<OfferType>?
    /// The offer's id in App Store Connect; introductory offers have no id.
    public var offerIdentifier: String?
    /// The payment mode of the offer, such as `FREE_TRIAL`.
    public var offerDiscountType: Open<OfferDiscountType>?
    /// The length of the offer as an ISO 8601 duration, such as `P1M`.
    public var offerPeriod: String?
    /// The customer's answer to a price increase; `nil` if there is no increase.
    public var priceIncreaseStatus: Open<PriceIncreaseStatus>?
    /// The number of seats in the next period; only for multi-seat subscriptions.
    public var renewalQuantity: Int?
    /// The win-back offers that the customer may get, in Apple's order: the best first.
    public var eligibleWinBackOfferIds: [String]?

    /// Makes terms without members.
    public init() {}

    init(_ payload: JWSRenewalInfoDecodedPayload) {
        autoRenewProductId = payload.autoRenewProductId
        renewalPrice = payload.renewalPrice
        currency = payload.currency
        offerType = payload.offerType
        offerIdentifier = payload.offerIdentifier
        offerDiscountType = payload.offerDiscountType
        offerPeriod = payload.offerPeriod
        priceIncreaseStatus = payload.priceIncreaseStatus
        renewalQuantity = payload.renewalQuantity
        eligibleWinBackOfferIds = payload.eligibleWinBackOfferIds
    }

    /// The terms; `nil` without a member.
    var orNone: RenewalTerms? { self == RenewalTerms() ? nil : self }

    /// The terms without all members but the product; `nil` without a product.
    var productAlone: RenewalTerms? {
        var terms = RenewalTerms()
        terms.autoRenewProductId = autoRenewProductId
        return terms.orNone
    }

    /// Writes the terms as an object.
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("autoRenewProductId", autoRenewProductId)
            writer.member("renewalPrice", renewalPrice)
            writer.member("currency", currency)
            writer.member("offerType", (offerType?.rawValue).map(Int64.init))
            writer.member("offerIdentifier", offerIdentifier)
            writer.member("offerDiscountType", offerDiscountType?.rawValue)
            writer.member("offerPeriod", offerPeriod)
            writer.member("priceIncreaseStatus", (priceIncreaseStatus?.rawValue).map(Int64.init))
            writer.member("renewalQuantity", renewalQuantity.map(Int64.init))
            guard let eligibleWinBackOfferIds else { return }
            writer.name("eligibleWinBackOfferIds")
            writer.array(eligibleWinBackOfferIds) { $0.string($1) }
        }
    }
}

extension RenewalTerms: Storable {
    @usableFromInline
    package init?(_ stored: StoredValue) {
        // Any error means that the text was not written by this type.
        guard case .text(let text) = stored,
            let terms = try? JSONValue(readable: text.utf8)?.decode(Self.self)
        else { return nil }
        self = terms
    }

    /// The terms as JSON, because most of them are absent in most chains.
    @usableFromInline package var stored: StoredValue {
        var writer = JSONWriter()
        write(to: &writer)
        return .text(String(decoding: writer.bytes, as: UTF8.self))
    }
}
