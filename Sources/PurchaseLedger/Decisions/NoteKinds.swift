// SPDX-License-Identifier: Apache-2.0

// Notes: records of the ledger's own about an app and environment, with nothing to do.
//
// They are among the jobs because these are the records that every storage finds by key, commits only if nobody has
// changed or added them meanwhile, and copies, without knowing their kinds.

extension Job.Kind {
    /// The roots that anchored documents of an app and environment. It is never due.
    static let trustAnchors = Job.Kind(rawValue: "trustAnchors")

    /// ``Ledger/upgrade(at:)`` ran for an app. It is never due.
    static let upgrade = Job.Kind(rawValue: "upgrade")

    fileprivate static let notes: Set<Job.Kind> = Set(
        [.trustAnchors, .upgrade, .erasures] + Notice.Kind.allCases.map(\.job))
}

extension Job {
    /// Whether the record is a note, and no work.
    package var isNote: Bool { Kind.notes.contains(id.kind) }
}
