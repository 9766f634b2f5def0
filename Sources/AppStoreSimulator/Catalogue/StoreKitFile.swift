// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Reads the configuration files of StoreKit Testing in Xcode, format versions 3 to 5. Apple does not document the
// format. The code below reads members that were seen in files that Xcode wrote, and ignores all others.

extension StoreCatalogue {
    /// The products of a `.storekit` file.
    ///
    /// The file does not contain the app's bundle identifier. Its `_applicationInternalID`, if present, is the app's
    /// Apple ID.
    ///
    /// - Parameters:
    ///   - text: The file: JSON.
    ///   - bundleId: The bundle identifier of the app that sells the products.
    ///   - appAppleId: The app's Apple ID if the file has none.
    /// - Throws: ``SimulatorError`` if the text is not a `.storekit` file. The error names the missing or invalid
    ///   member.
    public init(storeKitFile text: [UInt8], bundleId: String, appAppleId: Int64) throws(SimulatorError) {
        let file: JSONValue
        do { file = try JSONValue(parsing: text) } catch { throw SimulatorError("not JSON: \(error)") }
        guard let version = file["version"]?["major"]?.integer else {
            throw SimulatorError("'version' is missing: this is not a .storekit file")
        }
        guard (3...5).contains(version) else {
            throw SimulatorError("format version \(version) is not 3, 4 or 5")
        }
        let settings = file["settings"]
        self.init(
            bundleId: bundleId,
            appAppleId: settings?["_applicationInternalID"]?.string.flatMap { Int64($0) } ?? appAppleId)
        if settings?["_billingGracePeriodEnabled"] == .bool(true) { graceDays = .sixteen }
        if let country = settings?["_storefront"]?.string,
            let storefront = Storefront.known.first(where: { $0.country == country })
        {
            self.storefront = storefront
        }
        let once = (file["products"]?.array ?? []) + (file["nonRenewingSubscriptions"]?.array ?? [])
        for product in once { add(try StoreProduct(product)) }
        for group in file["subscriptionGroups"]?.array ?? [] {
            for (index, plan) in (group["subscriptions"]?.array ?? []).enumerated() {
                add(try StoreProduct(subscription: plan, group: group, position: index + 1))
            }
        }
    }
}

extension StoreProduct {
    private static let types: [String: ProductType] = [
        "Consumable": .consumable, "NonConsumable": .nonConsumable,
        "NonRenewingSubscription": .nonRenewingSubscription, "RecurringSubscription": .autoRenewableSubscription,
    ]

    fileprivate init(_ json: JSONValue) throws(SimulatorError) {
        let id = try json.text("productID", of: "a product")
        let name = try json.text("type", of: id)
        guard let type = Self.types[name] else { throw SimulatorError("'type' of \(id) is unknown: \(name)") }
        self.init(id: id, type: type, price: try json.price(of: id))
        isFamilyShareable = json["familyShareable"] == .bool(true)
    }

    fileprivate init(subscription json: JSONValue, group: JSONValue, position: Int) throws(SimulatorError) {
        try self.init(json)
        let groupId = try group.text("id", of: "a subscription group")
        var plan = SubscriptionPlan(
            group: json["subscriptionGroupID"]?.string ?? groupId,
            level: json["groupNumber"]?.integer.flatMap { Int(exactly: $0) } ?? position,
            period: try json.period("recurringSubscriptionPeriod", of: id))
        if let offer = json["introductoryOffer"], offer != .null {
            plan.introductoryOffer = try StoreOffer(offer, .introductory, name: nil, of: id)
        }
        let monthly = (json["billingPlans"]?.array ?? []).first {
            $0["billingPlanType"]?.string == BillingPlanType.monthly.rawValue && $0["isEnabled"] != .bool(false)
        }
        if let monthly, let whole = monthly["commitmentDisplayPrice"]?.string.flatMap({ StorePrice(decimal: $0) }) {
            plan.monthly = MonthlyPlan(
                price: try monthly.price(of: "the monthly plan of \(id)"), commitmentPrice: whole)
        }
        self.plan = plan
        for (member, type, name) in [
            ("adHocOffers", OfferType.promotional, "offerID"), ("codeOffers", .offerCode, "referenceName"),
        ] {
            for offer in json[member]?.array ?? [] {
                offers.append(try StoreOffer(offer, type, name: name, of: id))
            }
        }
    }
}

extension StoreOffer {
    private static let payments: [String: OfferDiscountType] = [
        "free": .freeTrial, "payAsYouGo": .payAsYouGo, "payUpFront": .payUpFront,
    ]

    fileprivate init(
        _ json: JSONValue, _ type: OfferType, name: String?, of product: String
    ) throws(SimulatorError) {
        let owner = "an offer of \(product)"
        let mode = try json.text("paymentMode", of: owner)
        guard let payment = Self.payments[mode] else {
            throw SimulatorError("'paymentMode' of \(owner) is unknown: \(mode)")
        }
        self.init(
            type: type, id: try name.map { member throws(SimulatorError) in try json.text(member, of: owner) },
            payment: payment, period: try json.period("subscriptionPeriod", of: owner),
            price: payment == .freeTrial ? StorePrice(milliunits: 0) : try json.price(of: owner))
        count = json["numberOfPeriods"]?.integer.flatMap { Int(exactly: $0) } ?? 1
    }
}

extension JSONValue {
    fileprivate func text(_ member: String, of owner: String) throws(SimulatorError) -> String {
        guard let text = self[member]?.string else { throw SimulatorError("'\(member)' of \(owner) is missing") }
        return text
    }

    fileprivate func period(_ member: String, of owner: String) throws(SimulatorError) -> Period {
        let text = try text(member, of: owner)
        guard let period = Period(iso8601: text) else {
            throw SimulatorError("'\(member)' of \(owner) is not a period such as P1M: \(text)")
        }
        return period
    }

    fileprivate func price(of owner: String) throws(SimulatorError) -> StorePrice {
        let text = try text("displayPrice", of: owner)
        guard let price = StorePrice(decimal: text) else {
            throw SimulatorError("'displayPrice' of \(owner) is not a price such as 4.99: \(text)")
        }
        return price
    }
}
