// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The forms in which servers write. An operator changes them once no server of an earlier version runs, which could
/// not read them. All versions read all forms that they know.
struct StoredForms: Sendable {
    /// Whether documents are packed, see ``Schema``.
    var packsDocuments: Bool
    /// Whether `customers.chains` is written too, besides `holdings`.
    var listsChains: Bool

    /// On Citus: storing a piece would lock the table of pieces on all nodes, and customers are on others than their
    /// holdings.
    static let onNodes = StoredForms(packsDocuments: false, listsChains: false)

    static func read(_ requests: RepeatedRequests) async throws -> StoredForms {
        let rows = try await requests.read(.once("SELECT documents, customers FROM quittance.forms WHERE id = 1"))
        let found = try rows.map { (documents: try $0.next(Int.self), customers: try $0.next(Int.self)) }.first
        return StoredForms(packsDocuments: found?.documents ?? 0 > 0, listsChains: found?.customers == 0)
    }
}
