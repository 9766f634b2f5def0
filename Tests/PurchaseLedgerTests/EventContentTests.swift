// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld
import Testing

/// Tests the bodies of events: what decisions write, and what readers make of bodies that others wrote.
@Suite struct EventContentTests {
    private static let time = Timestamp(milliseconds: 1_750_000_000_000)

    private static let state = ChainState(
        status: .active, productId: "month", hasAccess: true, until: Timestamp(milliseconds: 7), willRenew: false,
        commitmentWillRenew: true)

    /// Terms with a value in every member, as Apple would name an offer.
    private static let terms: RenewalTerms = {
        var terms = RenewalTerms()
        (terms.autoRenewProductId, terms.renewalPrice, terms.currency) = ("year", 9990, "EUR")
        (terms.offerType, terms.offerIdentifier) = (Open(.promotional), "au\"tumn")
        (terms.offerDiscountType, terms.offerPeriod) = (Open(.payAsYouGo), "P1M")
        (terms.priceIncreaseStatus, terms.renewalQuantity) = (Open(.pending), 3)
        terms.eligibleWinBackOfferIds = ["b", "a"]
        return terms
    }()

    /// Contents and their bodies.
    static let bodies: [(EventContent, String)] = [
        (EventContent(effectiveAt: time), #"{"effectiveAt":1750000000000,"before":null,"after":null}"#),
        (
            EventContent(
                effectiveAt: time, transactionId: "2", productId: "month", detail: "a \"\\ \u{0}\u{1}0é",
                before: ChainState(status: .expired, hasAccess: false, until: Timestamp(milliseconds: 6)),
                after: state),
            #"""
            {"effectiveAt":1750000000000,"transactionId":"2","productId":"month","detail":"a \"\\ \u0000\u00010é",\#
            "before":{"status":"expired","productId":null,"hasAccess":false,"until":6,"willRenew":null},\#
            "after":{"status":"active","productId":"month","hasAccess":true,"until":7,"willRenew":false,"commitmentWillRenew":true}}
            """#
        ),
        (
            EventContent(effectiveAt: time, after: ChainState(status: .stale, hasAccess: true, renewal: terms)),
            #"""
            {"effectiveAt":1750000000000,"before":null,"after":{"status":"stale","productId":null,"hasAccess":true,\#
            "until":null,"renewal":{"autoRenewProductId":"year","renewalPrice":9990,"currency":"EUR","offerType":2,\#
            "offerIdentifier":"au\"tumn","offerDiscountType":"PAY_AS_YOU_GO","offerPeriod":"P1M",\#
            "priceIncreaseStatus":0,"renewalQuantity":3,"eligibleWinBackOfferIds":["b","a"]},"willRenew":null}}
            """#
        ),
    ]

    @Test(arguments: bodies)
    func `a body has the members of an answer, and is read as it was written`(
        content: EventContent, body: String
    ) throws {
        #expect(String(decoding: content.body, as: UTF8.self) == body)
        #expect(try EventContent(reading: Array(body.utf8)) == content)
        let event = LedgerEvent(.purchased, in: FilledLedger.scope, at: Self.time, content)
        #expect(event.body == content.body && event.content == content)
    }

    @Test func `the terms of a renewal have the same form in answers as in events`() throws {
        let state = ChainState(status: .stale, hasAccess: true, renewal: Self.terms)
        let body = EventContent(effectiveAt: Self.time, after: state).body
        #expect(try JSONValue(parsing: body)["after"]?["renewal"] == JSONValue(encoding: Self.terms))
    }

    @Test func `the body that the storages write in SQL is that of an event without further members`() {
        let text = EventContent.body(effectiveAt: "\(Self.time.milliseconds)")
        #expect(Array(text.utf8) == EventContent(effectiveAt: Self.time).body)
    }

    @Test func `members and words of a newer version are passed over`() throws {
        let body =
            #"{"gift":[1.50],"after":{"since":4,"status":"paused","hasAccess":true},"before":null,"effectiveAt":7,"gift":2}"#
        let content = try EventContent(reading: Array(body.utf8))
        #expect(content.effectiveAt == Timestamp(milliseconds: 7) && content.after?.status.rawValue == "paused")
    }

    @Test(arguments: [
        "", "{", "[]", "7", "{}", #"{"effectiveAt":"7"}"#, #"{"effectiveAt":7,"detail":8}"#,
        #"{"effectiveAt":7,"after":{}}"#, #"{"effectiveAt":7} "x""#, "\u{0}",
    ])
    func `a body of another form has no content`(body: String) {
        #expect(throws: (any Error).self) { try EventContent(reading: Array(body.utf8)) }
        let event = LedgerEvent(
            Open(.purchased), in: FilledLedger.scope, at: Self.time, customer: nil, chainName: nil,
            body: Array(body.utf8))
        #expect(event.content == nil)
    }

    @Test func `a check reports each event whose body is no JSON object, and no other event`() async throws {
        let (storage, store) = (MemoryLedgerStorage(), try TestStore())
        let ledger = Ledger(storage: storage)
        let bodies = ["{}", "", #"{"gift":2}"#, "[]", "{"] + [String(decoding: Self.bodies[1].0.body, as: UTF8.self)]
        try await storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.events = bodies.map { body in
                LedgerEvent(
                    Open(rawValue: "purchase.gifted"), in: FilledLedger.scope, at: Self.time, customer: nil,
                    chainName: nil, body: Array(body.utf8))
            }
            return .commit(changes, ())
        }
        let cursors = try await storage.events(of: FilledLedger.scope.bundleId, after: nil, limit: 10).events
            .map { $0.cursor?.rawValue ?? "" }
        let faults = try await ledger.check(by: store.verifier()).faults
        #expect(faults.allSatisfy { $0.code == "damaged" })
        #expect(
            faults.map(\.error)
                == [
                    "The body of the event \(cursors[1]) of \(FilledLedger.scope.bundleId) cannot be read: "
                        + "The document ends early at byte 0",
                    "The body of the event \(cursors[3]) of \(FilledLedger.scope.bundleId) cannot be read: "
                        + "It is no JSON object",
                    "The body of the event \(cursors[4]) of \(FilledLedger.scope.bundleId) cannot be read: "
                        + "Expected the name of a member at byte 1",
                ])
    }
}
