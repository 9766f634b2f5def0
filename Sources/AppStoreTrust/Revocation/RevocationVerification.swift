// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Whether an ``AppStoreVerifier`` asks if the certificates of a signer were revoked.
///
/// Meant for documents that are fresh. Responders forget about certificates that have run out, so those of documents from
/// years ago are likely to be unknown.
public enum RevocationPolicy: Sendable {
    /// Nobody is asked. What the App Store's own libraries call offline.
    case notChecked

    /// The responders that leaf and intermediate name are asked, after the signature was found right: nobody but the App
    /// Store's own signers can make us open a connection.
    ///
    /// A certificate that was revoked is refused with `certificateRevoked`, whatever the document's date: who has stolen a
    /// key writes the dates too. One of which nothing is known is refused with `revocationUnknown`, or accepted where
    /// `acceptsUnknown` says so.
    case checked(by: RevocationChecker, acceptsUnknown: Bool)
}

/// What is known about the revocation of a certificate.
public enum RevocationStatus: Hashable, Sendable {
    /// The issuer knows the certificate and has not revoked it.
    case good
    /// The issuer took the certificate back.
    case revoked(at: Timestamp)
    /// Nobody said anything that could be believed, and why that is so: a sentence.
    case unknown(String)
}

/// The way to a responder: what ``RevocationChecker`` needs of a network.
public protocol OCSPTransport: Sendable {
    /// Sends a request to a responder and returns what it answers (RFC 6960 appendix A).
    ///
    /// By HTTP that is a POST with content type `application/ocsp-request`, of which status 200 brings an answer. The
    /// transport need not keep time nor understand anything: the task is cancelled when the time is over, and the answer
    /// is checked. It should not follow redirects, since anybody between may send them, nor collect more than
    /// ``RevocationChecker/responseLimit``.
    ///
    /// - Parameters:
    ///   - request: The DER of an `OCSPRequest`.
    ///   - responder: The address in the certificate, of the scheme `http` or `https`.
    /// - Returns: The bytes of the answer.
    /// - Throws: Anything, where there is no answer.
    func answer(to request: [UInt8], from responder: String) async throws -> [UInt8]
}

extension AppStoreVerifier {
    /// Checks that no certificate of a signer was revoked, where that is asked for. The root is trusted by configuration,
    /// and a signer that is a root itself has nobody who could say anything about it.
    ///
    /// - Returns: `good`, or `unknown` where that is accepted; `nil` where nothing was checked.
    @discardableResult
    func requireUnrevoked(
        _ chain: SignerChain, at now: Timestamp
    ) async throws(VerificationError) -> RevocationStatus? {
        guard case .checked = revocation else { return nil }
        let questions = zip([chain.leaf] + chain.issuers, chain.issuers).map { OCSPQuestion(about: $0, issuedBy: $1) }
        guard !questions.isEmpty else { return nil }
        return try await requireUnrevoked(questions, "", at: now)
    }

    /// - Parameters:
    ///   - questions: `nil` for a certificate about which nobody can be asked.
    ///   - reason: Why that is so.
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

    /// Revoked comes before unknown, whichever certificate it is about.
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
                "Whether the certificate “\(question.certificate.commonName)” was revoked is not known: \(reason)"
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
