// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization
import TestPostgres
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests works that are decided about and committed together, and loads that share a request.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct GroupTests {
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)

    private static func key(_ number: Int) -> ChainKey { ChainKey("\(2_000_000_000 + number)", in: scope) }

    /// What a work does: it adds its number to some chains.
    private struct Entry: Sendable {
        var number: Int
        var chains: [Int]

        var query: LedgerQuery { LedgerQuery(chains.map(key).map(LedgerKey.chain)) }

        /// Decides. The output is how many entries each chain had.
        @Sendable func decide(_ snapshot: LedgerSnapshot) -> LedgerDecision<[Int]> {
            var (changes, seen) = (LedgerChanges(), [Int]())
            for key in chains.map(key) {
                var record = snapshot.chains[key] ?? ChainRecord(key)
                seen.append(record.ownerChanges.count)
                record.ownerChanges.append(Timestamp(milliseconds: Int64(number)))
                changes.chains.append(record)
            }
            return .commit(changes, seen)
        }
    }

    /// The outcomes of works, by their numbers.
    private final class Outcomes: Sendable {
        let all = Mutex([Int: Result<[Int], any Error>]())

        func note(_ number: Int) -> @Sendable (Result<[Int], any Error>) -> Void {
            { outcome in self.all.withLock { $0[number] = outcome } }
        }

        func seen(_ number: Int) -> [Int]? { all.withLock { try? $0[number]?.get() } }
    }

    private static func entries(in storage: some LedgerStorage, _ chains: Range<Int>) async throws -> [[Int]] {
        let found = try await storage.load(LedgerQuery(chains.map(key).map(LedgerKey.chain))).chains
        return chains.map { found[key($0)]?.ownerChanges.map { Int($0.milliseconds) } ?? [] }
    }

    // MARK: - Works

    @Test(arguments: 0..<3 as Range<UInt64>)
    func `works of two servers on few chains come out as if one followed the other`(seed: UInt64) async throws {
        let database = try TestPostgres.database()
        let servers = [try await database.storage(), try await database.storage()]
        var random = Seeded(state: seed)
        let works = (0..<120).map { number in
            Entry(number: number, chains: Array((0..<6).shuffled(using: &random).prefix(1 + number % 3)))
        }
        let outcomes = Outcomes()
        await withTaskGroup(of: Void.self) { group in
            for work in works {
                group.addTask {
                    let note = outcomes.note(work.number)
                    do {
                        note(.success(try await servers[work.number % 2].commit(work.query, work.decide)))
                    } catch {
                        note(.failure(error))
                    }
                }
            }
        }
        let found = try await Self.entries(in: servers[0], 0..<6)
        let reference = MemoryLedgerStorage()
        for number in try #require(Self.order(found)) {
            #expect(try await reference.commit(works[number].query, works[number].decide) == outcomes.seen(number))
        }
        #expect(try await Self.entries(in: reference, 0..<6) == found)
        #expect(Set(found.joined()).count == works.count)
    }

    /// An order of all entries that is the order in each chain; `nil` if there is none.
    private static func order(_ chains: [[Int]]) -> [Int]? {
        var (left, order) = (chains.map { $0[...] }, [Int]())
        while !left.allSatisfy(\.isEmpty) {
            let heads = Set(left.compactMap(\.first))
            let free = heads.first { head in left.allSatisfy { !$0.contains(head) || $0.first == head } }
            guard let free else { return nil }
            order.append(free)
            left = left.map { $0.first == free ? $0.dropFirst() : $0 }
        }
        return order
    }

    @Test func `a work that another commit was faster than makes no other fail, and all are committed once`()
        async throws
    {
        let database = try TestPostgres.database()
        let (storage, other) = (try await database.storage(), try await database.storage())
        _ = try await storage.commit(Entry(number: 1, chains: [0]).query, Entry(number: 1, chains: [0]).decide)
        let outcomes = Outcomes()
        let runs = Atomic(0)
        let group = (2..<10).map { number in
            let entry = Entry(number: number, chains: [number % 4])
            return PendingCommit(
                entry.query,
                { snapshot in
                    if runs.add(1, ordering: .relaxed).oldValue == 0 {
                        try database.psql("UPDATE quittance.chains SET version = version + 1 WHERE home = '2000000000'")
                    }
                    return entry.decide(snapshot)
                }, answer: outcomes.note(number))
        }
        await storage.run(group)
        #expect(runs.load(ordering: .relaxed) > group.count)
        #expect(try await Self.entries(in: other, 0..<4) == [[1, 4, 8], [5, 9], [2, 6], [3, 7]])
        #expect((2..<10).map { outcomes.seen($0) } == [[0], [0], [1], [0], [1], [1], [2], [1]])
    }

    @Test func `a work that throws, and one that the database refuses, fail alone`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try database.psql(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON quittance.chains FOR EACH ROW WHEN (NEW.home = '2000000003')
            EXECUTE FUNCTION refuse()
            """)
        let outcomes = Outcomes()
        let group = (0..<8).map { number in
            let entry = Entry(number: number, chains: [number])
            return PendingCommit(
                entry.query,
                { snapshot in
                    if number == 5 { throw CancellationError() }
                    return entry.decide(snapshot)
                }, answer: outcomes.note(number))
        }
        await storage.run(group)
        #expect((0..<8).filter { outcomes.seen($0) == nil } == [3, 5])
        #expect(outcomes.all.withLock { $0.count } == 8)
        #expect(try await Self.entries(in: storage, 0..<8) == [[0], [1], [2], [], [4], [], [6], [7]])
    }

    @Test func `a work that looks further, and one that must be alone, are committed with the others`() async throws {
        let storage = try await TestPostgres.database().storage()
        let (outcomes, entry) = (Outcomes(), Entry(number: 7, chains: [1]))
        let group = [
            PendingCommit(entry.query, entry.decide, answer: outcomes.note(7)),
            PendingCommit(
                Entry(number: 8, chains: [0]).query,
                { $0.query.keys.count == 1 ? .load(entry.query) : Entry(number: 8, chains: [0, 1]).decide($0) },
                answer: outcomes.note(8)),
            PendingCommit(
                LedgerQuery(),
                { _ in
                    var changes = LedgerChanges()
                    changes.marks.lastCustomer = 5
                    return .commit(changes, [])
                }, answer: outcomes.note(9)),
        ]
        await storage.run(group)
        #expect([7, 8, 9].map { outcomes.seen($0) } == [[0], [0, 1], []])
        #expect(try await Self.entries(in: storage, 0..<2) == [[8], [7, 8]])
        #expect(try await storage.marks().lastCustomer == 5)
    }

    @Test func `a group keeps each member of the changes of its works`() {
        for (member, (changes, keys)) in EachChange.all where member != "marks" {
            // The other work's changes are of another kind.
            let isOfRecords = ["records", "erasedRecords"].contains(member)
            guard let other = EachChange.all[isOfRecords ? "customers" : "records"] else { continue }
            for works in [[(changes, keys), other], [other, (changes, keys)]] {
                var draft = GroupDraft(LoadedRecords())
                for (changes, keys) in works { draft.add(changes, writing: keys, reading: ReadSet()) }
                let alone = Mirror(reflecting: changes).descendant(member).map { "\($0)" }
                #expect(Mirror(reflecting: draft.changes).descendant(member).map { "\($0)" } == alone, "\(member)")
                #expect(draft.writes == keys.union(other.keys), "\(member)")
            }
        }
    }

    @Test func `a group has the app of whatever is written, and the scope of what has one`() {
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        for (member, (changes, keys)) in EachChange.all where member != "marks" {
            var draft = GroupDraft(LoadedRecords())
            draft.add(changes, writing: keys, reading: ReadSet())
            let isOfCustomers = ["customers", "erasedCustomers"].contains(member)
            // What is displaced is found by its name.
            let expected: Set<LedgerScope> = isOfCustomers || member == "displacedDocuments" ? [] : [scope]
            #expect(draft.scopes == expected, "\(member)")
            if isOfCustomers { #expect(draft.apps == [scope.bundleId], "\(member)") }
        }
    }

    @Test func `a work sees what an earlier one of its group wrote, under each key that is foldable`() throws {
        let (key, wording) = (Self.key(1), Wording(digest: 7))
        let anna = Customer(number: 5, bundleId: Self.scope.bundleId)
        let (id, record) = (
            CustomerID("anna", of: anna.bundleId), RecordKey(RecordKind(rawValue: "k"), "n", of: .ledger)
        )
        let evidence = Evidence(.transaction, [1], Self.scope, Timestamp(milliseconds: 1)) { _ in ([], []) }
        var (changes, chain) = (LedgerChanges(), ChainRecord(key))
        chain.owners = [.init(anna, .claim)]
        changes.chains = [chain]
        changes.customers = [CustomerRecord(anna, ids: ["anna"])]
        changes.records = [LedgerRecord(record, payload: [1])]
        changes.documents = [
            NewDocument(evidence, for: [key], receivedAt: Timestamp(milliseconds: 1), wording: wording)
        ]
        #expect(changes.keys.filter { !$0.isFoldable } == [])
        var draft = GroupDraft(LoadedRecords())
        draft.add(changes, writing: changes.keys, reading: ReadSet())
        let query = LedgerQuery([
            .chain(key), .customerID(id), .holdings(id, .production), .document(evidence.provenance),
            .wording(WordingKey(wording, about: key)), .record(record),
        ])
        #expect(query.keys.filter { !$0.isFoldable } == [])
        let snapshot = try LedgerSnapshot(query, draft.after)
        #expect(snapshot.chains == [key: chain] && snapshot.chains(of: anna) == [chain])
        #expect(snapshot.customer(id) == changes.customers[0])
        #expect(snapshot.names == [evidence.provenance])
        #expect(snapshot.wordings.values.flatMap(\.self).map(\.name) == [evidence.provenance])
        #expect(snapshot.records == [record: changes.records[0]])
        let held = try LedgerSnapshot(LedgerQuery([.holdings(id, .production)]), draft.after)
        #expect(held.chains == [key: chain])
    }

    @Test func `a work that displaces a document needs nothing besides what it looked at`() {
        let (key, wording) = (Self.key(1), Wording(digest: 7))
        let documents = (0..<2).map { number in
            Evidence(.transaction, [UInt8(number)], Self.scope, Timestamp(milliseconds: 1)) { _ in ([], []) }
        }
        let query = LedgerQuery([
            .chain(key), .wording(WordingKey(wording, about: key)), .document(documents[1].provenance),
        ])
        let work = PendingCommit(
            query,
            { _ in
                var changes = LedgerChanges()
                changes.chains = [ChainRecord(key)]
                changes.documents = [
                    NewDocument(documents[1], for: [key], receivedAt: Timestamp(milliseconds: 1), wording: wording)
                ]
                changes.displacedDocuments = [documents[0].provenance]
                return .commit(changes, ())
            }, answer: { _ in })
        var pass = GroupPass([work], [query], [query].readSet, LoadedRecords())
        pass.decide(numbers: [:])
        #expect(pass.isComplete)
    }

    // MARK: - Loads

    @Test func `loads that share a request find what each finds alone, and only one of a damaged chain fails`()
        async throws
    {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        let single = try await database.storage { $0.sharesStatements = false }
        for number in 0..<8 { try await Self.addCustomer(number, to: storage) }
        let queries = (0..<10).map { number in
            let name = Provenance(signedDate: Timestamp(milliseconds: 1), digest: DocumentDigest([UInt8(number)]))
            let ids = [CustomerID("customer \(number)", of: "com.example"), CustomerID("x", of: "com.other")]
            var query = LedgerQuery.holdings(of: ids, in: number % 4 == 1 ? [.production] : [])
            query.keys.insert(.document(name))
            if number % 2 == 0 { query.keys.insert(.chain(Self.key(number))) }
            query.owners = number % 3 == 0
            return query
        }
        let together = await Self.answers(storage, queries)
        for (query, found) in zip(queries, together) {
            let alone = try await single.load(query)
            let found = try #require(try? found.get())
            #expect(found.chains == alone.chains)
            #expect(found.customers == alone.customers)
            #expect(found.ids == alone.ids)
            #expect(found.names == alone.names)
        }
        try database.psql("UPDATE quittance.chains SET state = 'x' WHERE home = '2000000002'")
        let damaged = await Self.answers(storage, queries).map { (try? $0.get()) == nil }
        #expect(damaged == (0..<10).map { $0 == 2 })
    }

    @Test func `one statement loads chains and looks documents up, however many, and finds those that are there`()
        async throws
    {
        let storage = try await TestPostgres.database().storage()
        let documents = (0..<9).map { number in
            Evidence(.transaction, [UInt8(number)], Self.scope, Timestamp(milliseconds: 1)) { _ in ([], []) }
        }
        // Those with odd numbers are stored, and one of the two chains.
        let (here, missing) = (Self.key(0), Self.key(1))
        try await storage.commit(LedgerQuery([.chain(here)])) { _ in
            var (changes, record) = (LedgerChanges(), ChainRecord(here))
            record.lastEventAt = Timestamp(milliseconds: 1)
            changes.chains = [record]
            changes.documents = documents.enumerated().filter { $0.offset % 2 == 1 }
                .map { NewDocument($0.element, for: [here], receivedAt: Timestamp(milliseconds: 1)) }
            return .commit(changes, ())
        }
        for (chains, count) in [[here], [missing], [here, missing]].flatMap({ keys in (1...9).map { (keys, $0) } }) {
            let names = documents.prefix(count).map(\.provenance)
            let query = LedgerQuery(chains.map(LedgerKey.chain) + names.map(LedgerKey.document))
            #expect(LoadPlan([query].readSet, ScopeNumbers(), homes: nil).statements.count == 1)
            let found = try await storage.load(query)
            #expect(Set(found.chains.keys) == Set(chains).intersection([here]))
            #expect(found.names == Set(names.enumerated().filter { $0.offset % 2 == 1 }.map(\.element)))
        }
    }

    private static func addCustomer(_ number: Int, to storage: PostgresLedgerStorage) async throws {
        let id = CustomerID("customer \(number)", of: scope.bundleId)
        try await storage.commit(LedgerQuery([.customerID(id)])) { snapshot in
            var (changes, record) = (LedgerChanges(), ChainRecord(key(number)))
            let customer = Customer(number: snapshot.newNumbers[id] ?? 0, bundleId: scope.bundleId)
            (record.owners, record.ownerChanges) = ([.init(customer, .claim)], [Timestamp(milliseconds: 1)])
            changes.customers = [CustomerRecord(customer, ids: [id.id])]
            changes.chains = [record]
            return .commit(changes, ())
        }
    }

    private static func answers(
        _ storage: PostgresLedgerStorage, _ queries: [LedgerQuery]
    ) async -> [Result<LedgerSnapshot, any Error>] {
        let found = Mutex([Int: Result<LedgerSnapshot, any Error>]())
        await storage.answer(
            queries.enumerated().map { place, query in
                WaitingLoad(query: query) { answer in found.withLock { $0[place] = answer } }
            })
        return found.withLock { $0.sorted { $0.key < $1.key }.map(\.value) }
    }

    // MARK: - Events

    @Test func `events get their numbers behind the commits, without a reader`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        for number in 0..<3 {
            try await storage.commit(LedgerQuery()) { _ in
                var changes = LedgerChanges()
                changes.events = [LedgerEvent(.purchased, in: Self.scope, at: Timestamp(milliseconds: Int64(number)))]
                return .commit(changes, ())
            }
        }
        // It ends if what it claims is true, however long that takes.
        while try database.psql("SELECT count(*) FROM quittance.events") != "3" {
            try await Task.sleep(for: .milliseconds(1))
        }
        while try database.psql("SELECT count(*) FROM quittance.outbox") != "0" {
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(try await storage.events(of: Self.scope.bundleId, after: nil, limit: 9).events.count == 3)
    }
}

/// Randomness that is the same in each run (SplitMix64).
struct Seeded: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = (state ^ state >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}
