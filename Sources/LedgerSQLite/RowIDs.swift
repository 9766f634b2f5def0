// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A cache of the numbers by which tables refer to apps and scopes. None of these is ever deleted.
struct RowIDs: Sendable {
    fileprivate var apps: [String: Int64] = [:]
    fileprivate var scopes: [LedgerScope: Int64] = [:]
    fileprivate var scopeOf: [Int64: LedgerScope] = [:]
}

extension SQLiteLedgerSession {
    func app(_ bundleId: String) throws -> Int64? {
        if let number = cache.rowIDs.apps[bundleId] { return number }
        let number = try first("SELECT id FROM apps WHERE bundleId = ?", [.text(bundleId)]) { try $0.integer() }
        cache.rowIDs.apps[bundleId] = number
        return number
    }

    func scope(_ scope: LedgerScope) throws -> Int64? {
        if let number = cache.rowIDs.scopes[scope] { return number }
        guard let app = try app(scope.bundleId) else { return nil }
        let number = try first(
            "SELECT id FROM scopes WHERE app = ? AND environment = ?",
            [.integer(app), .text(scope.environment.rawValue)]
        ) { try $0.integer() }
        cache.rowIDs.scopes[scope] = number
        return number
    }

    /// The scope that has a number.
    func scope(numbered number: Int64) throws -> LedgerScope {
        if let scope = cache.rowIDs.scopeOf[number] { return scope }
        let found = try first(
            "SELECT bundleId, environment FROM scopes JOIN apps ON apps.id = scopes.app WHERE scopes.id = ?",
            [.integer(number)]
        ) { LedgerScope(bundleId: try $0.text(), environment: try $0.word()) }
        guard let found else { throw SQLiteErrors.damaged("The ledger misses an app's scope") }
        cache.rowIDs.scopeOf[number] = found
        return found
    }

    func addedApp(_ bundleId: String) throws -> Int64 {
        if let number = try app(bundleId) { return number }
        let number = try insert("INSERT INTO apps (bundleId) VALUES (?)", [.text(bundleId)])
        cache.rowIDs.apps[bundleId] = number
        return number
    }

    func addedScope(_ scope: LedgerScope) throws -> Int64 {
        if let number = try self.scope(scope) { return number }
        let number = try insert(
            "INSERT INTO scopes (app, environment) VALUES (?, ?)",
            [.integer(try addedApp(scope.bundleId)), .text(scope.environment.rawValue)])
        cache.rowIDs.scopes[scope] = number
        return number
    }
}
