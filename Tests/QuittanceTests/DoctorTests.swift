// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import ArgumentParser
import Foundation
import LedgerSQLite
import PurchaseLedger
import PurchaseLedgerTesting
import PurchaseServer
import Reconciliation
import Synchronization
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import quittance

/// Tests what `quittance doctor` finds in a ledger and at the App Store, in this process.
@Suite struct DoctorTests {
    private static let now = TestStore.start
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)

    /// Between the doctor and a simulated App Store: answers in its place as a test says.
    private final class Way: AppStoreTransport {
        typealias Answer = @Sendable (APIRequest, AppStoreModel.Environment) async -> AppStoreAPI.APIAnswer?

        private let store: SimulatedTransport
        private let state = Mutex<(answer: Answer?, time: Timestamp)>((nil, now))

        init(_ store: SimulatedTransport) { self.store = store }

        var time: Timestamp { state.withLock { $0.time } }

        func wait(_ seconds: Int64) { state.withLock { $0.time.milliseconds += seconds * 1000 } }

        func play(_ answer: Answer?) { state.withLock { $0.answer = answer } }

        func answer(
            to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
        ) async throws -> AppStoreAPI.APIAnswer {
            let answer = state.withLock { $0.answer }
            if let answer = await answer?(request, environment) { return answer }
            return try await store.answer(to: request, in: environment, within: timeout)
        }
    }

    private static func json(_ status: Int, _ body: String) -> AppStoreAPI.APIAnswer {
        AppStoreAPI.APIAnswer(status: status, headers: ["content-type": "application/json"], body: Array(body.utf8))
    }

    /// A ledger that heard of a purchase just now, and an App Store that accepts the key.
    private struct Shop {
        var service: LedgerService
        let way: Way
        let key: StoreKey
        let judge: ClockJudge
        let storage: any LedgerStorage

        /// - Parameter isInDatabase: Whether the ledger is in PostgreSQL, instead of SQLite.
        init(isInDatabase: Bool = false) async throws {
            storage =
                try await isInDatabase ? opened(TestPostgres.database()) : SQLiteLedgerStorage.inMemory()
            let store = try TestStore()
            var world = World(
                selling: [.subscription("month", Period(1, .month))],
                in: AppIdentity(bundleId: "com.example", appAppleId: 7), at: now.advanced(by: .seconds(-3600)))
            let token = try store.signer.notification(world.sell("month"), from: world.catalogue)
            var configuration = ServerConfiguration()
            var app = AppConfiguration(AppIdentity(bundleId: "com.example", appAppleId: 7))
            app.catalogue.products = ["month": .init(entitlements: ["pro"])]
            configuration.apps = [app]
            judge = ClockJudge(now: SystemClock.now, clock: ContinuousClock())
            service = LedgerService(
                configuration, storage: storage, verifier: store.verifier(), clockJudge: judge)
            let evidence = try #require(
                Evidence(try await service.verifier.verify(notification: token.utf8, at: now)))
            _ = try await service.ledger.record([evidence], at: now)
            key = try StoreKey(seed: 1)
            let transport = SimulatedTransport(SimulatedStore(world, store.signer, key), wall: { now })
            await transport.update { $0.notificationURLs = [.production: "http://x/", .sandbox: "http://x/"] }
            let way = Way(transport)
            self.way = way
            service.reconcilers = Reconcilers(
                service.ledger, service.verifier,
                keys: ["com.example": try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem)],
                apps: service.apps, over: way, now: { way.time }, wall: { now }, sleep: { _ in },
                random: SeededRandom(seed: 1))
        }

        /// Begins to read the notification history in production.
        func start() async throws { try await reconciler.start() }

        /// Does the jobs that are due.
        func work() async throws {
            let runner = JobRunner(service.ledger, Reconciler.jobs(of: [scope: try reconciler]), now: { way.time })
            while try await runner.workOnce() {}
        }

        private var reconciler: Reconciler { get throws { try #require(service.reconcilers?.all[scope]) } }

        /// The codes that an examination of the ledger and the App Store finds, in the order of their names.
        func codes(loops: Bool = false) async throws -> [String] {
            Set(try await findings(loops: loops).found.map(\.kind.rawValue)).sorted()
        }

        func findings(loops: Bool = false) async throws -> Findings {
            var examination = Examination(try ServeOptions.parse([]))
            examination.patience = .zero
            await examination.examineDatabaseClock(service.ledger)
            await examination.examineKeys(service)
            await examination.examineWork(service, at: way.time, loops: loops)
            await examination.examineCatalogue(service, Composition(configuration: ServerConfiguration()))
            await examination.examineWebhooks(service, at: way.time)
            if loops { await examination.examineLoop(service, ContinuousClock()) }
            let text = examination.findings.found.map { $0.text + $0.cure }.joined(separator: "\n")
            for secret in ["eyJ", "PRIVATE KEY", "Bearer ", "s3cr3t"] { #expect(!text.contains(secret), "\(text)") }
            return examination.findings
        }

        /// Adds an endpoint, of whose events one may be set aside, or wait after a failure.
        func addWebhook(
            _ secrets: WebhookSecrets, to url: String = "https://example.com:8443/s3cr3t", isSetAside: Bool = false,
            isFailing: Bool = false
        ) async throws {
            let ledger = service.ledger
            let endpoint = WebhookEndpoint(id: "hook", of: "com.example", url: url, createdAt: now)
            _ = try await ledger.addWebhook(
                endpoint, fingerprint: secrets.fingerprint, from: EventCursor(0), at: now)
            guard isSetAside || isFailing else { return }
            let job = try #require(
                try await ledger.leaseWebhook("hook", of: "com.example", until: now.advanced(by: .seconds(9)), at: now))
            var results = WebhookResults(progress: try WebhookProgress(job))
            let event = try #require(try await ledger.events(of: "com.example", limit: 1).events.first?.cursor)
            results.progress.failingSince = isFailing ? now : nil
            results.failed = [
                FailedDelivery(
                    of: event, to: "hook", of: "com.example", lane: 0, attempts: 9,
                    dueAt: isSetAside ? nil : now, failedAt: now, reason: "500")
            ]
            _ = try await ledger.commitWebhook(job, results, to: endpoint, until: now, at: now)
        }
    }

    /// A ledger in PostgreSQL, opened as a server does.
    private static func opened(_ database: TestDatabase) async throws -> any LedgerStorage {
        var configuration = ServerConfiguration()
        configuration.database = LedgerLocation(TestPostgres.uri(database.name, at: [database.server.folder]))
        return try await Composition(configuration: configuration).opened(.serving)
    }

    private static let secrets = Result { try WebhookSecrets(file: Array(repeating: 7, count: 48)) }

    /// What is broken, and the codes that are found then, and no others.
    private struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        let codes: [String]
        var loops = false
        let break_: @Sendable (inout Shop) async throws -> Void

        init(
            _ codes: [String], loops: Bool = false, _ name: String,
            _ break_: @escaping @Sendable (inout Shop) async throws -> Void
        ) {
            (testDescription, self.codes, self.loops, self.break_) = (name, codes.sorted(), loops, break_)
        }
    }

    private static let refusal = json(401, "Unauthenticated")

    private static let cases = [
        Case([], "all is well") { _ in },
        Case([], "the last minute has more than a page of notifications, and the next page is refused") {
            $0.way.play { request, _ in
                guard request.path.hasSuffix("/history") else { return nil }
                return request.query.isEmpty
                    ? json(200, #"{"notificationHistory":[],"hasMore":true,"paginationToken":"next"}"#)
                    : json(400, #"{"errorCode":4000017,"errorMessage":"PaginationTokenExpiredError"}"#)
            }
        },
        Case(["keyRefused"], "the App Store refuses the key") { $0.way.play { _, _ in refusal } },
        Case(["keyRefused"], loops: true, "the App Store refuses the key of a server that runs") {
            $0.way.play { _, _ in refusal }
            try await $0.start()
            try await $0.work()
        },
        Case(["keyNotInProduction"], "production alone refuses the key") {
            $0.way.play { _, environment in environment == .production ? refusal : nil }
        },
        Case(["appStoreFailed"], "a proxy answers for the App Store") { $0.way.play { _, _ in json(503, "") } },
        Case(["appStoreClock"], "this machine's clock is wrong") {
            $0.judge.appStoreSaid(SystemClock.now().advanced(by: .seconds(300)))
        },
        Case(["noNotification"], "the last notification is old") { $0.way.wait(8 * 86_400) },
        Case(["jobsOverdue"], "no server does the jobs") {
            try await $0.start()
            $0.way.wait(3600)
        },
        Case(["jobsFailed"], "the history was refused, and is asked for later") {
            $0.way.play { request, _ in request.path.hasSuffix("/history") ? json(503, "") : nil }
            try await $0.start()
            try await $0.work()
            $0.way.play(nil)
        },
        Case(["historyLate", "jobsFailed"], "the history was read long ago") {
            try await $0.start()
            try await $0.work()
            $0.way.wait(2 * 3600)
            $0.way.play { request, _ in request.path.hasSuffix("/history") ? json(503, "") : nil }
            try await $0.work()
            $0.way.play(nil)
        },
        Case(["productUnknown"], "a bought product is not in the configuration") { shop in
            let store = try TestStore()
            let document = try await store.verifier().evidence(
                transaction: store.sign(TestStore.transaction("9", product: "gold")), at: now)
            _ = try await shop.service.ledger.record([document], at: now)
        },
        Case(["webhookUnserved"], "the server has no secret of the webhooks") {
            try await $0.addWebhook(secrets.get())
        },
        Case(["webhookUnserved"], "an address is not allowed") {
            $0.service.webhookSecrets = try secrets.get()
            try await $0.addWebhook(secrets.get(), to: "https://127.0.0.1/s3cr3t")
        },
        Case(["webhookFailing"], "a receiver fails") {
            $0.service.webhookSecrets = try secrets.get()
            try await $0.addWebhook(secrets.get(), isFailing: true)
        },
        Case(["webhookSetAside"], "a receiver refused an event for days") {
            $0.service.webhookSecrets = try secrets.get()
            try await $0.addWebhook(secrets.get(), isSetAside: true)
        },
        Case(["testRefused"], loops: true, "App Store Connect has no URL") {
            $0.way.play { request, _ in
                request.path.hasSuffix("/test") ? json(404, #"{"errorCode":4040007,"errorMessage":"x"}"#) : nil
            }
        },
        Case(["testFailed"], loops: true, "Apple made no attempt yet, and the last notification is old") {
            $0.way.wait(8 * 86_400)
        },
        Case(["testFailed"], loops: true, "the certificate has expired") { $0.way.play(sent("TLS_ISSUE")) },
        Case(["testUnrecorded"], loops: true, "the URL leads to another server") { $0.way.play(sent("SUCCESS")) },
    ]

    /// A test notification that was sent, with a result.
    private static func sent(_ result: String) -> Way.Answer {
        { request, _ in
            if request.path.hasSuffix("/test") { return json(200, #"{"testNotificationToken":"a_1"}"#) }
            guard request.path.contains("/test/") else { return nil }
            return json(
                200,
                #"{"signedPayload":"x","sendAttempts":[{"attemptDate":1,"sendAttemptResult":"\#(result)"}]}"#)
        }
    }

    @Test(arguments: cases, TestPostgres.isThere ? [false, true] : [false])
    private func `what is broken is found, and nothing else`(_ found: Case, isInDatabase: Bool) async throws {
        var shop = try await Shop(isInDatabase: isInDatabase)
        defer { try? shop.storage.close() }
        try await found.break_(&shop)
        let all = try await shop.findings(loops: found.loops).found
        #expect(Set(all.map(\.kind.rawValue)).sorted() == found.codes, "\(all.map(\.text))")
    }

    @Test func `what both environments have in common is one finding, and a refused key is not tried again`()
        async throws
    {
        let shop = try await Shop()
        shop.way.play { _, _ in Self.refusal }
        let refused = try await shop.findings(loops: true)
        #expect(refused.found.count == 1 && refused.found.first?.text.hasPrefix("com.example: ") == true)
        #expect(refused.found.first?.text.contains(shop.key.id) == true)
        #expect(refused.unseen.map(\.group) == [.loop, .loop])
        shop.way.play(Self.sent("TLS_ISSUE"))
        let failed = try await shop.findings(loops: true).found
        #expect(failed.count == 1 && failed.first?.text.hasPrefix("com.example: TLS_ISSUE. ") == true)
        #expect(failed.first?.cure.contains("exactly https://HOST/notifications/v2. ") == true)
    }

    @Test(arguments: [(300.5, "behind"), (-300.5, "ahead of")])
    func `it says in whole seconds how far this machine's clock is from the App Store's`(
        later: Double, side: String
    ) async throws {
        let shop = try await Shop()
        shop.judge.appStoreSaid(SystemClock.now().advanced(by: .seconds(later)))
        let text = try #require(try await shop.findings().found.first).text
        let sentence = try Regex("This machine's clock is [23][0-9][0-9] seconds \(side) the App Store's\\.")
        #expect(text.contains(sentence), "\(text)")
    }

    @Test func `a receiver that fails is a hint, and after an hour a fault`() async throws {
        var shop = try await Shop()
        shop.service.webhookSecrets = try Self.secrets.get()
        try await shop.addWebhook(Self.secrets.get(), isFailing: true)
        for (seconds, level) in [(0, FindingKind.Level.hint), (3601, .fault)] {
            shop.way.wait(Int64(seconds))
            let found = try #require(try await shop.findings().found.first)
            #expect(found.level == level && found.text.hasPrefix("The webhook hook (example.com:8443) fails since "))
            #expect(found.text.hasSuffix(": 500; 1 event waiting."), "\(found.text)")
            #expect(found.cure.contains("quittance webhooks resume hook --bundle-id com.example tries"))
        }
    }

    @Test func `the command of a cure has the options, and no password`() throws {
        let options = ["--config", "my file.json", "--root", "it's.pem", "--database"]
        for (ledger, shown) in [("sqlite:l.sqlite", "sqlite:l.sqlite"), ("postgresql://u:s3cr3t@h/l", "…")] {
            var findings = Examination(try ServeOptions.parse(options + [ledger])).findings
            findings.add(.historyLate, "A history is late.")
            let given = #"--config 'my file.json' --database '\#(shown)' --root 'it'\''s.pem'"#
            #expect(findings.found.first?.cure.contains("quittance jobs --failed \(given) for") == true)
        }
    }

    @Test func `the concern of a server is left out beside a fault of another group`() {
        var findings = Findings()
        findings.add(.serverConcern, "The log of this ledger was damaged.")
        findings.dropRepeated()
        #expect(findings.found.map(\.kind) == [.serverConcern])
        findings.add(.ledgerConcern, "The log of this ledger was damaged.")
        findings.dropRepeated()
        #expect(findings.found.map(\.kind) == [.ledgerConcern])
    }

    @Test(arguments: TestPostgres.isThere ? [false, true] : [false])
    func `a damaged purchase is found, and the rest is read`(isInDatabase: Bool) async throws {
        let database = isInDatabase ? try TestPostgres.database() : nil
        let file = try SQLiteLedgerStorage.inMemory()
        let storage: any LedgerStorage = if let database { try await Self.opened(database) } else { file }
        defer { try? storage.close() }
        let store = try TestStore()
        let service = LedgerService(ledger: Ledger(storage: storage), verifier: store.verifier())
        let document = try await store.verifier().evidence(
            transaction: store.sign(TestStore.transaction("9")), at: Self.now)
        _ = try await service.ledger.record([document], at: Self.now)
        if let database {
            try database.psql("UPDATE quittance.chains SET state = 'x'")
        } else {
            try await file.execute("UPDATE chains SET predecessors = '{'")
        }
        var examination = Examination(try ServeOptions.parse([]))
        await examination.examineCatalogue(service, Composition(configuration: ServerConfiguration()))
        #expect(examination.findings.found.map(\.kind) == [.ledgerDamaged])
    }

    /// A database whose clock is behind.
    private struct SlowStorage: ForwardingStorage {
        let inner: any LedgerStorage = MemoryLedgerStorage()

        func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration? { .seconds(9) }
    }

    @Test func `a database with another time is found`() async throws {
        var examination = Examination(try ServeOptions.parse([]))
        await examination.examineDatabaseClock(Ledger(storage: SlowStorage()))
        #expect(examination.findings.found.map(\.kind) == [.databaseClock])
    }

    // MARK: - Papers

    @Test func `each kind of finding has a test, a row in docs/doctor.md and a cure`() throws {
        let tests = try ["DoctorTests", "DoctorCommandTests"].map {
            try Project.text("Tests/QuittanceTests/\($0).swift")
        }.joined()
        let page = try Project.text("docs/doctor.md")
        for kind in FindingKind.allCases {
            #expect(page.contains("| `\(kind.rawValue)` | \(kind.level.rawValue) |"), "\(kind)")
            #expect(tests.contains("\"\(kind.rawValue)\"") || tests.contains(".\(kind.rawValue)"), "\(kind)")
            #expect(kind.cure.hasSuffix(".") && !kind.cure.contains("the sentence says"), "\(kind)")
        }
        #expect(page.matches(of: /(?m)^\| `[a-zA-Z]+` \| (fault|hint) \|/).count == FindingKind.allCases.count)
        for result in SendAttemptResult.allCases {
            #expect(SendAttemptResult.meaning(of: Open(result)).hasSuffix("."))
        }
    }
}
