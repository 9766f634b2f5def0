// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust

extension Ledger {
    /// What came of deriving everything from the documents again.
    public struct Rebuilt: Hashable, Sendable {
        /// How many documents there are.
        public var documents: Int
        /// Documents that do not verify. Where there are any nothing was changed, since what they say cannot be derived.
        public var faults: [Fault]
        /// The chains whose facts were others than the documents say, and now are what they say.
        public var differing: [ChainKey] = []
    }

    /// How many chains are compared at once.
    private static let chainPage = 500

    /// Derives all facts from the documents again and compares them with those in the ledger. What differs is put right, and
    /// told of; where nothing does, nothing is written.
    ///
    /// - Parameters:
    ///   - scratch: An empty storage, which holds all facts at the end.
    ///   - verifier: As for ``check(by:onDocuments:work:)``.
    /// - Throws: ``LedgerStorageError``: `unavailable` where documents arrived meanwhile.
    public func rebuild(
        in scratch: any LedgerStorage, by verifier: AppStoreVerifier, at now: Timestamp,
        onDocuments: (_ count: Int) -> Void = { _ in }
    ) async throws -> Rebuilt {
        let checked = try await check(by: verifier, onDocuments: onDocuments) { documents in
            try await scratch.write { writer in
                for document in documents { try keep(document, about: document.chains, in: writer) }
            }
        }
        var rebuilt = Rebuilt(documents: checked.documents, faults: checked.faults)
        guard checked.faults.isEmpty else { return rebuilt }
        // Both ways: a chain may be missing here, or there may be no document that speaks of it.
        for side in [scratch, storage] {
            var last: Int64 = 0
            while case let page = try await Self.chains(in: side, after: last), let end = page.last {
                for key in page.map(\.key) {
                    // Of what was forgotten, documents may speak that are kept for others.
                    let isForgotten = try await storage.read { try $0.forgottenAt(key) } != nil
                    let derived = try await isForgotten ? nil : scratch.read { try $0.chain(key) }
                    guard try await storage.read({ try $0.chain(key) }) != derived else { continue }
                    try await correct(key, derived, asOf: checked.last, at: now)
                    rebuilt.differing.append(key)
                }
                guard end.number > last else {
                    throw LedgerStorageError(.damaged, "Purchases are not in the order of their numbers")
                }
                last = end.number
            }
        }
        return rebuilt
    }

    private static func chains(
        in storage: any LedgerStorage, after number: Int64
    ) async throws -> [(number: Int64, key: ChainKey)] {
        try await storage.read { try $0.chainKeys(after: number, limit: chainPage) }
    }

    /// Puts the facts of a chain in place of those that are there, unless documents arrived after the last that was looked at.
    private func correct(
        _ key: ChainKey, _ derived: Chain?, asOf last: Int64, at now: Timestamp
    ) async throws {
        try await storage.write { [self] writer in
            guard try writer.documents(after: last, limit: 1).isEmpty,
                try writer.forgottenAt(key) == nil || derived == nil
            else {
                throw LedgerStorageError(
                    .unavailable, "The ledger changed meanwhile: run it again, or stop the server first")
            }
            try writer.removeFacts(of: key)
            for fact in derived?.transactions.values ?? [:].values {
                for statement in [fact.signed, fact.receipt].compactMap({ $0 }) { try writer.put(statement, in: key) }
            }
            if let renewal = derived?.renewal { try writer.put(renewal, in: key) }
            try report(key, in: writer, at: now)
        }
    }
}
