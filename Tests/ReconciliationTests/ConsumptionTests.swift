// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import Reconciliation
import TestData
import TestWorld
import Testing

/// What a reconciler answers to consumption requests, and when it says nothing.
@Suite struct ConsumptionTests {
    /// What an app says that has delivered a subscription.
    private static let delivered: ConsumptionInformation = {
        var information = ConsumptionInformation()
        (information.deliveryStatus, information.sampleContentProvided) = (Open(.delivered), false)
        information.refundPreference = Open(.decline)
        return information
    }()

    /// A shop whose customer has bought and asks for a refund. The request was recorded, and nothing was done yet.
    struct Shop: Sendable {
        var scene: JobTests.Scene
        let key: TransactionKey

        /// - Parameter isHeard: Whether the notification of the request arrives. If not, the history cannot be read
        ///   either.
        init(in environment: AppStoreModel.Environment = .production, isHeard: Bool = true) async throws {
            scene = try await JobTests.Scene(in: environment)
            try await scene.buy()
            try await scene.work()
            let id = await scene.transactionId
            key = TransactionKey(id, in: scene.scope)
            if isHeard {
                try await ask()
            } else {
                try await scene.transport.update { try $0.world.requestRefund(id) }
                scene.requests.answer = { request in
                    request.path.hasSuffix("/notifications/history") ? APIAnswer(status: 500) : nil
                }
            }
        }

        /// The customer asks for a refund, and the notification arrives.
        func ask() async throws {
            let id = key.transactionId
            try await scene.transport.update { store in
                if store.world.refundRequests[id] != nil { try store.world.declineRefund(id) }
                try store.world.requestRefund(id)
            }
            try await scene.pass(seconds: 1)
            try await deliver()
        }

        /// The App Store repeats the request, and the notification arrives.
        func askAgain() async throws {
            let id = key.transactionId
            try await scene.transport.update { try $0.world.repeatConsumptionRequest(id) }
            try await scene.pass(seconds: 1)
            try await deliver()
        }

        /// All notifications arrive, again if they have arrived before.
        func deliver() async throws {
            for entry in await scene.transport.store.outbox.entries { try await deliver(entry) }
        }

        func deliver(_ entry: Outbox.Entry) async throws {
            guard case .signed(let payload) = entry.content else { return }
            let verified = try await scene.reconciler.verifier.verify(
                notification: payload.utf8, at: scene.time.now)
            if let evidence = Evidence(verified) {
                _ = try await scene.ledger.record([evidence], at: scene.time.now)
            }
        }

        /// How many events tell of requests.
        var events: Int {
            get async throws {
                try await scene.ledger.events(of: "com.example", limit: 100).events.count {
                    $0.kind == .consumptionRequested
                }
            }
        }

        func consent(_ isGiven: Bool = true) async throws {
            let account = await scene.transport.store.world.customers["anna"]?.appAccountToken ?? ""
            _ = try await scene.ledger.recordConsent(isGiven, of: account, in: scene.scope, at: scene.time.now)
        }

        /// The bodies of all answers that were sent.
        var answers: [JSONValue] {
            scene.requests.requests.filter { $0.path.contains("/consumption/") }
                .compactMap { JSONValue(readable: $0.body) }
        }

        var question: ConsumptionQuestion {
            get async throws {
                try #require(try await scene.ledger.consumptionJob(key).flatMap(ConsumptionQuestion.init))
            }
        }

        var failure: String? { get async throws { try await scene.ledger.consumptionJob(key)?.failure } }
    }

    @Test(arguments: [AppStoreModel.Environment.production, .sandbox])
    func `with recorded consent a request is answered at once, with version 2 and the product's default`(
        environment: AppStoreModel.Environment
    ) async throws {
        var shop = try await Shop(in: environment)
        var defaults = Self.delivered
        defaults.consumptionPercentage = 50_000
        shop.scene.reconciler.consumptionDefaults = ["month": defaults]
        try await shop.consent()
        try await shop.scene.work()
        // A subscription's percentage is left to Apple.
        #expect(
            shop.answers.map(\.compactText) == [
                #"{"customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":false,"#
                    + #""refundPreference":"DECLINE"}"#
            ])
        #expect(try await shop.question.state == .answered)
        #expect(try await shop.question.answeredAt == shop.scene.time.now)
        #expect(try await shop.failure == nil)
    }

    @Test func `the same notification twice, and Apple's repetition as another one, are answered once`() async throws {
        let shop = try await Shop()
        try await shop.consent()
        _ = try await shop.scene.ledger.supply(Self.delivered, about: shop.key, at: shop.scene.time.now)
        try await shop.scene.work()
        try await shop.deliver()
        for _ in 0..<2 {
            try await shop.scene.pass(seconds: 8 * 3600 - 1)
            try await shop.askAgain()
            try await shop.scene.work()
        }
        #expect(shop.answers.count == 1)
        #expect(try await shop.events == 1)
    }

    /// What happens between two requests about a transaction.
    enum Between: CaseIterable {
        case declined, refundedAndReversed, day
    }

    @Test(arguments: Between.allCases)
    func `a request after a decision, or a day after the first, is another one, which the backend can answer`(
        between: Between
    ) async throws {
        let shop = try await Shop()
        let id = shop.key.transactionId
        _ = try await shop.scene.ledger.supply(Self.consented, about: shop.key, at: shop.scene.time.now)
        try await shop.scene.work()
        #expect(try await shop.question.state == .answered)
        switch between {
        case .declined:
            try await shop.scene.pass(seconds: 7200)
            try await shop.ask()
        case .refundedAndReversed:
            try await shop.scene.transport.update { try $0.world.refund(id) }
            try await shop.scene.pass(seconds: 7200)
            try await shop.scene.transport.update { store in
                try store.world.reverseRefund(id)
                try store.world.requestRefund(id)
            }
            try await shop.scene.pass(seconds: 1)
            try await shop.deliver()
        case .day:
            try await shop.scene.pass(seconds: 86_400)
            try await shop.askAgain()
        }
        // What was said about the first request counts no more.
        #expect(try await shop.question.state == .waiting)
        #expect(try await shop.question.information == ConsumptionInformation())
        #expect(try await shop.events == 2)
        try await shop.scene.work()
        #expect(shop.answers.count == 1)
        #expect(
            try await shop.scene.ledger.supply(Self.consented, about: shop.key, at: shop.scene.time.now) == true)
        try await shop.scene.work()
        #expect(shop.answers.count == 2)
        #expect(try await shop.question.state == .answered)
        // It is repeated too.
        try await shop.scene.pass(seconds: 8 * 3600)
        try await shop.askAgain()
        try await shop.scene.work()
        #expect(shop.answers.count == 2)
        #expect(try await shop.events == 2)
    }

    @Test func `a customer who does not consent is not reported on, nor after a second request; that is no failure`()
        async throws
    {
        let shop = try await Shop()
        try await shop.consent()
        var information = Self.delivered
        information.customerConsented = false
        _ = try await shop.scene.ledger.supply(information, about: shop.key, at: shop.scene.time.now)
        for requests in 1...2 {
            try await shop.scene.work()
            #expect(try await shop.question.state == .withheld)
            #expect(try await shop.failure == nil)
            #expect(try await shop.events == requests)
            #expect(shop.answers.isEmpty)
            try await shop.ask()
        }
    }

    @Test(.takesLong, arguments: [true, false])
    func `in whatever order requests and decisions arrive, the last request is answered, and no repetition is`(
        isLateDecision: Bool
    ) async throws {
        // Asked for, repeated, declined, asked for, repeated: each an hour after the other.
        let names = isLateDecision ? 5 : 4
        for order in Self.orders(of: Array(0..<names)) {
            var shop = try await Shop(isHeard: false)
            shop.scene.reconciler.consumptionDefaults = ["month": Self.delivered]
            try await shop.consent()
            let id = shop.key.transactionId
            let steps: [@Sendable (inout SimulatedStore) throws -> Void] = [
                { try $0.world.repeatConsumptionRequest(id) }, { try $0.world.declineRefund(id) },
                { try $0.world.requestRefund(id) }, { try $0.world.repeatConsumptionRequest(id) },
            ]
            for step in steps.prefix(names - 1) {
                try await shop.scene.pass(seconds: 3600)
                try await shop.scene.transport.update { try step(&$0) }
            }
            try await shop.scene.pass(seconds: 1)
            let entries = await shop.scene.transport.store.outbox.entries.suffix(names)
            for index in order {
                try await shop.deliver(entries[entries.startIndex + index])
                while try await shop.scene.workOnce() {}
            }
            let question = try await shop.question
            #expect(question.state == .answered, "\(order)")
            #expect(question.requestedAt >= entries[entries.startIndex + 3].date, "\(order)")
            #expect((1...2).contains(shop.answers.count), "\(order): \(shop.answers.count)")
            #expect(try await shop.events == shop.answers.count, "\(order)")
        }
    }

    private static func orders(of items: [Int]) -> [[Int]] {
        guard items.count > 1 else { return [items] }
        return items.flatMap { first in orders(of: items.filter { $0 != first }).map { [first] + $0 } }
    }

    @Test func `a decision alone is no request, and is forgotten after 30 days`() async throws {
        let shop = try await Shop(isHeard: false)
        let id = shop.key.transactionId
        try await shop.scene.transport.update { try $0.world.declineRefund(id) }
        try await shop.scene.pass(seconds: 1)
        let entries = await shop.scene.transport.store.outbox.entries
        try await shop.deliver(try #require(entries.last))
        let job = try #require(try await shop.scene.ledger.consumptionJob(shop.key))
        #expect(ConsumptionQuestion(job) == nil)
        #expect(try await shop.scene.ledger.supply(Self.consented, about: shop.key, at: shop.scene.time.now) == nil)
        // An operator may make it due.
        var due = job
        due.dueAt = shop.scene.time.now
        try await shop.scene.ledger.replace(job, with: due, at: shop.scene.time.now)
        while try await shop.scene.workOnce() {}
        #expect(try await shop.scene.ledger.consumptionJob(shop.key)?.dueAt == job.dueAt)
        try await shop.scene.pass(days: 30)
        while try await shop.scene.workOnce() {}
        #expect(try await shop.scene.ledger.consumptionJob(shop.key) == nil)
    }

    @Test(arguments: [
        (nil, true, "No consent of the customer is recorded."),
        (false, true, "No consent of the customer is recorded."),
        (true, false, "deliveryStatus was not supplied, and the product has no default."),
    ])
    func `without consent or a delivery status nothing is sent, and after the deadline the request is missed`(
        consent: Bool?, isDelivered: Bool, reason: String
    ) async throws {
        let shop = try await Shop()
        if let consent { try await shop.consent(consent) }
        let information = isDelivered ? Self.delivered : ConsumptionInformation()
        _ = try await shop.scene.ledger.supply(information, about: shop.key, at: shop.scene.time.now)
        try await shop.scene.work()
        #expect(try await shop.question.state == .waiting)
        try await shop.scene.work(afterSeconds: 43_200)
        #expect(try await shop.question.state == .missed)
        #expect(try await shop.failure == reason)
        #expect(shop.answers.isEmpty)
        // After that it is too late.
        #expect(
            try await shop.scene.ledger.supply(Self.delivered, about: shop.key, at: shop.scene.time.now) == false)
    }

    @Test func `a request waits for the app, which learns of it by an event, also in the sandbox's five minutes`()
        async throws
    {
        let shop = try await Shop(in: .sandbox)
        try await shop.scene.work()
        let event = try #require(
            try await shop.scene.ledger.events(of: "com.example", limit: 100).events.last {
                $0.kind == .consumptionRequested
            })
        #expect(event.content?.transactionId == shop.key.transactionId && event.content?.productId == "month")
        #expect(event.content?.before == event.content?.after && event.content?.after?.status == .active)
        try await shop.scene.pass(seconds: 240)
        _ = try await shop.scene.ledger.supply(Self.delivered, about: shop.key, at: shop.scene.time.now)
        try await shop.consent()
        // Consent alone is noticed at the next look, a twentieth of the five minutes later.
        try await shop.scene.work(afterSeconds: 15)
        #expect(shop.answers.count == 1)
        #expect(try await shop.question.state == .answered)
    }

    @Test func `if a worker dies after sending, the answer is sent again and recorded`() async throws {
        let shop = try await Shop()
        try await shop.consent()
        _ = try await shop.scene.ledger.supply(Self.delivered, about: shop.key, at: shop.scene.time.now)
        // The request takes effect and is never answered, as if the worker had died: its lease stays.
        let (now, id) = (shop.scene.time.now, shop.key.transactionId)
        let leased = try await shop.scene.ledger.lease(
            .consumption, in: shop.scene.scope, until: now.advanced(by: .seconds(120)), at: now)
        #expect(leased.map(\.id.name) == [id])
        try await shop.scene.reconciler.client.send(
            .sendConsumptionInformation(
                try #require(Self.consented.request(isSubscription: true)), about: id),
            to: .production)
        try await shop.scene.work()
        #expect(shop.answers.count == 1)
        try await shop.scene.work(afterSeconds: 120)
        #expect(shop.answers.count == 2)
        #expect(try await shop.question.state == .answered)
    }

    /// What an app says that has delivered a subscription, to a customer who consents.
    static var consented: ConsumptionInformation {
        var information = delivered
        information.customerConsented = true
        return information
    }

    @Test func `an answer that the App Store refuses is shown with the reason, until the app supplies another one`()
        async throws
    {
        let shop = try await Shop()
        await shop.scene.transport.update { $0.faults.failNext[.consumption] = [.invalidDeliveryStatus] }
        _ = try await shop.scene.ledger.supply(Self.consented, about: shop.key, at: shop.scene.time.now)
        try await shop.scene.work()
        #expect(try await shop.question.state == .refused)
        #expect(try await shop.failure?.hasPrefix("refused: ") == true)
        try await shop.scene.work(afterSeconds: 3600)
        #expect(shop.answers.count == 1)
        #expect(
            try await shop.scene.ledger.supply(Self.consented, about: shop.key, at: shop.scene.time.now) == true)
        try await shop.scene.work()
        #expect(shop.answers.count == 2)
        #expect(try await shop.question.state == .answered)
    }

    @Test func `while the App Store fails the answer is tried again, and missed at the deadline with the reason`()
        async throws
    {
        let shop = try await Shop()
        await shop.scene.transport.update { $0.faults.internalErrors = 1 }
        _ = try await shop.scene.ledger.supply(Self.consented, about: shop.key, at: shop.scene.time.now)
        for _ in 0..<12 {
            try await shop.scene.work()
            #expect(try await shop.question.state == .waiting)
            #expect(try await shop.failure?.hasPrefix("unavailable: ") == true)
            try await shop.scene.pass(seconds: 3600 - 1)
        }
        try await shop.scene.work(afterSeconds: 60)
        #expect(try await shop.question.state == .missed)
        #expect(try await shop.failure?.hasPrefix("unavailable: ") == true)
    }

    @Test func `an outcome that an operator makes due is kept, so that a repeated request is not answered again`()
        async throws
    {
        let shop = try await Shop()
        var scene = shop.scene
        scene.reconciler.consumptionDefaults = ["month": Self.delivered]
        try await shop.consent()
        try await scene.work()
        #expect(shop.answers.count == 1)
        let job = try #require(try await scene.ledger.consumptionJob(shop.key))
        var due = job
        due.dueAt = scene.time.now
        try await scene.ledger.replace(job, with: due, at: scene.time.now)
        try await scene.work()
        #expect(try await shop.question.state == .answered)
        try await shop.deliver()
        try await scene.work()
        #expect(shop.answers.count == 1)
    }

    @Test func `the outcome is kept for 30 days, and an erased customer leaves none`() async throws {
        let shop = try await Shop()
        _ = try await shop.scene.ledger.supply(Self.consented, about: shop.key, at: shop.scene.time.now)
        try await shop.scene.work()
        try await shop.scene.work(afterDays: 29)
        #expect(try await shop.question.state == .answered)
        try await shop.scene.work(afterDays: 1)
        #expect(try await shop.scene.ledger.consumptionJob(shop.key) == nil)

        let other = try await Shop()
        let account = await other.scene.transport.store.world.customers["anna"]?.appAccountToken ?? ""
        _ = try await other.scene.ledger.delete(account, in: other.scene.scope, at: other.scene.time.now)
        #expect(try await other.scene.ledger.consumptionJob(other.key) == nil)
    }
}
