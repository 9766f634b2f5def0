// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation

/// Transactions of a simulated App Store, in memory and in a file with one per line. Number n has the transaction id n.
struct SignedTokens: Sendable {
    static let now = Timestamp(milliseconds: 1_750_000_000_000)

    let lines: [String]
    /// A folder with `lines`, and the authority's root as `root`.
    let folder: URL
    private let verifier: AppStoreVerifier

    init(_ count: Int) throws {
        let signer = WorldSigner(try StoreAuthority.fixture())
        let renewal = try Self.renewal()
        lines = try (1...count).map { number in
            var transaction = renewal
            transaction.transactionId = "\(number)"
            return try signer.sign(transaction, at: Self.now)
        }
        let root = signer.authority.roots[0]
        verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example.notes")]), environments: [.production],
            roots: try TrustRoots(reading: root))
        folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data(lines.joined(separator: "\n").utf8).write(to: folder.appendingPathComponent("lines"))
        try Data(root).write(to: folder.appendingPathComponent("root"))
    }

    var bytes: Int { lines.reduce(0) { $0 + $1.utf8.count + 1 } }

    func remove() { try? FileManager.default.removeItem(at: folder) }

    /// Verifies all tokens on all cores.
    ///
    /// - Returns: The seconds that it took.
    func verify() async throws -> Double {
        let cores = ProcessInfo.processInfo.activeProcessorCount
        return try await ContinuousClock().measure {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for core in 0..<cores { group.addTask { try await verify(from: core, step: cores) } }
                try await group.waitForAll()
            }
        } / .seconds(1)
    }

    private func verify(from first: Int, step: Int) async throws {
        for index in stride(from: first, to: lines.count, by: step) {
            _ = try await verifier.verify(lines[index].utf8, as: JWSTransactionDecodedPayload.self, at: Self.now)
        }
    }

    /// The renewal of a subscription with an offer.
    private static func renewal() throws -> JWSTransactionDecodedPayload {
        var world = World(
            seed: 1, catalogue: .example(bundleId: "com.example.notes", appAppleId: 1_234_567_890),
            now: Timestamp(milliseconds: now.milliseconds - 40 * 86_400_000))
        try world.addCustomer("anna")
        let id = try world.buy("com.example.notes.pro.monthly", by: "anna", PurchaseOptions(offer: "three-months"))
        world.advance(to: now)
        guard let chain = world.subscriptions[id ?? ""] else { throw NothingSold() }
        return chain.current
    }

    private struct NothingSold: Error {}
}
