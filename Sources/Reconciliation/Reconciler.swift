// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// Keeps the ledger of one app in one environment right by asking the App Store.
///
/// A ledger that only listens is wrong after the first lost notification. A reconciler reads the notification history,
/// so that what did not arrive is recorded after all, and asks about subscriptions whose state is uncertain. It keeps
/// what it has to do as ``PurchaseLedger/Job``s in the ledger, so that nothing is forgotten in a crash, and any number of
/// servers share the work.
///
/// It has no clock, no threads and no pauses of its own: the caller calls ``workOnce()`` again and again.
public struct Reconciler: Sendable {
    /// The ledger. Its rules must name the app in `asksAppStore`.
    public let ledger: Ledger
    /// The app and environment.
    public let scope: LedgerScope
    /// How often the notification history is read, and so how long a lost notification is missing at most.
    public var historyInterval = Duration.seconds(900)

    /// Called with each job that failed and is postponed.
    public var onFailure: @Sendable (Job) -> Void = { _ in }

    package let verifier: AppStoreVerifier
    package let client: AppStoreClient
    let now: @Sendable () -> Timestamp
    let recent = RecentQuestions()

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
    }
}

extension Reconciler {
    /// How long a worker has for a job: longer than ``AppStoreAPI/AppStoreClient/deadline``. Reading the history takes
    /// longer, and prolongs its lease with each page.
    static let lease = Duration.seconds(120)

    /// In the order in which they are done. The history comes first: it may answer what the others would ask.
    private static let kinds: [Job.Kind] = [.notificationHistory, .subscriptionStatus, .parkedDocument]

    /// Stores the jobs that recur, unless they are stored. Call it once before ``workOnce()``.
    ///
    /// - Throws: `LedgerStorageError`.
    public func start() async throws {
        try await ledger.add(Job(Job.ID(.notificationHistory, "", in: scope), dueAt: now()), at: now())
    }

    /// Does one job that is due, if there is one. Several workers may call this at once.
    ///
    /// If the App Store does not answer, the job is postponed, with the reason in ``PurchaseLedger/Job/failure``.
    ///
    /// - Returns: False if no job is due.
    /// - Throws: `LedgerStorageError`. The job is done again after its lease has ended.
    public func workOnce() async throws -> Bool {
        for kind in Self.kinds {
            let end = now().advanced(by: Self.lease)
            guard let job = try await ledger.lease(kind, in: scope, until: end, at: now()).first else { continue }
            try await perform(job)
            return true
        }
        return false
    }

    private func perform(_ leased: Job) async throws {
        var job = leased
        let outcome: JobOutcome
        do {
            outcome = try await result(of: &job)
        } catch let error as AppStoreAPIError where error.code == .cancelled {
            // The server stops: whoever has the job next goes on at once.
            outcome = .later(job.next(at: now(), leased.failure))
        } catch let error as AppStoreAPIError {
            outcome = .later(job.retry(after: error, at: now()))
        } catch is LeaseLost {
            return
        } catch let error where error is VerificationError || error is UnusablePage {
            outcome = .later(job.retry(at: now(), because: "\(error)"))
        }
        switch outcome {
        case .done: try await ledger.finish(job, at: now())
        case .later(let next):
            if next.failure != nil, next.failure != leased.failure || next.dueAt > now() { onFailure(next) }
            try await ledger.replace(job, with: next, at: now())
        }
    }

    /// Does a job.
    ///
    /// - Parameter job: As it is leased: changes if the lease is prolonged.
    private func result(of job: inout Job) async throws -> JobOutcome {
        switch job.id.kind {
        case .notificationHistory: try await readHistory(&job)
        case .subscriptionStatus: try await askStatus(job)
        default: try await takeParked(job)
        }
    }
}

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
    private static let longestPause: Int64 = 3600

    /// The job for another attempt.
    func retry(at now: Timestamp, because failure: String) -> Job {
        let doublings = Int64(max(0, min(attempts - 1, 6)))
        return next(at: now.advanced(by: .seconds(min(Self.longestPause, Self.firstPause << doublings))), failure)
    }

    /// The job for another attempt after the App Store did not answer, not before the time that it named.
    func retry(after error: AppStoreAPIError, at now: Timestamp) -> Job {
        var job = retry(at: now, because: "\(error)")
        if let time = error.retryAt { job.dueAt = error.code == .overBudget ? time : max(job.dueAt, time) }
        return job
    }

    /// The job at another time, with the attempts that it had.
    func next(at time: Timestamp, _ failure: String?) -> Job {
        var job = self
        (job.dueAt, job.failure) = (time, failure)
        return job
    }
}
