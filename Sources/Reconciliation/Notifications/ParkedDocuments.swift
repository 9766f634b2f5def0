// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Parks invalid documents from the App Store: stores them, and verifies them again later. They may pass with a newer
// version of this software, or after the operator has added a root certificate.

extension Reconciler {
    /// The interval between two verifications of a parked document. A day is enough, because a parked document becomes
    /// valid only after the operator has changed the configuration or installed a newer version.
    static let parkedInterval = Duration.seconds(86_400)

    /// Parks an invalid document. A document above ``PurchaseLedger/Job/payloadLimit`` is passed to
    /// ``Reconciler/onParked``, but not stored.
    func park(_ document: String, because reason: String) async throws {
        let bytes = Array(document.utf8)
        let id = Job.ID(.parkedDocument, "\(DocumentDigest(bytes, .notification))", in: scope)
        let job = Job(id, dueAt: now().advanced(by: Self.parkedInterval), payload: bytes, failure: reason)
        // A genuine document is never larger than this limit.
        if bytes.count <= Job.payloadLimit { try await ledger.add(job, at: now()) }
        onParked(job)
    }

    /// Verifies a parked document again.
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
