// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedgerTesting
import Synchronization
import TestData
import TestWorld
import Testing

@testable import PurchaseLedger

/// A ledger with webhooks, whose decisions all run twice.
private struct Hooks {
    static let app = "com.example"

    let ledger: Ledger

    init(_ storage: any LedgerStorage = UnsteadyStorage(around: MemoryLedgerStorage())) {
        ledger = Ledger(storage: storage)
    }

    static func time(_ seconds: Int64) -> Timestamp { Facts.day(100).advanced(by: .seconds(seconds)) }

    static func endpoint(
        _ id: String = "hook", of app: String = app, _ change: (inout WebhookEndpoint) -> Void = { _ in }
    ) -> WebhookEndpoint {
        var endpoint = WebhookEndpoint(id: id, of: app, url: "https://example.com/\(id)", createdAt: time(0))
        change(&endpoint)
        return endpoint
    }

    @discardableResult func add(
        _ id: String = "hook", of app: String = app, from cursor: EventCursor? = nil, file: String = "print",
        at seconds: Int64 = 0
    ) async throws -> WebhookAddition {
        try await ledger.addWebhook(
            Self.endpoint(id, of: app), fingerprint: file, from: cursor, at: Self.time(seconds))
    }

    /// Publishes an event at each of some seconds.
    func publish(at seconds: [Int64], of app: String = app) async throws {
        try await ledger.storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.events = seconds.map { second in
                LedgerEvent(
                    Open(.notificationReceived), in: LedgerScope(bundleId: app, environment: .production),
                    at: Self.time(second), customer: nil, chainName: nil, body: Array("{}".utf8))
            }
            return .commit(changes, ())
        }
    }

    func lease(_ id: String = "hook", at seconds: Int64 = 0, length: Int64 = 60) async throws -> Job? {
        try await ledger.leaseWebhook(
            id, of: Self.app, until: Self.time(seconds + length), at: Self.time(seconds))
    }

    func progress(_ id: String = "hook") async throws -> WebhookProgress {
        try #require(try await ledger.webhookProgress(of: id, of: Self.app))
    }

    /// Commits results of a server that knows the endpoint as it is stored.
    @discardableResult func commit(
        _ job: Job, at seconds: Int64 = 1, length: Int64 = 60, _ change: (inout WebhookResults) -> Void
    ) async throws -> Job {
        let stored = try await ledger.webhookEndpoint(job.id.name, of: Self.app)
        let commit = try await commit(
            job, to: stored ?? Self.endpoint(job.id.name), at: seconds, length: length, change)
        #expect(!commit.isChanged)
        return commit.job
    }

    func commit(
        _ job: Job, to endpoint: WebhookEndpoint, at seconds: Int64 = 1, length: Int64 = 60,
        _ change: (inout WebhookResults) -> Void
    ) async throws -> WebhookCommit {
        var results = WebhookResults(progress: try WebhookProgress(job))
        change(&results)
        return try await ledger.commitWebhook(
            job, results, to: endpoint, until: Self.time(seconds + length), at: Self.time(seconds))
    }

    func change(
        _ id: String = "hook", at seconds: Int64 = 1, _ change: @escaping @Sendable (inout WebhookEndpoint) -> Void
    ) async throws {
        #expect(try await ledger.changeWebhook(id, of: Self.app, at: Self.time(seconds), change) != nil)
    }

    func failed(_ number: Int64, of id: String = "hook", dueAt seconds: Int64? = 30) -> FailedDelivery {
        FailedDelivery(
            of: cursor(number), to: id, of: Self.app, lane: Int(number % 16), attempts: 3,
            dueAt: seconds.map(Self.time), failedAt: Self.time(5), reason: "The answer was 500.")
    }

    func cursor(_ number: Int64) -> EventCursor { EventCursor(number, epoch: Self.app) }

    func numbers(setAside: Bool, of id: String = "hook") async throws -> [Int64?] {
        try await ledger.failedDeliveries(of: id, of: Self.app, setAside: setAside, limit: 10_000)
            .map(\.event.number)
    }

    /// All records of webhooks of the app.
    var records: Set<LedgerRecord> {
        get async throws {
            Set(
                try await ledger.records(RecordSelection()).filter {
                    $0.key.owner.bundleId == Self.app || $0.key.kind == WebhookFingerprint.recordKind
                })
        }
    }
}

/// Tests the endpoints of webhooks in the ledger.
@Suite struct WebhookEndpointTests {
    private let hooks = Hooks()

    @Test(arguments: [
        WebhookEndpoint.State.active, .paused, .disabled(reason: "The receiver is “gone”.", at: Hooks.time(9)),
    ]) func `an endpoint is read as it was written`(state: WebhookEndpoint.State) throws {
        for kinds in [nil, [], ["purchase.made", "kind.ofTheNextVersion"]] as [Set<String>?] {
            for environment in [nil, .sandbox] as [Environment?] {
                var endpoint = WebhookEndpoint(
                    id: "a1", of: Hooks.app, url: "https://é.example/", kinds: kinds, environment: environment,
                    isOrdered: kinds == nil, isAsymmetric: kinds != nil, createdAt: Hooks.time(1))
                endpoint.state = state
                #expect(try WebhookEndpoint(endpoint.record) == endpoint)
                endpoint.generation = 7
                endpoint.rotatedAt = Hooks.time(2)
                #expect(try WebhookEndpoint(endpoint.record) == endpoint)
            }
        }
    }

    private static func record(_ change: (inout String) -> Void) -> LedgerRecord {
        var record = Hooks.endpoint { $0.environment = .production }.record
        var text = String(decoding: record.payload, as: UTF8.self)
        change(&text)
        record.payload = Array(text.utf8)
        return record
    }

    @Test func `members and states of a newer version survive a change by this version`() throws {
        let record = Self.record { text in
            text.replace(#""state":"active""#, with: #""state":"resting","until":[7]"#)
        }
        var endpoint = try WebhookEndpoint(record)
        guard case .disabled = endpoint.state else { throw Unexpected(endpoint) }
        endpoint.generation = 2
        let changed = String(decoding: endpoint.record.payload, as: UTF8.self)
        #expect(changed.contains(#""state":"resting""#) && changed.contains(#""until":[7]"#))
        endpoint.state = .active
        let resumed = String(decoding: endpoint.record.payload, as: UTF8.self)
        #expect(resumed.contains(#""state":"active""#) && !resumed.contains("resting"))
        #expect(resumed.contains(#""until":[7]"#))
    }

    private struct Unexpected: Error {
        var endpoint: WebhookEndpoint

        init(_ endpoint: WebhookEndpoint) { self.endpoint = endpoint }
    }

    @Test(arguments: [
        (#""environment":"Production""#, #""environment":"Staging""#), (#""generation":1"#, #""generation":"1""#),
        (#""generation":1"#, #""generation":0"#), (#""isOrdered""#, #""kinds":[1],"isOrdered""#),
        (#""url""#, #""address""#), (#""state""#, #""condition""#),
    ]) func `an endpoint is unreadable if a member that decides has another form`(old: String, new: String) async throws
    {
        let record = Self.record { $0.replace(old, with: new) }
        #expect(record != Self.record { _ in })
        #expect(throws: LedgerStorageError.self) { try WebhookEndpoint(record) }
        try await hooks.add("first")
        try await hooks.add("hook")
        try await hooks.ledger.storage.commit(LedgerQuery([.record(record.key)])) { _ in
            var changes = LedgerChanges()
            changes.records = [record]
            return .commit(changes, ())
        }
        #expect(try await hooks.ledger.webhookEndpoints().map(\.id) == ["first"])
        await #expect(throws: LedgerStorageError.self) { try await hooks.lease() }
        await #expect(throws: LedgerStorageError.self) {
            try await hooks.ledger.changeWebhook("hook", of: Hooks.app, at: Hooks.time(1)) { $0.state = .active }
        }
        #expect(try await hooks.ledger.removeWebhook("hook", of: Hooks.app, at: Hooks.time(1)))
        #expect(try await hooks.records.allSatisfy { $0.key.name != "hook" })
    }

    @Test func `an app has at most 20 endpoints, listed in the order of their making`() async throws {
        for number in 0..<20 {
            let endpoint = WebhookEndpoint(
                id: "h\(19 - number)", of: Hooks.app, url: "https://example.com", createdAt: Hooks.time(Int64(number)))
            #expect(try await hooks.ledger.addWebhook(endpoint, fingerprint: "print", at: Hooks.time(50)) == .done)
        }
        #expect(try await hooks.add("more") == .tooMany)
        #expect(try await hooks.add("more", of: "com.other") == .done)
        #expect(try await hooks.ledger.webhookEndpoints(of: Hooks.app).map(\.id) == (0..<20).map { "h\(19 - $0)" })
        #expect(try await hooks.ledger.webhookEndpoints().count == 21)
        #expect(try await hooks.ledger.removeWebhook("h3", of: Hooks.app, at: Hooks.time(60)))
        #expect(try await hooks.add("more") == .done)
        #expect(try await hooks.ledger.webhookEndpoint("more", of: Hooks.app) == Hooks.endpoint("more"))
        #expect(try await hooks.ledger.webhookEndpoint("h3", of: Hooks.app) == nil)
    }

    @Test(arguments: [1, 19]) func `endpoints that are added at the same instant do not pass the limit`(
        present: Int
    ) async throws {
        for number in 0..<present { try await hooks.add("first\(number)") }
        let added = try await Self.addAtOnce(33) { try await hooks.add("h\($0)") }
        #expect(added.count { $0 == .done } == 20 - present && added.count { $0 == .tooMany } == 13 + present)
        #expect(try await hooks.ledger.webhookEndpoints(of: Hooks.app).count == 20)
    }

    @Test func `of two secret files at the same instant only one has endpoints`() async throws {
        let files = ["first", "second"]
        let added = try await Self.addAtOnce(10) { try await hooks.add("h\($0)", file: files[$0 % 2]) }
        #expect(added.count { $0 == .done } == 5 && added.count { $0 == .otherSecretFile } == 5)
        #expect(try await hooks.ledger.webhookEndpoints().count == 5)
    }

    private static func addAtOnce(
        _ count: Int, _ add: @escaping @Sendable (Int) async throws -> WebhookAddition
    ) async throws -> [WebhookAddition] {
        try await withThrowingTaskGroup { group in
            for number in 0..<count { group.addTask { try await add(number) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func `a ledger with endpoints accepts no second secret file`() async throws {
        #expect(try await hooks.ledger.webhookFingerprint() == nil)
        #expect(try await hooks.add("a", file: "first") == .done)
        #expect(try await hooks.ledger.webhookFingerprint() == "first")
        #expect(try await hooks.add("b", of: "com.other", file: "second") == .otherSecretFile)
        #expect(try await hooks.ledger.webhookEndpoints().map(\.id) == ["a"])
        #expect(try await hooks.add("b", of: "com.other", file: "first") == .done)
        #expect(try await hooks.ledger.removeWebhook("a", of: Hooks.app, at: Hooks.time(1)))
        #expect(try await hooks.add("a", file: "second") == .otherSecretFile)
        #expect(try await hooks.ledger.removeWebhook("b", of: "com.other", at: Hooks.time(1)))
        #expect(try await hooks.add("a", file: "second") == .done)
        #expect(try await hooks.ledger.webhookFingerprint() == "second")
    }

    @Test func `deliveries begin with the next event, or after a cursor`() async throws {
        try await hooks.publish(at: [1, 2, 3])
        try await hooks.add("next")
        try await hooks.add("second", from: hooks.cursor(1))
        try await hooks.add("all", from: EventCursor(0))
        for (id, start) in [("next", "3.com.example"), ("second", "1.com.example"), ("all", "0")] {
            let progress = try await hooks.progress(id)
            #expect(progress == WebhookProgress(from: EventCursor(rawValue: start)), "\(id)")
            #expect(progress.positions.count == 16)
        }
        await #expect(throws: EventCursorError.lost(oldest: hooks.cursor(3))) {
            try await hooks.add("late", from: hooks.cursor(4))
        }
        #expect(try await hooks.ledger.webhookEndpoint("late", of: Hooks.app) == nil)
    }

    @Test func `an endpoint that is added twice stays as it is`() async throws {
        try await hooks.add()
        let job = try #require(try await hooks.lease())
        let other = Hooks.endpoint { $0.url = "https://example.net" }
        #expect(try await hooks.ledger.addWebhook(other, fingerprint: "print", at: Hooks.time(3)) == .done)
        #expect(try await hooks.ledger.webhookEndpoint("hook", of: Hooks.app)?.url == "https://example.com/hook")
        try await hooks.commit(job) { _ in }
    }

    @Test func `a resumed endpoint has not failed since its resumption`() async throws {
        try await hooks.add()
        let job = try #require(try await hooks.lease())
        try await hooks.commit(job) { changes in
            changes.progress.failingSince = Hooks.time(1)
            changes.disable = "No delivery succeeded for five days."
        }
        let disabled = try #require(try await hooks.ledger.webhookEndpoint("hook", of: Hooks.app))
        #expect(disabled.state == .disabled(reason: "No delivery succeeded for five days.", at: Hooks.time(1)))
        #expect(try await hooks.progress().failingSince == Hooks.time(1))
        let resumed = try await hooks.ledger.changeWebhook("hook", of: Hooks.app, at: Hooks.time(9)) {
            $0.resume(at: Hooks.time(9))
        }
        #expect(resumed?.state == .active)
        #expect(try await hooks.progress().failingSince == nil)
        let unknown = try await hooks.ledger.changeWebhook("no", of: Hooks.app, at: Hooks.time(9)) { $0.url = "" }
        #expect(unknown == nil)
    }

    @Test func `removal erases all records of the endpoint, and none of another`() async throws {
        try await hooks.publish(at: Array(1...40))
        try await hooks.add("other", from: EventCursor(0))
        let other = try #require(try await hooks.lease("other"))
        try await hooks.commit(other) { $0.failed = [hooks.failed(1, of: "other"), hooks.failed(2, of: "other")] }
        /// Without the record of the secret file, which counts all additions.
        func records() async throws -> Set<LedgerRecord> {
            try await hooks.records.filter { $0.key.kind != WebhookFingerprint.recordKind }
        }
        let expected = try await records()
        try await hooks.add("hook", from: EventCursor(0))
        var job = try #require(try await hooks.lease())
        for page in 0..<3 {
            let numbers = Int64(page * 400)..<Int64(page * 400 + 400)
            job = try await hooks.commit(job) { changes in
                changes.failed = numbers.map { hooks.failed($0 + 1, dueAt: $0 % 2 == 0 ? 3 : nil) }
                changes.attempts = numbers.map { attempt($0) }
            }
        }
        #expect(try await records().count > expected.count + 1200)
        #expect(try await hooks.ledger.removeWebhook("hook", of: Hooks.app, at: Hooks.time(9)))
        #expect(try await records() == expected)
        #expect(try await !hooks.ledger.removeWebhook("hook", of: Hooks.app, at: Hooks.time(9)))
    }
}

private func attempt(_ number: Int64, answer: String = "", failure: String? = nil) -> WebhookAttempt {
    WebhookAttempt(
        of: EventCursor(number, epoch: Hooks.app), at: Hooks.time(number), milliseconds: Int(number), status: 200,
        failure: failure, answer: answer)
}

/// Tests the lease of an endpoint's deliveries, and the commits of their results.
@Suite struct WebhookDeliveryTests {
    private let hooks = Hooks()

    @Test func `one server has the lease until it ends, and then another`() async throws {
        try await hooks.add()
        let first = try #require(try await hooks.lease(at: 10, length: 60))
        #expect(first.dueAt == Hooks.time(70))
        for second in [11, 69] as [Int64] { #expect(try await hooks.lease(at: second) == nil) }
        let second = try #require(try await hooks.lease(at: 70))
        #expect(second.attempts == first.attempts + 1)
        await #expect(throws: LeaseLost.self) { try await hooks.commit(first, at: 71) { _ in } }
        let third = try await hooks.commit(second, at: 72, length: 0) { _ in }
        #expect(third.attempts == second.attempts && third.dueAt == Hooks.time(72))
        #expect(try await hooks.lease(at: 72) != nil)
        #expect(try await hooks.lease("unknown") == nil)
    }

    @Test(arguments: [(240, false), (241, true)] as [(Int64, Bool)])
    func `a lease that ends later than any clock could set is over`(length: Int64, isOver: Bool) async throws {
        try await hooks.add()
        #expect(try await hooks.lease(length: length) != nil)
        let again = try await hooks.lease(at: 0)
        #expect((again != nil) == isOver)
    }

    @Test(arguments: [WebhookEndpoint.State.paused, .disabled(reason: "no", at: Hooks.time(1))])
    func `only an active endpoint is leased`(state: WebhookEndpoint.State) async throws {
        try await hooks.add()
        _ = try await hooks.ledger.changeWebhook("hook", of: Hooks.app, at: Hooks.time(1)) { $0.state = state }
        #expect(try await hooks.lease(at: 5) == nil)
        _ = try await hooks.ledger.changeWebhook("hook", of: Hooks.app, at: Hooks.time(6)) { $0.state = .active }
        #expect(try await hooks.lease(at: 6) != nil)
    }

    @Test func `a commit stores all results together`() async throws {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: EventCursor(0))
        let leased = try #require(try await hooks.lease())
        let first = try await hooks.commit(leased) { changes in
            changes.failed = [hooks.failed(4), hooks.failed(3), hooks.failed(5, dueAt: nil)]
            changes.attempts = [attempt(3), attempt(4)]
        }
        #expect(try await hooks.ledger.job(first.id) == first && first.dueAt == Hooks.time(61))
        #expect(try await hooks.numbers(setAside: false) == [3, 4])
        #expect(try await hooks.numbers(setAside: true) == [5])
        var progress = try WebhookProgress(first)
        progress.positions[2] = hooks.cursor(7)
        progress.deliveredAt = Hooks.time(2)
        progress.attempts = 99
        let second = try await hooks.commit(first, at: 3) { changes in
            changes.progress = progress
            changes.delivered = [hooks.cursor(3), hooks.cursor(8)]
            changes.failed = [hooks.failed(4, dueAt: nil)]
            changes.attempts = [attempt(5)]
        }
        progress.attempts = 3
        #expect(try await hooks.progress() == progress)
        #expect(try WebhookProgress(second) == progress)
        #expect(try await hooks.numbers(setAside: false) == [])
        let aside = try await hooks.ledger.failedDeliveries(of: "hook", of: Hooks.app, setAside: true, limit: 10)
        #expect(aside == [hooks.failed(4, dueAt: nil), hooks.failed(5, dueAt: nil)])
        let attempts = try await hooks.ledger.webhookAttempts(of: "hook", of: Hooks.app, limit: 2)
        #expect(attempts == [attempt(5), attempt(4)])
    }

    private static let losses: [(name: String, act: @Sendable (Hooks) async throws -> Void)] = [
        ("removed", { _ = try await $0.ledger.removeWebhook("hook", of: Hooks.app, at: Hooks.time(1)) }),
        ("leased by another server", { _ = try await $0.lease(at: 60) }),
    ]

    private static let changes: [(name: String, act: @Sendable (Hooks) async throws -> Void)] = [
        (
            "paused",
            { hooks in
                _ = try await hooks.ledger.changeWebhook("hook", of: Hooks.app, at: Hooks.time(1)) {
                    $0.state = .paused
                }
            }
        ),
        (
            "replayed",
            { hooks in
                let cursor = hooks.cursor(1)
                _ = try await hooks.ledger.replayWebhook("hook", of: Hooks.app, .after(cursor), at: Hooks.time(1))
            }
        ),
        (
            "replayed since a time",
            { hooks in
                let time = Hooks.time(2)
                _ = try await hooks.ledger.replayWebhook("hook", of: Hooks.app, .since(time), at: Hooks.time(1))
            }
        ),
        (
            "set-aside events replayed",
            { _ = try await $0.ledger.replayWebhook("hook", of: Hooks.app, .setAside, at: Hooks.time(1)) }
        ),
        ("rotated", { try await $0.change { $0.generation += 1 } }),
        (
            "paused and resumed",
            { hooks in
                try await hooks.change { $0.state = .paused }
                try await hooks.change { $0.state = .active }
            }
        ),
        ("resumed while active", { try await $0.change { $0.resume(at: Hooks.time(1)) } }),
    ]

    @Test(arguments: losses.indices)
    func `a server that lost its lease stores nothing`(index: Int) async throws {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: EventCursor(0))
        var job = try #require(try await hooks.lease())
        job = try await hooks.commit(job, at: 0) { $0.failed = [hooks.failed(2, dueAt: nil), hooks.failed(3)] }
        let (name, act) = Self.losses[index]
        try await act(hooks)
        let records = try await hooks.records
        await #expect(throws: LeaseLost.self, "\(name)") {
            try await hooks.commit(job, to: Hooks.endpoint(), at: 62) { changes in
                changes.failed = [hooks.failed(7)]
                changes.delivered = [hooks.cursor(2), hooks.cursor(3)]
                changes.attempts = [attempt(7)]
                changes.disable = "It is gone."
            }
        }
        #expect(try await hooks.records == records, "\(name)")
    }

    @Test func `a change that changes nothing is none`() async throws {
        try await hooks.add()
        let job = try #require(try await hooks.lease())
        try await hooks.change { $0.state = .active }
        #expect(try await !hooks.commit(job, to: Hooks.endpoint()) { _ in }.isChanged)
    }

    /// Every change also shows in the endpoint, so that servers with nothing to store notice it.
    @Test(arguments: changes.indices)
    func `a person's change takes no lease, and the delivering server stores its results and learns of it`(
        index: Int
    ) async throws {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: EventCursor(0))
        var job = try #require(try await hooks.lease())
        job = try await hooks.commit(job, at: 0) { $0.failed = [hooks.failed(1), hooks.failed(2, dueAt: nil)] }
        let (name, act) = Self.changes[index]
        try await act(hooks)
        let changed = try #require(try await hooks.ledger.webhookEndpoint("hook", of: Hooks.app))
        #expect(changed != Hooks.endpoint(), "\(name)")
        #expect(try await hooks.lease(at: 2) == nil, "\(name)")
        for length in [60, 0] as [Int64] {
            let commit = try await hooks.commit(job, to: Hooks.endpoint(), at: 3, length: length) { results in
                results.progress.positions = Array(repeating: hooks.cursor(9), count: 16)
                results.progress.deliveredAt = Hooks.time(2)
                results.delivered = [hooks.cursor(1)]
                results.attempts = [attempt(7)]
                results.disable = "It is gone."
            }
            #expect(commit.isChanged, "\(name)")
            job = commit.job
        }
        #expect(try await hooks.numbers(setAside: false).contains(1) == false, "\(name)")
        #expect(try await hooks.ledger.webhookEndpoint("hook", of: Hooks.app) == changed, "\(name)")
        let first = name == "replayed" || name == "replayed since a time" ? hooks.cursor(1) : hooks.cursor(9)
        #expect(try await Set(hooks.progress().positions) == [first], "\(name)")
        #expect(try await hooks.progress().deliveredAt == Hooks.time(2), "\(name)")
        let kept = try await hooks.ledger.webhookAttempts(of: "hook", of: Hooks.app, limit: 10)
        #expect(kept == [attempt(7), attempt(7)], "\(name)")
        if name != "paused" { #expect(try await hooks.lease(at: 3) != nil, "\(name)") }
    }

    @Test func `a commit whose answer was lost is repeated without a second copy of its attempts`() async throws {
        try await hooks.add()
        let job = try #require(try await hooks.lease())
        for second in [1, 2] as [Int64] {
            try await hooks.commit(job, at: second) { $0.attempts = [attempt(1), attempt(2)] }
        }
        let kept = try await hooks.ledger.webhookAttempts(of: "hook", of: Hooks.app, limit: 10)
        #expect(kept == [attempt(2), attempt(1)])
        #expect(try await hooks.progress().attempts == 2)
    }

    @Test(arguments: Seeds.isOptimised ? [1, 7, 16, 100, 999, 1000, 1001, 2500] : [100, 1001])
    func `the newest 1,000 attempts are kept, whatever the size of a commit`(size: Int) async throws {
        let hooks = Hooks(MemoryLedgerStorage())
        try await hooks.add()
        var job = try #require(try await hooks.lease())
        var count = 0
        while count < 3000 {
            let numbers = Int64(count)..<Int64(count + size)
            job = try await hooks.commit(job) { $0.attempts = numbers.map { attempt($0) } }
            count += size
            guard count % 331 < size else { continue }
            let kept = try await hooks.ledger.webhookAttempts(of: "hook", of: Hooks.app, limit: 5000)
            #expect(kept.map { Int($0.milliseconds) } == (max(0, count - 1000)..<count).reversed(), "\(count)")
        }
        let few = try await hooks.ledger.webhookAttempts(of: "hook", of: Hooks.app, limit: 3)
        #expect(few.map(\.milliseconds) == [count - 1, count - 2, count - 3])
    }

    @Test func `the largest answers fit, without control characters`() async throws {
        let hooks = Hooks(MemoryLedgerStorage())
        try await hooks.add()
        let job = try #require(try await hooks.lease())
        for text in [#"""#, "\\", "\u{0}", "\u{85}", "é", "𝄞", "\u{0}é\n"] {
            let long = String(repeating: text, count: 3000)
            let attempts = (0..<40).map { attempt($0, answer: long, failure: long) }
            let next = try await hooks.commit(job) { $0.attempts = attempts }
            let kept = try await hooks.ledger.webhookAttempts(of: "hook", of: Hooks.app, limit: 40)
            #expect(kept.count == 40, "\(text)")
            for attempt in kept {
                #expect((1021...1024).contains(attempt.answer.utf8.count))
                let blank = long.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }
                #expect(String(String.UnicodeScalarView(blank)).hasPrefix(attempt.answer))
            }
            // The next text begins from the same state.
            #expect(try await hooks.ledger.replace(next, with: job, at: Hooks.time(2)))
        }
    }

    /// Counts the records that commits write.
    private final class CountingStorage: ForwardingStorage {
        let inner: any LedgerStorage = MemoryLedgerStorage()
        let written = Mutex<[LedgerChanges]>([])

        func commit<Output: Sendable>(
            _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
        ) async throws -> Output {
            try await inner.commit(query) { snapshot in
                let decision = try decide(snapshot)
                if case .commit(let changes, _) = decision { self.written.withLock { $0.append(changes) } }
                return decision
            }
        }
    }

    @Test func `a commit is one transaction that writes each changed record once`() async throws {
        let storage = CountingStorage()
        let hooks = Hooks(storage)
        try await hooks.add()
        var job = try #require(try await hooks.lease())
        for (attempts, failed, expected) in [(0, 0, 1), (1, 0, 2), (1, 1, 3), (100, 0, 8), (100, 100, 108)] {
            storage.written.withLock { $0 = [] }
            job = try await hooks.commit(job, at: Int64(attempts + failed + 2)) { changes in
                changes.attempts = (0..<Int64(attempts)).map { attempt($0) }
                changes.failed = (0..<Int64(failed)).map { hooks.failed(Int64(attempts) + $0 + 1) }
            }
            let written = storage.written.withLock { $0 }
            #expect(written.count == 1 && (expected - 1...expected + 1).contains(written[0].records.count))
        }
    }

    @Test func `a page after a lost or erased position begins with the oldest event`() async throws {
        try await hooks.publish(at: Array(1...9))
        _ = try await hooks.ledger.eraseEvents(before: Hooks.time(4))
        for (position, first) in [
            (hooks.cursor(5), 6), (hooks.cursor(3), 4), (hooks.cursor(1), 4), (hooks.cursor(12), nil),
            (EventCursor(3, epoch: "other"), 4),
        ] as [(EventCursor, Int64?)] {
            let page = try await hooks.ledger.webhookEvents(
                of: Hooks.app, after: position, limit: 2, at: Hooks.time(20))
            #expect(page.events.first?.cursor?.number == first)
        }
        for (number, isThere) in [(1, false), (3, false), (4, true), (9, true), (10, false), (0, false)] {
            let page = try await hooks.ledger.webhookEvent(
                hooks.cursor(Int64(number)), of: Hooks.app, at: Hooks.time(20))
            #expect(page?.events.map(\.cursor?.number) == (isThere ? [Int64(number)] : nil), "\(number)")
        }
    }
}

/// Tests the replays of events.
@Suite struct WebhookReplayTests {
    private let hooks = Hooks()

    private func replay(_ replay: WebhookReplay, at seconds: Int64 = 500) async throws -> Int? {
        try await hooks.ledger.replayWebhook("hook", of: Hooks.app, replay, at: Hooks.time(seconds))
    }

    /// An endpoint whose lane 0 is at event 3, and the others at event 8.
    private func start() async throws -> Job {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: hooks.cursor(8))
        let job = try #require(try await hooks.lease())
        return try await hooks.commit(job) { changes in
            changes.progress.positions[0] = hooks.cursor(3)
            changes.failed = [
                hooks.failed(2), hooks.failed(5), hooks.failed(6, dueAt: nil), hooks.failed(4, dueAt: nil),
            ]
        }
    }

    @Test func `a replay sets lanes back, forward none, and forgets failures after the cursor`() async throws {
        _ = try await start()
        #expect(try await replay(.after(hooks.cursor(5))) == 0)
        let positions = try await hooks.progress().positions
        #expect(positions == [hooks.cursor(3)] + Array(repeating: hooks.cursor(5), count: 15))
        #expect(try await hooks.numbers(setAside: false) == [2, 5])
        #expect(try await hooks.numbers(setAside: true) == [4])
        #expect(try await hooks.lease(at: 500) != nil)
        #expect(try await replay(.after(EventCursor(0))) == 0)
        #expect(try await Set(hooks.progress().positions) == [EventCursor(0)])
        #expect(try await hooks.numbers(setAside: false) == [])
    }

    @Test func `a replay after no cursor of the ledger is refused, and changes nothing`() async throws {
        let job = try await start()
        for cursor in ["10.com.example", "x", "3.other"] {
            await #expect(throws: EventCursorError.self) {
                try await replay(.after(EventCursor(rawValue: cursor)))
            }
        }
        _ = try await hooks.ledger.eraseEvents(before: Hooks.time(4))
        await #expect(throws: EventCursorError.expired(oldest: hooks.cursor(3))) {
            try await replay(.after(hooks.cursor(1)))
        }
        try await hooks.commit(job) { _ in }
        let unknown = try await hooks.ledger.replayWebhook("no", of: Hooks.app, .setAside, at: Hooks.time(1))
        #expect(unknown == nil)
    }

    @Test func `a replay since a time begins with the first event since then`() async throws {
        // Two servers recorded the events: the clock of the second is two minutes behind.
        let minutes: [Int64] = [0, 10, 20, 30, 28, 31, 29, 32, 40, 50, 60]
        try await hooks.publish(at: minutes.map { $0 * 60 })
        try await hooks.add()
        for (minute, expected) in [
            (-9, 0), (0, 0), (1, 1), (20, 2), (21, 3), (29, 3), (30, 3), (31, 5), (32, 7), (33, 8), (60, 10), (61, 11),
            (1000, 11),
        ] as [(Int64, Int64)] {
            _ = try await hooks.ledger.replayWebhook("hook", of: Hooks.app, .after(hooks.cursor(11)), at: Hooks.time(1))
            #expect(try await replay(.since(Hooks.time(minute * 60))) == 0)
            #expect(try await Set(hooks.progress().positions.map(\.number)) == [expected], "minute \(minute)")
            // The next row begins at the end again.
            try await reset()
        }
        _ = try await hooks.ledger.eraseEvents(before: Hooks.time(21 * 60))
        #expect(try await replay(.since(Hooks.time(0))) == 0)
        #expect(try await Set(hooks.progress().positions) == [hooks.cursor(3)])
    }

    private func reset() async throws {
        #expect(try await hooks.ledger.removeWebhook("hook", of: Hooks.app, at: Hooks.time(600)))
        try await hooks.add()
    }

    @Test(.takesLong)
    func `the search for a time reads few pages, however many events there are`() async throws {
        let reads = Mutex(0)
        let count: @Sendable () -> Void = { reads.withLock { $0 += 1 } }
        let hooks = Hooks(EventCountingStorage(onRead: count))
        try await hooks.publish(at: Array(1...20_000))
        try await hooks.add()
        _ = try await hooks.ledger.replayWebhook(
            "hook", of: Hooks.app, .since(Hooks.time(12_345)), at: Hooks.time(30_000))
        #expect(try await Set(hooks.progress().positions) == [hooks.cursor(12_344)])
        #expect(reads.withLock { $0 } < 20)
    }

    private struct EventCountingStorage: ForwardingStorage {
        let inner: any LedgerStorage = MemoryLedgerStorage()
        let onRead: @Sendable () -> Void

        func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
            onRead()
            return try await inner.events(of: bundleId, after: cursor, limit: limit)
        }
    }

    @Test func `results stored after a replay take no event from it, also after two replays`() async throws {
        let job = try await start()
        let endpoint = try #require(try await hooks.ledger.webhookEndpoint("hook", of: Hooks.app))
        for cursor in [hooks.cursor(7), hooks.cursor(5), hooks.cursor(6)] {
            #expect(try await replay(.after(cursor)) == 0)
        }
        let commit = try await hooks.commit(job, to: endpoint) { results in
            results.progress.positions = Array(repeating: hooks.cursor(9), count: 16)
            results.progress.positions[0] = hooks.cursor(4)
            results.failed = [hooks.failed(4), hooks.failed(5, dueAt: nil), hooks.failed(6), hooks.failed(9)]
        }
        #expect(commit.isChanged)
        #expect(
            try await hooks.progress().positions == [hooks.cursor(4)] + Array(repeating: hooks.cursor(5), count: 15))
        #expect(try await hooks.numbers(setAside: false) == [2, 4])
        #expect(try await hooks.numbers(setAside: true) == [5])
        // The replay ends with the lease.
        let next = try #require(try await hooks.lease(at: 62))
        try await hooks.commit(next, at: 63) { $0.progress.positions[1] = hooks.cursor(9) }
        #expect(try await hooks.progress().positions[1] == hooks.cursor(9))
    }

    /// Lets the delivering server store a failure between a replay's search for failed events and its decision.
    private final class LateFailure: ForwardingStorage {
        let inner: any LedgerStorage = MemoryLedgerStorage()
        let act = Mutex<(@Sendable () async throws -> Void)?>(nil)

        func records(
            _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
        ) async throws -> ScanPage<LedgerRecord> {
            let page = try await inner.records(selection, after: cursor, limit: limit)
            let next: (@Sendable () async throws -> Void)? = act.withLock { act in
                defer { act = nil }
                return act
            }
            try await next?()
            return page
        }
    }

    @Test func `an event that fails during a replay after its cursor does not wait beside the replay`() async throws {
        let storage = LateFailure()
        let hooks = Hooks(storage)
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: hooks.cursor(2))
        let job = try #require(try await hooks.lease())
        storage.act.withLock { act in
            act = { _ = try await hooks.commit(job, to: Hooks.endpoint()) { $0.failed = [hooks.failed(7)] } }
        }
        let cursor = hooks.cursor(3)
        let count = try await hooks.ledger.replayWebhook("hook", of: Hooks.app, .after(cursor), at: Hooks.time(9))
        #expect(count == 0)
        #expect(try await hooks.numbers(setAside: false) == [])
    }

    @Test func `after a resume or a replay, events that failed before are due at once`() async throws {
        let job = try await start()
        let endpoint = try #require(try await hooks.ledger.webhookEndpoint("hook", of: Hooks.app))
        let early = hooks.failed(2, dueAt: 900)
        #expect(endpoint.mended(early) == early)
        var progress = try WebhookProgress(job)
        progress.failingSince = Hooks.time(3)
        for act in [
            { try await $0.change(at: 20) { $0.resume(at: Hooks.time(20)) } },
            { _ = try await $0.ledger.replayWebhook("hook", of: Hooks.app, .setAside, at: Hooks.time(20)) },
            { _ = try await $0.ledger.replayWebhook("hook", of: Hooks.app, .since(Hooks.time(9)), at: Hooks.time(20)) },
        ] as [@Sendable (Hooks) async throws -> Void] {
            try await act(hooks)
            let mended = try #require(try await hooks.ledger.webhookEndpoint("hook", of: Hooks.app))
            #expect(mended.mended(early).dueAt == Hooks.time(20))
            #expect(mended.mended(hooks.failed(2, dueAt: 7)).dueAt == Hooks.time(7))
            var late = early
            late.failedAt = Hooks.time(21)
            #expect(mended.mended(late) == late && mended.mended(hooks.failed(2, dueAt: nil)).isSetAside)
            #expect(mended.mended(progress).failingSince == nil)
            progress.failingSince = Hooks.time(21)
            #expect(mended.mended(progress) == progress)
            progress.failingSince = Hooks.time(3)
            try await hooks.change { $0.mendedAt = nil }
        }
    }

    @Test func `events that were set aside become due at once, with all their attempts`() async throws {
        _ = try await start()
        #expect(try await replay(.setAside) == 2)
        #expect(try await hooks.numbers(setAside: true) == [])
        let waiting = try await hooks.ledger.failedDeliveries(of: "hook", of: Hooks.app, setAside: false, limit: 10)
        #expect(waiting.map(\.event.number) == [2, 4, 5, 6] && waiting.map(\.attempts) == [3, 0, 3, 0])
        #expect(waiting.map(\.dueAt) == [30, 500, 30, 500].map(Hooks.time))
        #expect(try await hooks.lease(at: 500) != nil)
        #expect(try await replay(.setAside) == 0)
    }

    @Test(.takesLong)
    func `of the events set aside the newest 10,000 are kept`() async throws {
        let hooks = Hooks(MemoryLedgerStorage())
        try await hooks.add()
        let endpoint = Hooks.endpoint()
        var job = try #require(try await hooks.lease())
        for start in stride(from: Int64(1), to: 11_001, by: 500) {
            job = try await hooks.commit(job) { results in
                results.failed = (start..<start + 500).map { hooks.failed($0, dueAt: $0 == 3 ? 60 : nil) }
            }
        }
        #expect(try await hooks.ledger.eraseOldSetAside(of: endpoint, at: Hooks.time(2)) == 999)
        #expect(try await hooks.numbers(setAside: true) == Array(1001...11_000))
        #expect(try await hooks.numbers(setAside: false) == [3])
        #expect(try await hooks.ledger.eraseOldSetAside(of: endpoint, at: Hooks.time(2)) == 0)
    }

    @Test func `a replay lets at most 1,000 events wait`() async throws {
        let job = try await start()
        try await hooks.commit(job) { $0.failed = (100..<1500).map { hooks.failed($0, dueAt: nil) } }
        #expect(try await replay(.setAside) == 998)
        #expect(try await hooks.numbers(setAside: false).count == 1000)
        #expect(try await hooks.numbers(setAside: true).count == 404)
        #expect(try await replay(.setAside) == 0)
    }
}

/// Tests which events an endpoint keeps from erasure.
@Suite struct WebhookRetentionTests {
    private let hooks = Hooks()

    private var needed: Timestamp? {
        get async throws { try await hooks.ledger.webhooksNeedEvents(at: Hooks.time(100)) }
    }

    @Test func `an active endpoint that no server has served for five days needs no event`() async throws {
        let days: Int64 = 5 * 86_400
        func isNeeded(at seconds: Int64) async throws -> Bool {
            try await hooks.ledger.webhooksNeedEvents(at: Hooks.time(seconds)) != nil
        }
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: EventCursor(0), at: 10)
        #expect(try await isNeeded(at: 9 + days))
        #expect(try await !isNeeded(at: 10 + days))
        // A lease of a minute.
        let job = try #require(try await hooks.lease(at: 20 + days))
        #expect(try await isNeeded(at: 79 + 2 * days))
        #expect(try await !isNeeded(at: 80 + 2 * days))
        try await hooks.commit(job, at: 50 + days) { $0.failed = [hooks.failed(3)] }
        #expect(try await isNeeded(at: 109 + 2 * days))
        #expect(try await !isNeeded(at: 110 + 2 * days))
        try await hooks.change { $0.resume(at: Hooks.time(200 + 2 * days)) }
        #expect(try await isNeeded(at: 199 + 3 * days))
        #expect(try await !isNeeded(at: 200 + 3 * days))
    }

    @Test func `an active endpoint needs the events after its slowest lane`() async throws {
        #expect(try await needed == nil)
        try await hooks.publish(at: Array(1...9))
        try await hooks.add()
        #expect(try await needed == nil)
        try await hooks.add("behind", from: hooks.cursor(6))
        #expect(try await needed == Hooks.time(7))
        let job = try #require(try await hooks.lease("behind"))
        try await hooks.commit(job) { $0.progress.positions[9] = hooks.cursor(4) }
        #expect(try await needed == Hooks.time(5))
        _ = try await hooks.ledger.changeWebhook("behind", of: Hooks.app, at: Hooks.time(3)) { $0.state = .paused }
        #expect(try await needed == nil)
        _ = try await hooks.ledger.changeWebhook("behind", of: Hooks.app, at: Hooks.time(3)) { $0.state = .active }
        #expect(try await needed == Hooks.time(5))
    }

    @Test func `an event that waits for an attempt is needed, and one that was set aside is not`() async throws {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add()
        let job = try #require(try await hooks.lease())
        let next = try await hooks.commit(job) { $0.failed = [hooks.failed(3, dueAt: nil), hooks.failed(6)] }
        #expect(try await needed == Hooks.time(6))
        try await hooks.commit(next) { $0.delivered = [hooks.cursor(6)] }
        #expect(try await needed == nil)
    }

    @Test func `after lost and erased events the rest is needed`() async throws {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: hooks.cursor(1))
        _ = try await hooks.ledger.eraseEvents(before: Hooks.time(5))
        #expect(try await needed == Hooks.time(5))
        let job = try #require(try await hooks.lease())
        for position in [hooks.cursor(30), EventCursor(3, epoch: "other"), EventCursor(rawValue: "x")] {
            let next = try await hooks.commit(job) {
                $0.progress.positions = Array(repeating: hooks.cursor(8), count: 15) + [position]
            }
            // The event 9 is after the last event that the ledger shares with the follower of a lost position.
            let expected = position.epoch == "other" ? 5 : 9
            #expect(try await needed == Hooks.time(Int64(expected)), "\(position.rawValue)")
            #expect(try await hooks.ledger.replace(next, with: job, at: Hooks.time(2)))
        }
    }

    @Test(
        arguments: [
            (nil, nil, true), (["grant.made"], nil, true), ([], Environment.production, true), (nil, .sandbox, false),
        ] as [(Set<String>?, Environment?, Bool)])
    func `every endpoint hears of a restore, once in its environment`(
        kinds: Set<String>?, environment: Environment?, isSent: Bool
    ) async throws {
        let endpoint = WebhookEndpoint(
            id: "a", of: Hooks.app, url: "https://example.com/", kinds: kinds, environment: environment,
            createdAt: Hooks.time(1))
        try await hooks.publish(at: [1])
        try await hooks.ledger.storage.beginEpoch(at: Hooks.time(2))
        let events = try await hooks.ledger.events(of: Hooks.app, limit: 9).events
        #expect(events.map(\.kind.known) == [.notificationReceived, .ledgerRestored])
        #expect(endpoint.wants(events[1]) == isSent)
    }

    @Test func `in a new epoch both the lanes before it and after it count`() async throws {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add()
        try await hooks.ledger.storage.beginEpoch(at: Hooks.time(9))
        try await hooks.publish(at: Array(10...19))
        let end = try await hooks.ledger.storage.endOfEvents(of: Hooks.app)
        #expect(end.epoch != Hooks.app)
        let job = try #require(try await hooks.lease())
        try await hooks.commit(job) {
            $0.progress.positions = Array(repeating: EventCursor(12, epoch: end.epoch), count: 15) + [hooks.cursor(7)]
        }
        #expect(try await needed == Hooks.time(8))
    }

    @Test func `an unreadable progress keeps no event`() async throws {
        try await hooks.publish(at: Array(1...9))
        try await hooks.add(from: EventCursor(0))
        let job = try #require(try await hooks.lease())
        var broken = job
        broken.payload = Array("{}".utf8)
        #expect(try await hooks.ledger.replace(job, with: broken, at: Hooks.time(1)))
        #expect(try await needed == nil)
    }
}
