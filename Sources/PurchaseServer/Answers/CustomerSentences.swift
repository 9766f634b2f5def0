// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import PurchaseLedger

// What a customer has and had, in sentences. The support answer has them, and so `quittance customer show`.

extension CustomerStory {
    /// The most sentences about purchases and grants that give nothing now.
    private static let maxPast = 8

    /// What gives access first, in the order of the entitlements' names, then all else, the newest first. Never empty.
    package func sentences(at now: Timestamp) -> [String] {
        let words = SentenceWords(story: self, now: now)
        var sentences: [String] = []
        var told: Set<String> = []
        for same in grouped {
            guard let first = same.first else { continue }
            told.insert(first.reason == .appPurchase ? answer.app?.originalTransactionId ?? "" : first.source)
            let names = same.map(\.name).joined(separator: ", ")
            sentences.append("\(names) \(words.end(first.until)): \(words.source(of: first))")
        }
        let consumables = Set(answer.holdings.consumables.map(\.chainName))
        let untold = timeLines.items.filter { !told.contains($0.id) && !consumables.contains($0.id) }
        // An ended gift rarely is why somebody asks.
        let past = (untold.filter { $0.kind != .grant } + untold.filter { $0.kind == .grant })
            .compactMap { words.sentence(about: $0) }
        sentences += past.prefix(Self.maxPast)
        let more = past.count - Self.maxPast
        if more > 0 { sentences.append("\(more) more purchases or grants, which give nothing now or no entitlement") }
        if let consumables = words.consumables { sentences.append(consumables) }
        if let unknown = words.unknown { sentences.append(unknown) }
        return sentences.isEmpty ? ["no purchases and no grants"] : sentences
    }

    /// The entitlements, those together that the same purchase or grant gives until the same instant.
    private var grouped: [[Entitlement]] {
        answer.holdings.entitlements.reduce(into: []) { groups, one in
            let index = groups.firstIndex { $0.first?.source == one.source && $0.first?.until == one.until }
            if let index { groups[index].append(one) } else { groups.append([one]) }
        }
    }
}

extension Entitlement {
    /// The id of the purchase or grant; empty for the purchase of the app.
    fileprivate var source: String { originalTransactionId ?? grantId ?? "" }
}

/// Makes the words about one customer at one instant.
private struct SentenceWords {
    let story: CustomerStory
    let now: Timestamp
    private var answer: Ledger.CustomerAnswer { story.answer }

    // MARK: What gives an entitlement

    func source(of entitlement: Entitlement) -> String {
        let line = story.timeLines.items.first { $0.id == entitlement.source }
        switch entitlement.reason {
        case .appPurchase: return joined(["purchase of the app", bought(answer.app), claimants(answer.app?.chainName)])
        case .grant:
            let since = line?.bands.first.map { " since \(day($0.from))" } ?? ""
            return "given\(since)" + (line?.marks.first.map { ", \($0.text)" } ?? "")
        case .purchase:
            let purchase = answer.purchases.last { $0.transactionId == entitlement.transactionId }
            return oneTime(purchase)
        case .subscription, .billingGrace, .stale:
            let state = subscription(entitlement.source)
            return state.map { subscription($0, line) } ?? "subscription"
        }
    }

    private func subscription(_ id: String) -> SubscriptionState? {
        answer.holdings.subscriptions[id]
            ?? answer.holdings.subscriptions.values.first { $0.governing.originalTransactionId == id }
    }

    private func subscription(_ state: SubscriptionState, _ line: TimeLine?) -> String {
        let period = state.governing
        let first = line.flatMap { $0.omitted == nil ? $0.marks.first { $0.kind == .purchase }?.at : nil }
        let name =
            period.offerWords.map { "\($0) of the subscription \(period.productId)" }
            ?? "\(period.lengthWord)subscription \(period.productId)"
        return joined([
            name, first.map { "since \(day($0))" }, shared(period),
            period.commitment.map { commitment in
                "payment \(commitment.billingPeriodNumber)" + (commitment.totalBillingPeriods.map { " of \($0)" } ?? "")
            },
            state.hasAccess ? nil : reason(of: state), state.hasAccess ? future(of: state, line) : nil,
            claimants(period.chainName),
        ])
    }

    /// What comes after the present period.
    private func future(of state: SubscriptionState, _ line: TimeLine?) -> String? {
        var words: [String?] = []
        switch state.status {
        case .billingGrace: words.append("the charge failed, and the grace period runs")
        case .stale:
            let paid = state.governing.expiresDate.map { "paid until \(day($0)), and " } ?? ""
            words.append(paid + "no document says whether it renewed")
        default: break
        }
        if state.lastPaid != state.governing { words.append("the next period is paid already") }
        if state.willRenew == true, state.status == .active {
            let terms = state.renewal
            let price = terms?.renewalPrice.map { " for \(priceWords($0, terms?.currency))" } ?? ""
            let product = terms?.autoRenewProductId.flatMap { $0 == state.governing.productId ? nil : " as \($0)" }
            words.append("renews\(product ?? "")\(price)")
        } else if state.willRenew == false {
            let date = line?.marks.last { $0.kind == .renewalDisabled }.map { " on \(day($0.at))" }
            words.append("does not renew" + (date.map { ": turned off\($0)" } ?? ""))
        }
        if state.renewal?.priceIncreaseStatus == .pending {
            words.append("the customer has not yet agreed to a price increase")
        }
        return words.isEmpty ? nil : joined(words)
    }

    /// Why a subscription gives no access.
    private func reason(of state: SubscriptionState) -> String? {
        switch state.status {
        case .billingRetry: return "the charge failed, and the App Store tries again"
        case .revoked:
            if answer.holdings.refused.contains(state.governing.chainName) { return "refused by the operator" }
            return state.governing.revocation.map { "\($0.words) on \(day($0.date))" }
        case .upgraded: return "upgraded to another subscription"
        case .stale: return "no document says whether it renewed"
        case .expired, .active, .billingGrace:
            return switch state.expirationIntent?.known {
            case .customerCancelled: "the customer cancelled"
            case .billingError: "the charge failed"
            case .noConsentToPriceIncrease: "the customer did not agree to a price increase"
            case .productNotAvailable: "the product was not available"
            case .other, nil: state.willRenew == false ? "renewal was turned off" : nil
            }
        }
    }

    // MARK: What gives none

    /// The sentence about a purchase or grant that gives no entitlement.
    func sentence(about line: TimeLine) -> String? {
        let name = line.entitlement ?? line.productId ?? "the app"
        switch line.kind {
        case .grant:
            let end = line.marks.last { $0.kind == .ended }.map { ", \($0.text) on \(day($0.at))" } ?? ""
            return "\(name) was given" + (line.marks.first.map { " \($0.text)" } ?? "") + end
        case .subscription:
            guard let state = subscription(line.id) else { return nil }
            let end = state.hasAccess ? end(state.accessUntil) : "ended on \(day(state.accessUntil ?? now))"
            return "\(name) \(end): \(subscription(state, line))"
        case .purchase:
            let purchase = answer.purchases.last { $0.originalTransactionId == line.id } ?? answer.app
            guard let purchase else { return nil }
            let access = answer.access[purchase.transactionId]
            let isLost = purchase.revocation != nil || answer.holdings.refused.contains(purchase.chainName)
            let end =
                access?.isGiven ?? false
                ? end(access?.until) : isLost ? "lost" : "ended on \(day(access?.until ?? now))"
            return "\(name) \(end): \(oneTime(purchase))"
        }
    }

    private func oneTime(_ purchase: TransactionStatement?) -> String {
        guard let purchase else { return "one-time purchase" }
        let kind = purchase.type == .nonRenewingSubscription ? "non-renewing subscription" : "one-time purchase"
        let isRefused = answer.holdings.refused.contains(purchase.chainName)
        return joined([
            purchase.isAppPurchase ? "purchase of the app" : "\(kind) \(purchase.productId)", bought(purchase),
            purchase.offerWords, shared(purchase),
            isRefused ? "refused by the operator" : purchase.revocation.map { "\($0.words) on \(day($0.date))" },
            claimants(purchase.chainName),
        ])
    }

    /// The consumables in one sentence; `nil` without any.
    var consumables: String? {
        let all = answer.holdings.consumables
        guard let last = all.compactMap(\.purchaseDate).max() else { return nil }
        let refunded = all.count { $0.revokedQuantity > 0 }
        let count = all.count == 1 ? "1 consumable" : "\(all.count) consumables"
        return joined([
            "\(count) bought", refunded > 0 ? "\(refunded) of them refunded" : nil, "the last on \(day(last))",
        ])
    }

    /// The products that the configuration lacks, if any was bought: at most five by name.
    var unknown: String? {
        let products = answer.holdings.unknownProducts.sorted()
        guard !products.isEmpty else { return nil }
        let more = products.count > 5 ? " and \(products.count - 5) more" : ""
        return "bought, and not in the configuration, so it gives nothing: "
            + products.prefix(5).joined(separator: ", ") + more
    }

    // MARK: Parts

    private func joined(_ parts: [String?]) -> String { parts.compactMap(\.self).joined(separator: ", ") }

    private func bought(_ purchase: TransactionStatement?) -> String? {
        purchase?.purchaseDate.map { "bought on \(day($0))" }
    }

    private func shared(_ purchase: TransactionStatement) -> String? {
        purchase.ownership == .familyShared ? "shared by the family" : nil
    }

    private func claimants(_ chain: String?) -> String? {
        chain.flatMap { answer.claimants[$0] }.map { "\($0) customers presented it" }
    }

    func end(_ until: Timestamp?) -> String { until.map { "until \(day($0))" } ?? "without end" }

    /// The day in UTC, with the time of an instant less than two days away.
    func day(_ instant: Timestamp) -> String { instant.words(near: now) }
}

extension Timestamp {
    private static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ]

    /// A date such as `5 February 2027`, and in the two days around `now` with the time: all in UTC.
    package func words(near now: Timestamp) -> String {
        let parts = iso8601.split(separator: "T")
        let date = parts.first?.split(separator: "-") ?? []
        guard date.count == 3, let month = Int(date[1]), Self.months.indices.contains(month - 1), let day = Int(date[2])
        else { return iso8601 }
        let time = (.seconds(-172_800)...(.seconds(172_800))).contains(now.duration(to: self))
        return "\(day) \(Self.months[month - 1]) \(date[0])" + (time ? ", \(parts.last?.prefix(5) ?? "") UTC" : "")
    }
}

extension TransactionStatement {
    /// How often the subscription renews, such as `monthly `, if the period has the length of one that Apple offers.
    fileprivate var lengthWord: String {
        guard let purchaseDate, let expiresDate else { return "" }
        return switch purchaseDate.duration(to: expiresDate).components.seconds / 86_400 {
        case 7: "weekly "
        case 28...31: "monthly "
        case 59...62: "two-monthly "
        case 89...92: "quarterly "
        case 180...184: "half-yearly "
        case 365...366: "yearly "
        default: ""
        }
    }
}

/// A price such as `9.99 USD` from Apple's thousandths. Without data about currencies, a whole price has no decimals,
/// and any other has as many as it needs, but at least two.
package func priceWords(_ milliunits: Int64, _ currency: String?) -> String {
    let (whole, rest) = milliunits.magnitude.quotientAndRemainder(dividingBy: 1000)
    let digits = "\(1000 + rest)".dropFirst()
    let decimals = rest == 0 ? "" : ".\(digits.last == "0" ? digits.dropLast() : digits)"
    return (milliunits < 0 ? "-" : "") + "\(whole)\(decimals)" + (currency.map { " \($0)" } ?? "")
}
