// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Documents from the App Store that could not be verified. They are kept and tried again: a newer version, or a root
// that the operator adds, may accept them.

extension Reconciler {
    /// A parked document becomes valid only if the operator does something, so a day is often enough.
    static let parkedInterval = Duration.seconds(86_400)

    /// Keeps a document that is not valid, unless it is larger than ``PurchaseLedger/Job/payloadLimit``.
    func park(_ document: String, because reason: String) async throws {
        let bytes = Array(document.utf8)
        let id = Job.ID(.parkedDocument, "\(DocumentDigest(bytes, .notification))", in: scope)
        let job = Job(id, dueAt: now().advanced(by: Self.parkedInterval), payload: bytes, failure: reason)
        // No genuine document is as large as that.
        if bytes.count <= Job.payloadLimit { try await ledger.add(job, at: now()) }
        onParked(job)
    }

    /// Tries a parked document again.
    func takeParked(_ job: Job) async throws -> JobOutcome {
        do {
            let verified = try await verifier.verify(notification: job.payload, at: now())
            if let evidence = Evidence(verified) { _ = try await ledger.record([evidence], at: now()) }
            return .done
        } catch let error as VerificationError {
            return .later(job.next(at: now().advanced(by: Self.parkedInterval), "\(error)"))
        }
    }
}
