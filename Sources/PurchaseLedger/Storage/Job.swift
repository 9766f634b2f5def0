// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Something to do later that must not be forgotten, such as an answer that the App Store waits for.
///
/// A job is stored by the decision that asks for it, so it exists if and only if that decision was committed. It is
/// done at least once: a worker leases it, does it, and then finishes it. If the worker dies, the lease ends and
/// another worker does the job again. No transaction is open meanwhile.
public struct Job: Hashable, Sendable {
    /// What a job does. Those of a kind have payloads of one form.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        public var rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }
    }

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
    }

    /// What the job does, and about what.
    public var id: ID
    /// When to do it next. While the job is leased, this is the end of the lease.
    public var dueAt: Timestamp
    /// How often it was leased.
    public var attempts: Int
    /// What the worker needs to know, in the form of its kind.
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
}
