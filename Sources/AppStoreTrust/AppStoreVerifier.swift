// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Verifies documents signed by the App Store. Only a verifier creates ``Verified`` values.
///
/// The caller fixes the trusted roots, apps and environments; a document cannot change them. The verifier has no clock.
/// The verifier opens connections only through the caller's ``RevocationChecker``.
public struct AppStoreVerifier: Sendable {
    /// The certificates that may anchor a signer's chain.
    ///
    /// Setting the roots clears the cache of known signers, because the chains of the cached signers lead to the old
    /// roots.
    public var roots: TrustRoots {
        didSet {
            knownTokenSigners = KnownSigners()
            knownReceiptSigners = KnownSigners()
        }
    }

    /// Intermediate certificates for transaction receipts, because such receipts do not contain intermediates.
    /// Intermediates are not trusted: each must lead to a root.
    public var intermediates = Intermediates()

    /// Keyed by a token's encoded header, because the token's signature covers the header.
    package private(set) var knownTokenSigners = KnownSigners<[UInt8], SignerChain>()

    /// Keyed by the `tbsCertificate` of each certificate, because the issuer's signature covers `tbsCertificate`.
    package private(set) var knownReceiptSigners = KnownSigners<[[UInt8]], ReceiptSigner>()

    /// The accepted apps.
    public var apps: AcceptedApps

    /// The accepted environments.
    public var environments: Set<Environment>

    /// Whether to check certificates for revocation. Off by default.
    public var revocation: RevocationPolicy = .notChecked

    /// Called for every check that a document passes, in order. A failed check is thrown as the error.
    public var onCheck: (@Sendable (VerificationCheck) -> Void)?

    /// Called before each search for a path from a signer to a root. A search checks three signatures at most. For
    /// tests.
    package var onPath: (@Sendable () -> Void)?

    /// Creates a verifier without a revocation check.
    ///
    /// - Parameters:
    ///   - apps: The apps to accept.
    ///   - environments: The environments to accept.
    ///   - roots: The certificates that may anchor a signer's chain.
    public init(apps: AcceptedApps, environments: Set<Environment>, roots: TrustRoots = .apple) {
        self.apps = apps
        self.environments = environments
        self.roots = roots
    }
}

/// The apps whose purchases a verifier accepts.
public enum AcceptedApps: Sendable {
    /// Any app. The caller must compare the bundle id, as callers of verifyReceipt must.
    case any
    /// Only the listed apps.
    case only([AppIdentity])
}

/// The App Store's identifiers of an app.
public struct AppIdentity: Hashable, Sendable {
    /// The bundle id, such as `com.example.notes`.
    public var bundleId: String

    /// The app's Apple ID, compared if a production document contains an Apple ID. `nil` skips the comparison, except
    /// for documents that name their app only by its Apple ID.
    public var appAppleId: Int64?

    /// Creates the identity of an app.
    public init(bundleId: String, appAppleId: Int64? = nil) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
    }
}

extension AppStoreVerifier {
    /// Checks that the app named by a genuine document is accepted, and then its environment.
    ///
    /// - Returns: The environment.
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

    /// Checks that the app named by a genuine document is accepted. A document without a bundle id passes if its kind
    /// names no bundle, unless the Apple IDs are compared.
    func requireApp(_ claims: SignedClaims, _ kind: SignedKind) throws(VerificationError) {
        let found = claims.bundleId ?? "no bundle id in this kind of document"
        guard case .only(let accepted) = apps else { return passed(.app, "any app", found: found) }
        try requireApp(claims, kind, among: accepted)
        let isCompared = kind.namesBundle || kind.namesAppleId && claims.environment?.known == .production
        passed(
            .app,
            isCompared
                ? accepted.map(\.bundleId).joined(separator: " or ")
                : "nothing: \(kind.withArticle) names no app here",
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
        // Sandbox documents have a different Apple ID or none.
        guard claims.environment?.known == .production, claims.appAppleId != nil || kind.namesAppleId else { return }
        // A retention request names its app only by the Apple ID, so an accepted app without an Apple ID never matches.
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
    /// Whether two strings have the same bytes. Swift's `==` also accepts canonically equivalent strings.
    func isSameText(as other: String?) -> Bool { other.map { utf8.elementsEqual($0.utf8) } ?? false }
}
