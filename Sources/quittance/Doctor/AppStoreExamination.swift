// SPDX-License-Identifier: Apache-2.0

// The questions of `quittance doctor` to the App Store, and to the ledger about notifications and jobs.

import AppStoreAPI
import AppStoreModel
import PurchaseLedger
import PurchaseServer
import Reconciliation

extension Examination {
    /// The difference at which Apple refuses bearer tokens: each is backdated by a minute.
    private static let clockTolerance = Duration.seconds(60)

    /// Asks for a page of the notification history of a minute, for each app and environment: the answer to a question
    /// that is allowed proves the key, whatever it has.
    mutating func examineKeys(_ service: LedgerService) async {
        guard let all = service.reconcilers?.all, !all.isEmpty else {
            return findings.skip(.appStore, because: "No app has an inAppPurchaseKey that can be used.")
        }
        var refused: [LedgerScope: AppStoreAPIError] = [:]
        for (scope, reconciler) in all.sorted(by: { $0.key < $1.key }) {
            let now = reconciler.now()
            let minute = NotificationHistoryRequest(startDate: now.advanced(by: .seconds(-60)), endDate: now)
            do {
                _ = try await reconciler.client.send(
                    .notificationHistory(minute), to: scope.environment, within: .appStoreLimit)
            } catch let error as AppStoreAPIError where error.code == .credentials {
                refused[scope] = error
            } catch let error as AppStoreAPIError where error.errorCode == .startDateAfterEndDate {
                // The key was accepted. This machine's clock is ahead, which the App Store's own time shows.
            } catch {
                unasked.insert(scope)
                findings.add(.appStoreFailed, about: scope, "\(error)")
            }
        }
        for (scope, error) in refused.sorted(by: { $0.key < $1.key }) {
            let sandbox = LedgerScope(bundleId: scope.bundleId, environment: .sandbox)
            let isAccepted = scope != sandbox && all[sandbox] != nil && refused[sandbox] == nil
            // Production's error has more causes, and one text makes one finding.
            let error = refused[LedgerScope(bundleId: scope.bundleId, environment: .production)] ?? error
            findings.add(isAccepted ? .keyNotInProduction : .keyRefused, about: scope, "\(error)")
        }
        unasked.formUnion(refused.keys)
        guard let time = service.clockJudge?.appStoreTime else { return }
        let ahead = time.duration(to: SystemClock.now())
        guard ahead.magnitude > Self.clockTolerance else { return }
        let distance = "\(ahead.magnitude.components.seconds) seconds \(ahead > .zero ? "ahead of" : "behind")"
        findings.add(.appStoreClock, "This machine's clock is \(distance) the App Store's.")
    }
}

// MARK: - Notifications and jobs

extension Examination {
    /// The age of the newest notification from which doubt is due: apps with subscribers get some each day.
    private static let maxSilence = Duration.seconds(7 * 86_400)

    /// The time that a job may be late, as long as the pause between two readings of a history.
    private static let maxDelay = Duration.seconds(900)

    mutating func examineWork(_ service: LedgerService, at now: Timestamp, loops: Bool) async {
        do {
            let last = try await service.lastNotificationTime()
            if !loops, last.map({ $0.duration(to: now) > Self.maxSilence }) ?? true {
                let text = last.map { "The newest notification arrived at \($0.iso8601)." }
                findings.add(.noNotification, text ?? "The ledger has no notification among its newest documents.")
            }
            let scopes = Set(service.reconcilers?.all.keys.map(\.self) ?? []).subtracting(unasked)
            for history in try await HistoryWatch().look(at: scopes, in: service.ledger, at: now).late {
                findings.add(.historyLate, history.sentence)
            }
            try await examineJobs(service.ledger, at: now)
        } catch {
            findings.skip(.appStore, because: "\(error)")
        }
    }

    private mutating func examineJobs(_ ledger: Ledger, at now: Timestamp) async throws {
        var failed = 0
        var overdue = 0
        var cursor: ScanCursor?
        repeat {
            let page = try await ledger.jobs(after: cursor)
            if let first = page.damage.first { findings.add(.ledgerDamaged, first) }
            let work = page.items.filter(\.isWork)
            failed += work.count { $0.failure != nil && !unasked.contains($0.id.scope) }
            overdue += work.count { $0.dueAt.advanced(by: Self.maxDelay) < now }
            cursor = page.next
        } while cursor != nil
        if failed > 0 { findings.add(.jobsFailed, "The last attempt of \(counted(failed, "job")) failed.") }
        if overdue > 0 { findings.add(.jobsOverdue, "\(counted(overdue, "job")) overdue by 15 minutes or more.") }
    }
}

// MARK: - The whole loop

extension Examination {
    private typealias Outcome = (kind: FindingKind, text: String, cure: String?)

    /// The pause between two looks at the ledger and questions to Apple.
    private static let pause = Duration.seconds(2)

    /// Lets the App Store send a test notification for each app and environment, and waits for each in the ledger.
    mutating func examineLoop(_ service: LedgerService, _ clock: ContinuousClock) async {
        guard let all = service.reconcilers?.all, !all.isEmpty else {
            return findings.skip(.loop, because: "No app has an inAppPurchaseKey that can be used.")
        }
        for scope in unasked.sorted() {
            findings.skip(.loop, because: "\(scope.name): the key is refused, or the App Store failed.")
        }
        let asked = all.filter { !unasked.contains($0.key) }
        if !asked.isEmpty { Terminal.printError("Waiting up to a minute for the test notifications …") }
        let outcomes = await withTaskGroup(of: (LedgerScope, Outcome?).self) { [patience] group in
            for (scope, reconciler) in asked { group.addTask { (scope, await Self.test(reconciler, clock, patience)) } }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        for (scope, outcome) in outcomes.sorted(by: { $0.key < $1.key }) {
            findings.add(outcome.kind, about: scope, outcome.text, cure: outcome.cure)
        }
    }

    /// - Returns: `nil` if the test notification arrived.
    private static func test(
        _ reconciler: Reconciler, _ clock: ContinuousClock, _ patience: Duration
    ) async -> Outcome? {
        let scope = reconciler.scope
        do {
            var cursor = try await reconciler.ledger.endOfEvents(of: scope.bundleId)
            let test = try await reconciler.requestTestNotification(within: .appStoreLimit)
            let end = clock.now.advanced(by: patience)
            var result: Open<SendAttemptResult>?
            var isLast = false
            while true {
                // Without a pause the rate limit of the sandbox has no room for a second question.
                if result == nil && !isLast { result = try await Self.result(of: test, reconciler) }
                // The event of a success may still get its number. The ledger is read once more after the end.
                isLast = isLast || clock.now >= end || result.map { $0 != .success } ?? false
                let page = try await reconciler.ledger.events(of: scope.bundleId, after: cursor, limit: 500)
                if page.events.contains(where: { $0.isTest(in: scope) }) { return nil }
                cursor = page.next
                guard isLast else {
                    try await clock.sleep(for: pause)
                    continue
                }
                guard page.events.isEmpty else { continue }
                guard let result else { return (.testFailed, "Apple made no attempt in time.", "Try again later.") }
                let text = "\(result.rawValue). \(SendAttemptResult.meaning(of: result))"
                return (result == .success ? .testUnrecorded : .testFailed, text, nil)
            }
        } catch let error as AppStoreAPIError {
            let hasNoURL = error.errorCode == .serverNotificationURLNotFound
            return (.testRefused, "\(error)", hasNoURL ? nil : FindingKind.appStoreFailed.cure)
        } catch {
            return (.ledgerUnusable, "\(error)", nil)
        }
    }

    /// - Returns: `nil` if Apple has made no attempt yet.
    private static func result(of test: String, _ reconciler: Reconciler) async throws -> Open<SendAttemptResult>? {
        do {
            let answer = try await reconciler.lookUp(.testNotification(test), within: .appStoreLimit)
            return answer.items.flatMap { $0.attempts ?? [] }.last?.sendAttemptResult
        } catch let error as AppStoreAPIError where error.errorCode == .testNotificationNotFound {
            return nil
        }
    }
}

extension LedgerEvent {
    fileprivate func isTest(in scope: LedgerScope) -> Bool {
        kind == .notificationReceived && self.scope == scope
            && JSONValue(readable: body)?["detail"]?.string == NotificationTypeV2.test.rawValue
    }
}

extension LedgerScope {
    var name: String { "\(bundleId) (\(environment.rawValue))" }
}
