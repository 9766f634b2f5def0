// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The numbers by which tables refer to apps, scopes and chains, as far as a transaction has met them.
struct KnownNumbers: Sendable {
    fileprivate var apps: [String: Int64] = [:]
    fileprivate var scopes: [LedgerScope: Int64] = [:]
    /// `nil` for one that is not there.
    fileprivate var chains: [ChainKey: Int64?] = [:]
    /// What there is about chains that this transaction added.
    fileprivate var contents: [Int64: ChainContents] = [:]
    fileprivate var scopeOf: [Int64: LedgerScope] = [:]

    /// What of this holds in later transactions too: all, as none of these is ever deleted. But chains are too many to keep.
    var lasting: KnownNumbers {
        var lasting = self
        lasting.chains = [:]
        lasting.contents = [:]
        return lasting
    }

    mutating func add(_ key: ChainKey, _ number: Int64) { chains[key] = number }

    /// Whether there may be such rows about a chain: there are none about one that is new, until they are written.
    func mayHave(_ contents: ChainContents, _ chain: Int64) -> Bool {
        self.contents[chain]?.contains(contents) ?? true
    }

    mutating func have(_ contents: ChainContents, _ chain: Int64) {
        self.contents[chain]?.insert(contents)
    }
}

/// Kinds of rows about a chain.
struct ChainContents: OptionSet {
    let rawValue: Int

    static let facts = ChainContents(rawValue: 1)
    static let report = ChainContents(rawValue: 2)
    static let links = ChainContents(rawValue: 4)
    static let forgetting = ChainContents(rawValue: 8)
}

// MARK: - Finding

extension LedgerTables {
    func app(_ bundleId: String) throws -> Int64? {
        if let number = known.apps[bundleId] { return number }
        let number = try first("SELECT id FROM apps WHERE bundleId = ?", [.text(bundleId)]) { try $0.integer() }
        known.apps[bundleId] = number
        return number
    }

    func scope(_ scope: LedgerScope) throws -> Int64? {
        if let number = known.scopes[scope] { return number }
        guard let app = try app(scope.bundleId) else { return nil }
        let number = try first(
            "SELECT id FROM scopes WHERE app = ? AND environment = ?",
            [.integer(app), .text(scope.environment.rawValue)]
        ) { try $0.integer() }
        known.scopes[scope] = number
        return number
    }

    /// The scope that has a number.
    func scope(numbered number: Int64) throws -> LedgerScope {
        if let scope = known.scopeOf[number] { return scope }
        let found = try first(
            "SELECT bundleId, environment FROM scopes JOIN apps ON apps.id = scopes.app WHERE scopes.id = ?",
            [.integer(number)]
        ) { LedgerScope(bundleId: try $0.text(), environment: try $0.word()) }
        guard let found else { throw SQLiteErrors.damaged("The ledger misses an app's scope") }
        known.scopeOf[number] = found
        return found
    }

    func chain(_ key: ChainKey) throws -> Int64? {
        if let found = known.chains[key] { return found }
        guard let scope = try scope(key.scope) else { return nil }
        let number = try first(
            "SELECT id FROM chains WHERE originalTransactionId = ? AND scope = ?",
            [.text(key.originalTransactionId), .integer(scope)]
        ) { try $0.integer() }
        known.chains[key] = .some(number)
        return number
    }

    /// The number of a chain, where there may be such rows about it.
    func chain(_ key: ChainKey, with contents: ChainContents) throws -> Int64? {
        try chain(key).flatMap { known.mayHave(contents, $0) ? $0 : nil }
    }
}

// MARK: - Adding what is new

extension LedgerTables {
    func addedApp(_ bundleId: String) throws -> Int64 {
        if let number = try app(bundleId) { return number }
        let number = try insert("INSERT INTO apps (bundleId) VALUES (?)", [.text(bundleId)])
        known.apps[bundleId] = number
        return number
    }

    func addedScope(_ scope: LedgerScope) throws -> Int64 {
        if let number = try self.scope(scope) { return number }
        let number = try insert(
            "INSERT INTO scopes (app, environment) VALUES (?, ?)",
            [.integer(try addedApp(scope.bundleId)), .text(scope.environment.rawValue)])
        known.scopes[scope] = number
        return number
    }

    func addedChain(_ key: ChainKey) throws -> Int64 {
        if let number = try chain(key) { return number }
        let number = try insert(
            "INSERT INTO chains (scope, originalTransactionId) VALUES (?, ?)",
            [.integer(try addedScope(key.scope)), .text(key.originalTransactionId)])
        known.chains[key] = number
        known.contents[number] = []
        return number
    }

    /// The number of a chain that gets such a row now.
    func addedChain(_ key: ChainKey, with contents: ChainContents) throws -> Int64 {
        let number = try addedChain(key)
        known.have(contents, number)
        return number
    }
}
