// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// What a server needs to keep a ledger: the ledger, whom it believes, and what the configuration says about its apps.
public struct LedgerService: Sendable {
    /// It tells the readiness of each commit, so no other takes its place.
    public let ledger: Ledger
    /// For the apps and environments that this server is about.
    public var verifier: AppStoreVerifier
    /// What requests to verifyReceipt about auto-renewable subscriptions must send as `password`, by bundle id. An app
    /// without one does not ask for it.
    public var sharedSecrets: [String: String] = [:]
    /// The purchases, by bundle id and original transaction id, whose receipts verifyReceipt answers with 21010.
    public var refusedPurchases: [String: Set<String>] = [:]
    /// What client keys need besides themselves, by bundle id. The client keys of an app without one need nothing more.
    public var customerProofs: [String: CustomerProof] = [:]
    /// How long events are kept; `nil` for good.
    public var eventRetention: Duration?

    let readiness: Readiness
    let lastNotification = LastNotification()
    let keys = APIKeyCache()

    public init(ledger: Ledger, verifier: AppStoreVerifier, sharedSecrets: [String: String] = [:]) {
        let readiness = Readiness(ledger)
        self.readiness = readiness
        var ledger = ledger
        ledger.onCommit = { readiness.committed($0) }
        self.ledger = ledger
        self.verifier = verifier
        self.sharedSecrets = sharedSecrets
    }

    /// The service that a configuration describes, about the apps in it.
    ///
    /// - Parameter verifier: With the roots and the revocation policy; apps and environments are those of the configuration.
    public init(
        _ configuration: ServerConfiguration, storage: any LedgerStorage, verifier: AppStoreVerifier
    ) {
        var (verifier, apps) = (verifier, [String: AppConfiguration]())
        for app in configuration.apps { apps[app.identity.bundleId] = app }
        verifier.apps = .only(configuration.apps.map(\.identity))
        verifier.environments = configuration.environments
        let rules = LedgerRules(
            catalogues: apps.mapValues(\.catalogue), claimPolicy: configuration.claimPolicy,
            keepsEvidence: configuration.keepEvidence)
        self.init(
            ledger: Ledger(storage: storage, rules: rules), verifier: verifier,
            sharedSecrets: apps.compactMapValues(\.sharedSecret))
        refusedPurchases = apps.mapValues(\.refusedPurchases)
        customerProofs = apps.compactMapValues(\.customerProof)
        eventRetention = configuration.eventRetentionDays.map { .seconds($0 * 86_400) }
    }
}

extension AppStoreVerifier {
    /// For one app and environment alone. Otherwise a sandbox document would move to a customer whose answer, about production,
    /// does not show it.
    func only(_ scope: LedgerScope) -> AppStoreVerifier {
        var verifier = self
        verifier.apps = apps.only(scope.bundleId)
        verifier.environments.formIntersection([scope.environment])
        return verifier
    }
}

extension AcceptedApps {
    /// Of these only the app with this bundle id.
    fileprivate func only(_ bundleId: String) -> AcceptedApps {
        switch self {
        case .any: .only([AppIdentity(bundleId: bundleId)])
        case .only(let apps): .only(apps.filter { $0.bundleId == bundleId })
        }
    }
}
