// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The payload of a ``RecordKind/consumption`` job if the App Store has decided about a refund, but no request is
/// known. If a request arrives later, the dates in the note show whether it preceded the decision.
package struct RefundNote: Codable, Hashable, Sendable {
    var refund = RefundDates()

    /// - Returns: `nil` if the job is of a different kind, or about a request.
    package init?(_ job: Job) {
        // Any error means that the payload has a different form.
        guard job.id.kind == .consumption, ConsumptionQuestion(job) == nil,
            let note = try? JSONValue(parsing: job.payload).decode(Self.self)
        else { return nil }
        self = note
    }

    init(_ refund: RefundDates) {
        self.refund = refund
    }

    /// The time at which the decisions are erased.
    package var forgottenAt: Timestamp {
        (refund.decisions.last ?? .distantPast).advanced(by: ConsumptionQuestion.retention)
    }

    var payload: [UInt8] {
        get throws { try JSONWriter.bytes(encoding: self) }
    }
}
