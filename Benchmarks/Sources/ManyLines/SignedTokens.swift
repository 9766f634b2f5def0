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
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: Self.now.milliseconds - 86_400_000))
        let signer = try authority.tokenSigner()
        lines = try (1...count).map { try signer.sign(Array(Self.payload($0).utf8)) }
        let root = try authority.roots[0]
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

    private static func payload(_ id: Int) -> String {
        """
        {"transactionId":"\(id)","originalTransactionId":"710001234500000","webOrderLineItemId":"710000567890123",\
        "bundleId":"com.example.notes","productId":"com.example.notes.premium.yearly","subscriptionGroupIdentifier":\
        "20567890","purchaseDate":1749900000000,"originalPurchaseDate":1718364000000,"expiresDate":1781436000000,\
        "quantity":1,"type":"Auto-Renewable Subscription","appAccountToken":"7f3d2c1b-5a49-4e8d-b6c7-1f0e2d3c4b5a",\
        "inAppOwnershipType":"PURCHASED","signedDate":1750000000000,"environment":"Production","transactionReason":\
        "RENEWAL","storefront":"USA","storefrontId":"143441","price":49990,"currency":"USD","offerType":2,\
        "offerIdentifier":"com.example.notes.winter.2025","offerDiscountType":"PAY_AS_YOU_GO","offerPeriod":"P1M",\
        "appTransactionId":"704567890123456789"}
        """
    }
}
