// SPDX-License-Identifier: Apache-2.0

// Tells which purchases have nothing more to give, so that a question about entitlements need not load them.

public import AppStoreModel

/// What holds for a purchase (``Chain``) for ever if no further fact arrives: from ``at`` on it gives nothing, and time
/// changes nothing about it. Computed from the facts and the catalogue alone, whatever the time.
public struct Settlement: Hashable, Sendable {
    /// The instant from which on the purchase is settled. It may lie ahead.
    public var at: Timestamp
    /// The stamp of the catalogue (`Catalogue.stamp`). With another catalogue the purchase may give something.
    public var catalogue: Int64
    /// The products of the purchase that the catalogue lacks.
    public var unknownProducts: Set<String>
    /// When a subscription's newest period starts. A question at this time or later needs no other period that ended
    /// more than ``Catalogue/staleLeeway`` ago. `nil` if periods depend on each other.
    public var newestPeriod: Timestamp?

    package init(
        at: Timestamp, catalogue: Int64, unknownProducts: Set<String> = [], newestPeriod: Timestamp? = nil
    ) {
        self.at = at
        self.catalogue = catalogue
        self.unknownProducts = unknownProducts
        self.newestPeriod = newestPeriod
    }
}

/// The chains that a load may leave out, see ``LedgerKey/openHoldings(_:_:_:)``.
public struct SettledChains: Hashable, Sendable {
    /// The instant at which they are settled.
    public var at: Timestamp
    /// The stamp (`Catalogue.stamp`) of the catalogue by which they are settled.
    public var catalogue: Int64
    /// ``Catalogue/staleLeeway`` of the catalogue.
    package var leeway: Duration
    /// Whether subscriptions whose end no document announced are not left out, because the App Store is asked about
    /// them.
    public var keepsStale: Bool

    package init(at: Timestamp, catalogue: Catalogue, keepsStale: Bool) {
        self.at = at
        self.catalogue = catalogue.stamp
        leeway = catalogue.staleLeeway
        self.keepsStale = keepsStale
    }
}

extension PurchaseHistory {
    /// When the chain is settled; `nil` if it may give something for ever. Every instant counts at which the chain may
    /// change by time, also those of superseded periods: the result may be later than necessary, but never earlier.
    func settlement(_ chain: Chain) -> Settlement? {
        guard isRefused || !givesForever, let periodsEnd else { return nil }
        var settlement = Settlement(at: periodsEnd, catalogue: catalogue.stamp, newestPeriod: newestPeriod(chain))
        func wait(until instant: Timestamp?) { settlement.at = max(settlement.at, instant ?? settlement.at) }
        wait(until: chain.renewal?.gracePeriodExpiresDate)
        wait(until: app?.expiresDate)
        for index in purchases.indices {
            if purchases[index].type == .nonRenewingSubscription {
                wait(until: nonRenewingEnd(of: purchases[index]))
            }
            guard catalogue.products[exactly: purchases[index].productId] == nil else { continue }
            // The operator is told of an unknown product as long as its purchase is recent.
            guard let date = purchases[index].purchaseDate else { return nil }
            wait(until: date.advanced(by: Notice.lifetime))
            settlement.unknownProducts.insert(purchases[index].productId)
        }
        return settlement
    }

    /// When the newest period starts; `nil` if periods depend on each other. They do not if signed transactions alone
    /// say that the customer bought one product, period after period, each later than the one before, and if none was
    /// upgraded or superseded.
    private func newestPeriod(_ chain: Chain) -> Timestamp? {
        guard !isRefused, chain.statementCount == purchases.count, periods.count == purchases.count,
            purchases.indices.allSatisfy({ isPlain(purchases[$0]) }),
            purchases.indices.dropFirst().allSatisfy({ continues(purchases[$0], after: purchases[$0 - 1]) })
        else { return nil }
        return purchases.last?.purchaseDate
    }

    private func isPlain(_ period: borrowing TransactionStatement) -> Bool {
        period.source == .signedTransaction && period.transactionReason != nil && period.purchaseDate != nil
            && period.expiresDate != nil
    }

    private func continues(
        _ period: borrowing TransactionStatement, after last: borrowing TransactionStatement
    ) -> Bool {
        last.start < period.start && last.end < period.end && last.productId == period.productId
            && last.subscriptionGroup == period.subscriptionGroup
    }

    /// Whether a purchase without an end gives something, unless the chain is refused. Periods count in `periodsEnd`.
    private var givesForever: Bool {
        if let nonConsumable, nonConsumable.revocation == nil { return true }
        if let app, app.revocation == nil, app.expiresDate == nil { return true }
        return purchases.indices.contains { index in
            purchases[index].type == .nonRenewingSubscription && purchases[index].revocation == nil
                && nonRenewingEnd(of: purchases[index]) == nil
        }
    }
}

extension Catalogue {
    /// The number of the rules in this software. Raise it if a rule changes that decides what a purchase gives or when:
    /// each server then evaluates all purchases again at its start.
    static let rules = 1

    /// Everything that decides when a purchase is settled, as a number that is stored with it.
    static func stamp(_ products: [String: Product], _ leeway: Duration, _ refused: Set<String>) -> Int64 {
        let products = products.sorted { $0.key < $1.key }.map { id, product in
            JSONValue.array([
                .string(id), .string("\(product.level ?? 0)"), .string(product.duration.map { "\($0)" } ?? ""),
            ])
        }
        let all: [JSONValue] = [
            .string("\(rules)"), .string("\(leeway)"), .array(products), .array(refused.sorted().map { .string($0) }),
        ]
        let digest = DocumentDigest(Array(JSONValue.array(all).compactText.utf8)).bytes
        return Int64(bitPattern: digest.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
    }
}
