// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import ReceiptCoding
import TestData
import Testing

/// Changes every byte of genuine documents: the result is refused, or the byte had no meaning.
@Suite(.enabled(if: TestData.isThere, "\(TestData.whyNot)")) struct EveryByteTests {
    private static let now = Timestamp(milliseconds: 1_795_000_000_000)
    private static let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox, .production])

    @Test(.takesLong) func `any changed byte of a receipt is refused or changes nothing`() async throws {
        let receipt = try TestData.receipt("receipts/sandbox-2025-sha256-2-purchases.b64")
        let genuine = try await Self.verifier.verify(receipt: receipt, at: Self.now)
        let container = try SignedReceipt(decoding: receipt)
        // No change of the payload, the signature or the signer's certificates may pass.
        var covered = IndexSet()
        for part in [container.payload, container.signer.signature] + container.certificates.prefix(2) {
            covered.insert(integersIn: part.startIndex..<part.endIndex)
        }
        #expect(covered.count > 4000)
        let accepted = try await Self.survivors(of: receipt) { changed in
            let verified = try? await Self.verifier.verify(receipt: changed, at: Self.now)
            guard let verified else { return false }
            #expect(verified.payload == genuine.payload)
            return true
        }
        #expect(accepted.intersection(covered).isEmpty)
    }

    @Test func `any changed byte of a token is refused`() async throws {
        let token = try TestData.bytes("jws/apple-sandbox-test-notification-2022.jws")
        _ = try await Self.verifier.verify(jws: token, at: Self.now)
        let isAccepted: @Sendable ([UInt8]) async -> Bool = { changed in
            (try? await Self.verifier.verify(jws: changed, at: Self.now)) != nil
        }
        #expect(try await Self.survivors(of: token, isAccepted).isEmpty)
        // The last letter of each part has unused bits, so every other value of it is tried.
        let ends = token.indices.filter { $0 + 1 == token.count || token[$0 + 1] == UInt8(ascii: ".") }
        #expect(ends.count == 3)
        for (position, value) in ends.flatMap({ end in (UInt8.min...UInt8.max).map { (end, $0) } })
        where value != token[position] {
            var changed = token
            changed[position] = value
            #expect(await !isAccepted(changed), "\(value) at \(position)")
        }
    }

    @Test(arguments: ["receipts/sandbox-2025-sha256-2-purchases.b64", "receipts/xcode-ber.b64"])
    func `a receipt that is cut off anywhere is refused`(file: String) throws {
        let receipt = try TestData.receipt(file)
        for length in 0..<receipt.count {
            guard let container = try? SignedReceipt(decoding: receipt.prefix(length)) else { continue }
            Issue.record("\(length) of \(receipt.count) bytes were enough: \(container.signer.signature.count)")
            return
        }
    }

    /// The bits of a byte to change: the lowest bit alone or, at the next position, all bits. A soak test changes every
    /// combination.
    private static func masks(at position: Int) -> [UInt8] {
        Seeds.isSoak ? Array(0x01...0xff) : [position.isMultiple(of: 2) ? 0x01 : 0xff]
    }

    /// The positions at which some change of the byte was accepted.
    private static func survivors(
        of document: [UInt8], _ isAccepted: @escaping @Sendable ([UInt8]) async -> Bool
    ) async throws -> IndexSet {
        let workers = 2
        return await withTaskGroup(of: IndexSet.self) { group in
            for worker in 0..<workers {
                group.addTask {
                    var accepted = IndexSet()
                    for position in stride(from: worker, to: document.count, by: workers) {
                        await Task.yield()  // Lets other tests run.
                        for mask in masks(at: position) {
                            var changed = document
                            changed[position] ^= mask
                            if await isAccepted(changed) { accepted.insert(position) }
                        }
                    }
                    return accepted
                }
            }
            return await group.reduce(into: IndexSet()) { $0.formUnion($1) }
        }
    }
}
