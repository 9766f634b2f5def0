// SPDX-License-Identifier: Apache-2.0

// Stand-ins for what Purchases.swift uses of StoreKit, so that Linux can compile it and try it. Leave this folder out
// of your app, which has StoreKit itself.

#if !canImport(StoreKit)
import Foundation
import Synchronization

/// What the App Store and StoreKit know on a device. Each test has its own.
final class Device: Sendable {
    struct State {
        var result: Product.PurchaseResult?
        var unfinished: [Transaction] = []
        var entitlements: [Transaction] = []
        var accounts: [UUID] = []
        var syncs = 0
    }

    @TaskLocal static var current = Device()
    let state = Mutex(State())
    let updates = AsyncStream<VerificationResult<Transaction>>.makeStream()
}

enum VerificationResult<SignedType: Sendable>: Sendable {
    case unverified(SignedType)
    case verified(SignedType)

    var unsafePayloadValue: SignedType {
        switch self {
        case .unverified(let value), .verified(let value): value
        }
    }
}

extension VerificationResult where SignedType == Transaction {
    var jwsRepresentation: String { "jws of \(unsafePayloadValue.id)" }
}

struct Transaction: Hashable, Sendable {
    var id: UInt64
    var productID: String

    typealias Results = AsyncStream<VerificationResult<Transaction>>

    static var updates: Results { Device.current.updates.stream }
    static var unfinished: Results { results(of: Device.current.state.withLock { $0.unfinished }) }
    static var currentEntitlements: Results { results(of: Device.current.state.withLock { $0.entitlements }) }

    private static func results(of transactions: [Transaction]) -> Results {
        Results { continuation in
            for transaction in transactions { continuation.yield(.verified(transaction)) }
            continuation.finish()
        }
    }

    func finish() async { Device.current.state.withLock { $0.unfinished.removeAll { $0 == self } } }
}

struct Product: Sendable {
    enum PurchaseOption: Hashable, Sendable { case appAccountToken(UUID) }
    enum PurchaseResult: Sendable { case success(VerificationResult<Transaction>), userCancelled, pending }

    func purchase(options: Set<PurchaseOption>) async throws -> PurchaseResult {
        Device.current.state.withLock { state in
            for case .appAccountToken(let account) in options { state.accounts.append(account) }
            return state.result ?? .userCancelled
        }
    }
}

enum AppStore {
    static func sync() async throws { Device.current.state.withLock { $0.syncs += 1 } }
}
#endif
