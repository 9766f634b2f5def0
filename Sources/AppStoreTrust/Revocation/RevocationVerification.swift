// SPDX-License-Identifier: Apache-2.0

// Checks the certificates of a signer for revocation, according to the verifier's policy.

import AppStoreModel

extension AppStoreVerifier {
    /// Checks that no certificate of a signer was revoked, if required by the policy. The root is not checked, because
    /// it is trusted by configuration. Neither is a self-signed signer, which has no issuer to ask.
    ///
    /// - Returns: `good`, or `unknown` if an unknown status is accepted; `nil` if no certificate was checked.
    @discardableResult
    func requireUnrevoked(
        _ chain: SignerChain, at now: Timestamp
    ) async throws(VerificationError) -> RevocationStatus? {
        guard case .checked = revocation else { return nil }
        let questions = zip([chain.leaf] + chain.issuers, chain.issuers).map { OCSPQuestion(about: $0, issuedBy: $1) }
        guard !questions.isEmpty else { return nil }
        return try await requireUnrevoked(questions, "", at: now)
    }

    /// Checks certificates for revocation, if required by the policy.
    ///
    /// - Parameters:
    ///   - questions: A question per certificate; `nil` for a certificate whose status cannot be requested.
    ///   - reason: Why the status of a certificate without a question cannot be requested.
    @discardableResult
    func requireUnrevoked(
        _ questions: [OCSPQuestion?], _ reason: String, at now: Timestamp
    ) async throws(VerificationError) -> RevocationStatus? {
        guard case .checked(let checker, let acceptsUnknown) = revocation else { return nil }
        let asked = questions.compactMap { $0 }
        let statuses = await checker.statuses(asked, at: now)
        var status = try Self.outcome(Array(zip(asked, statuses)), acceptsUnknown)
        if asked.count < questions.count {
            guard acceptsUnknown else { throw VerificationError(.revocationUnknown, reason) }
            status = .unknown(reason)
        }
        passed(.revocation, acceptsUnknown ? "not revoked" : "known not to be revoked", found: status.sentence)
        return status
    }

    /// The combined outcome. A revoked certificate is reported even if the status of the other certificate is unknown.
    @inline(never)
    private static func outcome(
        _ findings: [(OCSPQuestion, RevocationStatus)], _ acceptsUnknown: Bool
    ) throws(VerificationError) -> RevocationStatus {
        for case (let question, .revoked(let time)) in findings {
            throw VerificationError(
                .certificateRevoked,
                "The certificate “\(question.certificate.commonName)” was revoked at \(time.iso8601).")
        }
        for case (let question, .unknown(let reason)) in findings {
            let sentence =
                "The revocation status of the certificate “\(question.certificate.commonName)” is unknown: \(reason)"
            guard acceptsUnknown else { throw VerificationError(.revocationUnknown, sentence) }
            return .unknown(sentence)
        }
        return .good
    }
}

extension RevocationStatus {
    fileprivate var sentence: String {
        switch self {
        case .good: "not revoked"
        case .revoked(let time): "revoked at \(time.iso8601)"
        case .unknown(let reason): reason
        }
    }
}
