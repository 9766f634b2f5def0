// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// One thing that a verifier looked at and found right: what it expected, and what it found.
///
/// For people who want to see why a document was accepted, or how far it came before a ``VerificationError`` ended it.
public struct VerificationCheck: Hashable, Sendable {
    /// What was looked at, in the order in which it is.
    @nonexhaustive
    public enum Subject: String, CaseIterable, Sendable {
        /// The document can be taken apart.
        case form
        /// It is signed with an algorithm that the App Store uses.
        case algorithm
        /// The signer's certificates lead to a trusted root.
        case chain
        /// They were valid when the document was signed.
        case dates
        /// The signature is of this document by this signer.
        case signature
        /// The signer's certificates were not revoked.
        case revocation
        /// It is the kind of document that was asked for.
        case kind
        /// It is about an accepted app.
        case app
        /// It is from an accepted environment.
        case environment
        /// All of it can be read.
        case contents
        /// Its parts are about one purchase.
        case purchase
        /// It was issued to the device that was named.
        case device
    }

    public var subject: Subject
    /// Where in the document, such as `data.signedTransactionInfo`; `nil` for the document itself.
    public var part: String?
    public var expected: String
    public var found: String
}

extension AppStoreVerifier {
    /// This verifier, which says of what it checks that it is a part of something larger.
    func telling(of part: String) -> AppStoreVerifier {
        guard let onCheck else { return self }
        var verifier = self
        verifier.onCheck = { check in
            var check = check
            check.part = part
            onCheck(check)
        }
        return verifier
    }

    /// Tells whoever watches that a check was passed.
    func passed(
        _ subject: VerificationCheck.Subject, _ expected: @autoclosure () -> String, found: @autoclosure () -> String
    ) {
        guard let onCheck else { return }
        let found = found()
        onCheck(
            VerificationCheck(
                subject: subject, expected: expected(),
                found: found.utf8.count <= Limits.message ? found : found.clipped))
    }

    func passedChain(_ chain: SignerChain) {
        passed(
            .chain,
            chain.isSelfSigned ? "a trusted root itself" : "three certificates with Apple's marks to a trusted root",
            found: ([chain.leaf] + chain.issuers).map { "“\($0.commonName)”" }.joined(separator: " ← "))
    }

    func passedDates(_ chain: SignerChain, at instant: Timestamp, isSigned: Bool) {
        guard onCheck != nil else { return }
        for certificate in chain.judged {
            let validity = certificate.validity
            passed(
                .dates,
                "“\(certificate.commonName)” valid from \(validity.from.iso8601) to \(validity.until.iso8601)",
                found: isSigned ? instant.iso8601 : "no date of its own, judged at \(instant.iso8601)")
        }
    }

    func passedSignature(_ chain: SignerChain, _ algorithm: String) {
        passed(.signature, "\(algorithm) by “\(chain.leaf.commonName)”", found: "right")
    }
}
