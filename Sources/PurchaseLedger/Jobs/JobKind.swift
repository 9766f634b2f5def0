// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Synchronization

/// A kind of job and how it is done: a row of the table that a ``JobRunner`` works by.
public struct JobKind: Sendable {
    /// Does a job.
    ///
    /// - Throws: ``JobFailure`` if the job is to be done again later; ``LeaseLost``; `CancellationError`;
    ///   ``LedgerStorageError``, after which the job is done again when its lease has ended.
    public typealias Perform = @Sendable (LeasedJob) async throws -> JobOutcome

    /// The name of the kind.
    public var kind: Job.Kind
    /// The apps and environments whose jobs are done.
    public var scopes: Set<LedgerScope>
    /// Of the jobs of an app and environment that are due, those of the greatest weight begin first.
    public var weight: Int
    /// How many jobs of an app and environment a server does at once.
    public var maxAtOnce: Int
    /// The longest pause before another attempt, unless a failure names a longer one.
    public var maxRetry = Duration.seconds(3600)
    /// How long after now a job may be due at most, as long as no clock is wrong.
    public var maxWait: @Sendable (Job) -> Duration = { _ in .seconds(86_400) }
    /// Does a job.
    public var perform: Perform

    public init(
        _ kind: Job.Kind, in scopes: some Sequence<LedgerScope>, weight: Int, maxAtOnce: Int,
        perform: @escaping Perform
    ) {
        self.kind = kind
        self.scopes = Set(scopes)
        self.weight = weight
        self.maxAtOnce = maxAtOnce
        self.perform = perform
    }
}

/// A job while it is done.
public final class LeasedJob: Sendable {
    private let state: Mutex<(job: Job, isAnswered: Bool)>

    init(_ job: Job) { state = Mutex((job, false)) }

    /// The job as it is stored: set it if the lease was prolonged, see ``Ledger/prolong(_:payload:at:)``.
    public var job: Job {
        get { state.withLock { $0.job } }
        set { state.withLock { $0.job = newValue } }
    }

    /// Notes that whom the job asks has answered, even if it refused: that ends a pause of the app and environment.
    public func noteAnswer() { state.withLock { $0.isAnswered = true } }

    var isAnswered: Bool { state.withLock { $0.isAnswered } }
}

/// What becomes of a job that was done.
public enum JobOutcome: Sendable {
    /// It is finished.
    case done
    /// It is to be done again, as this job.
    case later(Job)
}

/// Why a job was not done. It is done again later.
public struct JobFailure: Error {
    /// What else would fail now.
    public enum Extent: Sendable {
        /// This job.
        case job
        /// Perhaps all jobs of the app and environment, as after no answer: another job will tell.
        case perhapsAll
        /// All jobs of the app and environment.
        case all
    }

    /// Why, as a sentence.
    public var reason: String
    /// What else would fail now.
    public var extent: Extent
    /// The shortest time until another attempt may succeed; `nil` if it is not known.
    public var pause: Duration?
    /// The latest time of the next attempt; `nil` if there is none.
    public var latest: Timestamp?
    /// The payload for the next attempt; `nil` for that of the job.
    public var payload: [UInt8]?

    public init(_ reason: String, extent: Extent = .job, pause: Duration? = nil, latest: Timestamp? = nil) {
        self.reason = reason
        self.extent = extent
        self.pause = pause
        self.latest = latest
    }
}

/// Another worker has the job, because this one took longer than its lease.
public struct LeaseLost: Error {
    public init() {}
}
