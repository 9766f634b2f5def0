// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import TestData
import TestWorld
import Testing

/// The table of states and events that Apple's pages give, against what happens in a long run.
@Suite struct StateTableTests {
    private enum State: String, CaseIterable {
        case none, active, grace, retry, expired, revoked

        init(_ status: SubscriptionStatus?) {
            self =
                switch status {
                case .active: .active
                case .billingGracePeriod: .grace
                case .billingRetry: .retry
                case .expired: .expired
                case .revoked: .revoked
                case nil: .none
                }
        }
    }

    /// A row: the notifications of an event, and the state that follows each state in which the event is possible.
    private struct Row {
        let name: String
        let next: [State: Set<State>]
        /// Cells that cannot be reached, with the reason.
        var unreachable: [State: String] = [:]

        /// - Parameter cells: From none to revoked: `.` impossible, `=` unchanged; A, G, R, E, V the state that
        ///   follows.
        init(_ name: String, _ cells: String, unreachable: [State: String] = [:]) {
            self.name = name
            self.unreachable = unreachable
            var next: [State: Set<State>] = [:]
            for (state, cell) in zip(State.allCases, cells.split(separator: " ")) where cell != "." {
                next[state] = Set(
                    cell.map { letter in
                        let states: [Character: State] = [
                            "A": .active, "G": .grace, "R": .retry, "E": .expired, "V": .revoked,
                        ]
                        return states[letter] ?? state
                    })
            }
            self.next = next
        }
    }

    // The columns are: none, active, grace, retry, expired, revoked.
    private static let rows = [
        Row("SUBSCRIBED INITIAL_BUY", "A . . . . ."),
        Row("SUBSCRIBED RESUBSCRIBE", ". . . A A A"),
        Row("DID_RENEW", ". A . . . ."),
        Row("DID_RENEW BILLING_RECOVERY", ". . A A . ."),
        Row("DID_FAIL_TO_RENEW GRACE_PERIOD", ". G = . . ."),
        Row("DID_FAIL_TO_RENEW", ". R . = . ."),
        Row("GRACE_PERIOD_EXPIRED", ". . R . . ."),
        Row("EXPIRED BILLING_RETRY", ". . . E . ."),
        Row("DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED", ". A E E = ="),
        Row("DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_ENABLED", ". A . . . ."),
        Row("EXPIRED VOLUNTARY", ". E E E . ."),
        Row("EXPIRED PRICE_INCREASE", ". E . . . ."),
        Row("EXPIRED PRODUCT_NOT_FOR_SALE", ". E . . . ."),
        Row("EXPIRED", ". E E E . ."),
        Row("DID_CHANGE_RENEWAL_PREF UPGRADE", ". A A A . ."),
        Row("DID_CHANGE_RENEWAL_PREF DOWNGRADE", ". A = = . ."),
        Row("DID_CHANGE_RENEWAL_PREF", ". A = = . ."),
        Row("OFFER_REDEEMED", ". A = = . ."),
        Row("OFFER_REDEEMED UPGRADE", ". A A A . ."),
        Row("OFFER_REDEEMED DOWNGRADE", ". A = = . ."),
        Row("PRICE_INCREASE PENDING", ". A = = . ."),
        Row("PRICE_INCREASE ACCEPTED", ". A = = . ."),
        Row(
            "RENEWAL_EXTENDED", ". A = . . .",
            unreachable: [.grace: "only if the end is still ahead, and the simulated App Store fails at the end"]),
        Row("REFUND of the governing transaction", ". V V V V ="),
        Row("REFUND of an older transaction", ". = = = = ="),
        Row(
            "REFUND_REVERSED of the governing transaction", ". = = = = AE",
            unreachable: [
                .active: "a governing transaction that is refunded is revoked", .grace: "as active",
                .retry: "as active", .expired: "as active",
            ]),
        Row("REFUND_REVERSED of an older transaction", ". = = = = ="),
        Row("REVOKE", ". V V V V ="),
        Row("REFUND_DECLINED", ". = = = = ="),
        Row("CONSUMPTION_REQUEST", ". = = = = ="),
        Row("METADATA_UPDATE", ". = = = = ="),
        Row("PRICE_CHANGE", ". = = = = ="),
        Row("MIGRATION", ". = = = = ="),
        Row(
            "RENEWAL_EXTENSION FAILURE", ". = = = = =",
            unreachable: [
                .expired: "a mass extension is about running subscriptions", .revoked: "as expired",
            ]),
    ]

    private typealias Reached = [String: [State: Int]]

    /// What happens in random worlds. The rarest cells come once in 40 of them, so more follow until each cell came.
    private static let worlds: [(seed: UInt64, occurrences: [Occurrence])] = {
        let (fewest, most, actions): (UInt64, UInt64, Int) = Seeds.isOptimised ? (40, 400, 250) : (8, 8, 80)
        var worlds: [(UInt64, [Occurrence])] = []
        var reached: Reached = [:]
        for seed in 1...most where seed <= fewest || !unreached(reached).isEmpty {
            let world = try? RandomWorld(seed: seed, customers: 6, actions: actions).world
            worlds.append((seed, world?.occurrences ?? []))
            for change in changes(worlds[worlds.count - 1].1) {
                reached[change.event, default: [:]][change.before, default: 0] += 1
            }
        }
        return worlds
    }()

    /// The cells that a long run has to reach and that `reached` lacks.
    private static func unreached(_ reached: Reached) -> [String] {
        rows.flatMap { row in
            row.next.keys.filter { row.unreachable[$0] == nil && reached[row.name]?[$0] == nil }
                .map { "\(row.name) in \($0)" }
        }
    }

    /// The events of subscriptions, with the states before and after them.
    private static func changes(
        _ occurrences: [Occurrence]
    ) -> [(event: String, before: State, after: State, occurrence: Occurrence)] {
        var states: [String: (State, governing: String)] = [:]
        return occurrences.compactMap { occurrence in
            guard let id = occurrence.transaction?.originalTransactionId, let status = occurrence.status else {
                return nil
            }
            let (before, governing) = states[id] ?? (.none, "")
            let transaction = occurrence.transaction?.transactionId ?? ""
            let bringsNewPeriod =
                before == .none
                || [
                    .subscribed, .didRenew, .didChangeRenewalPref, .offerRedeemed,
                ].contains(occurrence.topic.type)
            states[id] = (State(status), bringsNewPeriod ? transaction : governing)
            return (event(occurrence.topic, isOlder: transaction != governing), before, State(status), occurrence)
        }
    }

    @Test func `a long run reaches every cell of the state table, and no other`() throws {
        var reached: Reached = [:]
        var wrong: [String] = []
        for world in Self.worlds {
            for (event, before, after, occurrence) in Self.changes(world.occurrences) {
                reached[event, default: [:]][before, default: 0] += 1
                if Self.rows.first(where: { $0.name == event })?.next[before]?.contains(after) != true {
                    let id = occurrence.transaction?.originalTransactionId ?? ""
                    let date = occurrence.date.iso8601
                    wrong.append("Seed \(world.seed), \(id) of \(date): \(event) from \(before) to \(after)")
                }
            }
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(20).joined(separator: "\n"))")
        for row in Self.rows {
            let cells = State.allCases.map { reached[row.name]?[$0].map(String.init) ?? "·" }
            print(row.name.padding(50), cells.map { $0.padding(7) }.joined())
        }
        let unreached = Self.unreached(reached)
        #expect(unreached.isEmpty || !Seeds.isOptimised, "Never reached: \(unreached.joined(separator: ", "))")
    }

    @Test func `every notification type and subtype but those of seats is emitted`() throws {
        var emitted: Set<String> = []
        for occurrence in Self.worlds.flatMap(\.occurrences) { emitted.insert(Self.name(occurrence.topic)) }
        let others = [
            "ONE_TIME_CHARGE", "RENEWAL_EXTENSION SUMMARY", "EXTERNAL_PURCHASE_TOKEN UNREPORTED",
            "EXTERNAL_PURCHASE_TOKEN CREATED", "EXTERNAL_PURCHASE_TOKEN ACTIVE_TOKEN_REMINDER", "RESCIND_CONSENT",
            "TEST", "REFUND", "REFUND_REVERSED",
        ]
        let all = Set(Self.rows.map(\.name).filter { !$0.contains(" of ") } + others)
        #expect(Seeds.isOptimised ? emitted == all : emitted.isSubset(of: all), "\(emitted.symmetricDifference(all))")
    }

    private static func name(_ notice: NotificationTopic) -> String {
        ([notice.type.rawValue] + [notice.subtype?.rawValue].compactMap(\.self)).joined(separator: " ")
    }

    private static func event(_ notice: NotificationTopic, isOlder: Bool) -> String {
        switch notice.type {
        case .refund, .refundReversed: "\(name(notice)) of \(isOlder ? "an older" : "the governing") transaction"
        default: name(notice)
        }
    }
}

extension String {
    fileprivate func padding(_ width: Int) -> String {
        self + String(repeating: " ", count: max(1, width - count))
    }
}
