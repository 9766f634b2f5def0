// SPDX-License-Identifier: Apache-2.0

public import PurchaseLedger
import Synchronization

/// A storage with rare behaviour that `LedgerStorage` allows, for tests of code that must cope with it. Every decision
/// (the closure of a commit, which decides what to change) runs twice, and the first result is discarded. Sometimes a
/// separate commit comes between the two runs, so new customers get different numbers.
public final class UnsteadyStorage: ForwardingStorage {
    /// The storage that keeps the records.
    public let inner: any LedgerStorage
    private let other: any LedgerStorage
    private let commits = Mutex(0)

    /// - Parameter other: A second handle on the same ledger, for the commits between the two runs. If `nil`, `inner`
    ///   makes these commits.
    public init(around inner: any LedgerStorage, other: (any LedgerStorage)? = nil) {
        self.inner = inner
        self.other = other ?? inner
    }

    /// Runs each decision twice, and commits the result of the second run.
    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        do {
            let _: Output = try await inner.commit(query) { snapshot in
                guard case .load(let more) = try decide(snapshot) else { throw Discarded() }
                return .load(more)
            }
        } catch is Discarded {}
        try await disturb()
        return try await inner.commit(query, decide)
    }

    private struct Discarded: Error {}

    /// At every third commit, adds a customer to an app that no test uses.
    private func disturb() async throws {
        let count = commits.withLock { count in
            count += 1
            return count
        }
        guard count.isMultiple(of: 3) else { return }
        let id = CustomerID("\(ObjectIdentifier(self)) \(count)", of: "UnsteadyStorage")
        try await other.commit(LedgerQuery([.customerID(id)])) { snapshot in
            var changes = LedgerChanges()
            if let number = snapshot.newNumbers[id] {
                changes.customers = [CustomerRecord(Customer(number: number, bundleId: id.bundleId), ids: [id.id])]
            }
            return .commit(changes, ())
        }
    }
}
