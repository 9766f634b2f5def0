// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests that names of the catalogue are compared byte for byte. `==` takes each of these pairs for equal.
@Suite struct ExactNameTests {
    static let pairs: [(String, String)] = [
        ("\u{212A}", "K"), ("\u{212B}", "\u{C5}"), ("\u{2126}", "\u{3A9}"), ("e\u{301}", "\u{E9}"),
        ("n\u{303}", "\u{F1}"), ("o\u{308}", "\u{F6}"), ("\u{1100}\u{1161}", "\u{AC00}"), ("\u{F900}", "\u{8C48}"),
        ("\u{2000}", "\u{2002}"), ("\u{37E}", ";"), ("\u{387}", "\u{B7}"), ("\u{1FEF}", "`"), ("\u{340}", "\u{300}"),
        ("a\u{323}\u{307}", "a\u{307}\u{323}"),
    ]

    @Test(arguments: pairs) func `a purchase of an equivalent name gets nothing, and is of an unknown product`(
        left: String, right: String
    ) async throws {
        for (sold, configured) in [("p.\(left)", "p.\(right)"), ("p.\(right)", "p.\(left)")] {
            #expect(sold == configured && !sold.utf8.elementsEqual(configured.utf8))
            let catalogue = Catalogue(products: [
                configured: .init(entitlements: ["pro"], level: 1, duration: .seconds(86_400))
            ])
            for type in [ProductType.autoRenewableSubscription, .nonConsumable, .nonRenewingSubscription] {
                let chain = Facts.chain([Facts.transaction(product: sold, type: type)])
                let holdings = Holdings([chain], catalogue: catalogue, at: Facts.day(0.5))
                #expect(holdings.entitlements == [])
                #expect(holdings.unknownProducts.first.map { Array($0.utf8) } == Array(sold.utf8))
            }
            // As a server compares the entitlement in a request.
            #expect(!Set([configured]).hasExactly(sold) && Set([configured]).hasExactly(configured))
            let refusing = Catalogue(refusedPurchases: [configured])
            #expect(!refusing.refuses([sold]) && refusing.refuses([configured]))
        }
    }
}
