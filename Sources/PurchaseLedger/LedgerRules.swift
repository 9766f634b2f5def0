// SPDX-License-Identifier: Apache-2.0

/// The operator's configuration of a ledger.
public struct LedgerRules: Hashable, Sendable {
    /// The catalogue of each app, by bundle id. An app without an entry has an empty catalogue.
    public var catalogues: [String: Catalogue]

    /// The policy for a customer who presents another customer's purchase.
    public var claimPolicy: ClaimPolicy

    /// Whether documents stay when a customer is deleted, for example because the law requires records to be kept.
    public var keepsEvidence: Bool

    /// The bundle ids of the apps about which a worker asks the App Store. A decision stores a ``Job`` only for these
    /// apps, because jobs without a worker would pile up.
    public var asksAppStore: Set<String>

    public init(
        catalogues: [String: Catalogue] = [:], claimPolicy: ClaimPolicy = .accountTokenWins,
        keepsEvidence: Bool = false, asksAppStore: Set<String> = []
    ) {
        self.catalogues = catalogues
        self.claimPolicy = claimPolicy
        self.keepsEvidence = keepsEvidence
        self.asksAppStore = asksAppStore
    }

    /// The catalogue of an app.
    public func catalogue(of bundleId: String) -> Catalogue { catalogues[bundleId] ?? .empty }

    /// The catalogue of an app.
    package func catalogue(_ scope: LedgerScope) -> Catalogue { catalogue(of: scope.bundleId) }
}
