// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Tries what ``LedgerStorage`` promises, for the tests of whoever implements it:
///
/// ```swift
/// @Test func `my storage keeps the promise`() async throws {
///     try await LedgerStorageContract { try MyStorage(in: emptyFolder()) }.run()
/// }
/// ```
///
/// Durability is not tried: only the implementer knows how to pull the plug.
public struct LedgerStorageContract: Sendable {
    private let make: @Sendable () async throws -> any LedgerStorage

    /// - Parameter make: Makes an empty storage. It is called once for every promise.
    public init(make: @escaping @Sendable () async throws -> any LedgerStorage) {
        self.make = make
    }

    /// Tries one promise after another.
    ///
    /// - Throws: ``LedgerStorageViolation`` for the first that is broken, and what the storage throws.
    public func run() async throws {
        for promise in Self.promises {
            do {
                try await promise.check(ContractTrial(storage: make()))
            } catch let violation as ContractTrial.Broken {
                throw LedgerStorageViolation(promise: promise.text, message: violation.message)
            }
        }
    }
}

/// A promise of ``LedgerStorage`` that a storage does not keep.
public struct LedgerStorageViolation: Error, CustomStringConvertible {
    /// What was promised.
    public let promise: String
    /// What was expected and what was found.
    public let message: String

    /// Both.
    public var description: String { "Broken: \(promise). \(message)" }
}

extension LedgerStorageContract {
    struct Promise: Sendable {
        var text: String
        var check: @Sendable (ContractTrial) async throws -> Void

        init(_ text: String, _ check: @escaping @Sendable (ContractTrial) async throws -> Void) {
            self.text = text
            self.check = check
        }
    }

    static let promises = transactions + documents + facts + reports + customers + links + events
}

/// A storage that a promise is tried on, and what promises have to say.
struct ContractTrial: Sendable {
    let storage: any LedgerStorage

    /// What was found is not what was promised.
    struct Broken: Error {
        var message: String
    }

    /// What a work of the contract throws to be undone.
    struct Undo: Error {}

    func write(_ work: @escaping @Sendable (any LedgerWriter) throws -> Void) async throws {
        try await storage.write(work)
    }

    /// Does work that throws after all of it.
    func undo(_ work: @escaping @Sendable (any LedgerWriter) throws -> Void) async throws {
        do {
            try await storage.write { writer in
                try work(writer)
                throw Undo()
            }
            throw Broken(message: "A write whose work throws does not throw.")
        } catch is Undo {}
    }

    func read<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerReader) throws -> Result
    ) async throws -> Result {
        try await storage.read(work)
    }

    static func expect<Value: Equatable>(_ found: Value, is expected: Value, _ what: String) throws {
        guard found != expected else { return }
        throw Broken(message: "\(what): expected \(expected), found \(found).")
    }

    static func expect(_ condition: Bool, _ what: String) throws {
        guard !condition else { return }
        throw Broken(message: "\(what).")
    }
}

// MARK: - What is stored

extension ContractTrial {
    static let production = LedgerScope(bundleId: "com.example.one", environment: .production)
    static let sandbox = LedgerScope(bundleId: "com.example.one", environment: .sandbox)
    static let otherApp = LedgerScope(bundleId: "com.example.two", environment: .production)

    /// A chain by a small number.
    static func key(_ number: Int, in scope: LedgerScope = production) -> ChainKey {
        ChainKey("\(2_000_000_000 + number)", in: scope)
    }

    static func time(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: 1_700_000_000_000 + milliseconds) }

    /// A name that is greater, the greater the number.
    static func name(_ number: UInt8) -> EvidenceID {
        EvidenceID(octets: [number] + [UInt8](repeating: 0, count: 31)) ?? EvidenceID([number])
    }

    static func evidence(
        _ document: [UInt8], _ kind: Evidence.Kind = .receipt, in scope: LedgerScope = production,
        signed: Timestamp? = nil, notification: Evidence.Notification? = nil, about chains: [Int] = []
    ) -> Evidence {
        Evidence(kind, document, scope, signed, notification: notification) { _ in
            (chains.map { statement("\($0)", of: $0) }, [])
        }
    }

    /// A statement with a value in every place.
    static func statement(
        _ id: String = "1", of chain: Int = 1, signed: Int64 = 0, name: UInt8 = 1,
        source: TransactionStatement.Source = .signedTransaction
    ) -> TransactionStatement {
        var statement = TransactionStatement(
            source: source, provenance: Provenance(signedDate: time(signed), evidence: Self.name(name)),
            transactionId: id, originalTransactionId: key(chain).originalTransactionId, productId: "product \(signed)")
        statement.type = Open(rawValue: "A Type of Tomorrow")
        statement.subscriptionGroup = "group"
        statement.purchaseDate = time(1)
        statement.expiresDate = time(2)
        statement.quantity = 3
        statement.isUpgraded = true
        statement.revocation = .init(
            date: time(3), reason: Open(rawValue: 17), type: Open(rawValue: "A_WORD"), percentage: -1)
        statement.ownership = Open(rawValue: "BORROWED")
        statement.appAccountToken = "token"
        statement.offerType = Open(rawValue: 99)
        statement.webOrderLineItemId = "line"
        statement.transactionReason = Open(rawValue: "WHIM")
        return statement
    }

    /// Renewal info with a value in every place.
    static func renewal(of chain: Int = 1, signed: Int64 = 0, name: UInt8 = 1) -> RenewalFact {
        var renewal = RenewalFact(
            provenance: Provenance(signedDate: time(signed), evidence: Self.name(name)),
            originalTransactionId: key(chain).originalTransactionId)
        renewal.productId = "product \(signed)"
        renewal.autoRenewProductId = "next"
        renewal.willRenew = false
        renewal.expirationIntent = Open(rawValue: 77)
        renewal.isInBillingRetry = true
        renewal.gracePeriodExpiresDate = time(4)
        renewal.priceIncreaseStatus = Open(rawValue: 5)
        renewal.appAccountToken = "token"
        renewal.renewalDate = time(6)
        return renewal
    }

    static func event(_ detail: String, _ customer: Customer? = nil) -> LedgerEvent {
        LedgerEvent(
            .refunded, in: production, at: time(5), customer: customer, originalTransactionId: "1",
            transactionId: "2", productId: "product", detail: detail)
    }
}
