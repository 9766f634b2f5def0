// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import PurchaseLedger

// A question that ended without success stays a job for a while, with the reason, so that an operator sees it and may
// have it asked again. Its payload has the additional member `forgottenAt`.

extension Job {
    /// How long it stays, as long as the outcome of a consumption request: an operator looks once a month.
    static let retention = Duration.seconds(30 * 86_400)

    /// Whether the question ended without success: nobody asks it any more, unless the job is made due. Its `failure`
    /// says why.
    public var isGivenUp: Bool { forgottenAt != nil }

    /// Whether a job that was given up has been kept for long enough.
    func isForgotten(at now: Timestamp) -> Bool { forgottenAt.map { $0 <= now } ?? false }

    /// The job as it is kept.
    func givenUp(at now: Timestamp, because failure: String) -> Job {
        let forgottenAt = now.advanced(by: Self.retention)
        var job = reopened.next(at: forgottenAt, failure)
        let members = (job.members ?? []) + [.init("forgottenAt", .number("\(forgottenAt.milliseconds)"))]
        job.payload = Array(JSONValue.object(members).compactText.utf8)
        return job
    }

    /// The job as one that is asked again.
    var reopened: Job {
        guard isGivenUp, let members else { return self }
        var job = self
        job.payload = Array(JSONValue.object(members.filter { $0.name != "forgottenAt" }).compactText.utf8)
        return job
    }

    private var forgottenAt: Timestamp? {
        guard [.customerHistory, .subscriptionStatus].contains(id.kind) else { return nil }
        let time = members?.first { $0.name == "forgottenAt" }?.value.integer
        return time.map { Timestamp(milliseconds: $0) }
    }

    private var members: [JSONValue.Member]? { JSONValue(readable: payload)?.members }

    /// The payload as a value; `nil` if it is none, as in a job that has not begun.
    @inline(never)
    func decoded<Value: Decodable>() -> Value? {
        // What another version wrote is begun anew.
        try? JSONValue(parsing: payload).decode(Value.self)
    }
}
