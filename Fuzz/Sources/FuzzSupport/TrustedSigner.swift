// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import AppStoreSimulator
import AppStoreTrust

/// A trusted signer that signs any payload.
public enum TrustedSigner {
    private static let signer = requireNoError("there are signers") { WorldSigner(try StoreAuthority.fixture()) }

    private static let verifier: AppStoreVerifier = {
        let roots = requireNoError("roots can be read") {
            try signer.authority.roots.map { try TrustRoots(reading: $0) }
        }
        return AppStoreVerifier(
            apps: .any, environments: Set(Environment.allCases), roots: roots.reduce(.apple) { $0.union($1) })
    }()

    /// Requires that a payload of any kind, signed by this signer, verifies unchanged or is refused for its content.
    public static func requireTrusted(_ payload: [UInt8], _ json: JSONValue) {
        guard SignedKind(recognizing: json) != nil else { return }
        let (verifier, now) = (verifier, SignedForm.now)
        let token = requireNoError("a payload can be signed") { try signer.token(payload, at: now) }
        let outcome = synchronously {
            do throws(VerificationError) {
                let verified = try await verifier.verify(jws: token.utf8, at: now)
                _ = try? await verifier.verify(notification: token.utf8, at: now)
                return Result<JSONValue, VerificationError>.success(verified.payload)
            } catch {
                return .failure(error)
            }
        }
        switch outcome {
        case .success(let verified): require(verified == json, "a verified payload is the one that was signed")
        case .failure(let error):
            let reasons: Set<VerificationError.Code> = [
                .certificateExpired, .otherApp, .otherEnvironment, .otherPurchase,
            ]
            require(reasons.contains(error.code), "a trusted token is not refused as \(error)")
        }
    }
}
