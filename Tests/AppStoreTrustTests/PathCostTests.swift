// SPDX-License-Identifier: Apache-2.0

import AppStoreTrust
import Foundation
import HostileVectors
import Synchronization
import Testing

/// Tests how often the verifier searches for a path, of which each costs three signature checks at most.
@Suite struct PathCostTests {
    /// How many paths are searched for to verify a vector, whatever the outcome.
    private static func paths(_ id: String, in file: String) async throws -> Int {
        let file = try VectorTests.committed(file)
        let vector = try #require(file.vectors.first { $0.id == id })
        var verifier = try #require(file.trust[vector.trust]).verifier
        let count = Count()
        verifier.onPath = { count.add() }
        #expect(try await vector.outcome(verifier) == vector.expected)
        return count.value
    }

    private final class Count: Sendable {
        private let number = Mutex(0)
        var value: Int { number.withLock { $0 } }
        func add() { number.withLock { $0 += 1 } }
    }

    @Test(arguments: [
        ("genuine", 1), ("three-intermediates-in-front", 4), ("four-intermediates-in-front", 4),
        ("five-leaves-five-intermediates", 4),
        // Refused by keys, names or key identifiers alone.
        ("leaf-key-8192", 0), ("leaf-exponent-3", 0), ("leaf-exponent-large", 0), ("intermediate-key-8192", 0),
        ("leaf-names-other-key", 0), ("large-keys-in-front", 1), ("other-intermediate-in-front", 1),
    ])
    func `a receipt leads to four searches at most`(id: String, expected: Int) async throws {
        #expect(try await Self.paths("receipt::\(id)", in: "receipts") == expected)
    }

    @Test(arguments: [("genuine", 1), ("intermediate-key-8192", 0)])
    func `a token leads to one search at most`(id: String, expected: Int) async throws {
        #expect(try await Self.paths("token::\(id)", in: "tokens") == expected)
    }
}
