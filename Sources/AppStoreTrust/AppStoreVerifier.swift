// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import ReceiptCoding

/// Checks what the App Store signed, and is the only maker of ``Verified``.
///
/// Says beforehand which roots, apps and environments it trusts; nothing in a document changes that. It has no clock, and
/// opens no connection but through the ``RevocationChecker`` that it is given.
public struct AppStoreVerifier: Sendable {
    /// The certificates that may anchor a signer's chain.
    ///
    /// What was learnt about signers under other roots is forgotten when they change.
    public var roots: TrustRoots {
        didSet {
            knownTokenSigners = KnownSigners()
            knownReceiptSigners = KnownSigners()
        }
    }

    /// Certificates that may stand between a transaction receipt's signer and a root, since such receipts leave them out.
    /// They are trusted for nothing: each must lead to a root.
    public var intermediates = Intermediates()

    /// By the encoded header of a token, which is signed with the token.
    package private(set) var knownTokenSigners = KnownSigners<[UInt8], SignerChain>()

    /// By what is signed of the certificates.
    package private(set) var knownReceiptSigners = KnownSigners<[[UInt8]], ReceiptSigner>()

    /// The apps that are accepted.
    public var apps: AcceptedApps

    /// The environments that are accepted.
    public var environments: Set<Environment>

    /// Whether certificates are asked about that may have been revoked.
    public var revocation: RevocationPolicy = .notChecked

    /// Told of every check that a document passed, in order; the one that it did not pass is the error.
    public var onCheck: (@Sendable (VerificationCheck) -> Void)?

    public init(apps: AcceptedApps, environments: Set<Environment>, roots: TrustRoots = .apple) {
        self.apps = apps
        self.environments = environments
        self.roots = roots
    }
}

/// The apps whose purchases a verifier accepts.
public enum AcceptedApps: Sendable {
    /// Whatever app it is. Whoever asks for this compares the bundle id afterwards, as callers of verifyReceipt must.
    case any
    case only([AppIdentity])
}

/// An app, as the App Store knows it.
public struct AppIdentity: Hashable, Sendable {
    /// The bundle id, such as `com.example.notes`.
    public var bundleId: String

    /// The app's Apple ID. Compared where a production document brings one along; `nil` to leave that out.
    public var appAppleId: Int64?

    public init(bundleId: String, appAppleId: Int64? = nil) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
    }
}

extension AppStoreVerifier {
    /// Compares what a genuine document says about its app and environment with what is accepted, in this order.
    ///
    /// - Returns: The environment, which is one of the accepted ones.
    func requireAccepted(
        _ claims: SignedClaims, _ kind: SignedKind, from chain: SignerChain
    ) throws(VerificationError) -> Environment {
        do throws(VerificationError) {
            return try acceptedEnvironment(claims, kind, from: chain)
        } catch {
            throw error.from(claims.bundleId, claims.environment?.rawValue)
        }
    }

    private func acceptedEnvironment(
        _ claims: SignedClaims, _ kind: SignedKind, from chain: SignerChain
    ) throws(VerificationError) -> Environment {
        try requireApp(claims, kind)
        guard let environment = claims.environment else {
            throw VerificationError(.otherEnvironment, "The document names no environment.")
        }
        guard let known = environment.known, environments.contains(known) else {
            let expected = environments.map(\.rawValue).sorted().joined(separator: " or ")
            throw VerificationError(.otherEnvironment, "The environment is \(environment), accepted is \(expected).")
        }
        try chain.requireAuthority(over: known)
        passed(.environment, environments.map(\.rawValue).sorted().joined(separator: " or "), found: known.rawValue)
        return known
    }

    func requireApp(_ claims: SignedClaims, _ kind: SignedKind) throws(VerificationError) {
        let found = claims.bundleId ?? "no bundle id in this kind of document"
        guard case .only(let accepted) = apps else { return passed(.app, "any app", found: found) }
        try requireApp(claims, kind, among: accepted)
        let isCompared = kind.namesBundle || kind.namesAppleId && claims.environment?.known == .production
        passed(
            .app,
            isCompared ? accepted.map(\.bundleId).joined(separator: " or ") : "nothing: a \(kind) names no app here",
            found: found)
    }

    private func requireApp(
        _ claims: SignedClaims, _ kind: SignedKind, among accepted: [AppIdentity]
    ) throws(VerificationError) {
        var candidates = accepted
        if kind.namesBundle {
            candidates = accepted.filter { $0.bundleId.isSameText(as: claims.bundleId) }
            guard !candidates.isEmpty else {
                let expected = accepted.map(\.bundleId).joined(separator: " or ")
                let found = claims.bundleId.map { "is for \($0)" } ?? "names no app"
                throw VerificationError(.otherApp, "The document \(found), accepted is \(expected).")
            }
        }
        // Sandbox documents have another number or none.
        guard claims.environment?.known == .production, claims.appAppleId != nil || kind.namesAppleId else { return }
        // Where nothing else names the app, an app whose number is not known here is no match.
        let isMatch = candidates.contains { app in
            app.appAppleId.map { $0 == claims.appAppleId } ?? (kind != .retentionRequest)
        }
        guard isMatch else {
            let known = candidates.compactMap(\.appAppleId).map(String.init)
            let expected = known.isEmpty ? "none, since none was named" : known.joined(separator: " or ")
            let found = claims.appAppleId.map(String.init) ?? "missing"
            throw VerificationError(.otherApp, "The app's Apple ID is \(found), accepted is \(expected).")
        }
    }
}

extension String {
    /// Whether two texts have the same bytes. Swift takes texts for equal that only look the same.
    func isSameText(as other: String?) -> Bool { other.map { utf8.elementsEqual($0.utf8) } ?? false }
}
