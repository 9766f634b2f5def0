// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import PurchaseLedgerTesting
import Testing

/// Tests the attributes of customers: which value counts, the limits, and what a merge, an erasure and a search do.
@Suite struct AttributeTests {
    private typealias Change = CustomerAttributes.Change
    private static let app = Facts.scope.bundleId

    private let ledger = Ledger(storage: UnsteadyStorage(around: MemoryLedgerStorage()))

    private func set(_ changes: [Change], of id: String = "anna", day: Double = 1) async throws {
        try await ledger.setAttributes(changes, of: id, in: Self.app, at: Facts.day(day))
    }

    private func texts(of id: String = "anna") async throws -> [String: String] {
        let found = try await ledger.attributes(of: id, in: Self.app)
        return Dictionary((found?.present ?? []).map { ($0.name, $0.text) }) { first, _ in first }
    }

    private func error(_ changes: [Change], of id: String = "anna") async throws -> AttributeError? {
        do {
            try await set(changes, of: id)
            return nil
        } catch let error as AttributeError {
            return error
        }
    }

    @Test func `an attribute of an unknown id makes an established customer`() async throws {
        #expect(try await ledger.attributes(of: "anna", in: Self.app) == nil)
        try await set([Change("$email", "anna@example.com"), Change("plan", "a")])
        #expect(try await texts() == ["$email": "anna@example.com", "plan": "a"])
        let record = try await ledger.customers(of: Self.app, limit: 9).items.first
        #expect(record?.ids == ["anna"] && record?.isEstablished == true)
    }

    @Test func `the newest time counts, and a removed attribute is not brought back by an older value`() async throws {
        try await set([Change("plan", "new", at: Facts.day(5))], day: 9)
        try await set([Change("plan", "old", at: Facts.day(4))], day: 9)
        #expect(try await texts() == ["plan": "new"])
        try await set([Change("plan", "same", at: Facts.day(5))], day: 9)
        #expect(try await texts() == ["plan": "same"])
        try await set([Change("plan", "", at: Facts.day(6))], day: 9)
        #expect(try await texts() == [:])
        try await set([Change("plan", "late", at: Facts.day(5.5))], day: 9)
        #expect(try await texts() == [:])
        try await set([Change("plan", "back", at: Facts.day(7))], day: 9)
        #expect(try await texts() == ["plan": "back"])
        try await set([Change("plan", nil)], day: 9)
        #expect(try await texts() == [:])
    }

    @Test func `a time ahead of the clock counts as now, also after the clock went back`() async throws {
        try await set([Change("plan", "future", at: Facts.day(1000))], day: 5)
        #expect(try await ledger.attributes(of: "anna", in: Self.app)?.all["plan"]?.updatedAt == Facts.day(5))
        try await set([Change("plan", "next")], day: 6)
        #expect(try await texts() == ["plan": "next"])
        // The clock was three days ahead.
        try await set([Change("plan", "after")], day: 3)
        #expect(try await texts() == ["plan": "after"])
    }

    @Test(arguments: [
        ("a", true), ("A-_9", true), ("$email", true), (String(repeating: "a", count: 40), true),
        ("$" + String(repeating: "a", count: 39), true), ("", false), ("$", false), ("$$a", false), ("a b", false),
        ("é", false), ("\u{212a}", false), (String(repeating: "a", count: 41), false), ("a.b", false),
        ("a\u{0}", false),
        ("$" + String(repeating: "a", count: 40), false),
    ])
    func `a name has one to forty characters of the list, after a dollar sign if it is reserved`(
        name: String, isAllowed: Bool
    ) async throws {
        #expect(try await error([Change(name, "x")]) == (isAllowed ? nil : .invalidName(name)))
        #expect(try await texts() == (isAllowed ? [name: "x"] : [:]))
    }

    @Test func `a value has at most five hundred characters, of any size, that texts may have`() async throws {
        let longest = String(repeating: "😀", count: 500)
        #expect(try await error([Change("a", longest)]) == nil)
        for wrong in [longest + "x", "a\u{0}", "\u{202e}", "\u{85}"] {
            let fault = try #require(TextForm.attributeValue.fault(in: wrong))
            #expect(
                try await error([Change("b", "x"), Change("a", wrong)]) == .invalidValue("a", fault: fault))
        }
        #expect(try await texts() == ["a": longest])
    }

    @Test func `a customer has fifty own and fifty reserved attributes, and none is set if one is too many`()
        async throws
    {
        let value = String(repeating: "x", count: 500)
        let name = String(repeating: "n", count: 37)
        try await set((10..<60).map { Change("\(name)\($0)", value) })
        try await set((10..<60).map { Change("$\(name)\($0)", value) })
        #expect(try await error([Change("\(name)10", "new"), Change("more", "x")]) == .tooMany(isReserved: false))
        #expect(try await error([Change("$more", "x")]) == .tooMany(isReserved: true))
        #expect(try await texts()["\(name)10"] == value)
        try await set([Change("\(name)10", ""), Change("more", "x")])
        #expect(try await texts().count == 100)
        // Removed attributes are remembered up to a limit, so that they do not fill the record.
        for round in 0..<4 {
            let names = (0..<40).map { "removed-\(round)-\($0)" }
            try await set(names.map { Change($0, "") }, day: Double(round + 2))
        }
        #expect(try await ledger.attributes(of: "anna", in: Self.app)?.all.count == 150)
    }

    @Test func `attributes that a record cannot hold are refused, and the others stay`() async throws {
        let value = String(repeating: "😀", count: 500)
        try await set((0..<30).map { Change("a\($0)", value) })
        #expect(try await error((30..<40).map { Change("a\($0)", value) }) == .tooLarge)
        #expect(try await texts().count == 30)
    }

    @Test func `a merge keeps the newest value of each name, and the newest fifty`() async throws {
        try await set([Change("both", "old"), Change("mine", "1"), Change("gone", "x")], of: "anna", day: 1)
        try await set([Change("both", "new"), Change("theirs", "2"), Change("gone", "")], of: "bert", day: 2)
        try await set((0..<49).map { Change("a\($0)", "x") }, of: "cora", day: 3)
        _ = try await ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(4))
        #expect(try await texts() == ["both": "new", "mine": "1", "theirs": "2"])
        #expect(try await texts(of: "bert") == texts())
        _ = try await ledger.addAlias("anna", to: "cora", in: Facts.scope, at: Facts.day(5))
        let merged = try await texts(of: "anna")
        #expect(merged.count == 50 && merged["both"] == "new" && merged["mine"] == nil)
        // The other records are gone.
        let records = try await ledger.storage.records(RecordSelection(CustomerAttributes.recordKind), limit: 9)
        #expect(records.count == 1)
    }

    @Test func `an erased customer's attributes are erased, and a new customer with the id has none`() async throws {
        try await set([Change("$email", "anna@example.com")])
        _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(2))
        #expect(try await ledger.storage.records(RecordSelection(CustomerAttributes.recordKind), limit: 9).isEmpty)
        try await set([Change("plan", "b")])
        #expect(try await texts() == ["plan": "b"])
        #expect(try await ledger.customers(withEmail: "anna@example.com", of: Self.app, limit: 9).items.isEmpty)
    }

    @Test func `customers are found by their address in upper or lower case, in their own app`() async throws {
        let long = String(repeating: "l", count: 400)
        for (id, email) in [
            ("anna", "anna@example.com"), ("ann", "anna@example.com"), ("bert", "Anna@example.com"),
            ("kelvin", "K@x.com"),
            ("sign", "\u{212a}@x.com"), ("long", "\(long)a"), ("longer", "\(long)b"),
        ] {
            try await set([Change("$email", email)], of: id)
        }
        let other = LedgerScope(bundleId: "com.example.other", environment: .production)
        try await ledger.setAttributes(
            [Change("$email", "anna@example.com")], of: "stranger", in: other.bundleId, at: Facts.day(1))
        for (email, ids) in [
            ("anna@example.com", ["ann", "anna", "bert"]), ("ANNA@example.COM", ["ann", "anna", "bert"]),
            ("an@example.com", []), ("k@x.com", ["kelvin"]), ("\u{212a}@x.com", ["sign"]), ("\(long)a", ["long"]),
            (long, []), ("", []),
        ] {
            let found = try await ledger.customers(withEmail: email, of: Self.app, limit: 9).items
            #expect(found.flatMap(\.ids).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } == ids, "\(email)")
        }
        var (paged, cursor) = ([String](), ScanCursor?.none)
        repeat {
            let page = try await ledger.customers(
                withEmail: "anna@example.com", of: Self.app, after: cursor, limit: 1)
            paged += page.items.flatMap(\.ids)
            cursor = page.next
        } while cursor != nil
        #expect(paged.sorted() == ["ann", "anna", "bert"])
        try await set([Change("$email", "new@example.com")], of: "ann")
        let found = try await ledger.customers(withEmail: "anna@example.com", of: Self.app, limit: 9).items
        #expect(found.flatMap(\.ids).sorted() == ["anna", "bert"])
    }

    @Test func `no answer about entitlements loads attributes`() async throws {
        try await set([Change("$email", "anna@example.com")])
        let watched = Ledger(storage: WithoutAttributes(inner: ledger.storage))
        _ = try await watched.customer("anna", in: Facts.scope, at: Facts.day(2))
        _ = try await watched.holdings(of: "anna", in: Facts.scope, at: Facts.day(2))
        let page = try await watched.customers(of: Self.app, limit: 9)
        _ = try await watched.listed(page.items, in: [.production], at: Facts.day(2))
        await #expect(throws: (any Error).self) { try await watched.attributes(of: "anna", in: Self.app) }
    }

    /// A storage that refuses to load attributes.
    private struct WithoutAttributes: ForwardingStorage {
        let inner: any LedgerStorage

        func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
            let isAsked = query.keys.contains { key in
                if case .record(let key) = key { key.kind == CustomerAttributes.recordKind } else { false }
            }
            if isAsked { throw LedgerStorageError(.unavailable, "Attributes are loaded") }
            return try await inner.load(query)
        }
    }

    @Test func `attributes in a form of a newer version are neither replaced nor merged`() async throws {
        try await set([Change("plan", "a")])
        let key = try #require(
            try await ledger.storage.records(RecordSelection(CustomerAttributes.recordKind), limit: 9).first?.key)
        try await ledger.storage.commit(LedgerQuery([.record(key)])) { _ in
            var changes = LedgerChanges()
            changes.records = [LedgerRecord(key, payload: Array("2".utf8))]
            return .commit(changes, ())
        }
        await #expect(throws: LedgerStorageError.self) { try await set([Change("plan", "b")]) }
        try await set([Change("plan", "c")], of: "bert")
        await #expect(throws: LedgerStorageError.self) {
            try await ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(3))
        }
        // An erasure needs no form.
        #expect(try await ledger.delete("anna", in: Facts.scope, at: Facts.day(4)) != nil)
    }
}
