// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import TestWorld

/// A simulated App Store in which one customer has bought a year. The code in the articles verifies what it signs.
struct SimulatedStore: Sendable {
    private static let app = AppIdentity(bundleId: "com.example.notes", appAppleId: 1_234_567_890)

    let now = Timestamp(milliseconds: 1_750_000_000_000)
    /// The customer's transaction.
    let id: String
    private let store: TestStore
    private var world: World

    init() throws {
        store = try TestStore()
        world = World(
            selling: [.subscription("com.example.notes.pro.annual", Period(1, .year))], in: Self.app, at: now)
        id = try world.sell("com.example.notes.pro.annual").transaction?.transactionId ?? ""
    }

    var roots: TrustRoots {
        get throws {
            let authority = store.signer.authority
            let roots = try TrustRoots(reading: authority.roots[0]).union(TrustRoots(reading: authority.roots[1]))
            return roots
        }
    }

    var rootCertificate: [UInt8] { store.signer.authority.roots[0] }

    var verifier: AppStoreVerifier {
        store.verifier(of: .only([Self.app]), in: [.production])
    }

    func transaction() throws -> String {
        guard let transaction = world.transaction(id) else { throw NothingSold() }
        return try store.signer.sign(transaction, at: now)
    }

    /// The notification of what happened last.
    func notification() throws -> String {
        guard let last = world.occurrences.last else { throw NothingSold() }
        return try store.signer.notification(last, from: world.catalogue)
    }

    mutating func refund() throws { try world.refund(id) }

    func receipt() throws -> [UInt8] {
        guard let receipt = world.receipt(of: "customer 0") else { throw NothingSold() }
        return try store.signer.sign(receipt, at: now)
    }

    private struct NothingSold: Error {}
}
