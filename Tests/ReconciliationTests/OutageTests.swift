// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import Reconciliation
import TestData
import Testing

/// How many requests a server sends while the App Store refuses all of them, and how soon all is right afterwards.
@Suite struct OutageTests {
    /// How the App Store refuses requests.
    enum Outage: CaseIterable {
        case unauthorized, rateLimited, rateLimitedUntil, failing

        func answer(at now: Timestamp) -> APIAnswer {
            var limit = APIAnswer.refusal(4_290_000)
            switch self {
            case .unauthorized: return APIAnswer(status: 401)
            case .rateLimited: return limit
            case .rateLimitedUntil:
                limit.headers["retry-after"] = "\(now.milliseconds + 300_000)"
                return limit
            case .failing: return APIAnswer(status: 503)
            }
        }
    }

    @Test(.takesLong, arguments: Outage.allCases)
    func `300 silent subscriptions cost a request or two a minute, and are right within an interval`(
        outage: Outage
    ) async throws {
        let scene = try await JobTests.Scene()
        let accounts = try await scene.transport.update { store in
            try (0..<300).map { number in
                let customer = try store.world.addCustomer("customer \(number)", environment: .production)
                try store.world.buy("month", by: customer.name)
                return customer.appAccountToken ?? ""
            }
        }
        try await scene.work(afterSeconds: 1)
        // The App Store keeps no notifications from now on, and all renewals are due.
        await scene.transport.update { $0.notificationURLs = [:] }
        try await scene.pass(days: 31)
        let before = scene.requests.count
        scene.requests.answer = { [time = scene.time] _ in outage.answer(at: time.now) }
        let runner = JobRunner(
            scene.ledger, Reconciler.jobs(of: [scene.scope: scene.reconciler]), now: { [time = scene.time] in time.now }
        )
        try await work(scene, runner, minutes: 20)
        let sent = scene.requests.count - before
        // A probe a minute at most, each with all attempts of its client, and none before a time that Apple names.
        #expect((1...25 * AppStoreClient.attempts).contains(sent), "\(sent) requests")
        scene.requests.answer = nil
        try await work(scene, runner, minutes: 15)
        for account in accounts {
            let holdings = try await scene.ledger.holdings(of: account, in: scene.scope, at: scene.time.now)
            #expect(holdings?.entitlements.map(\.name) == ["pro"])
        }
        #expect(try await scene.jobs().allSatisfy { $0.failure == nil })
    }

    /// The server looks for jobs every five seconds, so that the test is not long.
    private func work(_ scene: JobTests.Scene, _ runner: JobRunner, minutes: Int) async throws {
        for _ in 0..<(minutes * 12) {
            scene.time.now.milliseconds += 5000
            while try await scene.ledger.publishDueChanges(at: scene.time.now) > 0 {}
            while try await runner.workOnce() {}
        }
    }
}
