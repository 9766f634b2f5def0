// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Synchronization

/// A kind of job and the function that does its jobs: a row in the table of a ``JobRunner``.
public struct JobKind: Sendable {
    /// Does a job.
    ///
    /// - Throws: ``JobFailure`` if the job must be done again later; ``LeaseLost``; `CancellationError`;
    ///   ``LedgerStorageError``, after which the job is done again at the end of its lease.
    public typealias Perform = @Sendable (LeasedJob) async throws -> JobOutcome

    /// The name of the kind.
    public var kind: Job.Kind
    /// The apps and environments of the jobs.
    public var scopes: Set<LedgerScope>
    /// The priority of the kind. Among the due jobs of an app and environment, those with the greatest weight begin
    /// first.
    public var weight: Int
    /// The maximum number of concurrent jobs of this kind per app and environment in a server.
    public var maxAtOnce: Int
    /// The longest pause before a new attempt, unless a failure names a longer pause.
    public var maxRetry = Duration.seconds(3600)
    /// The maximum time from now to a job's due time, if no clock is wrong; see ``JobRunner/pullBack()``.
    public var maxWait: @Sendable (Job) -> Duration = { _ in .seconds(86_400) }
    /// The function that does the jobs of this kind.
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

/// A job during its lease by a worker.
public final class LeasedJob: Sendable {
    private let state: Mutex<(job: Job, isAnswered: Bool)>

    init(_ job: Job) { state = Mutex((job, false)) }

    /// The stored form of the job. Set it after the lease was prolonged, see ``Ledger/prolong(_:payload:at:)``.
    public var job: Job {
        get { state.withLock { $0.job } }
        set { state.withLock { $0.job = newValue } }
    }

    /// Notes that the server asked by the job has answered, even with a refusal. An answer may end a pause of the app
    /// and environment; see `JobPauses`.
    public func noteAnswer() { state.withLock { $0.isAnswered = true } }

    var isAnswered: Bool { state.withLock { $0.isAnswered } }
}

/// The outcome of a job.
public enum JobOutcome: Sendable {
    /// The job is finished.
    case done
    /// The job must be done again, in this form.
    case later(Job)
}

/// The reason why a job was not done. The job is done again later.
public struct JobFailure: Error {
    /// The jobs that would fail now.
    public enum Extent: Sendable {
        /// Only this job.
        case job
        /// Perhaps all jobs of the app and environment, for example after a timeout. The result of the next job
        /// decides.
        case perhapsAll
        /// All jobs of the app and environment.
        case all
    }

    /// A sentence about the reason.
    public var reason: String
    /// The jobs that would fail now.
    public var extent: Extent
    /// The shortest time until a new attempt may succeed; `nil` if unknown.
    public var pause: Duration?
    /// The latest time of the next attempt; `nil` without a limit.
    public var latest: Timestamp?
    /// The payload for the next attempt; `nil` to keep the job's payload.
    public var payload: [UInt8]?

    public init(_ reason: String, extent: Extent = .job, pause: Duration? = nil, latest: Timestamp? = nil) {
        self.reason = reason
        self.extent = extent
        self.pause = pause
        self.latest = latest
    }
}

/// The error for a worker that no longer has its job: the lease has ended and another worker has the job, or the job
/// was finished or stored anew.
public struct LeaseLost: Error {
    public init() {}
}
