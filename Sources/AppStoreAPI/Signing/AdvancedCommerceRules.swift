// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Apple's rules for the Advanced Commerce requests of an app. The API has an error code for each of these rules. Only
// documented rules are checked; the App Store enforces more.

/// Checks single values of a request.
private struct AdvancedCommerceRules {
    /// Apple's maximum lengths of texts, in characters.
    static let description = 45
    static let displayName = 30
    static let SKU = 128
    /// The maximum number of periods of an offer.
    static let offerPeriods = 12
    /// The only version of these requests.
    static let version = "1"

    /// The ISO 4217 code of the prices; `nil` if the request has none.
    var currency: String?

    static func head(
        _ operation: String?, _ version: String?, _ info: AdvancedCommerceRequestInfo, expected: String
    ) throws(SigningError) {
        guard operation == expected else { throw SigningError(.invalid, "operation", "Expected \(expected).") }
        guard version == Self.version else { throw SigningError(.invalid, "version", "Expected “\(Self.version)”.") }
        try SigningError.requireUUID(info.requestReferenceId, "requestInfo.requestReferenceId")
        if let account = info.appAccountToken { try SigningError.requireUUID(account, "requestInfo.appAccountToken") }
    }

    /// - Parameter limit: The maximum number of characters, counted as grapheme clusters. Apple does not document how
    ///   it counts. Grapheme clusters give the lowest count, so that no text is refused here that Apple would accept.
    static func text(_ text: String?, upTo limit: Int, _ member: String) throws(SigningError) {
        try SigningError.require(text, member)
        guard (text ?? "").count <= limit else {
            throw SigningError(.invalid, member, "The value has more than \(limit) characters.")
        }
    }

    static func item(
        _ SKU: String, _ description: String, _ displayName: String, _ member: String
    ) throws(SigningError) {
        try text(SKU, upTo: self.SKU, "\(member).SKU")
        try text(description, upTo: self.description, "\(member).description")
        try text(displayName, upTo: self.displayName, "\(member).displayName")
    }

    static func references(
        _ items: [AdvancedCommerceSubscriptionItemReference], _ member: String
    ) throws(SigningError) {
        for (index, item) in items.enumerated() { try text(item.SKU, upTo: SKU, "\(member)[\(index)].SKU") }
    }

    /// Checks a price: not negative, and without more decimals than the currency has.
    func price(_ price: Int64?, _ member: String) throws(SigningError) {
        guard let price else { return }
        guard price >= 0 else { throw SigningError(.invalid, member, "It is negative.") }
        guard let unit = currency.flatMap(Self.unit), !price.isMultiple(of: unit) else { return }
        throw SigningError(
            .invalid, member,
            "The value is no multiple of \(unit) milliunits, the smallest amount of \(currency ?? "").")
    }

    func offer(_ offer: AdvancedCommerceOffer?, _ member: String) throws(SigningError) {
        guard let offer else { return }
        try SigningError.require(offer.period, "\(member).period")
        try SigningError.require(offer.reason?.rawValue, "\(member).reason")
        guard let count = offer.periodCount, let amount = offer.price else {
            throw SigningError(.missing, member, "The offer needs periodCount and price.")
        }
        guard (1...Self.offerPeriods).contains(count) else {
            throw SigningError(.invalid, "\(member).periodCount", "Expected 1 to \(Self.offerPeriods).")
        }
        try price(amount, "\(member).price")
        guard amount > 0 || count == 1 else {
            throw SigningError(.invalid, "\(member).periodCount", "A free trial has one period.")
        }
    }

    /// The smallest amount of a currency in milliunits; `nil` if Apple's lists lack the currency.
    private static func unit(of currency: String) -> Int64? {
        if withoutDecimals.contains(currency) { return 1000 }
        return withTwoDecimals.contains(currency) ? 10 : nil
    }

    private static let withoutDecimals = currencies(
        "CLP COP DKK HKD HUF IDR INR JPY KRW KZT MXN NGN NOK PHP PKR RUB SEK THB TWD TZS VND")
    private static let withTwoDecimals = currencies(
        "AED AUD BGN BRL CAD CHF CNY CZK EGP EUR GBP ILS MYR NZD PEN PLN QAR RON SAR SGD TRY USD ZAR")

    private static func currencies(_ codes: String) -> Set<String> { Set(codes.split(separator: " ").map(String.init)) }
}

// MARK: - The four requests

extension AdvancedCommerceOneTimeChargeCreateRequest {
    func check(_ expected: String) throws(SigningError) {
        try AdvancedCommerceRules.head(operation, version, requestInfo, expected: expected)
        try SigningError.require(currency, "currency")
        try SigningError.require(taxCode, "taxCode")
        try AdvancedCommerceRules.item(item.SKU, item.description, item.displayName, "item")
        try AdvancedCommerceRules(currency: currency).price(item.price, "item.price")
    }
}

extension AdvancedCommerceSubscriptionCreateRequest {
    func check(_ expected: String) throws(SigningError) {
        try AdvancedCommerceRules.head(operation, version, requestInfo, expected: expected)
        for (text, member) in [(currency, "currency"), (taxCode, "taxCode"), (period, "period")] {
            try SigningError.require(text, member)
        }
        try AdvancedCommerceRules.text(
            descriptors.description, upTo: AdvancedCommerceRules.description, "descriptors.description")
        try AdvancedCommerceRules.text(
            descriptors.displayName, upTo: AdvancedCommerceRules.displayName, "descriptors.displayName")
        guard !items.isEmpty else { throw SigningError(.missing, "items", "The list is empty: add an item.") }
        let rules = AdvancedCommerceRules(currency: currency)
        for (index, item) in items.enumerated() {
            let member = "items[\(index)]"
            try AdvancedCommerceRules.item(item.SKU, item.description, item.displayName, member)
            try rules.price(item.price, "\(member).price")
            try rules.offer(item.offer, "\(member).offer")
        }
    }
}

extension AdvancedCommerceSubscriptionModifyInAppRequest {
    func check(_ expected: String) throws(SigningError) {
        try AdvancedCommerceRules.head(operation, version, requestInfo, expected: expected)
        try SigningError.require(transactionId, "transactionId")
        let isEmpty = [addItems?.isEmpty, changeItems?.isEmpty, removeItems?.isEmpty].allSatisfy { $0 ?? true }
        guard !isEmpty || descriptors != nil || periodChange != nil else {
            throw SigningError(
                .missing, "The request needs addItems, changeItems, removeItems, descriptors or periodChange.")
        }
        try checkItems(AdvancedCommerceRules(currency: currency))
        try AdvancedCommerceRules.references(removeItems ?? [], "removeItems")
        for (text, limit, member) in [
            (descriptors?.description, AdvancedCommerceRules.description, "descriptors.description"),
            (descriptors?.displayName, AdvancedCommerceRules.displayName, "descriptors.displayName"),
        ] where text != nil {
            try AdvancedCommerceRules.text(text, upTo: limit, member)
        }
        if let periodChange { try SigningError.require(periodChange.period, "periodChange.period") }
    }

    private func checkItems(_ rules: AdvancedCommerceRules) throws(SigningError) {
        for (index, item) in (addItems ?? []).enumerated() {
            let member = "addItems[\(index)]"
            try AdvancedCommerceRules.item(item.SKU, item.description, item.displayName, member)
            try rules.price(item.price, "\(member).price")
            try rules.price(item.proratedPrice, "\(member).proratedPrice")
            try rules.offer(item.offer, "\(member).offer")
        }
        for (index, item) in (changeItems ?? []).enumerated() {
            let member = "changeItems[\(index)]"
            try AdvancedCommerceRules.text(
                item.currentSKU, upTo: AdvancedCommerceRules.SKU, "\(member).currentSKU")
            try AdvancedCommerceRules.item(item.SKU, item.description, item.displayName, member)
            try rules.price(item.price, "\(member).price")
            try rules.price(item.proratedPrice, "\(member).proratedPrice")
            try rules.offer(item.offer, "\(member).offer")
        }
    }
}

extension AdvancedCommerceSubscriptionReactivateInAppRequest {
    func check(_ expected: String) throws(SigningError) {
        try AdvancedCommerceRules.head(operation, version, requestInfo, expected: expected)
        try SigningError.require(transactionId, "transactionId")
        try AdvancedCommerceRules.references(items ?? [], "items")
    }
}
