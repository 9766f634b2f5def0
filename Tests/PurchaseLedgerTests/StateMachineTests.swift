// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests the table of states and events in the fact sheet about signed transactions. In each state in which an event
/// can happen, its documents must lead to the state that the table names. The first period ends on day 30. An event
/// comes on day 15 if the state lies within that period, otherwise on day 31.
@Suite struct StateMachineTests {
    typealias Status = SubscriptionState.Status

    /// A state, the documents that lead to it, and the day on which it is checked and the event comes.
    struct State {
        var name: String
        var status: Status
        var chain: Chain
        var day: Double
    }

    static let states = [
        State(
            name: "ACTIVE", status: .active, chain: Facts.chain([Facts.transaction()], [Facts.renewal(signed: 0)]),
            day: 15),
        State(
            name: "GRACE", status: .billingGrace,
            chain: Facts.chain([Facts.transaction()], [Facts.renewal(signed: 30, retry: true, grace: 46)]), day: 31),
        State(
            name: "RETRY", status: .billingRetry,
            chain: Facts.chain([Facts.transaction()], [Facts.renewal(signed: 30, retry: true)]), day: 31),
        State(
            name: "EXPIRED", status: .expired,
            chain: Facts.chain(
                [Facts.transaction()],
                [Facts.renewal(signed: 30, renews: false, retry: false, intent: .customerCancelled)]),
            day: 31),
        State(
            name: "REVOKED", status: .revoked,
            chain: Facts.chain(
                [Facts.transaction(), Facts.transaction(signed: 10) { $0.revocationDate = Facts.day(10) }],
                [Facts.renewal(signed: 10, renews: false)]), day: 15),
    ]

    /// The documents of an event on a day, and the resulting status for each state in which the event can happen.
    struct Event: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var transactions: @Sendable (Double) -> [TransactionStatement]
        var renewal: @Sendable (Double) -> RenewalFact?
        var outcomes: [String: Status]
    }

    private static func same(_ day: Double) -> [TransactionStatement] { [Facts.transaction(signed: day)] }
    private static func next(_ day: Double) -> [TransactionStatement] {
        [Facts.transaction("2", signed: day, from: day, until: day + 30)]
    }
    private static func revoked(_ day: Double) -> [TransactionStatement] {
        [Facts.transaction(signed: day) { $0.revocationDate = Facts.day(day) }]
    }

    static let events = [
        Event(
            testDescription: "SUBSCRIBED/RESUBSCRIBE", transactions: next, renewal: { Facts.renewal(signed: $0) },
            outcomes: ["RETRY": .active, "EXPIRED": .active, "REVOKED": .active]),
        Event(
            testDescription: "DID_RENEW", transactions: next, renewal: { Facts.renewal(signed: $0) },
            outcomes: ["ACTIVE": .active]),
        Event(
            testDescription: "DID_RENEW/BILLING_RECOVERY", transactions: next, renewal: { Facts.renewal(signed: $0) },
            outcomes: ["GRACE": .active, "RETRY": .active]),
        Event(
            testDescription: "GRACE_PERIOD_EXPIRED", transactions: same,
            renewal: { Facts.renewal(signed: $0, retry: true) }, outcomes: ["GRACE": .billingRetry]),
        Event(
            testDescription: "EXPIRED/BILLING_RETRY", transactions: same,
            renewal: { Facts.renewal(signed: $0, renews: false, retry: false, intent: .billingError) },
            outcomes: ["GRACE": .expired, "RETRY": .expired]),
        Event(
            testDescription: "cancelled (AUTO_RENEW_DISABLED)", transactions: same,
            renewal: { Facts.renewal(signed: $0, renews: false) },
            outcomes: ["ACTIVE": .active, "GRACE": .expired, "RETRY": .expired, "EXPIRED": .expired]),
        Event(
            testDescription: "AUTO_RENEW_ENABLED", transactions: same, renewal: { Facts.renewal(signed: $0) },
            outcomes: ["ACTIVE": .active]),
        Event(
            testDescription: "DID_CHANGE_RENEWAL_PREF/UPGRADE",
            transactions: { day in
                [
                    Facts.transaction(signed: day) { $0.isUpgraded = true },
                    Facts.transaction("2", product: "high", signed: day, from: day, until: day + 30),
                ]
            }, renewal: { Facts.renewal(signed: $0) },
            outcomes: ["ACTIVE": .active, "GRACE": .active, "RETRY": .active]),
        Event(
            testDescription: "RENEWAL_EXTENDED", transactions: { [Facts.transaction(signed: $0, until: 60)] },
            renewal: { Facts.renewal(signed: $0) }, outcomes: ["ACTIVE": .active]),
        Event(
            testDescription: "REFUND of the governing period", transactions: revoked,
            renewal: { Facts.renewal(signed: $0, renews: false) },
            outcomes: [
                "ACTIVE": .revoked, "GRACE": .revoked, "RETRY": .revoked, "EXPIRED": .revoked, "REVOKED": .revoked,
            ]),
        Event(
            testDescription: "REFUND_REVERSED", transactions: same, renewal: { Facts.renewal(signed: $0) },
            outcomes: ["REVOKED": .active]),
        Event(
            testDescription: "REFUND_DECLINED, CONSUMPTION_REQUEST, PRICE_CHANGE", transactions: { _ in [] },
            renewal: { _ in nil },
            outcomes: [
                "ACTIVE": .active, "GRACE": .billingGrace, "RETRY": .billingRetry, "EXPIRED": .expired,
                "REVOKED": .revoked,
            ]),
    ]

    @Test(arguments: events) func `the documents of an event lead to the state in the table, in either order`(
        _ event: Event
    ) {
        for state in Self.states {
            #expect(
                state.chain.subscription(Catalogue(), at: Facts.day(state.day))?.status == state.status, "\(state.name)"
            )
            guard let outcome = event.outcomes[state.name] else { continue }
            var chain = state.chain
            for transaction in event.transactions(state.day) { chain.merge(transaction) }
            if let renewal = event.renewal(state.day) { chain.merge(renewal) }
            #expect(chain.subscription(Catalogue(), at: Facts.day(state.day))?.status == outcome, "from \(state.name)")
            // The same documents in the other order: older ones that arrive after the event revert nothing.
            var late = Chain(Facts.key)
            for transaction in event.transactions(state.day) { late.merge(transaction) }
            if let renewal = event.renewal(state.day) { late.merge(renewal) }
            for fact in state.chain.transactions.values { if let statement = fact.signed { late.merge(statement) } }
            if let renewal = state.chain.renewal { late.merge(renewal) }
            #expect(late == chain, "from \(state.name)")
        }
    }

    @Test(arguments: [(30.0, Status.stale), (45, .stale)])
    func `a period with renewal on is stale from its end if no document arrives`(day: Double, status: Status) {
        #expect(Self.states[0].chain.subscription(Catalogue(), at: Facts.day(day))?.status == status)
    }

    @Test func `a grace period ends without any further document`() {
        #expect(Self.states[1].chain.subscription(Catalogue(), at: Facts.day(46))?.status == .billingRetry)
    }

    @Test func `a refund of an older period leaves every state as it is`() {
        for state in Self.states where state.status != .revoked {
            var chain = state.chain
            chain.merge(
                Facts.transaction("0", signed: state.day, from: -30, until: 0) { $0.revocationDate = Facts.day(1) })
            #expect(chain.subscription(Catalogue(), at: Facts.day(state.day))?.status == state.status, "\(state.name)")
        }
    }

    @Test func `a subscription with only upgraded periods still names the product of its next period`() {
        var renewal = Facts.renewal(signed: 10)
        renewal.terms.autoRenewProductId = "high"
        let chain = Facts.chain([Facts.transaction(signed: 10) { $0.isUpgraded = true }], [renewal])
        let state = chain.subscription(Catalogue(), at: Facts.day(12))
        #expect(state?.status == .upgraded)
        #expect(state?.renewal?.autoRenewProductId == "high")
    }
}
