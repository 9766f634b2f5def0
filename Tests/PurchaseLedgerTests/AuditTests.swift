// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import PurchaseLedgerTesting
import TestData
import TestWorld
import Testing

/// Tests the audit list: which operations have entries, and how entries are found, lose their customers and go.
@Suite struct AuditTests {
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)

    private static func time(_ hour: Int64) -> Timestamp { TestStore.start.advanced(by: .seconds(hour * 3600)) }

    /// A ledger whose decisions all run twice.
    private let storage = UnsteadyStorage(around: MemoryLedgerStorage())

    /// The ledger with a note of an operation.
    private func ledger(
        _ operation: String, about id: String? = nil, of app: String = scope.bundleId, at hour: Int64 = 0,
        _ unique: String = "1"
    ) -> Ledger {
        var ledger = Ledger(storage: storage)
        ledger.audit = AuditEntry(operation, of: app, at: Self.time(hour), wall: Self.time(hour), unique: unique)
        ledger.audit?.customerId = id
        return ledger
    }

    private func set(_ value: String, of id: String, at hour: Int64) async throws {
        let changes = [CustomerAttributes.Change("plan", value)]
        try await ledger("set \(hour)", about: id, at: hour).setAttributes(
            changes, of: id, in: Self.scope.bundleId, at: Self.time(hour))
    }

    private func page(
        _ id: String? = nil, from: Int64? = nil, to: Int64? = nil, after: String? = nil, limit: Int = 100
    ) async throws -> ScanPage<AuditEntry> {
        try await Ledger(storage: storage).audit(
            of: Self.scope.bundleId, about: id, from: from.map(Self.time), to: to.map(Self.time), after: after,
            limit: limit)
    }

    @Test(arguments: Seeds.first(5)) func `each change of a day has one entry, and nothing else has one`(
        seed: UInt64
    ) async throws {
        #expect(try await AuditStory.told(in: storage, seed: seed).faults == [])
    }

    @Test func `an operation with several commits has one entry, which names its customer and its events`() async throws
    {
        try await set("gold", of: "anna", at: 0)
        let page = try await page()
        let entry = try #require(page.items.first)
        #expect(page.items.count == 1 && page.next == nil && entry.at == Self.time(0))
        #expect(entry.content.operation == "set 0" && entry.content.events == ["customer.attributesChanged"])
        #expect(entry.customerId == "anna" && entry.record.entries.count == 1)
        #expect(try AuditEntry(entry.record).content == entry.content)
    }

    @Test func `a change elsewhere has one entry, with and without a change of the ledger`() async throws {
        let ledger = ledger("extend", about: "anna")
        for _ in 0..<2 { try await ledger.noteChange(at: Self.time(0)) }
        try await ledger.setAttributes(
            [CustomerAttributes.Change("a", "b")], of: "anna", in: Self.scope.bundleId, at: Self.time(0))
        try await ledger.noteChange(at: Self.time(0))
        let entries = try await page().items
        #expect(entries.map(\.content.operation) == ["extend"] && entries.first?.customerId == "anna")
    }

    @Test func `entries come newest first, page by page, by customer and by time`() async throws {
        for hour in 0..<10 as Range<Int64> { try await set("\(hour)", of: hour % 2 == 0 ? "anna" : "bert", at: hour) }
        _ = try await ledger("other", of: "com.other").setAttributes(
            [CustomerAttributes.Change("a", "b")], of: "anna", in: "com.other", at: Self.time(0))
        for (id, from, to, expected) in [
            (nil, nil, nil, Array((0..<10).reversed())), ("anna", nil, nil, [8, 6, 4, 2, 0]),
            (nil, 3, 6, [5, 4, 3]), ("bert", 2, 7, [5, 3]), ("nobody", nil, nil, []), (nil, 6, 3, []),
            (nil, nil, 1, [0]), (nil, 9, nil, [9]),
        ] as [(String?, Int64?, Int64?, [Int64])] {
            for limit in [1, 2, 3, 100] {
                var found: [String] = []
                var cursor: String?
                repeat {
                    let page = try await page(id, from: from, to: to, after: cursor, limit: limit)
                    #expect(page.items.count <= limit && (page.next == nil || page.items.count == limit))
                    found += page.items.map(\.content.operation)
                    cursor = page.next?.rawValue
                } while cursor != nil
                #expect(found == expected.map { "set \($0)" }, "\(id ?? "all") \(limit)")
            }
        }
    }

    @Test func `a merged customer is found with the one that it is part of, each entry once`() async throws {
        try await set("a", of: "anna", at: 0)
        try await set("b", of: "bert", at: 1)
        _ = try await ledger("merge", about: "anna", at: 2).addAlias(
            "bert", to: "anna", in: Self.scope, at: Self.time(2))
        for id in ["anna", "bert"] {
            let page = try await page(id)
            #expect(page.items.map(\.content.operation) == ["merge", "set 1", "set 0"])
            #expect(page.items.map(\.customerId) == ["anna", "anna", "anna"])
        }
    }

    @Test(arguments: [false, true]) func `after an erasure no entry has an id of the customer`(
        isMerged: Bool
    ) async throws {
        let ids = ["anna@example.com", "a second id", "a third id"]
        try await set("a", of: ids[0], at: 0)
        _ = try await ledger("alias", about: ids[0], at: 1).addAlias(
            ids[1], to: ids[0], in: Self.scope, at: Self.time(1))
        if isMerged {
            try await set("b", of: ids[2], at: 2)
            _ = try await ledger("merge", about: ids[0], at: 3).addAlias(
                ids[2], to: ids[0], in: Self.scope, at: Self.time(3))
        }
        _ = try await ledger("erase", about: ids[0], at: 4).delete(ids[0], in: Self.scope, at: Self.time(4))
        let page = try await page()
        let merge = isMerged ? ["merge", "set 2"] : []
        #expect(page.items.map(\.content.operation) == ["erase"] + merge + ["alias", "set 0"])
        #expect(page.items.allSatisfy { $0.customerId == nil && !$0.record.entries.isEmpty })
        for record in page.items.map(\.record) {
            let text = "\(record.key.name) \(record.entries) \(String(decoding: record.payload, as: UTF8.self))"
            #expect(!ids.contains { text.contains($0) }, "\(text)")
        }
        for id in ids { #expect(try await self.page(id).items.isEmpty) }
    }

    @Test func `entries from before an instant are erased in every app, and all others stay`() async throws {
        for hour in 0..<6 as Range<Int64> { try await set("\(hour)", of: "anna", at: hour) }
        _ = try await ledger("other", of: "com.other").setAttributes(
            [CustomerAttributes.Change("a", "b")], of: "anna", in: "com.other", at: Self.time(0))
        let ledger = Ledger(storage: storage)
        var counts: [Int] = []
        repeat { counts.append(try await ledger.eraseAudit(before: Self.time(4), limit: 3)) } while counts.last != 0
        #expect(counts == [4, 1, 0])
        #expect(try await page().items.map(\.content.operation) == ["set 5", "set 4"])
        #expect(try await ledger.audit(of: "com.other", limit: 9).items.isEmpty)
    }

    @Test(arguments: ["", "x", "1-2-3", "-223372036854775807-1-2", "9223370247176974807-1", "9999999999999999999-1-2"])
    func `any other text is no id of an entry`(text: String) {
        #expect(AuditEntry.time(of: text) == nil)
    }

    @Test(arguments: [.min, .max, 0, 1_800_000_000_000].map(Timestamp.init(milliseconds:)))
    func `an entry of any time has a time that is read back`(time: Timestamp) {
        let entry = AuditEntry("x", of: "com.example", at: time, wall: time, unique: "1")
        #expect(entry.at == max(time, Timestamp(milliseconds: 0)))
    }
}
