// SPDX-License-Identifier: Apache-2.0

public import PurchaseLedger

/// Tests of the requirements of `LedgerStorage`, for the test suite of an implementation:
///
/// ```swift
/// @Test func `my storage meets the contract`() async throws {
///     try await LedgerStorageContract {
///         let file = try emptyFile()
///         return (try MyStorage(file), try MyStorage(file))
///     }.run()
/// }
/// ```
///
/// Durability is not tested, because a test would have to cut the power.
public struct LedgerStorageContract: Sendable {
    /// Two handles on the same ledger. Each handle is a storage opened separately, as by two processes. If a storage
    /// allows only one handle, both are the same.
    public typealias Handles = (first: any LedgerStorage, second: any LedgerStorage)

    private let make: @Sendable () async throws -> Handles

    /// - Parameter make: Creates two handles on a new, empty ledger. The contract calls the closure once per
    ///   requirement.
    public init(make: @escaping @Sendable () async throws -> Handles) {
        self.make = make
    }

    /// Tests the requirements in order.
    ///
    /// - Throws: ``LedgerStorageViolation`` for the first unmet requirement, and errors of the storage.
    public func run() async throws {
        for requirement in Self.requirements {
            let handles = try await make()
            do {
                try await requirement.check(Trial(first: handles.first, second: handles.second))
            } catch let failure as Trial.Failure {
                throw LedgerStorageViolation(requirement: requirement.text, message: failure.message)
            }
        }
    }

    static let requirements =
        commits + concurrency + records + customers + documents + wordings + scans + owned + events + others
}

/// The error for an unmet requirement.
public struct LedgerStorageViolation: Error, CustomStringConvertible {
    /// The text of the requirement.
    public let requirement: String
    /// The expected and the found value.
    public let message: String

    /// The requirement and the message.
    public var description: String { "Not met: \(requirement). \(message)" }
}

/// A requirement of `LedgerStorage`, with its test.
struct Requirement: Sendable {
    var text: String
    var check: @Sendable (Trial) async throws -> Void

    init(_ text: String, _ check: @escaping @Sendable (Trial) async throws -> Void) {
        self.text = text
        self.check = check
    }
}

/// A ledger for the test of a requirement.
struct Trial: Sendable {
    let first: any LedgerStorage
    let second: any LedgerStorage

    /// The storage does not meet the requirement.
    struct Failure: Error {
        var message: String
    }

    var handles: [any LedgerStorage] { [first, second] }

    func expect<Value: Equatable>(_ found: Value, is expected: Value, _ what: String) throws {
        guard found != expected else { return }
        // Some values are a megabyte long, so the message quotes only their beginning.
        throw Failure(message: "\(what): expected \("\(expected)".prefix(1000)), found \("\(found)".prefix(1000)).")
    }

    func expect(_ condition: Bool, _ what: String) throws {
        guard condition else { throw Failure(message: "\(what).") }
    }

    func load(
        _ keys: some Sequence<LedgerKey>, owners: Bool = false, from handle: (any LedgerStorage)? = nil
    ) async throws -> LedgerSnapshot {
        try await (handle ?? second).load(LedgerQuery(keys, owners: owners))
    }

    func record(_ key: ChainKey) async throws -> ChainRecord? { try await load([.chain(key)]).chains[key] }

    /// Loads the records to be replaced, then commits the changes. The changes do not depend on the loaded records.
    ///
    /// - Parameter erased: Customers to erase.
    func commit(
        _ handle: (any LedgerStorage)? = nil, erasing erased: [CustomerRecord] = [],
        _ fill: (inout LedgerChanges) -> Void
    ) async throws {
        var changes = LedgerChanges()
        fill(&changes)
        changes.erasedCustomers = Set(erased.map(\.customer))
        let ids = erased.flatMap { record in record.ids.map { CustomerID($0, of: record.customer.bundleId) } }
        let query = LedgerQuery(changes.keys.union(ids.map(LedgerKey.customerID)))
        let decided = changes
        try await (handle ?? first).commit(query) { _ in .commit(decided, ()) }
    }

    /// Adds a customer.
    func customer(
        _ ids: String..., of bundleId: String = Sample.production.bundleId, through handle: (any LedgerStorage)? = nil
    ) async throws -> CustomerRecord {
        let names = ids.map { CustomerID($0, of: bundleId) }
        return try await (handle ?? first).commit(LedgerQuery(names.map(LedgerKey.customerID))) { snapshot in
            guard let number = names.first.flatMap({ snapshot.newNumbers[$0] }) else {
                throw Failure(message: "There is no number for the new id \(ids).")
            }
            var changes = LedgerChanges()
            let record = CustomerRecord(Customer(number: number, bundleId: bundleId), ids: ids)
            changes.customers = [record]
            return .commit(changes, record)
        }
    }
}
