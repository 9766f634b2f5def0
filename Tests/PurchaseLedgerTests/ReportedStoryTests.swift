// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import ReceiptCoding
import TestWorld
import Testing

/// Tests stories that developers have reported about the App Store, to Apple and to other servers: what arrived, and
/// who then has access. Each story has a neighbour that must be answered differently, or a control that always was
/// right.
@Suite struct ReportedStoryTests {
    struct Story: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// Who has access at which day after all documents have arrived: names of customers, or none.
        var expected: [(day: Double, owners: Set<String>)]
        /// The documents in the order of their arrival, each with the day, and with the customer who presents it.
        var documents: @Sendable (SignedHistory) throws -> [(Double, String?, SignedHistory.Document)]

        init(
            _ description: String, _ expected: [(Double, Set<String>)],
            _ documents: @escaping @Sendable (SignedHistory) throws -> [(Double, String?, SignedHistory.Document)]
        ) {
            testDescription = description
            self.expected = expected.map { (day: $0.0, owners: $0.1) }
            self.documents = documents
        }
    }

    static let anna = "anna"
    static let bob = "bob"
    static let tokens = [
        anna: "11111111-1111-4111-8111-111111111111", bob: "22222222-2222-4222-8222-222222222222",
    ]
    private static let second = 1.0 / 86_400
    private static let minute = 1.0 / 1440

    private static let catalogue = Catalogue(
        products: [
            "month": .init(entitlements: ["basic"], level: 2), "pro": .init(entitlements: ["access"], level: 1),
            "season": .init(entitlements: ["access"], duration: .seconds(90 * 86_400)),
            "book": .init(entitlements: ["access"]),
        ])

    static let stories: [Story] = [30 * second, 55 * minute].flatMap(datedAhead) + otherStories + graces

    /// Stories about dates that are so many days ahead.
    private static func datedAhead(_ ahead: Double) -> [Story] {
        let minutes = "\((ahead / minute * 10).rounded() / 10) minutes"
        let again = [("a subscription bought again", 90.0), ("an upgrade", 10)].map { name, day in
            Story("\(name), dated \(minutes) ahead", [(day, [anna])]) { signed in
                let pro = try signed.transaction(
                    "2", product: "pro", signed: day, from: day + ahead, until: day + 30
                ) { $0.transactionReason = Open(.purchase) }
                return try [(0, anna, .transaction(signed.transaction(until: 30))), (day, anna, .transaction(pro))]
            }
        }
        let products = [
            ("a season", "season", ProductType.nonRenewingSubscription), ("control: a book", "book", .nonConsumable),
        ]
        let once = products.map { name, product, type in
            Story("\(name), dated \(minutes) ahead", [(10, [anna])]) { signed in
                let token = try signed.transaction(
                    "7", original: "7", product: product, signed: 10, from: 10 + ahead, until: nil, type: type)
                return [(10, anna, .transaction(token))]
            }
        }
        return again + once + [
            Story(
                "neighbour: a renewal to the higher product, charged \(minutes) ahead, waits",
                [(30 - ahead, []), (30, [anna])]
            ) { signed in
                try [
                    (0, anna, .transaction(signed.transaction(until: 30))),
                    (
                        30 - ahead, anna,
                        .transaction(
                            signed.transaction("2", product: "pro", signed: 30 - ahead, from: 30, until: 60) {
                                $0.transactionReason = Open(.renewal)
                            })
                    ),
                ]
            }
        ]
    }

    /// The same transaction under an original id, refunded on the day or not, of an account or of none.
    private static func pro(
        _ signed: SignedHistory, of original: String = "1", _ day: Double, isRefunded: Bool = false,
        account: String? = nil
    ) throws -> SignedHistory.Document {
        .transaction(
            try signed.transaction("1", original: original, product: "pro", signed: day) {
                $0.revocationDate = isRefunded ? Facts.day(day) : nil
                $0.appAccountToken = account.flatMap { tokens[$0] }
            })
    }

    private static let otherStories = [
        Story("a transaction under two original ids, then refunded under the newer", [(4, [])]) { signed in
            try [
                (1, anna, pro(signed, of: "1", 1)), (2, anna, pro(signed, of: "9", 2)),
                (3, nil, pro(signed, of: "9", 3, isRefunded: true)),
            ]
        },
        Story("neighbour: the refund is reversed under the older id", [(5, [anna])]) { signed in
            try [
                (1, anna, pro(signed, of: "1", 1)), (2, anna, pro(signed, of: "9", 2)),
                (3, nil, pro(signed, of: "9", 3, isRefunded: true)), (4, nil, pro(signed, of: "1", 4)),
            ]
        },
        Story("refunded under the older id, which the newest document names", [(4, [])]) { signed in
            try [
                (1, anna, pro(signed, of: "1", 1)), (2, anna, pro(signed, of: "9", 2)),
                (3, nil, pro(signed, of: "1", 3, isRefunded: true)),
            ]
        },
        Story(
            "a transaction that bob claims under another original id is bob's, also under the first one", [(3, [bob])]
        ) {
            signed in
            try [
                (1, anna, pro(signed, of: "1", 1)), (2, bob, pro(signed, of: "9", 2)),
                (3, nil, pro(signed, of: "1", 3)),
            ]
        },
        Story("a transaction that Apple alone tells under other original ids stays with its owner", [(6, [anna])]) {
            signed in
            try [
                (1, anna, pro(signed, of: "1", 1)), (2, nil, pro(signed, of: "9", 2)),
                (3, nil, pro(signed, of: "1", 3)), (4, nil, pro(signed, of: "9", 4)),
                (5, anna, pro(signed, of: "1", 1)),
            ]
        },
        Story("… also if the copy is presented only afterwards", [(3, [anna])]) { signed in
            try [(1, nil, pro(signed, of: "9", 2)), (2, anna, pro(signed, of: "1", 1))]
        },
        Story("… also if the other tells an account that had not claimed it", [(3, [anna])]) { signed in
            try [
                (1, anna, pro(signed, of: "1", 1)),
                (2, nil, pro(signed, of: "9", 2, account: bob)),
            ]
        },
        Story("a transaction signed anew without its account token stays with the account", [(2, [anna])]) { signed in
            try [
                (1, nil, pro(signed, 1, account: anna)),
                (2, nil, pro(signed, 2)),
            ]
        },
        Story("… also if the account has presented it", [(3, [anna])]) { signed in
            try [
                (1, nil, pro(signed, 1, account: anna)),
                (2, tokens[anna], pro(signed, 2)),
                (3, nil, pro(signed, 3)),
            ]
        },
        Story("neighbour: another token moves it", [(3, [bob])]) { signed in
            try [
                (1, nil, pro(signed, 1, account: anna)),
                (2, nil, pro(signed, 2, account: bob)),
                (3, nil, pro(signed, 3)),
            ]
        },
    ]

    /// A charge that failed on day 30.01, by what Apple says of grace.
    private static let graces =
        ([
            (
                "grace that Apple signed without a date lasts for the leeway", "DID_FAIL_TO_RENEW", "GRACE_PERIOD",
                true, nil
            ),
            (
                "… also if only the notification's status says it", "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED",
                true,
                .billingGracePeriod
            ),
            (
                "… and if the renewal info does not say that it is in retry", "DID_FAIL_TO_RENEW", "GRACE_PERIOD", nil,
                nil
            ),
            ("neighbour: without grace, access ends at once", "DID_FAIL_TO_RENEW", nil, true, nil),
        ] as [(String, String, String?, Bool?, SubscriptionStatus?)]).map { name, type, subtype, retry, status in
            Story(name, subtype == nil ? [(30.02, [])] : [(30.03, [anna]), (30.05, [])]) { signed in
                let failed = try signed.notification(
                    type, subtype: subtype, signed: 30.01,
                    transaction: signed.transaction(product: "pro", signed: 30.01),
                    renewal: signed.renewal(signed: 30.01, renews: subtype != "AUTO_RENEW_DISABLED", retry: retry)
                ) { $0.data?.status = status.map { Open($0) } }
                return try [(0, anna, pro(signed, 0)), (30.01, nil, .notification(failed))]
            }
        }

    @Test(arguments: stories) func `after a reported story, those have access who paid`(story: Story) async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Self.catalogue)
        for (day, claimant, document) in try story.documents(signed) {
            _ = try await ledger.record(
                [try await signed.evidence(document)], claimedBy: claimant, at: Facts.day(day))
        }
        for (day, owners) in story.expected {
            var found: Set<String> = []
            for (name, token) in Self.tokens {
                for id in [name, token] {
                    let answer = try await ledger.customer(id, in: Facts.scope, at: Facts.day(day))
                    if answer?.holdings.entitlements.contains(where: { $0.name == "access" }) == true {
                        found.insert(name)
                    }
                }
            }
            #expect(found == owners, "day \(day)")
        }
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(200))
        #expect(rebuilt.differing.isEmpty && rebuilt.faults.isEmpty, "\(rebuilt)")
    }

    @Test func `a consumable under two original ids is one purchase, and its refund is one`() async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Self.catalogue)
        for (day, original, isRefunded) in [(1.0, "7", false), (2, "9", false), (3, "9", true)] {
            let token = try signed.transaction(
                "7", original: original, product: "coins", signed: day, until: nil, type: .consumable
            ) { $0.revocationDate = isRefunded ? Facts.day(3) : nil }
            let evidence = try await signed.evidence(transaction: token)
            _ = try await ledger.record([evidence], claimedBy: Self.anna, at: Facts.day(day))
            let answer = try #require(try await ledger.customer(Self.anna, in: Facts.scope, at: Facts.day(day)))
            #expect(answer.holdings.consumables.map(\.revokedQuantity) == [isRefunded ? 1 : 0])
            #expect(answer.purchases.count == 1 && answer.access["7"]?.isGiven == !isRefunded)
            let chain = try await ledger.chain(of: TransactionKey("7", in: Facts.scope))
            #expect(chain?.key.name == original)
        }
    }

    @Test(arguments: [(anna, false), (bob, true)])
    func `a consumable that a document moves to another chain was transferred only to another customer`(
        claimant: String, isTransferred: Bool
    ) async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Self.catalogue)
        // Two times there and back: the chains of the same customer mark nothing.
        for (day, original) in [(1.0, "7"), (2, "9"), (3, "7"), (4, "9")] {
            let token = try signed.transaction(
                "7", original: original, product: "coins", signed: day, until: nil, type: .consumable)
            let claimant = day == 1 ? Self.anna : original == "9" ? claimant : nil
            _ = try await ledger.record(
                [signed.evidence(transaction: token)], claimedBy: claimant, at: Facts.day(day))
        }
        let answer = try #require(try await ledger.customer(claimant, in: Facts.scope, at: Facts.day(5)))
        #expect(answer.holdings.consumables.map(\.transactionId) == ["7"])
        #expect(answer.transferred == (isTransferred ? ["7"] : []))
    }

    @Test func `a chain whose transactions all count elsewhere has ended when a document said so`() async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Self.catalogue)
        for (day, original) in [(1.0, "1"), (2, "9")] {
            let token = try signed.transaction("1", original: original, product: "pro", signed: day)
            _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(day))
        }
        let states = try await ledger.events().events.filter { $0.originalTransactionId == "1" }
            .compactMap(\.content?.after)
        #expect(states.map(\.hasAccess) == [true, false])
        #expect(states.map(\.until) == [Facts.day(30), Facts.day(2)])
    }

    @Test(arguments: [(28_800, true), (2, true), (0, true), (-60, false)])
    func `a month cancelled in a receipt after pro was bought was upgraded, and before it refunded`(
        seconds: Double, isUpgrade: Bool
    ) async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Self.catalogue)
        func purchase(_ id: String, _ product: String, _ from: Double, cancelled: Double? = nil) -> InAppPurchase {
            var purchase = TestStore.purchase(
                id, original: "1", product: product, from: from, until: from + 30, cancelled: cancelled)
            purchase.originalPurchaseDate = Facts.day(0)
            return purchase
        }
        let receipt = SignedHistory.Document.receipt(
            [purchase("1", "month", 0, cancelled: 10 + seconds * Self.second), purchase("2", "pro", 10)], created: 12)
        _ = try await ledger.record([try await signed.evidence(receipt)], claimedBy: Self.anna, at: Facts.day(12))
        let events = try await ledger.events().events
        #expect(events.contains { $0.kind == .refunded } == !isUpgrade, "\(events.map(\.kind.rawValue))")
        let holdings = try await ledger.customer(Self.anna, in: Facts.scope, at: Facts.day(12))?.holdings
        #expect(holdings?.entitlements.map(\.name) == ["access"])
    }
}
