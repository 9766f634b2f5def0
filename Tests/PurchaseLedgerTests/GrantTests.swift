// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedgerTesting
import Testing

@testable import PurchaseLedger

/// Tests grants: entitlements that the app's operator gives to customers.
@Suite struct GrantTests {
    private static let bundleId = Facts.scope.bundleId
    private static let catalogue = Catalogue(
        products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero)

    /// A ledger whose decisions all run twice.
    private let ledger = Ledger(
        storage: UnsteadyStorage(around: MemoryLedgerStorage()),
        rules: LedgerRules(catalogues: [bundleId: catalogue]))

    private func make(
        _ id: String? = nil, _ entitlement: String = "pro", in environment: Environment = .production,
        from: Double? = nil, until: Double? = nil, why: String = "a gift", to customer: String = "anna",
        at day: Double = 0
    ) async throws -> GrantOutcome {
        let request = GrantRequest(
            id: id, entitlement: entitlement, environment: environment, from: from.map(Facts.day),
            until: until.map(Facts.day), why: why, author: .init(keyId: "key", name: "Ms. Support"))
        return try await ledger.make(request, forCustomer: customer, of: Self.bundleId, at: Facts.day(day))
    }

    @discardableResult private func made(
        _ id: String? = nil, _ entitlement: String = "pro", until: Double? = nil, to customer: String = "anna",
        at day: Double = 0
    ) async throws -> CustomerGrant {
        let outcome = try await make(id, entitlement, until: until, to: customer, at: day)
        guard case .made(let grant) = outcome else { throw UnexpectedOutcome(outcome: outcome) }
        return grant
    }

    private struct UnexpectedOutcome: Error { var outcome: GrantOutcome }

    private func end(_ id: String, of customer: String = "anna", at day: Double) async throws -> CustomerGrant? {
        try await ledger.endGrant(
            id, ofCustomer: customer, of: Self.bundleId, by: .init(name: "Mr. Support"), at: Facts.day(day))
    }

    private func holdings(_ customer: String = "anna", at day: Double) async throws -> Holdings {
        try #require(try await ledger.holdings(of: customer, in: Facts.scope, at: Facts.day(day)))
    }

    private func grants(of customer: String = "anna") async throws -> [CustomerGrant] {
        try await ledger.grants(ofCustomer: customer, of: Self.bundleId)
    }

    private var events: [LedgerEvent] {
        get async throws { try await ledger.events(of: Self.bundleId, limit: 500).events }
    }

    private func records(of kind: RecordKind) async throws -> [String] {
        try await ledger.storage.records(RecordSelection(kind), limit: 500).map(\.key.name).sorted()
    }

    /// Does all due jobs that end grants, first those that a clock ahead has postponed.
    private func work(at day: Double) async throws {
        let runner = JobRunner(
            ledger, [ledger.grantEnds(in: [Facts.scope], now: { Facts.day(day) })], now: { Facts.day(day) })
        try await runner.pullBack()
        while try await runner.workOnce() {}
    }

    // MARK: Entitlements

    @Test func `a grant entitles its customer from the commit to its end, without a transaction`() async throws {
        let grant = try await made(until: 10)
        let before = try await holdings(at: 9.99)
        let entitlement = try #require(before.entitlements.first)
        #expect(before.entitlements.count == 1 && entitlement.name == "pro" && entitlement.reason == .grant)
        #expect(entitlement.grantId == grant.id && entitlement.until == Facts.day(10))
        #expect(entitlement.productId == nil && entitlement.transactionId == nil)
        #expect(entitlement.originalTransactionId == nil && entitlement.ownership == nil)
        #expect(before.nextChange == Facts.day(10))
        // The job has not run.
        #expect(try await holdings(at: 10) == Holdings())
        let answer = try #require(try await ledger.customer("anna", in: Facts.scope, at: Facts.day(5)))
        #expect(answer.holdings.entitlements == before.entitlements && answer.purchases.isEmpty)
    }

    @Test func `a grant of one environment entitles to nothing in others`() async throws {
        _ = try await make(in: .sandbox)
        let both = try await ledger.holdings(
            of: "anna", of: Self.bundleId, in: [.production, .sandbox], at: Facts.day(1))
        #expect(both?.environments[.production]?.entitlements == [])
        #expect(both?.environments[.sandbox]?.entitlements.map(\.name) == ["pro"])
    }

    @Test(
        arguments: [
            (20, "purchase"), (30, "purchase"), (31, "grant"), (nil, "grant"),
        ] as [(Double?, String)])
    func `of a purchase and grants of a name, the latest end counts`(until: Double?, source: String) async throws {
        let signed = try SignedHistory()
        let token = try signed.transaction()
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "anna", at: Facts.day(0))
        try await made("a", until: 5)
        try await made("b", until: until)
        try await made("c", "gold", until: 5)
        let entitlements = try await holdings(at: 1).entitlements
        #expect(entitlements.map(\.name) == ["gold", "pro"])
        #expect(entitlements.last?.grantId == (source == "grant" ? "b" : nil))
        #expect(entitlements.last?.reason == (source == "grant" ? .grant : .subscription))
        #expect(try await holdings(at: 1).nextChange == Facts.day(5))
    }

    // MARK: Making

    @Test func `the customer of a grant is created, exists in its own right, and the grant says who made it`()
        async throws
    {
        let grant = try await made(until: 10, to: "new")
        #expect(try await grants(of: "new") == [grant])
        #expect(grant.author == .init(keyId: "key", name: "Ms. Support") && grant.why == "a gift")
        #expect(grant.from == Facts.day(0) && grant.madeAt == Facts.day(0) && grant.end == nil)
        let customers = try await ledger.storage.customers(after: nil, limit: 5).items
        #expect(customers.map(\.ids) == [["new"]] && customers.allSatisfy(\.isEstablished))
        let events = try await events
        #expect(events.map(\.kind.known) == [.grantMade] && events.first?.customer == customers.first?.customer)
        #expect(events.first?.chainName == nil && events.first?.scope == Facts.scope)
        let content = try #require(events.first?.content)
        #expect(content.grantId == grant.id && content.detail == "a gift")
        #expect(content.entitlementsBefore == .empty)
        #expect(
            content.entitlementsAfter?.list == [
                GivenEntitlement("pro", .grant, in: .production, until: Facts.day(10))
            ])
    }

    @Test func `a grant with a chosen id is made once, also if it has ended since`() async throws {
        let grant = try await made("x", until: 10)
        for day in [0, 1, 11.0] {
            #expect(try await make("x", until: 10, at: day) == .known(grant), "day \(day)")
        }
        try await work(at: 12)
        let ended = try #require(try await grants().first)
        #expect(ended.end == .init(Facts.day(10)))
        #expect(try await make("x", until: 10, at: 13) == .known(ended))
        #expect(try await grants() == [ended])
        #expect(try await events.map(\.kind.known) == [.grantMade, .grantEnded])
    }

    @Test func `a chosen id does not stand for a different grant, nor for a grant of a different customer`()
        async throws
    {
        try await made("x", until: 10)
        #expect(try await make("x", until: 11) == .refused(.otherGrant))
        #expect(try await make("x", until: nil) == .refused(.otherGrant))
        #expect(try await make("x", "gold", until: 10) == .refused(.otherGrant))
        #expect(try await make("x", in: .sandbox, until: 10) == .refused(.otherGrant))
        #expect(try await make("x", from: -1, until: 10) == .refused(.otherGrant))
        #expect(try await make("x", until: 10, why: "another") == .refused(.otherGrant))
        #expect(try await make("x", until: 10, to: "bert") == .refused(.otherGrant))
        #expect(try await grants(of: "bert").isEmpty)
        #expect(try await grants().count == 1)
    }

    @Test func `two grants without a chosen id are two grants, even at the same instant`() async throws {
        let ids = [try await made().id, try await made().id, try await made(to: "bert").id]
        #expect(Set(ids).count == 3)
    }

    @Test func `a begin in the future and an end in the past are refused, and a refusal creates no customer`()
        async throws
    {
        #expect(try await make(from: 1) == .refused(.beginIsAhead))
        #expect(try await make(until: 0) == .refused(.endIsPast))
        #expect(try await make(until: -1) == .refused(.endIsPast))
        let anna = CustomerID("anna", of: Self.bundleId)
        #expect(try await ledger.storage.load(LedgerQuery([.customerID(anna)])).customer(anna) == nil)
        #expect(try await make(from: -3, until: 1) != .refused(.beginIsAhead))
        #expect(try await grants().first?.from == Facts.day(-3))
    }

    @Test(arguments: [
        GrantRequest(id: "a/b", entitlement: "pro", why: "w"), GrantRequest(id: "..", entitlement: "pro", why: "w"),
        GrantRequest(entitlement: "pro", why: " \n"),
        GrantRequest(entitlement: "pro", until: Timestamp(milliseconds: .max), why: "w"),
        GrantRequest(entitlement: "pro", why: "w", author: .init(name: "a\u{0}")),
    ])
    func `a text outside its form and an end beyond 9999 are faults`(request: GrantRequest) {
        #expect(request.fault != nil)
    }

    @Test func `of a customer, 20 grants that have not ended are made`() async throws {
        for number in 0..<20 { try await made("\(number)", until: 10) }
        #expect(try await make("20") == .refused(.tooMany))
        #expect(try await make("0", until: 10) != .refused(.tooMany), "a repetition")
        try await made("b", to: "bert")
        // Ended by time, although no job has run.
        try await made("20", at: 10)
    }

    // MARK: Ending

    @Test func `a grant that was ended by hand has ended at that time, and only once`() async throws {
        let grant = try await made(until: 10)
        let ended = try #require(try await end(grant.id, at: 3))
        #expect(ended.end == .init(Facts.day(3), by: .init(name: "Mr. Support")))
        #expect(try await holdings(at: 3).entitlements.isEmpty)
        #expect(try await end(grant.id, at: 4) == ended)
        #expect(try await records(of: .grantEnd).isEmpty)
        try await work(at: 11)
        #expect(try await grants() == [ended])
        let events = try await events
        #expect(events.map(\.kind.known) == [.grantMade, .grantEnded])
        #expect(events.last?.content?.effectiveAt == Facts.day(3))
        #expect(try await end("unknown", at: 4) == nil)
        #expect(try await end(grant.id, of: "bert", at: 4) == nil)
    }

    @Test func `the job ends a grant as of its end, once, also after a downtime`() async throws {
        let grant = try await made(until: 10)
        #expect(try await records(of: .grantEnd) == [grant.id])
        try await work(at: 9)
        #expect(try await events.count == 1)
        for day in [15, 16.0] { try await work(at: day) }
        let events = try await events
        #expect(events.map(\.kind.known) == [.grantMade, .grantEnded])
        #expect(events.last?.content?.effectiveAt == Facts.day(10) && events.last?.recordedAt == Facts.day(15))
        #expect(events.last?.content?.grantId == grant.id)
        #expect(events.last?.content?.entitlementsBefore == events.first?.content?.entitlementsAfter)
        #expect(events.last?.content?.entitlementsAfter == .empty)
        #expect(try await records(of: .grantEnd).isEmpty)
    }

    @Test func `an end by hand after the end by time is the end by time`() async throws {
        let grant = try await made(until: 10)
        #expect(try await end(grant.id, at: 11)?.end == .init(Facts.day(10), by: .init(name: "Mr. Support")))
        try await work(at: 12)
        #expect(try await events.map(\.content?.effectiveAt) == [Facts.day(0), Facts.day(10)])
    }

    @Test(arguments: [true, false]) func `an end by hand by a clock ahead of the grant's end stays`(
        isPublished: Bool
    ) async throws {
        let grant = try await made(until: 10)
        if isPublished { try await work(at: 500) }
        #expect(try await end(grant.id, at: 500)?.end?.author != nil)
        try await work(at: 3)
        #expect(try await grants().map { $0.isActive(at: Facts.day(3)) } == [false])
        #expect(try await holdings(at: 3).entitlements.isEmpty)
        #expect(try await events.map(\.kind.known) == [.grantMade, .grantEnded])
        #expect(try await records(of: .grantEnd).isEmpty)
    }

    // MARK: Clocks

    @Test func `a job that a clock ahead has leased ends no grant once the clock is right`() async throws {
        let grant = try await made(until: 10)
        let id = Job.ID(.grantEnd, grant.id, in: Facts.scope)
        _ = try await ledger.lease([id], until: Facts.day(11), at: Facts.day(10.5))
        // The lease ends far ahead, so the due time is pulled back.
        let runner = JobRunner(
            ledger, [ledger.grantEnds(in: [Facts.scope], now: { Facts.day(2) })], now: { Facts.day(2) })
        #expect(try await runner.pullBack() == 1)
        while try await runner.workOnce() {}
        #expect(try await events.count == 1)
        #expect(try await ledger.job(id)?.dueAt == Facts.day(10))
        #expect(try await runner.pullBack() == 0, "the end is no wrong time, however far ahead")
        try await work(at: 10)
        #expect(try await events.count == 2)
    }

    @Test func `answers agree with the events after a clock that was ahead`() async throws {
        // Made by a clock that was ahead: the grant counts, as the published event says.
        let grant = try await made(until: 500, at: 400)
        #expect(try await holdings(at: 1).entitlements.map(\.grantId) == [grant.id])
        // Ended by a clock that was ahead: the grant is made again once the clock is right.
        try await work(at: 600)
        #expect(try await events.map(\.kind.known) == [.grantMade, .grantEnded])
        for _ in 0..<2 { try await work(at: 2) }
        #expect(try await holdings(at: 2).entitlements.map(\.grantId) == [grant.id])
        let again = try #require(try await events.last)
        #expect(try await events.count == 3 && again.kind == .grantMade && again.recordedAt == Facts.day(2))
        #expect(again.content?.entitlementsAfter == (try await events.first?.content?.entitlementsAfter))
        for day in [500, 700.0] { try await work(at: day) }
        #expect(try await events.map(\.kind.known) == [.grantMade, .grantEnded, .grantMade, .grantEnded])
        #expect(try await records(of: .grantEnd).isEmpty)
    }

    @Test(arguments: [8.0 / 24, 20]) func `a grant that a clock ahead has ended is active in each answer`(
        ahead: Double
    ) async throws {
        let grant = try await made("gift", until: 10)
        try await work(at: 10 - 0.01 + ahead)
        #expect(try await events.last?.kind == .grantEnded)
        let now = 10 - 0.01
        #expect(try await make("gift", until: 10, at: now) == .known(try #require(try await grants().first)))
        #expect(try await grants().first?.isActive(at: Facts.day(now)) == true)
        // Ended by hand before the server has noticed, it stays ended.
        #expect(try await end(grant.id, at: now)?.end?.author != nil)
        try await work(at: now)
        #expect(try await events.map(\.kind.known) == [.grantMade, .grantEnded, .grantEnded])
        #expect(try await holdings(at: now).entitlements.isEmpty)
    }

    @Test func `clocks that differ by seconds publish a grant's end once`() async throws {
        try await made("gift", until: 10)
        try await work(at: 10)
        try await work(at: 10 - 59.0 / 86_400)
        try await work(at: 10.5)
        #expect(try await events.map(\.kind.known) == [.grantMade, .grantEnded])
    }

    @Test func `the end of a grant up to the year 9999 is a due time`() async throws {
        let request = GrantRequest(entitlement: "pro", until: CustomerGrant.latestEnd, why: "w")
        _ = try await ledger.make(request, forCustomer: "anna", of: Self.bundleId, at: Facts.day(0))
        let runner = JobRunner(
            ledger, [ledger.grantEnds(in: [Facts.scope], now: { Facts.day(1) })], now: { Facts.day(1) })
        #expect(try await runner.pullBack() == 0)
        #expect(try await runner.workOnce() == false)
    }

    // MARK: Customers

    @Test func `a merge keeps the grants of both, beyond 20, and they can be ended and repeated`() async throws {
        for number in 0..<15 {
            try await made("a\(number)", until: 10)
            try await made("b\(number)", until: 20, to: "bert")
        }
        #expect(try await ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(1)))
        #expect(try await grants().count == 30)
        #expect(try await make("c", at: 2) == .refused(.tooMany))
        #expect(try await make("b3", until: 20, at: 2) != .refused(.otherGrant))
        #expect(try await end("b3", at: 2)?.id == "b3")
        try await work(at: 30)
        #expect(try await grants().allSatisfy { $0.end != nil })
        let ended = try await events.filter { $0.kind == .grantEnded }
        #expect(ended.count == 30 && Set(ended.map(\.customer)).count == 1)
    }

    @Test func `a grant ends once and is repeated after its customer has lost an id or a merge was undone`()
        async throws
    {
        let correction = try #require(Correction(by: "a test", reason: "a test"))
        try await made("a", until: 10, to: "bert")
        try await made("b", until: 10, to: "anna")
        #expect(try await ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(1)))
        try await made("c", until: 10, to: "bert", at: 2)
        let undone = try await ledger.undoMerge(of: "bert", in: Facts.scope, correction, at: Facts.day(3))
        #expect(undone == .undone(ids: ["bert"], purchases: 0))
        #expect(try await grants().map(\.id) == ["a", "b", "c"])
        #expect(try await ledger.addAlias("anne", to: "anna", in: Facts.scope, at: Facts.day(4)))
        try await made("d", until: 10, to: "anne", at: 5)
        let removal = try await ledger.removeAlias("anne", from: "anna", in: Facts.scope, correction, at: Facts.day(6))
        #expect(removal == .removed)
        #expect(try await make("d", until: 10, to: "anna", at: 7) != .refused(.otherGrant))
        try await work(at: 11)
        #expect(try await events.filter { $0.kind == .grantEnded }.count == 4)
    }

    @Test func `an erasure erases the grants with their notes and jobs`() async throws {
        try await made("a", until: 10)
        try await made("b")
        try await made("c", until: 10, to: "bert")
        #expect(try await end("b", at: 1) != nil)
        _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(2))
        #expect(try await records(of: GrantNote.recordKind) == ["c"])
        #expect(try await records(of: .grantEnd) == ["c"])
        #expect(try await ledger.holdings(of: "anna", in: Facts.scope, at: Facts.day(2)) == nil)
        try await work(at: 11)
        #expect(try await events.filter { $0.kind == .grantEnded }.map(\.content?.grantId) == ["b", "c"])
        // The id is free again.
        try await made("a", to: "new", at: 12)
    }

    @Test func `100 ended grants are kept, and with the others their notes are forgotten`() async throws {
        for number in 0..<103 {
            try await made("\(number)", at: Double(number))
            _ = try await end("\(number)", at: Double(number) + 0.5)
        }
        let kept = try await grants().map(\.id)
        #expect(kept == (3..<103).map(String.init))
        #expect(try await records(of: GrantNote.recordKind) == kept.sorted())
    }

    // MARK: Maintenance

    @Test func `a rebuild leaves grants alone, and a check finds the grants that it cannot read`() async throws {
        try await made("a", until: 10)
        let verifier = AppStoreVerifier(apps: .any, environments: [.production])
        _ = try await ledger.rebuild(by: verifier, at: Facts.day(1))
        #expect(try await grants().map(\.id) == ["a"])
        #expect(try await ledger.check(by: verifier).faults == [])
        let id = CustomerID("anna", of: Self.bundleId)
        try await ledger.storage.commit(LedgerQuery([.customerID(id)])) { snapshot in
            var changes = LedgerChanges()
            changes.customers = snapshot.customers.values.map { record in
                var record = record
                record.storedGrants.unreadable = [.object([.init("form", .string("new"))])]
                return record
            }
            return .commit(changes, ())
        }
        let faults = try await ledger.check(by: verifier).faults
        #expect(faults.count == 1 && faults.first?.error.contains("has 1 grants in a form unknown") == true)
        // The grant of the newer version stays beside a new grant.
        try await made("b")
        let record = try #require(try await ledger.storage.customers(after: nil, limit: 5).items.first)
        #expect(record.grants.count == 2 && record.storedGrants.unreadable.count == 1)
    }

    @Test func `grants that are no JSON array are damage of their customer`() {
        #expect(throws: LedgerStorageError.self) {
            _ = try StoredGrants(Array("{".utf8), of: Customer(number: 1, bundleId: "com.example"))
        }
    }
}
