// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// Keeps the ledger of one app in one environment right by asking the App Store.
///
/// A ledger that only listens is wrong after the first lost notification. A reconciler reads the notification history,
/// so that what did not arrive is recorded after all, and asks about subscriptions whose state is uncertain. It keeps
/// what it has to do as jobs in the ledger, so that nothing is forgotten in a crash, and any number of servers share
/// the work.
///
/// It has no clock, no threads and no pauses of its own: the caller calls ``workOnce()`` again and again.
public struct Reconciler: Sendable {
    /// The ledger. Its rules must name the app in `asksAppStore`.
    public let ledger: Ledger
    /// The app and environment.
    public let scope: LedgerScope
    /// How often the notification history is read, and so how long a lost notification is missing at most.
    public var historyInterval = Duration.seconds(900)

    /// What is said about a product's purchases in answers to consumption requests, by product, if the app says nothing
    /// else. Consent has no default.
    public var consumptionDefaults: [String: ConsumptionInformation] = [:]

    /// Whether `now` is known to be right. If it is not, no consumption request is given up as missed: the App Store
    /// judges whether an answer is late.
    public var isTimeConfirmed: @Sendable () -> Bool = { true }

    /// The time by the App Store's own clock, which bounds how far the notification history counts as read: by a clock
    /// that is ahead, hours would never be read. `nil` if it is not known; then `now` counts.
    public var appStoreTime: @Sendable () -> Timestamp? = { nil }

    /// Called with each job that failed and is postponed or given up, with each document that is parked, and with each
    /// consumption request that was refused or missed.
    public var onFailure: @Sendable (Job) -> Void = { _ in }

    /// Called with the job that reads the notification history if the App Store does not show a part of it, or no
    /// longer: once for each part. `Job.failure` is a sentence about it. A backfill brings in what is missing.
    public var onUnread: @Sendable (Job) -> Void = { _ in }

    package let verifier: AppStoreVerifier
    package let client: AppStoreClient
    package let now: @Sendable () -> Timestamp
    let recent = RecentQuestions()
    /// A subscription of which the App Store has no renewal info makes an answer about a receipt wait once a day.
    let receiptQuestions = RecentQuestions(lifetime: .seconds(86_400))
    let receiptBudget: ReceiptBudget

    /// - Parameters:
    ///   - verifier: Must accept the documents of the app in this environment. What Apple's servers answer is verified
    ///     like everything else.
    ///   - now: Returns the time of the wall clock.
    public init(
        ledger: Ledger, verifier: AppStoreVerifier, client: AppStoreClient, scope: LedgerScope,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.ledger = ledger
        self.verifier = verifier
        self.client = client
        self.scope = scope
        self.now = now
        receiptBudget = ReceiptBudget(in: scope.environment, share: client.share)
    }

    /// Whether a worker may be doing a job that is not due: a lease ends within these minutes. If nobody does it, it is
    /// due so soon that nobody need make it due.
    ///
    /// - Parameter now: By a clock that may differ by a minute from that of the worker.
    package static func mayBeLeased(_ job: Job, at now: Timestamp) -> Bool {
        now < job.dueAt && job.dueAt <= now.advanced(by: lease + .seconds(60))
    }

    /// How long a worker has for a job: longer than `AppStoreClient.deadline`. Reading the history takes
    /// longer, and prolongs its lease with each page.
    static let lease = Duration.seconds(120)

    /// Stores how far the job is, and begins its lease anew.
    func prolong(_ job: inout Job, _ payload: [UInt8]) async throws {
        var next = job
        (next.dueAt, next.payload) = (now().advanced(by: Self.lease), payload)
        guard next != job else { return }
        guard try await ledger.replace(job, with: next, at: now()) else { throw LeaseLost() }
        job = next
    }
}

extension Reconciler {
    /// The job for another attempt. After an outage the history is up to date within its interval.
    func retry(_ job: Job, because failure: String) -> Job {
        let isHistory = job.id.kind == .notificationHistory
        return job.reopened.retry(at: now(), because: failure, within: isHistory ? historyInterval : Job.longestPause)
    }

    /// The job for another attempt after the App Store did not answer, not before the time that it named. It named it
    /// by the client's clock, and the jobs may follow that of a simulated App Store.
    func retry(_ job: Job, after error: AppStoreAPIError) -> Job {
        let now = now()
        var next = retry(job, because: "\(error)")
        guard let pause = client.pause(after: error) else { return next }
        let time = now.advanced(by: pause)
        next.dueAt = error.code == .overBudget ? time : max(next.dueAt, time)
        return next
    }
}

/// Another worker has the job, because this one took longer than its lease.
struct LeaseLost: Error {}

/// What becomes of a job.
enum JobOutcome {
    /// It is finished.
    case done
    /// It is to be done again, as this job.
    case later(Job)
}

extension Job {
    /// The first pause after a failure, in seconds. It doubles with each attempt.
    private static let firstPause: Int64 = 60
    /// After six failures there is an attempt every hour.
    fileprivate static let longestPause = Duration.seconds(3600)

    /// The job for another attempt, after the longest pause at the latest.
    fileprivate func retry(at now: Timestamp, because failure: String, within longest: Duration) -> Job {
        let doublings = Int64(max(0, min(attempts - 1, 6)))
        return next(at: now.advanced(by: min(longest, .seconds(Self.firstPause << doublings))), failure)
    }

    /// The job at another time, with the attempts that it had.
    func next(at time: Timestamp, _ failure: String?) -> Job {
        var job = self
        (job.dueAt, job.failure) = (time, failure)
        return job
    }
}
