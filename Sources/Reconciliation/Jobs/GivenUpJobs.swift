// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import PurchaseLedger

// Keeps the job of an unsuccessful question to the App Store for a while, with the reason, so that an operator can see
// the job and retry it. The payload of such a job has the additional member `forgottenAt`.

extension Job {
    /// The time for which a given-up job is kept: a month, because an operator is expected to look once a month. The
    /// outcome of a consumption request is kept as long.
    static let retention = Duration.seconds(30 * 86_400)

    /// Whether the question ended without success. The question is not asked again, unless an operator makes the job
    /// due. The job's `failure` has the reason.
    public var isGivenUp: Bool { forgottenAt != nil }

    /// Whether the retention of a given-up job is over.
    func isForgotten(at now: Timestamp) -> Bool { forgottenAt.map { $0 <= now } ?? false }

    /// The job in its given-up form.
    func givenUp(at now: Timestamp, because failure: String) -> Job {
        let forgottenAt = now.advanced(by: Self.retention)
        var job = reopened.next(at: forgottenAt, failure)
        let members = (job.members ?? []) + [.init("forgottenAt", .number("\(forgottenAt.milliseconds)"))]
        job.payload = Array(JSONValue.object(members).compactText.utf8)
        return job
    }

    /// The job with its question open again.
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

    /// The decoded payload; `nil` if the payload has no such value, as in a new job.
    @inline(never)
    func decoded<Value: Decodable>() -> Value? {
        // If an incompatible version wrote the payload, the job begins anew.
        try? JSONValue(parsing: payload).decode(Value.self)
    }
}
