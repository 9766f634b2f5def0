// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld
import Testing

@Suite struct LedgerKeyTests {
    @Test func `each member of the changes is among what they write, so that none is forgotten`() {
        let members = Mirror(reflecting: LedgerChanges()).children.compactMap(\.label)
        #expect(Set(members) == Set(EachChange.all.keys))
        for (member, (changes, keys)) in EachChange.all { #expect(changes.keys == keys, "\(member)") }
        #expect(LedgerChanges().keys.isEmpty)
    }

    @Test func `an event of another ledger changes no chain`() throws {
        var changes = try #require(EachChange.all["events"]).changes
        changes.events[0].cursor = EventCursor(7, epoch: "other")
        #expect(changes.keys == [.events("com.example")])
    }

    @Test func `a query for a customer's holdings names the customer and each environment, and a union names both`() {
        let ids = ["anna", "berta"].map { CustomerID($0, of: "com.example") }
        let query = LedgerQuery.holdings(of: ids, in: [.production, .sandbox])
        #expect(query.keys.count == 6 && query.keys.isSuperset(of: ids.map(LedgerKey.customerID)))
        let chain = LedgerKey.chain(ChainKey("1", in: LedgerScope(bundleId: "com.example", environment: .production)))
        #expect(query.union(LedgerQuery([chain], owners: true)).keys == query.keys.union([chain]))
        #expect(query.union(LedgerQuery([chain], owners: true)).owners)
    }
}
