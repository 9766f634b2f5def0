// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

extension AppStoreVerifier {
    /// This verifier, which says of what it checks that it is a part of something larger.
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
