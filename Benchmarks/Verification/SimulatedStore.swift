// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust

/// A simulated App Store, which has refunded the second payment of a subscription with an offer. It signs with a chain
/// shaped like Apple's: P-384, P-384, P-256.
struct SimulatedStore {
    private let signer: WorldSigner
    private let catalogue: StoreCatalogue
    private let refund: Occurrence
    let verifier: AppStoreVerifier

    init() throws {
        signer = WorldSigner(try StoreAuthority.fixture())
        let roots = try signer.authority.roots.map { try TrustRoots(reading: $0) }
        verifier = AppStoreVerifier(apps: .any, environments: [.production], roots: roots[0].union(roots[1]))
        catalogue = .example(bundleId: "com.example.notes", appAppleId: 1_234_567_890)
        var world = World(
            seed: 1, catalogue: catalogue, now: Timestamp(milliseconds: now.milliseconds - 40 * 86_400_000))
        try world.addCustomer("anna")
        let id =
            try world.buy("com.example.notes.pro.monthly", by: "anna", PurchaseOptions(offer: "three-months")) ?? ""
        world.advance(to: Timestamp(milliseconds: now.milliseconds - 1000))
        try world.refund(world.subscriptions[id]?.current.transactionId ?? "")
        refund = world.occurrences[world.occurrences.count - 1]
    }

    func transaction() throws -> [UInt8] { try signed { try $0.transaction.map { try signer.sign($0, at: now) } } }

    func renewalInfo() throws -> [UInt8] { try signed { try $0.renewal.map { try signer.sign($0, at: now) } } }

    func notification() throws -> [UInt8] { try signed { try signer.notification($0, from: catalogue) } }

    private func signed(_ sign: (Occurrence) throws -> String?) throws -> [UInt8] {
        guard let token = try sign(refund) else { throw NotSigned() }
        return Array(token.utf8)
    }

    private struct NotSigned: Error {}
}
