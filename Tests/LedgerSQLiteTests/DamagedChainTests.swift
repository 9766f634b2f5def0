// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import LedgerSQLite
import PurchaseLedger
import Testing

/// Tests a ledger with a purchase that cannot be read, for example because a row was edited by hand.
@Suite struct DamagedChainTests {
    private static let later = Timestamp(milliseconds: 1_755_000_000_000)
    private static let count = 5

    /// Pairs of SQL statements: one damages the chain with a row number, and the other repairs it.
    static let damages = [
        ("UPDATE chains SET predecessors = '{' WHERE id = ", "UPDATE chains SET predecessors = NULL WHERE id = "),
        (
            "UPDATE chains SET publishedRevoked = '[' WHERE id = ",
            "UPDATE chains SET publishedRevoked = NULL WHERE id = "
        ),
        (
            "UPDATE statements SET evidence = CAST(evidence || x'00' AS BLOB) WHERE chain = ",
            "UPDATE statements SET evidence = substr(evidence, 1, length(evidence) - 1) WHERE chain = "
        ),
        (
            "UPDATE links SET reason = reason || ' !' WHERE chain = ",
            "UPDATE links SET reason = rtrim(reason, ' !') WHERE chain = "
        ),
    ]

    /// A ledger with some subscriptions, all of which have ended at `later`. The one whose end was first is damaged.
    private struct World {
        let appStore: AppStore
        let storage: SQLiteLedgerStorage
        let ledger: Ledger
        let victim: ChainKey
        private let repair: String

        init(_ damage: (String, String)) async throws {
            var appStore = try AppStore()
            storage = try SQLiteLedgerStorage.inMemory()
            let product = Catalogue.Product(entitlements: ["pro"])
            let rules = LedgerRules(catalogues: [AppStore.bundleId: Catalogue(products: ["p": product])])
            ledger = Ledger(storage: storage, rules: rules)
            for _ in 0..<DamagedChainTests.count {
                let evidence = try await appStore.evidence(of: appStore.notification())
                _ = try await ledger.record([evidence], at: Timestamp(milliseconds: 1_750_000_000_000))
            }
            self.appStore = appStore
            victim = try #require(try await storage.chains(.due(at: DamagedChainTests.later), limit: 1).first)
            let id = victim.originalTransactionId
            let number = try await storage.number("SELECT id FROM chains WHERE originalTransactionId = '\(id)'")
            repair = "\(damage.1)\(number)"
            try await storage.execute("\(damage.0)\(number)")
        }

        func restore() async throws { try await storage.execute(repair) }

        /// The chains whose end was published.
        func ended() async throws -> Set<String?> {
            let events = try await ledger.events(of: AppStore.bundleId, limit: 1000).events
            return Set(
                events.filter { $0.content?.after.map { $0.status != .active } ?? false }.map(\.originalTransactionId))
        }
    }

    @Test(arguments: damages)
    func `due changes of other purchases are published, and the error names the damaged purchase`(
        damage: (String, String)
    ) async throws {
        let world = try await World(damage)
        var (damaged, counts) = (Set<ChainKey>(), [Int]())
        repeat {
            counts.append(try await world.ledger.publishDueChanges(at: Self.later, limit: 2, besides: &damaged))
        } while counts.last != 0
        #expect(counts.reduce(0, +) == Self.count && damaged == [world.victim])
        #expect(try await world.ended().count == Self.count - 1)
        let error = await #expect(throws: LedgerStorageError.self) {
            _ = try await world.ledger.publishDueChanges(at: Self.later)
        }
        #expect(error?.code == .damaged && error?.message.contains(world.victim.originalTransactionId) == true)
        try await world.restore()
        #expect(try await world.ledger.publishDueChanges(at: Self.later) == 1)
        #expect(try await world.ended().count == Self.count)
    }

    @Test(arguments: damages) func `a catalogue counts as published only after all purchases could be read`(
        damage: (String, String)
    ) async throws {
        let world = try await World(damage)
        for _ in 0..<2 {
            let error = await #expect(throws: LedgerStorageError.self) {
                _ = try await world.ledger.publishCatalogueChanges(at: Self.later)
            }
            #expect(error?.code == .damaged && error?.message.contains(world.victim.originalTransactionId) == true)
        }
        #expect(try await world.ended().count == Self.count - 1)
        try await world.restore()
        #expect(try await world.ledger.publishCatalogueChanges(at: Self.later) == Self.count)
        #expect(try await world.ended().count == Self.count)
        let nextDay = Self.later.advanced(by: .seconds(86_400))
        #expect(try await world.ledger.publishCatalogueChanges(at: nextDay) == 0)
    }

    @Test(arguments: damages) func `a check and a rebuild name a purchase that cannot be read`(
        damage: (String, String)
    ) async throws {
        let world = try await World(damage)
        let faults = try await world.ledger.check(by: world.appStore.verifier).faults
        #expect(faults.count == 1 && faults.first?.document == nil)
        #expect(faults.first?.error.hasPrefix("The purchase \(world.victim.originalTransactionId) of ") == true)
        let rebuilt = try await world.ledger.rebuild(by: world.appStore.verifier, at: Self.later)
        #expect(rebuilt.faults == faults && rebuilt.differing.isEmpty)
        try await world.restore()
        #expect(try await world.ledger.check(by: world.appStore.verifier).faults == [])
    }
}
