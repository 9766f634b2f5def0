// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Apps and scopes. A scope is an app in one environment (production or sandbox). Other tables refer to apps and scopes
// by number. Apps and scopes are never deleted, so their numbers can be cached.

extension SQLiteLedgerSession {
    func app(_ bundleId: String) throws -> Int64? {
        if let number = cache.apps[bundleId] { return number }
        let number = try first("SELECT id FROM apps WHERE bundleId = ?", [.text(bundleId)]) { try $0.next(Int64.self) }
        cache.apps[bundleId] = number
        return number
    }

    func scope(_ scope: LedgerScope) throws -> Int64? {
        if let number = cache.scopes[scope] { return number }
        guard let app = try app(scope.bundleId) else { return nil }
        let number = try first(
            "SELECT id FROM scopes WHERE app = ? AND environment = ?", [.integer(app), scope.environment.stored]
        ) { try $0.next(Int64.self) }
        cache.scopes[scope] = number
        return number
    }

    /// The number of an app. A new app is added.
    func addedApp(_ bundleId: String) throws -> Int64 {
        if let number = try app(bundleId) { return number }
        let number = try insert("INSERT INTO apps (bundleId) VALUES (?)", [.text(bundleId)])
        try run("INSERT INTO epochs (app, place, id) VALUES (?, 0, \(Schema.newEpoch))", [.integer(number)])
        cache.apps[bundleId] = number
        return number
    }

    /// The number of a scope. A new scope is added.
    func addedScope(_ scope: LedgerScope) throws -> Int64 {
        if let number = try self.scope(scope) { return number }
        let app = try addedApp(scope.bundleId)
        let number = try insert(
            "INSERT INTO scopes (app, environment) VALUES (?, ?)", [.integer(app), scope.environment.stored])
        cache.scopes[scope] = number
        return number
    }
}
