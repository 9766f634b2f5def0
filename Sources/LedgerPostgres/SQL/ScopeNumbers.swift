// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The numbers that stand for apps and scopes in rows. A scope is an app in one environment, such as the sandbox.
struct ScopeNumbers: Sendable {
    private(set) var apps: [String: Int64] = [:]
    private(set) var scopes: [LedgerScope: Int64] = [:]

    /// The number of an app; 0 if unknown. No row has the number 0.
    func app(_ bundleId: String) -> Int64 { apps[bundleId] ?? 0 }

    /// The number of a scope; 0 if unknown.
    func scope(_ scope: LedgerScope) -> Int64 { scopes[scope] ?? 0 }

    /// The values of the columns `home` and `scope` in the row of a chain: its name, and the number of its scope.
    func key(_ chain: ChainKey) -> [PostgresValue] { [.text(chain.name), .integer(scope(chain.scope))] }

    /// The apps with an unknown number, and the apps of scopes with an unknown number.
    func unknown(apps wanted: Set<String>, scopes wantedScopes: Set<LedgerScope>) -> Set<String> {
        let apps = wanted.filter { self.apps[$0] == nil }
        return apps.union(wantedScopes.filter { scopes[$0] == nil }.map(\.bundleId))
    }

    /// A query for the numbers of apps and their scopes, a single one for all of them: an idle server asks each second
    /// for those that the ledger does not contain yet. ``learn(_:)`` reads the result.
    static func find(_ apps: Set<String>) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT apps.id, bundle_id, scopes.id, environment
            FROM quittance.apps LEFT JOIN quittance.scopes ON app = apps.id
            WHERE bundle_id
            """, apps.sorted(), [])
    }

    /// Adds an app.
    static func add(app bundleId: String) -> PostgresStatement {
        PostgresStatement(
            "INSERT INTO quittance.apps (bundle_id) VALUES ($1) ON CONFLICT DO NOTHING", [.text(bundleId)])
    }

    /// Adds a scope of an existing app.
    static func add(_ scope: LedgerScope) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO quittance.scopes (app, environment) SELECT id, $2::text FROM quittance.apps WHERE bundle_id = $1
            ON CONFLICT DO NOTHING
            """, [.text(scope.bundleId), scope.environment.parameter])
    }

    /// Adds the numbers in the rows of ``find(_:)``. Environments unknown to this version of the software are skipped.
    mutating func learn(_ rows: PostgresRows) throws {
        _ = try rows.map { row in
            let app = try row.next(Int64.self)
            let bundleId = try row.next(String.self)
            let scope = try row.next(Int64?.self)
            let environment = try row.next(String?.self)
            apps[bundleId] = app
            guard let scope, let environment = environment.flatMap(Environment.init) else { return }
            scopes[LedgerScope(bundleId: bundleId, environment: environment)] = scope
        }
    }
}
