// SPDX-License-Identifier: Apache-2.0

// Calls the verifier's `onCheck` for every check that a document passes.

import AppStoreModel

extension AppStoreVerifier {
    /// A copy of this verifier whose reported checks name `part`, a part of a larger document.
    func reporting(on part: String) -> AppStoreVerifier {
        guard let onCheck else { return self }
        var verifier = self
        verifier.onCheck = { check in
            var check = check
            check.part = part
            onCheck(check)
        }
        return verifier
    }

    /// Reports a passed check. Evaluates the texts only if `onCheck` is set.
    func passed(
        _ subject: VerificationCheck.Subject, _ expected: @autoclosure () -> String, found: @autoclosure () -> String
    ) {
        guard let onCheck else { return }
        onCheck(VerificationCheck(subject: subject, expected: expected(), found: found().clipped))
    }

    func passedChain(_ chain: SignerChain) {
        passed(
            .chain,
            chain.isSelfSigned
                ? "a trusted root itself" : "three certificates with Apple's marker OIDs to a trusted root",
            found: ([chain.leaf] + chain.issuers).map { "“\($0.commonName)”" }.joined(separator: " ← "))
    }

    func passedDates(_ chain: SignerChain, at instant: Timestamp, isSigned: Bool) {
        guard onCheck != nil else { return }
        for certificate in chain.presented {
            let validity = certificate.validity
            passed(
                .dates,
                "“\(certificate.commonName)” valid from \(validity.from.iso8601) to \(validity.until.iso8601)",
                found: isSigned ? instant.iso8601 : "no date of its own, checked at \(instant.iso8601)")
        }
    }

    func passedSignature(_ chain: SignerChain, _ algorithm: String) {
        passed(.signature, "\(algorithm) by “\(chain.leaf.commonName)”", found: "valid")
    }
}
