// SPDX-License-Identifier: Apache-2.0

import AppStoreTrust
import Foundation
import HostileVectors
import Testing

/// The hostile suite: `Tests/Vectors`, as others may run it too.
@Suite struct VectorTests {
    static let files = ["tokens", "notifications", "receipts", "transaction-receipts"]

    private static func committed(_ name: String) throws -> VectorFile {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let data = try Data(contentsOf: folder.appendingPathComponent("Vectors/\(name).json"))
        return try JSONDecoder().decode(VectorFile.self, from: data)
    }

    /// What came out otherwise than it should, an unexpected pass as well.
    private static func surprises(_ file: VectorFile) async throws -> [String] {
        let verifiers = try file.trust.mapValues { try $0.verifier }
        var surprises: [String] = []
        for vector in file.vectors {
            guard let verifier = verifiers[vector.trust] else { return ["no trust called \(vector.trust)"] }
            // Once with a signer that is new, once with one that is known by then.
            for attempt in 1...2 {
                let outcome = try await vector.outcome(verifier)
                guard outcome != vector.expected else { continue }
                surprises.append("\(vector.id): expected \(vector.expected), found \(outcome) (attempt \(attempt))")
            }
        }
        return surprises
    }

    @Test(arguments: files) func `every vector comes out as it should`(file: String) async throws {
        let surprises = try await Self.surprises(Self.committed(file))
        #expect(surprises == [])
    }

    @Test func `the vectors are those that the command makes, and new ones come out the same`() async throws {
        let made = try HostileVectors.make()
        #expect(Set(made.keys) == Set(Self.files))
        for (name, file) in made {
            let committed = try Self.committed(name)
            #expect(
                file.vectors.map(\.claim) == committed.vectors.map(\.claim), "make vectors, and look at what changed")
            let surprises = try await Self.surprises(file)
            #expect(surprises == [])
        }
    }

    @Test func `every code has a vector that it is expected of, and every vector an id of its own`() throws {
        let vectors = try Self.files.flatMap { try Self.committed($0).vectors }
        #expect(Set(vectors.map(\.id)).count == vectors.count)
        // Which device it was issued to, and what a responder says about its signer, no document decides.
        let elsewhere: Set<VerificationError.Code> = [.otherDevice, .certificateRevoked, .revocationUnknown]
        let expected = Set(VerificationError.Code.allCases).subtracting(elsewhere).map(\.rawValue)
        #expect(Set(vectors.map(\.expected)) == Set(expected + ["verified"]))
    }
}

extension Vector {
    fileprivate var claim: [String] { [id, description, expected, source, trust] }
}
