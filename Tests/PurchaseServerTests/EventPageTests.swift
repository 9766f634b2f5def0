// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests the table in `docs/events.md` and the lines of `docs/events.jsonl`, which are made from the events of a
/// ``FollowedYear``.
@Suite struct EventPageTests {
    /// The members that every event has.
    private static let always: Set = ["id", "kind", "recordedAt", "bundleId", "environment", "effectiveAt"]

    private static func members(of event: JSONValue) -> Set<String> {
        Set((event.members ?? []).filter { $0.value != .null }.map(\.name)).subtracting(always)
    }

    /// Members that the table names together.
    static let groups: [String: Set<String>] = [
        "entitlements…": ["entitlementsAfter", "entitlementsBefore"],
        "offer…": ["offerDiscountType", "offerIdentifier", "offerPeriod", "offerType"],
        "revocation…": ["revocationDate", "revocationPercentage", "revocationReason", "revocationType"],
        "transaction…": ["originalTransactionId", "productId", "quantity", "transactionId", "type"],
    ]

    /// The row of a kind in the table: its members in all events, and its members in some events.
    private static func row(_ kind: String, _ events: [JSONValue]) -> String {
        let sets = events.map(members)
        let all = sets.reduce(sets.first ?? []) { $0.intersection($1) }
        let some = sets.reduce(Set()) { $0.union($1) }.subtracting(all)
        let cells = [all, some].map { members in
            let whole = groups.filter { $0.value.isSubset(of: members) }
            let names = members.subtracting(whole.values.joined()).union(whole.keys)
            return names.sorted().map { "`\($0)`" }.joined(separator: ", ")
        }
        return "| `\(kind)` | \(cells[0]) | \(cells[1]) |"
    }

    /// A usual event of the kind: the first with the members that most events of the kind have.
    private static func example(_ events: [JSONValue]) -> String {
        let groups = Dictionary(grouping: events) { members(of: $0) }.values
        let counts = groups.map(\.count)
        let event = events.first { event in
            groups.first { members(of: $0[0]) == members(of: event) }?.count == counts.max()
        }
        let shown = (event?.members ?? []).map { member in
            // The name of a document depends on its signature, which is different each time.
            let isNamed = ["id", "evidence"].contains(member.name)
            return JSONValue.Member(member.name, isNamed ? .string("…") : member.value)
        }
        return JSONValue.object(shown).compactText
    }

    @Test(.takesLong)
    func `the pages have the members and an example of each kind of event`() async throws {
        var found: [String: [JSONValue]] = [:]
        let kinds = LedgerEvent.Kind.allCases.map(\.rawValue)
        for seed: UInt64 in 1...4 where !kinds.allSatisfy({ found[$0] != nil }) {
            var year = try await FollowedYear(seed: seed, customers: 60, days: 120, steps: 900)
            try await year.run()
            try await year.restore()
            found.merge(year.kinds) { $0 + $1 }
        }
        let text = try Project.text("docs/events.md")
        let examples = Set(try Project.text("docs/events.jsonl").split(separator: "\n").map(String.init))
        #expect(examples.count == kinds.count)
        for kind in kinds {
            guard let events = found[kind] else {
                Issue.record("No event of the kind \(kind) occurred")
                continue
            }
            let row = Self.row(kind, events)
            // A failure shows what is missing, and not the whole page.
            let hasRow = text.contains(row)
            #expect(hasRow, "The row is missing: \(row)")
            let example = Self.example(events)
            let hasExample = examples.contains(example)
            #expect(hasExample, "The example is missing:\n\(example)")
        }
    }
}
