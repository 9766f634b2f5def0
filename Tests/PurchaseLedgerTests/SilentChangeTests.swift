// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests that each change that an answer shows has an event: for each type and subtype of the App Store's
/// notifications, and for what backends and operators change about customers.
@Suite struct SilentChangeTests {
    /// What a change gives the followers of events.
    enum Told {
        /// These kinds of events, perhaps with others.
        case events([LedgerEvent.Kind])
        /// No event, for a reason.
        case nothing(String)
    }

    /// The signed parts of a notification.
    typealias Parts = (transaction: String?, renewal: String?)

    /// A notification, and what came before it.
    struct Row: CustomTestStringConvertible, Sendable {
        let type: NotificationTypeV2
        let subtype: NotificationSubtype?
        let told: Told
        let day: Double
        /// Whether nothing was bought before.
        let isNew: Bool
        let parts: @Sendable (Signed) throws -> Parts
        /// The notifications between the purchase and this one.
        let before: @Sendable (Signed) throws -> [String]

        var testDescription: String { [type.rawValue, subtype?.rawValue].compactMap(\.self).joined(separator: "/") }

        init(
            _ type: NotificationTypeV2, _ subtype: NotificationSubtype?, _ told: Told, day: Double = 10,
            isNew: Bool = false, _ parts: @escaping @Sendable (Signed) throws -> Parts = { _ in (nil, nil) },
            after before: @escaping @Sendable (Signed) throws -> [String] = { _ in [] }
        ) {
            (self.type, self.subtype, self.told, self.day, self.isNew) = (type, subtype, told, day, isNew)
            (self.parts, self.before) = (parts, before)
        }
    }

    /// Documents about a month that was bought on day 0.
    struct Signed: Sendable {
        let history: SignedHistory

        func told(
            _ type: NotificationTypeV2, _ subtype: NotificationSubtype?, _ day: Double, _ parts: Parts
        ) throws -> String {
            try history.notification(
                type.rawValue, subtype: subtype?.rawValue, signed: day, transaction: parts.transaction,
                renewal: parts.renewal)
        }

        func bought() throws -> String { try told(.subscribed, .initialBuy, 0, parts(0)) }

        /// The month, and renewal info with changes, both signed on a day.
        func parts(
            _ day: Double, renews: Bool = true, retry: Bool? = nil, grace: Double? = nil,
            _ change: (inout JWSRenewalInfoDecodedPayload) -> Void = { _ in }
        ) throws -> Parts {
            (
                try history.transaction(signed: day),
                try history.renewal(signed: day, renews: renews, retry: retry, grace: grace, change)
            )
        }

        /// A month with changes, and its renewal info.
        func month(
            _ day: Double, _ id: String = "1", product: String = "month", from: Double = 0, until: Double = 30,
            renews: Bool = true, _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
        ) throws -> Parts {
            (
                try history.transaction(id, product: product, signed: day, from: from, until: until, change),
                try history.renewal(signed: day, renews: renews) { $0.autoRenewProductId = product }
            )
        }

        func ended(_ day: Double, _ intent: ExpirationIntent) throws -> Parts {
            try parts(day, renews: false, retry: false) { $0.expirationIntent = Open(intent) }
        }

        func next(_ day: Double, _ product: String) throws -> Parts {
            try parts(day) { $0.autoRenewProductId = product }
        }

        func price(_ day: Double, _ status: PriceIncreaseStatus) throws -> Parts {
            try parts(day) { ($0.priceIncreaseStatus, $0.renewalPrice) = (Open(status), 5990) }
        }

        func upgraded(_ day: Double) throws -> Parts {
            try month(day, "2", product: "high", from: day, until: day + 30) { $0.transactionReason = Open(.purchase) }
        }

        func failed(_ day: Double, grace: Double? = nil) throws -> String {
            try told(
                .didFailToRenew, grace == nil ? nil : .gracePeriod, day, parts(day, retry: true, grace: grace))
        }
    }

    static let rows: [Row] = [
        Row(.subscribed, .initialBuy, .events([.subscriptionStarted]), day: 0, isNew: true) { try $0.parts(0) },
        Row(.subscribed, .resubscribe, .events([.subscriptionRecovered]), day: 40) {
            try $0.month(40, "2", from: 40, until: 70)
        } after: {
            [try $0.told(.expired, .voluntary, 30, $0.ended(30, .customerCancelled))]
        },
        Row(.didRenew, nil, .events([.subscriptionRenewed]), day: 30) { try $0.month(30, "2", from: 30, until: 60) },
        Row(.didRenew, .billingRecovery, .events([.subscriptionRecovered]), day: 33) {
            try $0.month(33, "2", from: 33, until: 63)
        } after: {
            [try $0.failed(30)]
        },
        Row(.didFailToRenew, nil, .events([.subscriptionRetryEntered]), day: 30) { try $0.parts(30, retry: true) },
        Row(.didFailToRenew, .gracePeriod, .events([.subscriptionGraceEntered]), day: 30) {
            try $0.parts(30, retry: true, grace: 46)
        },
        Row(.gracePeriodExpired, nil, .events([.subscriptionRetryEntered]), day: 46) {
            try $0.parts(46, retry: true, grace: 46)
        } after: {
            [try $0.failed(30, grace: 46)]
        },
        Row(.expired, .voluntary, .events([.subscriptionExpired]), day: 30) {
            try $0.ended(30, .customerCancelled)
        },
        Row(.expired, .billingRetry, .events([.subscriptionExpired]), day: 90) {
            try $0.ended(90, .billingError)
        } after: {
            [try $0.failed(30)]
        },
        Row(
            .expired, .priceIncrease, .events([.subscriptionExpired, .subscriptionPriceIncreaseRefused]), day: 30
        ) {
            try $0.ended(30, .noConsentToPriceIncrease)
        } after: {
            [try $0.told(.priceIncrease, .pending, 20, $0.price(20, .pending))]
        },
        Row(.expired, .productNotForSale, .events([.subscriptionExpired]), day: 30) {
            try $0.ended(30, .productNotAvailable)
        },
        Row(.expired, nil, .events([.subscriptionExpired]), day: 30) { try $0.ended(30, .other) },
        Row(.didChangeRenewalStatus, .autoRenewDisabled, .events([.subscriptionRenewalDisabled])) {
            try $0.parts(10, renews: false)
        },
        Row(.didChangeRenewalStatus, .autoRenewEnabled, .events([.subscriptionRenewalEnabled])) {
            try $0.parts(10)
        } after: {
            [try $0.told(.didChangeRenewalStatus, .autoRenewDisabled, 5, $0.parts(5, renews: false))]
        },
        Row(.didChangeRenewalPref, .upgrade, .events([.subscriptionProductChanged])) { try $0.upgraded(10) },
        Row(.didChangeRenewalPref, .downgrade, .events([.subscriptionNextProductChanged])) {
            try $0.next(10, "low")
        },
        Row(.didChangeRenewalPref, nil, .events([.subscriptionNextProductChanged])) {
            try $0.next(10, "month")
        } after: {
            [try $0.told(.didChangeRenewalPref, .downgrade, 5, $0.next(5, "low"))]
        },
        Row(.didChangeRenewalPref, .increaseQuantity, .events([.subscriptionUpdated])) {
            try $0.month(10) { $0.quantity = 3 }
        },
        Row(.didChangeRenewalPref, .decreaseQuantity, .events([.subscriptionUpdated])) {
            try $0.parts(10) { $0.renewalQuantity = 2 }
        },
        Row(.offerRedeemed, nil, .events([.subscriptionUpdated])) {
            try $0.parts(10) { ($0.offerType, $0.offerIdentifier) = (Open(.promotional), "autumn") }
        },
        Row(.offerRedeemed, .upgrade, .events([.subscriptionProductChanged])) { try $0.upgraded(10) },
        Row(.offerRedeemed, .downgrade, .events([.subscriptionNextProductChanged])) { try $0.next(10, "low") },
        Row(.priceIncrease, .pending, .events([.subscriptionPriceIncreaseAsked])) { try $0.price(10, .pending) },
        Row(.priceIncrease, .accepted, .events([.subscriptionPriceIncreaseAccepted])) {
            try $0.price(10, .agreed)
        } after: {
            [try $0.told(.priceIncrease, .pending, 5, $0.price(5, .pending))]
        },
        Row(.renewalExtended, nil, .events([.subscriptionExtended])) { try $0.month(10, until: 33) },
        Row(.renewalExtension, .summary, .events([.notificationReceived])),
        Row(.renewalExtension, .failure, .events([.notificationReceived])),
        Row(.refund, nil, .events([.subscriptionRevoked])) { try $0.month(10) { $0.revocationDate = Facts.day(10) } },
        Row(.refund, .seats, .events([.subscriptionUpdated])) {
            try $0.month(10) { payload in
                var seats = TransactionMultiSeatInfo()
                seats.revokedSeatQuantity = 1
                payload.multiSeatInfo = seats
            }
        },
        Row(.refundDeclined, nil, .events([.refundDeclined])) { try $0.parts(10) },
        Row(.refundReversed, nil, .events([.subscriptionRecovered])) {
            try $0.month(10)
        } after: {
            [try $0.told(.refund, nil, 5, $0.month(5) { $0.revocationDate = Facts.day(5) })]
        },
        Row(.revoke, nil, .events([.subscriptionRevoked])) {
            try $0.month(10) { ($0.revocationDate, $0.inAppOwnershipType) = (Facts.day(10), Open(.familyShared)) }
        },
        Row(.consumptionRequest, nil, .events([.consumptionRequested])) { try $0.parts(10) },
        Row(.oneTimeCharge, nil, .events([.purchased]), isNew: true) { signed in
            let coins = try signed.history.transaction(
                "9", original: "9", product: "coins", signed: 10, from: 10, until: nil, type: .consumable)
            return (coins, nil)
        },
        Row(.externalPurchaseToken, .unreported, .events([.notificationReceived])),
        Row(.externalPurchaseToken, .created, .events([.notificationReceived])),
        Row(.externalPurchaseToken, .activeTokenReminder, .events([.notificationReceived])),
        Row(.rescindConsent, nil, .events([.notificationReceived])),
        Row(.metadataUpdate, nil, .nothing("the developer's own names and tax codes are in no answer")) {
            try $0.parts(10)
        },
        Row(.priceChange, nil, .events([.subscriptionUpdated])) { try $0.parts(10) { $0.renewalPrice = 5990 } },
        Row(.migration, nil, .events([.subscriptionMigrated])) { try migrated($0) },
        Row(.migrate, nil, .events([.subscriptionMigrated])) { try migrated($0) },
        Row(.unclaimSeats, nil, .events([.notificationReceived])),
        Row(.test, nil, .events([.notificationReceived])),
    ]

    private static func migrated(_ signed: Signed) throws -> Parts {
        let token = try signed.history.transaction("2", original: "2", signed: 10, from: 0) {
            $0.previousOriginalTransactionId = "1"
        }
        return (token, try signed.history.renewal(original: "2", signed: 10))
    }

    private static func ledger() -> Ledger {
        let products: [String: Catalogue.Product] = [
            "low": .init(entitlements: ["pro"], level: 3), "month": .init(entitlements: ["pro"], level: 2),
            "high": .init(entitlements: ["pro"], level: 1), "coins": .init(entitlements: []),
        ]
        return Ledger(
            storage: MemoryLedgerStorage(),
            rules: LedgerRules(
                catalogues: [Facts.scope.bundleId: Catalogue(products: products)],
                asksAppStore: [Facts.scope.bundleId]))
    }

    /// Records notifications, each when it was signed.
    private static func record(_ tokens: [String], _ signed: Signed, _ ledger: Ledger) async throws {
        for token in tokens {
            let evidence = try await signed.history.evidence(notification: token)
            _ = try await ledger.record([evidence], at: evidence.signedDate ?? Facts.day(0))
        }
    }

    @Test func `each type and each subtype of Apple's notifications has a row`() {
        #expect(Set(NotificationTypeV2.allCases).subtracting(Self.rows.map(\.type)) == [])
        #expect(Set(NotificationSubtype.allCases).subtracting(Self.rows.compactMap(\.subtype)) == [])
    }

    /// An update says that something changed which no kind names, so an update beside a named change tells it twice.
    @Test(arguments: rows) func `a notification gives the events of its row, and no update besides`(
        _ row: Row
    ) async throws {
        let (ledger, signed) = (Self.ledger(), Signed(history: try SignedHistory()))
        try await Self.record((row.isNew ? [] : [signed.bought()]) + row.before(signed), signed, ledger)
        let known = try await ledger.events().events.count
        try await Self.record([signed.told(row.type, row.subtype, row.day, row.parts(signed))], signed, ledger)
        let kinds = try await ledger.events().events.dropFirst(known).compactMap(\.kind.known)
        switch row.told {
        case .events(let expected):
            #expect(Set(kinds).isSuperset(of: expected), "\(kinds)")
            #expect(kinds.contains(.subscriptionUpdated) == expected.contains(.subscriptionUpdated), "\(kinds)")
        case .nothing(let reason): #expect(kinds == [], "\(reason)")
        }
    }

    // MARK: The next renewal

    @Test func `an event has the terms of the next renewal before and after the change, with Apple's order of offers`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), Signed(history: try SignedHistory()))
        let told = [
            try signed.bought(),
            try signed.told(
                .didChangeRenewalPref, .downgrade, 10,
                signed.parts(10) {
                    ($0.autoRenewProductId, $0.renewalPrice, $0.currency) = ("low", 990, "EUR")
                    ($0.offerType, $0.offerIdentifier) = (Open(.winBack), "z")
                    $0.eligibleWinBackOfferIds = ["z", "b", "a"]
                }),
        ]
        try await Self.record(told, signed, ledger)
        let event = try #require(try await ledger.events().events.last)
        #expect(event.kind == .subscriptionNextProductChanged)
        #expect(event.content?.productId == "month")
        #expect(event.content?.before?.renewal?.autoRenewProductId == "month")
        let terms = event.content?.after?.renewal
        #expect(terms?.autoRenewProductId == "low" && terms?.renewalPrice == 990 && terms?.currency == "EUR")
        #expect(terms?.offerType == .winBack && terms?.eligibleWinBackOfferIds == ["z", "b", "a"])
        let state = try await ledger.chain(Facts.key)?.subscription(Catalogue(), at: Facts.day(11))
        #expect(state?.renewal == terms)
    }

    @Test func `of renewal info about an earlier period only the product counts, and a renewal is no choice`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), Signed(history: try SignedHistory()))
        let chosen = try signed.told(
            .didChangeRenewalPref, .downgrade, 10,
            signed.parts(10) { ($0.autoRenewProductId, $0.renewalPrice, $0.currency) = ("low", 990, "EUR") })
        try await Self.record([signed.bought(), chosen], signed, ledger)
        let renewed = try signed.history.transaction("2", product: "low", signed: 30, from: 30, until: 60)
        _ = try await ledger.record([signed.history.evidence(transaction: renewed)], at: Facts.day(30))
        let event = try #require(try await ledger.events().events.last)
        #expect(event.kind == .subscriptionProductChanged)
        var product = RenewalTerms()
        product.autoRenewProductId = "low"
        #expect(event.content?.after?.renewal == product)
    }

    @Test func `an upgrade that drops a chosen product tells both`() async throws {
        let (ledger, signed) = (Self.ledger(), Signed(history: try SignedHistory()))
        let told = [
            try signed.bought(), try signed.told(.didChangeRenewalPref, .downgrade, 5, signed.next(5, "low")),
            try signed.told(.didChangeRenewalPref, .upgrade, 10, signed.upgraded(10)),
        ]
        try await Self.record(told, signed, ledger)
        let kinds = try await ledger.events().events.compactMap(\.kind.known)
        #expect(kinds.suffix(2) == [.subscriptionProductChanged, .subscriptionNextProductChanged])
    }

    @Test func `a declined refund is told once, as of its signing, with the same state before and after`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), Signed(history: try SignedHistory()))
        let declined = try signed.told(.refundDeclined, nil, 5, signed.parts(5))
        for token in [try signed.bought(), declined, declined] {
            _ = try await ledger.record([signed.history.evidence(notification: token)], at: Facts.day(6))
        }
        let events = try await ledger.events().events.filter { $0.kind == .refundDeclined }
        #expect(events.map(\.content?.effectiveAt) == [Facts.day(5)])
        #expect(events.first?.content?.transactionId == "1" && events.first?.originalTransactionId == "1")
        #expect(events.first?.content?.before == events.first?.content?.after)
        #expect(events.first?.content?.after?.status == .active)
    }

    // MARK: Customers

    private static func kinds(_ ledger: Ledger) async throws -> [LedgerEvent.Kind] {
        try await ledger.events().events.compactMap(\.kind.known)
    }

    private static func page(_ ledger: Ledger) async throws -> EventPage {
        try await ledger.events(of: Facts.scope.bundleId, after: nil, limit: 100, at: Facts.day(20))
    }

    @Test func `an added id is told with all ids of the customer, and an id that the customer has is not`()
        async throws
    {
        let ledger = Self.ledger()
        try await ledger.setAttributes([.init("plan", "a")], of: "anna", in: Facts.scope.bundleId, at: Facts.day(1))
        for _ in 0..<2 {
            #expect(try await ledger.addAlias("anne", to: "anna", in: Facts.scope, at: Facts.day(2)))
        }
        #expect(try await ledger.addAlias("anja", to: "anne", in: Facts.scope, at: Facts.day(3)))
        #expect(try await Self.kinds(ledger) == [.attributesChanged, .aliasAdded, .aliasAdded])
        let page = try await Self.page(ledger)
        #expect(page.events.map { page.allIds(of: $0) } == [nil, ["anna", "anne", "anja"], ["anna", "anne", "anja"]])
        #expect(page.events.map { page.customerId(of: $0) } == ["anna", "anna", "anna"])
        _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(4))
        let later = try await Self.page(ledger)
        #expect(later.allIds == [:] && later.attributes == [:])
    }

    @Test func `changed attributes are told by name, a merge's too, and an unchanged text is not`() async throws {
        let ledger = Self.ledger()
        let changes: [(String, [CustomerAttributes.Change])] = [
            ("anna", [.init("plan", "a"), .init("$email", "a@b.c")]),
            ("anna", [.init("plan", "a"), .init("$email", nil)]), ("anna", [.init("plan", "a")]),
            ("bert", [.init("plan", "b"), .init("team", "t")]),
        ]
        for (number, (id, change)) in changes.enumerated() {
            let day = Facts.day(Double(number + 1))
            try await ledger.setAttributes(change, of: id, in: Facts.scope.bundleId, at: day)
        }
        #expect(try await ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(5)))
        let events = try await ledger.events().events
        #expect(
            events.compactMap(\.kind.known) == [
                .attributesChanged, .attributesChanged, .attributesChanged, .customersMerged, .attributesChanged,
            ])
        #expect(
            events.map(\.content?.attributes) == [
                ["$email", "plan"], ["$email"], ["plan", "team"], nil, ["plan", "team"],
            ])
        let body = events.map { String(decoding: $0.body, as: UTF8.self) }.joined()
        #expect(!body.contains("a@b.c"), "an event outlives its customer's address")
        let page = try await Self.page(ledger)
        let customer = try #require(events.last?.customer)
        #expect(page.attributes[customer]?["plan"] == "b" && page.attributes[customer]?["team"] == "t")
    }

    @Test func `a consent and its end are told once each`() async throws {
        let ledger = Self.ledger()
        for (day, isGiven) in [(1.0, false), (2, true), (3, true), (4, false), (5, false)] {
            _ = try await ledger.recordConsent(isGiven, of: "anna", in: Facts.scope, at: Facts.day(day))
        }
        let events = try await ledger.events().events
        #expect(events.compactMap(\.kind.known) == [.consentChanged, .consentChanged])
        #expect(events.map(\.content?.consentedAt) == [Facts.day(2), nil])
    }

    @Test func `the customers whose sandbox counts are told once for the app when the setting changes`() async throws {
        let (ledger, app) = (Self.ledger(), Facts.scope.bundleId)
        let starts: [(String, Set<String>)] = [
            ("all", []), ("all", []), ("listed", ["anna"]), ("listed", ["anna"]), ("listed", ["bert"]), ("none", []),
        ]
        for (day, (access, ids)) in starts.enumerated() {
            try await ledger.publish([SandboxSetting(access, listed: ids, of: app)], at: Facts.day(Double(day)))
        }
        let events = try await ledger.events().events
        #expect(events.map(\.kind.known) == [.environmentsChanged, .environmentsChanged, .environmentsChanged])
        #expect(events.map(\.content?.sandboxAccessBefore) == ["all", "listed", "listed"])
        #expect(events.map(\.content?.sandboxAccessAfter) == ["listed", "listed", "none"])
        #expect(events.map(\.recordedAt) == [2, 4, 5].map(Facts.day) && events.allSatisfy { $0.customer == nil })
    }
}
