// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
package import PurchaseLedger

/// A story of two webhooks, whose course must be the same in every storage.
package struct WebhookStory {
    private static let app = "com.example"

    private let ledger: Ledger
    /// What happened so far, and the state after it. Cursors are told by their numbers, because the ids of epochs
    /// differ.
    private var course: [String] = []
    /// The endpoint as the delivering server knows it.
    private var endpoint: WebhookEndpoint?

    /// Tells the story in an empty ledger.
    package static func course(in storage: any LedgerStorage) async throws -> [String] {
        var story = WebhookStory(ledger: Ledger(storage: storage))
        try await story.tell()
        return story.course
    }

    private init(ledger: Ledger) {
        self.ledger = ledger
    }

    private static func time(_ seconds: Int64) -> Timestamp { TestStore.day(100).advanced(by: .seconds(seconds)) }

    private mutating func tell() async throws {
        try await publish(1...30)
        let cursors = try await ledger.events(of: Self.app, limit: 100).events.compactMap(\.cursor)
        for (id, cursor) in [("one", cursors[4]), ("two", nil)] {
            let endpoint = WebhookEndpoint(
                id: id, of: Self.app, url: "https://example.com/é", kinds: ["purchase.made"], createdAt: Self.time(0))
            let change = try await ledger.addWebhook(
                endpoint, fingerprint: "print", from: cursor, at: Self.time(0))
            try await note("add \(id): \(change)")
        }
        let endpoint = WebhookEndpoint(id: "three", of: Self.app, url: "", createdAt: Self.time(0))
        let refused = try await ledger.addWebhook(endpoint, fingerprint: "other", at: Self.time(0))
        try await note("add three: \(refused)")
        try await addMany()
        try await deliver(cursors)
        try await replay(cursors)
        try await failMany(cursors)
        try await note("remove: \(try await ledger.removeWebhook("one", of: Self.app, at: Self.time(90)))")
        let records = try await ledger.storage.records(RecordSelection(), limit: 500).map(\.key.name).sorted()
        course.append("\(records)")
    }

    /// Adds more endpoints of an app at the same instant than an app can have.
    private mutating func addMany() async throws {
        let ledger = ledger
        let added = try await withThrowingTaskGroup { group in
            for number in 0..<33 {
                let endpoint = WebhookEndpoint(
                    id: "many\(number)", of: "com.other", url: "https://example.com", createdAt: Self.time(0))
                group.addTask { try await ledger.addWebhook(endpoint, fingerprint: "print", at: Self.time(0)) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        course.append("added: \(added.count { $0 == .done }), too many: \(added.count { $0 == .tooMany })")
        for endpoint in try await ledger.webhookEndpoints(of: "com.other") {
            _ = try await ledger.removeWebhook(endpoint.id, of: "com.other", at: Self.time(0))
        }
    }

    /// Delivers some events, of which some fail.
    private mutating func deliver(_ cursors: [EventCursor]) async throws {
        endpoint = try await ledger.webhookEndpoint("one", of: Self.app)
        guard var job = try await lease(at: 1) else { return }
        try await note("another lease: \(try await lease(at: 2) != nil)")
        for round in 0..<3 {
            let events = cursors[(round * 8)..<(round * 8 + 8)]
            var progress = WebhookProgress(from: cursors[round * 8 + 7])
            progress.deliveredAt = Self.time(Int64(round))
            let failed = events.prefix(4).enumerated().map { index, event in
                FailedDelivery(
                    of: event, to: "one", of: Self.app, lane: index, attempts: round,
                    dueAt: index % 2 == 0 ? Self.time(40) : nil, failedAt: Self.time(4), reason: "no\u{0}")
            }
            let attempts = events.map {
                WebhookAttempt(of: $0, at: Self.time(3), milliseconds: round, status: 500, failure: nil, answer: "é")
            }
            let results = WebhookResults(
                progress: progress, failed: failed, delivered: round == 2 ? [cursors[0], cursors[1], cursors[20]] : [],
                attempts: attempts)
            job = try await commit(job, results, until: 60, at: 5) ?? job
        }
        try await changeDuringLease(cursors, job)
    }

    /// While a server delivers, people change the endpoint, and another server takes the lease in the end.
    private mutating func changeDuringLease(_ cursors: [EventCursor], _ leased: Job) async throws {
        var job = leased
        _ = try await ledger.changeWebhook("one", of: Self.app, at: Self.time(6)) { $0.generation = 2 }
        var results = WebhookResults(progress: WebhookProgress(from: cursors[25]), delivered: [cursors[2]])
        job = try await commit(job, results, until: 60, at: 7) ?? job
        let count = try await ledger.replayWebhook("one", of: Self.app, .after(cursors[22]), at: Self.time(8))
        try await note("replay: \(count ?? -1)")
        results.failed = [21, 24].map { index in
            FailedDelivery(
                of: cursors[index], to: "one", of: Self.app, lane: 2, attempts: 1, dueAt: Self.time(90),
                failedAt: Self.time(9), reason: "late")
        }
        results.progress = WebhookProgress(from: cursors[28])
        job = try await commit(job, results, until: 20, at: 9) ?? job
        try await note("leased again: \(try await lease(at: 20) != nil)")
        _ = try await commit(job, results, until: 90, at: 21)
    }

    /// Commits results, and notes the outcome.
    private mutating func commit(
        _ job: Job, _ results: WebhookResults, until end: Int64, at seconds: Int64
    ) async throws -> Job? {
        guard let endpoint else { return nil }
        do {
            let commit = try await ledger.commitWebhook(
                job, results, to: endpoint, until: Self.time(end), at: Self.time(seconds))
            try await note("commit, changed: \(commit.isChanged)")
            return commit.job
        } catch is LeaseLost {
            try await note("lost")
            return nil
        }
    }

    private mutating func replay(_ cursors: [EventCursor]) async throws {
        for replay in [.setAside, .after(cursors[17]), .since(Self.time(7)), .setAside] as [WebhookReplay] {
            let count = try await ledger.replayWebhook("one", of: Self.app, replay, at: Self.time(70))
            try await note("replay: \(count ?? -1)")
        }
        _ = try await ledger.eraseEvents(before: Self.time(10))
        try await note("erase")
        let page = try await ledger.webhookEvents(of: Self.app, after: cursors[0], limit: 1, at: Self.time(80))
        try await note("oldest: \(page.events.first?.cursor?.number ?? 0)")
    }

    /// Many events fail, are set aside, and become due again, each in a single commit.
    private mutating func failMany(_ cursors: [EventCursor]) async throws {
        endpoint = try await ledger.webhookEndpoint("one", of: Self.app)
        guard let job = try await lease(at: 81) else { return }
        let failed = (0..<700).map { number in
            FailedDelivery(
                of: EventCursor(1000 + number), to: "one", of: Self.app, lane: 3, attempts: 10, dueAt: nil,
                failedAt: Self.time(81), reason: "no")
        }
        let results = WebhookResults(progress: WebhookProgress(from: cursors[20]), failed: failed)
        _ = try await commit(job, results, until: 200, at: 82)
        let count = try await ledger.replayWebhook("one", of: Self.app, .setAside, at: Self.time(85))
        try await note("replay: \(count ?? -1)")
    }

    private func lease(at seconds: Int64) async throws -> Job? {
        try await ledger.leaseWebhook("one", of: Self.app, until: Self.time(seconds + 59), at: Self.time(seconds))
    }

    private func publish(_ seconds: ClosedRange<Int64>) async throws {
        try await ledger.storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.events = seconds.map { second in
                LedgerEvent(
                    Open(.notificationReceived), in: LedgerScope(bundleId: Self.app, environment: .production),
                    at: Self.time(second), customer: nil, chainName: nil, body: Array("{}".utf8))
            }
            return .commit(changes, ())
        }
    }

    /// Notes what happened, and the state after it.
    private mutating func note(_ step: String) async throws {
        course.append(step)
        course.append("\(try await ledger.webhookEndpoints().map { "\($0.id) \($0.generation) \($0.url)" })")
        course.append("needed: \(try await ledger.webhooksNeedEvents(at: Self.time(90))?.milliseconds ?? 0)")
        for setAside in [false, true] {
            let failed = try await ledger.failedDeliveries(of: "one", of: Self.app, setAside: setAside, limit: 100)
            course.append(
                "failed: \(failed.map { "\($0.event.number ?? 0) \($0.attempts) \($0.dueAt?.milliseconds ?? 0)" })")
        }
        let attempts = try await ledger.webhookAttempts(of: "one", of: Self.app, limit: 20)
        course.append("attempts: \(attempts.map { "\($0.event.number ?? 0) \($0.milliseconds)" })")
        guard let progress = try await ledger.webhookProgress(of: "one", of: Self.app) else { return }
        course.append("positions: \(progress.positions.compactMap(\.number)), \(progress.attempts)")
    }
}
