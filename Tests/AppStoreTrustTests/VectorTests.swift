// SPDX-License-Identifier: Apache-2.0

import AppStoreTrust
import Foundation
import HostileVectors
import TestData
import TestWorld
import Testing

/// Runs the vectors in `Tests/Vectors`, as other projects can.
@Suite struct VectorTests {
    static let files = ["tokens", "notifications", "receipts", "transaction-receipts"]

    static func committed(_ name: String) throws -> VectorFile {
        let data = try Data(contentsOf: Project.root.appendingPathComponent("Tests/Vectors/\(name).json"))
        return try JSONDecoder().decode(VectorFile.self, from: data)
    }

    /// The vectors with another result than expected, including unexpected success.
    private static func surprises(_ file: VectorFile) async throws -> [String] {
        let verifiers = try file.trust.mapValues { try $0.verifier }
        var surprises: [String] = []
        for vector in file.vectors {
            guard let verifier = verifiers[vector.trust] else { return ["no trust called \(vector.trust)"] }
            // The second attempt finds the signer in the cache.
            for attempt in 1...2 {
                let outcome = try await vector.outcome(verifier)
                guard outcome != vector.expected else { continue }
                surprises.append("\(vector.id): expected \(vector.expected), found \(outcome) (attempt \(attempt))")
            }
        }
        return surprises
    }

    @Test(arguments: files) func `every vector has the expected result`(file: String) async throws {
        let surprises = try await Self.surprises(Self.committed(file))
        #expect(surprises == [])
    }

    @Test(.takesLong)
    func `the committed vectors are up to date, and newly made ones have the same results`() async throws {
        let made = try HostileVectors.make()
        #expect(Set(made.keys) == Set(Self.files))
        for (name, file) in made {
            let committed = try Self.committed(name)
            #expect(
                file.vectors.map(\.claim) == committed.vectors.map(\.claim),
                "run `make vectors` and review the difference")
            let surprises = try await Self.surprises(file)
            #expect(surprises == [])
        }
    }

    @Test func `the page about verification has the true numbers of vectors`() throws {
        let vectors = try Self.files.flatMap { try Self.committed($0).vectors }
        let valid = vectors.count { $0.expected == "verified" }
        let text = try Project.text("docs/verify.md")
        #expect(text.contains("[\(vectors.count) test documents]"))
        #expect(text.contains("\(valid) must verify. \(vectors.count - valid) must be refused"))
    }

    @Test func `every code is expected of some vector, and ids are unique`() throws {
        let vectors = try Self.files.flatMap { try Self.committed($0).vectors }
        #expect(Set(vectors.map(\.id)).count == vectors.count)
        // These codes do not depend on the document alone, but on a device or on an OCSP responder.
        let external: Set<VerificationError.Code> = [.otherDevice, .certificateRevoked, .revocationUnknown]
        let expected = Set(VerificationError.Code.allCases).subtracting(external).map(\.rawValue)
        #expect(Set(vectors.map(\.expected)) == Set(expected + ["verified"]))
    }
}

extension Vector {
    fileprivate var claim: [String] { [id, description, expected, source, trust] }
}
