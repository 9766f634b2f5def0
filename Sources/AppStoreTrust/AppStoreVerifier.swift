// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Verifies documents signed by the App Store. Only a verifier creates ``Verified`` values.
///
/// The caller fixes the trusted roots, apps and environments; a document cannot change them. The verifier has no clock:
/// each call passes the current time. The verifier opens network connections only through the caller's
/// ``RevocationChecker``, and only if revocation is checked.
public struct AppStoreVerifier: Sendable {
    /// The certificates that may anchor a signer's chain.
    ///
    /// Setting the roots clears both caches of known signers, because the cached chains lead to the old roots.
    public var roots: TrustRoots {
        didSet {
            knownTokenSigners = KnownSigners()
            knownReceiptSigners = KnownSigners()
        }
    }

    /// The intermediate certificates for old transaction receipts. Such a receipt contains only its signer's own
    /// certificate, and not the intermediate that issued it. An intermediate is not trusted by itself: it must lead to
    /// one of ``roots``.
    public var intermediates = Intermediates()

    /// The cache of token signers. The key of an entry is the encoded header of a token. The token's signature covers
    /// the header, so nobody can fill the cache with variants of a header.
    package private(set) var knownTokenSigners = KnownSigners<[UInt8], SignerChain>()

    /// The cache of receipt signers. The key of an entry is the `tbsCertificate` of the leaf (the signer's own
    /// certificate) and of the intermediate. The signature of the issuer covers `tbsCertificate`, so nobody can fill
    /// the cache with variants of a certificate.
    package private(set) var knownReceiptSigners = KnownSigners<[[UInt8]], ReceiptSigner>()

    /// The accepted apps.
    public var apps: AcceptedApps

    /// The accepted environments.
    public var environments: Set<Environment>

    /// Whether to check certificates for revocation. Off by default.
    public var revocation: RevocationPolicy = .notChecked

    /// Called for every check that a document passes, in order. A failed check is not passed to this function; it is
    /// thrown as a ``VerificationError``.
    public var onCheck: (@Sendable (VerificationCheck) -> Void)?

    /// For tests: called before each search for a path from a signer to a root. A search checks three signatures at
    /// most.
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

    /// The app's Apple ID, compared with the Apple ID in production documents. If the value is `nil`, an Apple ID in a
    /// document is not checked. Retention requests (`SignedKind/retentionRequest`) from production are then refused,
    /// because only the Apple ID tells which app they are about.
    public var appAppleId: Int64?

    /// Creates the identity of an app.
    public init(bundleId: String, appAppleId: Int64? = nil) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
    }
}

extension AppStoreVerifier {
    /// Checks that the app named by a genuine document is accepted, and then that the named environment is accepted
    /// too.
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

    /// Checks that the app named by a genuine document is accepted. Renewal info and retention requests have no bundle
    /// id. A retention request from production is checked by its Apple ID. Renewal info, and retention requests from
    /// elsewhere, pass unchecked.
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
        // The Apple ID is compared only in production documents: in sandbox, it is missing or is not the app's.
        guard claims.environment?.known == .production, claims.appAppleId != nil || kind.namesAppleId else { return }
        // A retention request names its app only by the Apple ID, so it never matches an accepted app without an Apple
        // ID.
        let isMatch = candidates.contains { app in
            app.appAppleId.map { $0 == claims.appAppleId } ?? (kind != .retentionRequest)
        }
        guard isMatch else {
            let known = candidates.compactMap(\.appAppleId).map(String.init)
            let expected = known.isEmpty ? "none, since none was named" : known.joined(separator: " or ")
            let found = claims.appAppleId.map(String.init) ?? "missing"
            var error = VerificationError(.otherApp, "The app's Apple ID is \(found), accepted is \(expected).")
            error.isOtherAppleId = kind.namesBundle
            throw error
        }
    }
}

extension String {
    /// Whether two strings have the same UTF-8 bytes. Swift's `==` also accepts canonically equivalent strings.
    func isSameText(as other: String?) -> Bool { other.map { utf8.elementsEqual($0.utf8) } ?? false }
}
