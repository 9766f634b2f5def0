// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A durable task for later, such as an answer that the App Store waits for.
///
/// If a change of the ledger requires a job, both are stored in the same commit, and neither is stored alone. A job is
/// done at least once: a worker leases the job, does it, and then finishes it. If the worker dies, the lease ends and
/// another worker does the job again. No database transaction is open while a worker does a job.
public struct Job: Hashable, Sendable {
    /// The kind of a job. All jobs of a kind have payloads of the same form.
    public typealias Kind = RecordKind

    /// The unique id of a job. A stored job replaces an earlier job with the same id.
    public struct ID: Hashable, Sendable {
        /// The kind of the job.
        public var kind: Kind
        /// The app and environment of the job.
        public var scope: LedgerScope
        /// The subject of the job, such as a transaction id.
        public var name: String

        public init(_ kind: Kind, _ name: String, in scope: LedgerScope) {
            self.kind = kind
            self.scope = scope
            self.name = name
        }

        /// The key of the job's record.
        public var key: RecordKey { RecordKey(kind, name, of: .scope(scope)) }
    }

    /// The kind and the subject of the job.
    public var id: ID
    /// The time of the next attempt. During a lease, this is the end of the lease.
    public var dueAt: Timestamp
    /// The number of leases so far.
    public var attempts: Int
    /// The worker's input, in the form of the job's kind: at most ``payloadLimit`` bytes.
    public var payload: [UInt8]
    /// The reason for the failure of the last attempt, as a sentence; `nil` without a failure.
    public var failure: String?

    public init(_ id: ID, dueAt: Timestamp, attempts: Int = 0, payload: [UInt8] = [], failure: String? = nil) {
        self.id = id
        self.dueAt = dueAt
        self.attempts = attempts
        self.payload = payload
        self.failure = failure
    }

    /// The length of a lease, unless the worker prolongs it. A question to the App Store takes less time, even with all
    /// its attempts.
    public static let lease = Duration.seconds(120)

    /// The maximum size of a payload in bytes: a record's limit, less space for the job's other fields.
    public static let payloadLimit = LedgerRecord.payloadLimit - (8 << 10)
}

extension Job {
    /// The first pause after a failure, in seconds. It doubles with each attempt.
    private static let firstPause: Int64 = 60

    /// The job with a new due time and failure, and the same number of attempts.
    public func next(at time: Timestamp, _ failure: String?) -> Job {
        var job = self
        job.dueAt = time
        job.failure = failure
        return job
    }

    /// The job for its next attempt. The pause grows with the attempts, up to `longest`.
    public func retry(at now: Timestamp, because failure: String, within longest: Duration) -> Job {
        let doublings = Int64(max(0, min(attempts - 1, 6)))
        return next(at: now.advanced(by: min(longest, .seconds(Self.firstPause << doublings))), failure)
    }

    /// Whether a worker may be doing the job at present: the due time is ahead, but by no more than a lease and a
    /// minute. If no worker is doing the job, it still falls due within this time, so the caller need not make it due.
    ///
    /// - Parameter now: The time by a clock that may differ by a minute from the worker's clock.
    package func mayBeLeased(at now: Timestamp) -> Bool {
        now < dueAt && dueAt <= now.advanced(by: Self.lease + .seconds(60))
    }
}

extension Job: RecordValue {
    /// The members of the first line of a record's payload. The job's own payload follows.
    private enum Member {
        static let attempts = "attempts"
        static let failure = "failure"
    }

    /// The maximum length of a stored failure in Unicode scalars. Only a failure that quotes a received text is longer,
    /// and is cut.
    private static let failureLimit = 1000

    /// Reads a job.
    public init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .scope(let scope) = record.key.owner, let dueAt = record.dueAt,
            let payload = LinedPayload(record.payload),
            let attempts = payload.line[Member.attempts]?.integer.flatMap({ Int(exactly: $0) })
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(
            ID(record.key.kind, record.key.name, in: scope), dueAt: dueAt, attempts: attempts, payload: payload.rest,
            failure: payload.line[Member.failure]?.string)
    }

    /// The stored form of the job. A long failure is cut.
    public var record: LedgerRecord {
        var members = [JSONValue.Member(Member.attempts, .number("\(attempts)"))]
        if let failure {
            let text = String(failure.unicodeScalars.prefix(Self.failureLimit))
            members.append(JSONValue.Member(Member.failure, .string(text)))
        }
        return LedgerRecord(id.key, dueAt: dueAt, payload: LinedPayload(members, rest: payload).bytes)
    }
}
