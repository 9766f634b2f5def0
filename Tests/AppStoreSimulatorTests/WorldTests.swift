// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// A simulated App Store beside the verifier and the ledger: two readings of the same rules.
@Suite struct WorldTests {
    @Test func `the same seed gives the same occurrences`() throws {
        let one = try RandomWorld(seed: 5).world.occurrences
        #expect(try one == RandomWorld(seed: 5).world.occurrences)
        #expect(try one != RandomWorld(seed: 6).world.occurrences)
    }

    @Test(arguments: Seeds.first(Seeds.isOptimised ? 12 : 2, soak: 50))
    func `the ledger's status is the App Store's at every notification`(seed: UInt64) async throws {
        let world = try RandomWorld(seed: seed).world
        let store = try TestStore()
        let verifier = store.verifier(of: .only([RandomWorld.app]))
        let ledger = Ledger(storage: MemoryLedgerStorage())
        for occurrence in world.occurrences {
            let token = try store.signer.notification(occurrence, from: world.catalogue)
            let verified = try await verifier.verify(notification: token.utf8, at: occurrence.date)
            if let evidence = Evidence(verified) { _ = try await ledger.record([evidence], at: occurrence.date) }
            guard let status = occurrence.status, let id = occurrence.transaction?.originalTransactionId else {
                continue
            }
            let scope = LedgerScope(bundleId: "com.example", environment: occurrence.environment)
            let chain = try #require(try await ledger.chain(ChainKey(id, in: scope)))
            let answer = chain.subscription(Catalogue(), at: occurrence.date)?.status
            #expect(
                answer?.number == status.rawValue,
                "Seed \(seed), \(id), \(occurrence.topic) of \(occurrence.date.iso8601): \(String(describing: answer))"
            )
        }
    }
}
