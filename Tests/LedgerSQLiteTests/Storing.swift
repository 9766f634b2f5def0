// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import LedgerSQLite
import PurchaseLedger

// Shorthands with which the tests of this folder write and read a storage.

extension SQLiteLedgerStorage {
    /// Commits changes that do not depend on what is stored.
    func commit(_ change: @escaping @Sendable (inout LedgerChanges) throws -> Void) async throws {
        try await commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            try change(&changes)
            return .commit(changes, ())
        }
    }

    /// Stores documents that are not stored yet, each as evidence for all chains that it is about.
    ///
    /// - Returns: The documents that were stored.
    @discardableResult
    func store(_ documents: [Evidence], at now: Timestamp = Timestamp(milliseconds: 0)) async throws -> [Evidence] {
        try await commit(LedgerQuery(documents.map { .document($0.provenance) })) { snapshot in
            var (names, changes) = (snapshot.names, LedgerChanges())
            for document in documents where names.insert(document.provenance).inserted {
                changes.documents.append(NewDocument(document, for: Set(document.chains), receivedAt: now))
            }
            return .commit(changes, changes.documents.map(\.evidence))
        }
    }

    /// - Returns: Whether the document was not stored yet.
    @discardableResult
    func store(_ document: Evidence) async throws -> Bool { try await !store([document]).isEmpty }

    /// Everything that a scan finds.
    func scanned() async throws -> (documents: [StoredDocument], damage: [String]) {
        var (documents, damage, cursor) = ([StoredDocument](), [String](), ScanCursor?.none)
        repeat {
            let page = try await self.documents(.all, after: cursor, limit: 1000)
            documents += page.items
            damage += page.damage
            cursor = page.next
        } while cursor != nil
        return (documents, damage)
    }

    /// The documents as texts, in the order of their arrival.
    func texts() async throws -> [String] {
        try await scanned().documents.map { String(decoding: $0.document, as: UTF8.self) }
    }
}
