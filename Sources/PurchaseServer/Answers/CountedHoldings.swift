// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// What a customer has in the environments that count, and where else it has something.
struct CountedHoldings {
    /// In the order in which they count: production first.
    let counted: [(environment: Environment, holdings: Holdings)]
    /// In the other environments that were loaded, by name.
    let others: [(environment: Environment, holdings: Holdings)]

    /// - Parameter ids: All ids of the customer; empty for a customer that the ledger does not know.
    init(_ holdings: [Environment: Holdings], _ rule: EnvironmentRule, ids: [String]) {
        let environments = rule.counted(for: ids)
        counted = environments.map { ($0, holdings[$0] ?? Holdings()) }
        others = holdings.filter { !environments.contains($0.key) }.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { ($0.key, $0.value) }
    }

    /// Of each name the entitlement of the first environment that has it, ordered by name.
    var entitlements: [(entitlement: Entitlement, environment: Environment)] {
        var first: [String: (Entitlement, Environment)] = [:]
        for (environment, holdings) in counted {
            for entitlement in holdings.entitlements where first[entitlement.name] == nil {
                first[entitlement.name] = (entitlement, environment)
            }
        }
        return first.sorted { $0.key < $1.key }.map(\.value)
    }

    /// When the answer changes if no further fact arrives; `nil` for never.
    var nextChange: Timestamp? { counted.compactMap(\.holdings.nextChange).min() }

    /// The products that the catalogue lacks, ordered by id.
    var unknownProducts: [String] {
        counted.reduce(into: Set()) { $0.formUnion($1.holdings.unknownProducts) }.sorted()
    }

    /// Notices of the recent purchases among them, each once.
    func notices(of bundleId: String) -> [Notice: Int] {
        counted.reduce(into: [:]) { notices, counted in
            let scope = LedgerScope(bundleId: bundleId, environment: counted.environment)
            for product in counted.holdings.recentUnknownProducts {
                notices[Notice(.unknownProduct, product, in: scope)] = 1
            }
        }
    }

    /// The environments that do not count, and in which an entitlement is active.
    ///
    /// - Parameter name: The entitlement; `nil` for any.
    /// - Returns: `nil` if there are none.
    func activeElsewhere(_ name: String? = nil) -> [String]? {
        let active = others.filter { other in
            other.holdings.entitlements.contains { name == nil || $0.name == name }
        }
        return active.isEmpty ? nil : active.map(\.environment.rawValue)
    }
}
