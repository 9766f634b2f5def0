// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding
import TestData
import TestWorld
import Testing

/// Tests what a ledger records, answers and publishes.
@Suite struct LedgerTests {
    private static let catalogue = Catalogue(products: [
        "month": .init(entitlements: ["pro"], level: 2), "high": .init(entitlements: ["pro"], level: 1),
        "book": .init(entitlements: ["book"]),
        "season": .init(entitlements: ["season"], duration: .seconds(90 * 86_400)),
    ])

    private static func ledger(_ policy: ClaimPolicy = .transfer) -> Ledger {
        Ledger(catalogue, policy, in: TestStorage.unsteady.make())
    }

    /// All events so far, as text.
    private static func published(_ ledger: Ledger) async throws -> [String] {
        try await ledger.words()
    }

    private static func names(_ ledger: Ledger, _ customer: String, _ day: Double) async throws -> [String]? {
        try await ledger.holdings(of: customer, in: Facts.scope, at: Facts.day(day))?.entitlements.map(\.name)
    }

    @Test func `a purchase with an account token belongs to the customer that the token names, and is published once`()
        async throws
    {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let token = "0D6E5C0A-6A52-4A0B-9D4B-0F1F4E3A9B11"
        let transaction = try signed.transaction { $0.appAccountToken = token }
        let evidence = try await signed.evidence(transaction: transaction)
        #expect(try await ledger.record([evidence], at: Facts.day(0)).new == 1)
        let again = try await ledger.record([evidence, evidence], at: Facts.day(1))
        #expect([again.new, again.known] == [0, 2])
        #expect(try await Self.names(ledger, token, 1) == ["pro"])
        #expect(try await Self.names(ledger, token.lowercased(), 1) == ["pro"])
        #expect(try await Self.names(ledger, token, 40) == [])
        #expect(try await Self.names(ledger, "nobody", 1) == nil)
        #expect(
            try await Self.published(ledger)
                == ["purchase.linked \(token.lowercased())", "subscription.started 1 \(token.lowercased())"])
        let kept = try await ledger.document(evidence.provenance)
        #expect(kept?.document == Array(transaction.utf8))
        // The id of the evidence is the digest of the document's bytes, so any holder of the document can compute it.
        #expect(evidence.id == DocumentDigest(Array(transaction.utf8), .transaction))
    }

    @Test func `the life of a subscription is published in order, and changes by time once, even after downtime`()
        async throws
    {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        func notify(
            _ type: String, _ subtype: String? = nil, day: Double, _ transaction: String, _ renewal: String
        ) async throws {
            let token = try signed.notification(
                type, subtype: subtype, signed: day, transaction: transaction, renewal: renewal)
            _ = try await ledger.record([signed.evidence(notification: token)], at: Facts.day(day))
        }
        let first = try signed.transaction()
        try await notify("SUBSCRIBED", "INITIAL_BUY", day: 0, first, signed.renewal(signed: 0))
        let second = try signed.transaction("2", signed: 29.5, from: 30, until: 60)
        try await notify("DID_RENEW", day: 29.5, second, signed.renewal(signed: 29.5))
        try await notify(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", day: 40, second,
            signed.renewal(signed: 40, renews: false))
        try await notify(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", day: 41, second, signed.renewal(signed: 41))
        try await notify(
            "DID_FAIL_TO_RENEW", "GRACE_PERIOD", day: 60, second, signed.renewal(signed: 60, retry: true, grace: 76))
        // The server is down from day 61 to day 200.
        #expect(try await ledger.publishDueChanges(at: Facts.day(200)) == 1)
        #expect(try await ledger.publishDueChanges(at: Facts.day(201)) == 0)
        let third = try signed.transaction("3", signed: 202, from: 202, until: 232)
        try await notify("DID_RENEW", "BILLING_RECOVERY", day: 202, third, signed.renewal(signed: 202))
        let refunded = try signed.transaction("3", signed: 210, from: 202, until: 232) {
            $0.revocationDate = Facts.day(210)
        }
        try await notify("REFUND", day: 210, refunded, signed.renewal(signed: 210, renews: false))
        try await notify(
            "REFUND_REVERSED", day: 212, signed.transaction("3", signed: 212, from: 202, until: 232),
            signed.renewal(signed: 212))
        let published = try await Self.published(ledger)
        #expect(
            published == [
                "subscription.started 1", "subscription.renewed 2",
                // On day 30: the renewal info of day 29.5 is not about the period that begins then.
                "subscription.updated 2", "subscription.renewalDisabled 2", "subscription.renewalEnabled 2",
                "subscription.graceEntered 2", "subscription.retryEntered 2",
                "subscription.recovered 3", "purchase.refunded 3", "subscription.revoked 3",
                "subscription.renewalDisabled 3", "purchase.refundReversed 3", "subscription.recovered 3",
                "subscription.renewalEnabled 3",
            ])
    }

    @Test func `a refund of an old period is published, but ends no access`() async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let evidence = [
            try await signed.evidence(transaction: signed.transaction("2", signed: 30, from: 30, until: 60)),
            try await signed.evidence(
                transaction: signed.transaction(signed: 35) { $0.revocationDate = Facts.day(35) }),
        ]
        _ = try await ledger.record(evidence, claimedBy: "anna", at: Facts.day(35))
        #expect(try await Self.names(ledger, "anna", 40) == ["pro"])
        #expect(try await Self.published(ledger).last == "purchase.refunded 1 anna")
    }

    @Test(
        arguments: [
            (.transfer, [], ["pro"], []), (.keep, ["pro"], [], [Facts.key]), (.share, ["pro"], ["pro"], []),
        ] as [(ClaimPolicy, [String], [String], Set<ChainKey>)])
    func `the policy decides between two customers who present the same purchase`(
        policy: ClaimPolicy, anna: [String], bert: [String], kept: Set<ChainKey>
    ) async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger(policy))
        let evidence = try await signed.evidence(transaction: signed.transaction())
        _ = try await ledger.record([evidence], claimedBy: "anna", at: Facts.day(0))
        let recorded = try await ledger.record([evidence], claimedBy: "bert", at: Facts.day(1))
        #expect(recorded.kept == kept)
        #expect(try await Self.names(ledger, "anna", 2) == anna)
        #expect(try await Self.names(ledger, "bert", 2) == bert)
        // Presenting it again changes nothing.
        let events = try await Self.published(ledger)
        _ = try await ledger.record([evidence], claimedBy: policy == .keep ? "anna" : "bert", at: Facts.day(2))
        #expect(try await Self.published(ledger) == events)
    }

    @Test(arguments: [true, false])
    func `two ids of one person become one customer, and a deleted customer is unknown`(
        keepsEvidence: Bool
    ) async throws {
        let signed = try SignedHistory()
        var ledger = Self.ledger()
        ledger.rules.keepsEvidence = keepsEvidence
        _ = try await ledger.record(
            [signed.evidence(transaction: signed.transaction())], claimedBy: "anna", at: Facts.day(0))
        let book = try signed.transaction("5", original: "5", product: "book", until: nil, type: .nonConsumable)
        _ = try await ledger.record([signed.evidence(transaction: book)], claimedBy: "guest", at: Facts.day(0))
        #expect(try await ledger.addAlias("guest", to: "anna", in: Facts.scope, at: Facts.day(1)))
        #expect(try await ledger.addAlias("anna@example.com", to: "anna", in: Facts.scope, at: Facts.day(1)))
        #expect(try await !ledger.addAlias("x", to: "nobody", in: Facts.scope, at: Facts.day(1)))
        for id in ["anna", "guest", "anna@example.com"] {
            #expect(try await Self.names(ledger, id, 2) == ["book", "pro"])
        }
        let deleted = try await ledger.delete("guest", in: Facts.scope, at: Facts.day(3))
        #expect(deleted == DeletionReport(purchases: 2, erasedDocuments: keepsEvidence ? 0 : 2, keptDocuments: 0))
        #expect(try await Self.names(ledger, "anna", 4) == nil)
        #expect(try await ledger.delete("anna", in: Facts.scope, at: Facts.day(3)) == nil)
        let count = try await ledger.documents().count
        #expect(count == (keepsEvidence ? 2 : 0))
    }

    @Test(arguments: ["TEST", "FROM_THE_FUTURE"])
    func `a notification about no purchase is stored and published once`(type: String) async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let token = try signed.notification(type, subtype: type == "TEST" ? nil : "NEW", signed: 1)
        let evidence = try await signed.evidence(notification: token)
        for _ in 0..<2 { _ = try await ledger.record([evidence], at: Facts.day(1)) }
        let events = try await ledger.events().events
        #expect(events.map(\.kind.known) == [.notificationReceived])
        #expect(events.map(\.content?.detail) == [type == "TEST" ? "TEST" : "FROM_THE_FUTURE/NEW"])
        #expect(try await ledger.document(evidence.provenance)?.notification?.type == type)
    }

    @Test(arguments: Seeds.first(10))
    func `documents in any order, one by one or together, lead to the same answers`(seed: UInt64) async throws {
        let signed = try SignedHistory()
        let evidence = [
            try await signed.evidence(transaction: signed.transaction { $0.appAccountToken = "anna" }),
            try await signed.evidence(transaction: signed.transaction("2", signed: 30, from: 30, until: 60)),
            try await signed.evidence(
                receipt: [TestStore.purchase(type: .autoRenewableSubscription)], created: 20),
            try await signed.evidence(
                notification: signed.notification(
                    "DID_FAIL_TO_RENEW", subtype: "GRACE_PERIOD", signed: 60,
                    transaction: signed.transaction("2", signed: 60, from: 30, until: 60),
                    renewal: signed.renewal(signed: 60, retry: true, grace: 76))),
            try await signed.evidence(
                notification: signed.notification(
                    "REFUND", signed: 62,
                    transaction: signed.transaction("2", signed: 62, from: 30, until: 60) {
                        $0.revocationDate = Facts.day(62)
                    },
                    renewal: signed.renewal(signed: 62, renews: false))),
        ]
        var random = SeededRandom(seed: seed)
        let ledger = Self.ledger()
        for document in (evidence + evidence).shuffled(using: &random) {
            _ = try await ledger.record([document], at: Facts.day(70))
        }
        let expected = Self.ledger()
        _ = try await expected.record(evidence, at: Facts.day(70))
        for day in [1.0, 31, 61, 63, 100] {
            let found = try await ledger.holdings(of: "anna", in: Facts.scope, at: Facts.day(day))
            #expect(found != nil)
            #expect(try await found == expected.holdings(of: "anna", in: Facts.scope, at: Facts.day(day)))
        }
    }

    @Test(arguments: [
        ("7E3FB204-2A7D-41E6-B58F-0C6B8E6F4A31", "7e3fb204-2a7d-41e6-b58f-0c6b8e6f4a31", true),
        ("Anna", "Anna", true), ("Anna", "anna", false), ("", "", false),
    ])
    func `account tokens that are UUIDs are compared without regard to case, and others byte for byte`(
        token: String, id: String, isFound: Bool
    ) async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let transaction = try signed.transaction { $0.appAccountToken = token }
        _ = try await ledger.record([signed.evidence(transaction: transaction)], at: Facts.day(0))
        #expect(try await Self.names(ledger, id, 1) == (isFound ? ["pro"] : nil))
    }

    @Test func `a document about an old period that names another account does not move the purchase`() async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let latest = try signed.transaction("2", signed: 30, from: 30, until: 60) { $0.appAccountToken = "bert" }
        let refunded = try signed.transaction(signed: 40) {
            $0.appAccountToken = "anna"
            $0.revocationDate = Facts.day(40)
        }
        for token in [latest, refunded] {
            _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(40))
        }
        #expect(try await Self.names(ledger, "bert", 41) == ["pro"])
        #expect(try await Self.names(ledger, "anna", 41) == [])
    }

    @Test func `an end that needs no document is published once`() async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let season = try signed.transaction(
            "7", original: "7", product: "season", until: nil, type: .nonRenewingSubscription)
        for token in [try signed.transaction(), season] {
            _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(0))
        }
        for day in [1.0, 30, 30.5, 89, 90, 91] { _ = try await ledger.publishDueChanges(at: Facts.day(day)) }
        #expect(
            try await Self.published(ledger) == [
                "subscription.started 1", "purchase.made 7", "subscription.stale 1", "purchase.accessEnded 1",
                "purchase.accessEnded 7",
            ])
    }

    @Test func `renewal info that arrives before its transaction publishes nothing`() async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let verifier = signed.verifier
        let transaction = try await verifier.verify(
            signed.transaction().utf8, as: JWSTransactionDecodedPayload.self, at: Facts.day(0))
        let renewal = try await verifier.verify(
            signed.renewal(signed: 0).utf8, as: JWSRenewalInfoDecodedPayload.self, at: Facts.day(0))
        for document in [Evidence(renewal, boundBy: transaction), Evidence(transaction)] {
            _ = try await ledger.record([#require(document)], at: Facts.day(0))
        }
        #expect(try await Self.published(ledger) == ["subscription.started 1"])
    }

    @Test func `a refund under one of a purchase's two ids revokes the purchase`() async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        for (id, refunded) in [("5", nil), ("6", Facts.day(2))] {
            let token = try signed.transaction(
                id, original: "5", product: "book", signed: 2, until: nil, type: .nonConsumable
            ) { $0.revocationDate = refunded }
            _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(2))
        }
        #expect(try await ledger.events().events.map(\.content?.after?.status.known) == [.active, .revoked])
    }

    @Test func `a newer receipt that does not state the refund of a consumable does not reverse the refund`()
        async throws
    {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let token = try signed.transaction(
            "5", original: "5", product: "coins", until: nil, type: .consumable
        ) {
            $0.quantity = 5
            $0.revocationDate = Facts.day(1)
            $0.appAccountToken = "anna"
        }
        var purchase = TestStore.purchase("5", product: "coins", type: .consumable, until: nil)
        purchase.quantity = 5
        _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(1))
        _ = try await ledger.record([signed.evidence(receipt: [purchase], created: 2)], at: Facts.day(2))
        let holdings = try await ledger.holdings(of: "anna", in: Facts.scope, at: Facts.day(3))
        #expect(holdings?.consumables.map(\.revokedQuantity) == [5])
    }

    @Test func `a sandbox purchase entitles to nothing in production`() async throws {
        let (signed, ledger) = (try SignedHistory(), Self.ledger())
        let sandbox = try signed.transaction {
            $0.environment = Open(.sandbox)
            $0.appAccountToken = "anna"
        }
        _ = try await ledger.record([signed.evidence(transaction: sandbox)], at: Facts.day(0))
        #expect(try await Self.names(ledger, "anna", 1) == [])
        let scope = LedgerScope(bundleId: Facts.scope.bundleId, environment: .sandbox)
        #expect(try await ledger.holdings(of: "anna", in: scope, at: Facts.day(1))?.entitlements.map(\.name) == ["pro"])
    }
}

/// Tests the names of documents in answers.
@Suite struct ProvenanceTextTests {
    private static let name = DocumentDigest([1, 2, 3])

    @Test(arguments: [1_749_923_628_492, 0, -1, nil])
    func `a document's name has its date and its digest`(milliseconds: Int64?) {
        let date = milliseconds.map(Timestamp.init(milliseconds:))
        let source = Provenance(Self.name, signed: date)
        #expect("\(source)" == "\(date.map { "\($0.milliseconds)" } ?? "undated")-\(Self.name)")
        #expect(Provenance("\(source)") == source)
        #expect(source.date == date)
    }

    @Test(arguments: [
        "", "-", "1-", "-\(name)", "\(name)", "1-2-\(name)", "one-\(name)", "1.5-\(name)", "1-\(name)0", " 1-\(name)",
        "99999999999999999999-\(name)", "+5-\(name)", "05-\(name)", "undated", "Undated-\(name)",
    ])
    func `any other text is not the name of a document`(text: String) {
        #expect(Provenance(text) == nil)
    }
}
