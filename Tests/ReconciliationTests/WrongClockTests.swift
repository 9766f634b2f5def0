// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Reconciliation
import Testing

/// What a reconciler does while the server's clock is ahead.
@Suite struct WrongClockTests {
    static let jumps: [Int64] = [8 * 3600, 40 * 86_400]

    @Test(arguments: jumps) func `a history that was read by a clock that is ahead is read again from the true time`(
        ahead: Int64
    ) async throws {
        var scene = try await JobTests.Scene()
        try await scene.work()
        let start = scene.time.now
        scene.reconciler.appStoreTime = { start }
        scene.time.now = start.advanced(by: .seconds(ahead))
        try await scene.reconciler.start()
        try await scene.work()
        scene.time.now = start
        scene.reconciler.appStoreTime = { nil }

        // Its notification is lost.
        try await scene.buy()
        try await scene.work(afterSeconds: ahead + 3600)
        let found = try await scene.ledger.events(of: "com.example", limit: 100).events
        #expect(found.contains { $0.kind == .subscriptionStarted })
    }

    @Test(arguments: jumps) func `what a clock that was ahead skipped is found in the last days, once it is right`(
        ahead: Int64
    ) async throws {
        let scene = try await JobTests.Scene()
        try await scene.work()
        let start = scene.time.now
        scene.time.now = start.advanced(by: .seconds(ahead))
        for _ in 0..<2 {
            try await scene.reconciler.start()
            try await scene.work()
            scene.time.now = scene.time.now.advanced(by: .seconds(86_400))
        }
        scene.time.now = start
        // Its notification is lost.
        try await scene.buy()
        try await scene.pass(seconds: 3600)
        try await scene.reconciler.start()
        try await scene.work()
        let found = try await scene.ledger.events(of: "com.example", limit: 100).events
        #expect(found.contains { $0.kind == .subscriptionStarted })
        #expect(try await scene.jobs().allSatisfy { $0.failure == nil })
    }

    @Test(arguments: jumps) func `a consumption request is not given up by a clock that may be ahead`(
        ahead: Int64
    ) async throws {
        var shop = try await ConsumptionTests.Shop()
        shop.scene.reconciler.isTimeConfirmed = { false }
        let time = shop.scene.time.now
        shop.scene.time.now = time.advanced(by: .seconds(ahead + 43_200))
        while try await shop.scene.workOnce() {}
        #expect(try await shop.question.state == .waiting && shop.answers.isEmpty)

        shop.scene.time.now = time
        _ = try await shop.scene.ledger.supply(ConsumptionTests.consented, about: shop.key, at: time)
        shop.scene.time.now = time.advanced(by: .seconds(ahead + 43_200))
        while try await shop.scene.workOnce() {}
        #expect(shop.answers.count == 1)
    }
}
