// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Something to do later that must not be forgotten, such as an answer that the App Store waits for.
///
/// A job is stored by the decision that asks for it, so it exists if and only if that decision was committed. It is
/// done at least once: a worker leases it, does it, and then finishes it. If the worker dies, the lease ends and
/// another worker does the job again. No transaction is open meanwhile.
public struct Job: Hashable, Sendable {
    /// What a job does. Those of a kind have payloads of one form.
    public typealias Kind = RecordKind

    /// What makes a job unique. A job that is stored replaces the one with the same id.
    public struct ID: Hashable, Sendable {
        /// What the job does.
        public var kind: Kind
        /// The app and environment that it is about.
        public var scope: LedgerScope
        /// What it is about, such as a transaction id.
        public var name: String

        public init(_ kind: Kind, _ name: String, in scope: LedgerScope) {
            self.kind = kind
            self.scope = scope
            self.name = name
        }

        /// The key of the record that holds the job.
        public var key: RecordKey { RecordKey(kind, name, of: .scope(scope)) }
    }

    /// What the job does, and about what.
    public var id: ID
    /// When to do it next. While the job is leased, this is the end of the lease.
    public var dueAt: Timestamp
    /// How often it was leased.
    public var attempts: Int
    /// What the worker needs to know, in the form of its kind: at most ``payloadLimit`` bytes.
    public var payload: [UInt8]
    /// Why the last attempt failed, as a sentence; `nil` if none has failed.
    public var failure: String?

    public init(_ id: ID, dueAt: Timestamp, attempts: Int = 0, payload: [UInt8] = [], failure: String? = nil) {
        self.id = id
        self.dueAt = dueAt
        self.attempts = attempts
        self.payload = payload
        self.failure = failure
    }

    /// How long a worker has for a job, unless it prolongs the lease: longer than a question to the App Store takes
    /// with all its attempts.
    public static let lease = Duration.seconds(120)

    /// The largest payload in bytes: a record's, without what else is stored of a job.
    public static let payloadLimit = LedgerRecord.payloadLimit - (8 << 10)
}

extension Job {
    /// The first pause after a failure, in seconds. It doubles with each attempt.
    private static let firstPause: Int64 = 60

    /// The job at another time, with the attempts that it had.
    public func next(at time: Timestamp, _ failure: String?) -> Job {
        var job = self
        job.dueAt = time
        job.failure = failure
        return job
    }

    /// The job for another attempt, after the longest pause at the latest.
    public func retry(at now: Timestamp, because failure: String, within longest: Duration) -> Job {
        let doublings = Int64(max(0, min(attempts - 1, 6)))
        return next(at: now.advanced(by: min(longest, .seconds(Self.firstPause << doublings))), failure)
    }

    /// Whether a worker may be doing a job that is not due: a lease ends within these minutes. If nobody does it, it is
    /// due so soon that nobody need make it due.
    ///
    /// - Parameter now: By a clock that may differ by a minute from that of the worker.
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

    /// How many characters of a failure are stored. Longer ones quote a text that somebody sent.
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

    /// The job as it is stored. A longer failure is cut.
    public var record: LedgerRecord {
        var members = [JSONValue.Member(Member.attempts, .number("\(attempts)"))]
        if let failure {
            let text = String(failure.unicodeScalars.prefix(Self.failureLimit))
            members.append(JSONValue.Member(Member.failure, .string(text)))
        }
        return LedgerRecord(id.key, dueAt: dueAt, payload: LinedPayload(members, rest: payload).bytes)
    }
}
