// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests that a member whose text stands for none is none, in documents of each kind.
@Suite struct NoneTests {
    /// What members say if there is nothing to say: StoreKit Testing in Xcode writes `0`.
    private static let none: [String?] = ["0", "", nil]

    /// A period of the chain 110, from one day to another, with a line item.
    private static func period(
        _ id: String, _ product: String = "month", line: String?, from: Double, until: Double, refunded: Double? = nil,
        source: TransactionStatement.Source
    ) -> TransactionStatement {
        Facts.transaction(
            id, original: "110", product: product, signed: max(from, refunded ?? from), from: from, until: until,
            group: source == .receipt ? nil : "g", source: source
        ) {
            $0.webOrderLineItemId = line
            $0.appTransactionId = line
            $0.revocationDate = refunded.map(Facts.day)
            if source == .receipt { $0.type = nil }
        }
    }

    /// Two periods of one chain whose line items are the same.
    struct Story: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// The second period's product and begin.
        var product = "month"
        var from: Double
        /// The day on which the first period was refunded.
        var refunded: Double?
    }

    private static let stories = [
        Story(testDescription: "renewed, the earlier period refunded", from: -10, refunded: -1),
        Story(testDescription: "refunded, then bought again", from: -5, refunded: -20),
        Story(testDescription: "upgraded", product: "year", from: -20),
    ]

    @Test(arguments: stories, [TransactionStatement.Source.signedTransaction, .receipt])
    func `a line item that stands for none makes no two periods one`(
        _ story: Story, source: TransactionStatement.Source
    ) throws {
        for line in Self.none {
            let chain = Facts.chain(
                [
                    Self.period(
                        "110", line: line, from: -40, until: -10, refunded: story.refunded, source: source),
                    Self.period("111", story.product, line: line, from: story.from, until: 20, source: source),
                ], original: "110")
            let state = try #require(chain.subscription(Catalogue(), at: Facts.day(0)))
            #expect(state.status == .active && state.governing.transactionId == "111", "\(line ?? "nil")")
            #expect(state.governing.lineItem == nil)
        }
    }

    @Test func `a line item that names a purchase makes two of its transactions one`() throws {
        let chain = Facts.chain(
            [
                Self.period("110", line: "7", from: -40, until: 20, refunded: -1, source: .signedTransaction),
                Self.period("111", line: "7", from: -10, until: 20, source: .signedTransaction),
            ], original: "110")
        #expect(chain.subscription(Catalogue(), at: Facts.day(0))?.status == .revoked)
    }

    @Test func `subscriptions without a group do not compete for the best level`() {
        let chains = ["1", "2"].map { id in
            Facts.chain([Facts.transaction(id, original: id, product: "product \(id)", group: "")], original: id)
        }
        let products = ["product 1": "one", "product 2": "two"].mapValues { Catalogue.Product(entitlements: [$0]) }
        let holdings = Holdings(chains, catalogue: Catalogue(products: products), at: Facts.day(1))
        #expect(holdings.entitlements.map(\.name) == ["one", "two"])
    }

    @Test(arguments: [1, 2, nil] as [Int?])
    func `a product without entitlements takes nothing away from a second purchase of its group`(level: Int?) {
        let chains = ["1", "2"].map { id in
            Facts.chain([Facts.transaction(id, original: id, product: "product \(id)", group: "g")], original: id)
        }
        let given = Catalogue.Product(entitlements: ["one"], level: 2)
        let nothing = Catalogue.Product(entitlements: [], level: level)
        for products in [["product 1": given, "product 2": nothing], ["product 1": given]] {
            let holdings = Holdings(chains, catalogue: Catalogue(products: products), at: Facts.day(1))
            #expect(holdings.entitlements.map(\.name) == ["one"])
        }
    }
}
