// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The holdings of a customer, divided into the environments that count (the answer has their purchases) and the other
/// environments.
struct CountedHoldings {
    /// The environments that count, in order of precedence: production first.
    let counted: [(environment: Environment, holdings: Holdings)]
    /// The environments that were loaded but do not count, in order of their names.
    let others: [(environment: Environment, holdings: Holdings)]

    /// - Parameter ids: All ids of the customer; empty if the ledger does not know the customer.
    init(_ holdings: [Environment: Holdings], _ rule: EnvironmentRule, ids: [String]) {
        let environments = rule.counted(for: ids)
        counted = environments.map { ($0, holdings[$0] ?? Holdings()) }
        others = holdings.filter { !environments.contains($0.key) }.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { ($0.key, $0.value) }
    }

    /// An entitlement per name, in order of the names. If several environments have an active entitlement of the same
    /// name, the entitlement of the first environment is included.
    var entitlements: [(entitlement: Entitlement, environment: Environment)] {
        var first: [String: (Entitlement, Environment)] = [:]
        for (environment, holdings) in counted {
            for entitlement in holdings.entitlements where first[entitlement.name] == nil {
                first[entitlement.name] = (entitlement, environment)
            }
        }
        return first.sorted { $0.key < $1.key }.map(\.value)
    }

    /// The time at which the answer may change if no further fact arrives; `nil` for never.
    var nextChange: Timestamp? { counted.compactMap(\.holdings.nextChange).min() }

    /// The products that are missing from the catalogue, in order of their ids.
    var unknownProducts: [String] {
        counted.reduce(into: Set()) { $0.formUnion($1.holdings.unknownProducts) }.sorted()
    }

    /// A notice per recently bought product that is missing from the catalogue, each with a count of 1.
    func notices(of bundleId: String) -> [Notice: Int] {
        counted.reduce(into: [:]) { notices, counted in
            let scope = LedgerScope(bundleId: bundleId, environment: counted.environment)
            for product in counted.holdings.recentUnknownProducts {
                notices[Notice(.unknownProduct, product, in: scope)] = 1
            }
        }
    }

    /// The environments that do not count but in which the customer has an active entitlement.
    ///
    /// - Parameter name: The entitlement; `nil` for any.
    /// - Returns: `nil` if there is no such environment.
    func activeElsewhere(_ name: String? = nil) -> [String]? {
        let active = others.filter { other in
            other.holdings.entitlements.contains { name == nil || $0.name == name }
        }
        return active.isEmpty ? nil : active.map(\.environment.rawValue)
    }
}
