// SPDX-License-Identifier: Apache-2.0

package import AppStoreAPI
package import AppStoreModel
package import AppStoreTrust
public import Logging
public import PurchaseLedger
package import Reconciliation

/// The reconcilers for the apps with In-App Purchase keys: they ask the App Store about the purchases in a ledger.
public struct Reconcilers: Sendable {
    /// The longest time for which a read of a customer, or an answer about a receipt, waits for the App Store. A second
    /// is usually enough for one answer, and a person hardly notices the delay.
    private static let readLimit = Duration.seconds(1)

    /// A reconciler per app and environment.
    package let all: [LedgerScope: Reconciler]
    private let clients: [String: AppStoreClient]

    /// - Parameters:
    ///   - verifier: Accepts the documents of the ledger's environments.
    ///   - keys: The keys by the bundle ids of their apps.
    ///   - apps: The configuration of the apps, by bundle id.
    ///   - share: The share of Apple's rate limits to use, in percent.
    ///   - now: Returns the server's time, which may be a simulator's.
    ///   - wall: Returns the time of the machine. Bearer tokens and rate limits depend on real time, even if `now` is a
    ///     simulator's time.
    ///   - sleep: Waits, and throws if the task is cancelled.
    ///   - random: Adds jitter to the back-off before attempts.
    ///   - judge: Judges the clock; `nil` if the clock counts as correct.
    package init(
        _ ledger: Ledger, _ verifier: AppStoreVerifier, keys: [String: InAppPurchaseKey],
        apps: [String: AppConfiguration], over transport: any AppStoreTransport, share: Int = 100,
        now: @escaping @Sendable () -> Timestamp,
        wall: @escaping @Sendable () -> Timestamp, sleep: @escaping @Sendable (Duration) async throws -> Void,
        random: any RandomNumberGenerator & Sendable, judge: ClockJudge? = nil
    ) {
        var clients: [String: AppStoreClient] = [:]
        var all: [LedgerScope: Reconciler] = [:]
        for (bundleId, key) in keys {
            let client = AppStoreClient(
                bundleId: bundleId, key: key, environments: verifier.environments, share: share,
                transport: transport, now: wall, sleep: sleep, random: random)
            clients[bundleId] = client
            for environment in verifier.environments {
                let scope = LedgerScope(bundleId: bundleId, environment: environment)
                guard environment.hasAppStore else { continue }
                var reconciler = Reconciler(
                    ledger: ledger, verifier: verifier.only(scope), client: client, scope: scope, now: now)
                reconciler.consumptionDefaults = apps[bundleId]?.consumption ?? [:]
                if let judge {
                    reconciler.isTimeConfirmed = { judge.isConfirmed }
                    reconciler.appStoreTime = { judge.appStoreTime }
                }
                all[scope] = reconciler
            }
        }
        self.clients = clients
        self.all = all
    }

    /// Signs requests with new keys from now on. An app that had no key at the start gets no reconciler until a
    /// restart.
    package func replaceKeys(_ keys: [String: InAppPurchaseKey]) {
        for (bundleId, key) in keys { clients[bundleId]?.replaceKey(by: key) }
    }

    /// The kinds of jobs that send requests to the App Store, for the server's list of job kinds.
    ///
    /// - Parameter logger: Logs invalid documents of the App Store that are stored for a later verification, and parts
    ///   of the notification history that were not read.
    public func jobs(clock: any Clock<Duration>, logger: Logger) -> [JobKind] {
        let warnings = JobWarnings(clock: clock, logger: logger)
        return Reconciler.jobs(
            of: all.mapValues { reconciler in
                var reconciler = reconciler
                reconciler.onParked = { warnings.log($0) }
                reconciler.onUnread = { warnings.logUnread($0) }
                return reconciler
            })
    }

    /// Whether an app had a key at the start of the server.
    func knows(_ bundleId: String) -> Bool { clients[bundleId] != nil }

    /// Asks the App Store about a customer's stale subscriptions, in all environments at once. A subscription is stale
    /// if its period is over and the ledger knows neither a renewal nor the end, or if its grace period has no known
    /// end.
    ///
    /// - Parameter holdings: The holdings of the customer, by environment.
    /// - Returns: Whether the customer should be read again, because the ledger may have changed.
    func refresh(_ holdings: [(environment: Environment, holdings: Holdings)], of bundleId: String) async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            for (environment, holdings) in holdings {
                let scope = LedgerScope(bundleId: bundleId, environment: environment)
                let stale = holdings.subscriptions.filter { $0.value.isUncertain }
                guard let reconciler = all[scope], !stale.isEmpty else { continue }
                let keys = stale.keys.map { ChainKey($0, in: scope) }
                group.addTask { await reconciler.refresh(keys, within: Self.readLimit) }
            }
            return await group.reduce(false) { $0 || $1 }
        }
    }

    /// Asks the App Store about the subscriptions in a receipt, except the subscriptions whose renewal info the ledger
    /// already has.
    ///
    /// - Parameter chains: The keys of all purchases in the receipt.
    func ask(about chains: Set<ChainKey>, in scope: LedgerScope) async {
        await all[scope]?.askAboutReceipt(chains, within: Self.readLimit)
    }
}
