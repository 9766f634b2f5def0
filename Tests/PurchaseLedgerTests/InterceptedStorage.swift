// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import PurchaseLedgerTesting

/// A storage with which a test interferes at every commit, and after every load.
struct InterceptedStorage: ForwardingStorage {
    var inner: any LedgerStorage = MemoryLedgerStorage()
    /// Called before a commit.
    var before: @Sendable () async throws -> Void = {}
    /// Called after a decision, before its changes are committed.
    var onDecision: @Sendable () throws -> Void = {}
    /// Called after a commit.
    var after: @Sendable () throws -> Void = {}
    /// Called after a load.
    var afterLoad: @Sendable (LedgerQuery) async throws -> Void = { _ in }

    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        let snapshot = try await inner.load(query)
        try await afterLoad(query)
        return snapshot
    }

    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try await before()
        let output = try await inner.commit(query) { snapshot in
            let decision = try decide(snapshot)
            if case .commit = decision { try onDecision() }
            return decision
        }
        try after()
        return output
    }
}
