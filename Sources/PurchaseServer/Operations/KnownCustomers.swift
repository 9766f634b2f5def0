// SPDX-License-Identifier: Apache-2.0

// An id that a person typed is not believed in silence: an unknown one is refused, with the nearest that exist.

import AppStoreModel
import PurchaseLedger

extension Field {
    /// A command that is not given the flag refuses an unknown customer.
    package static let isNew = Field(
        "new", "whether to make a customer of an id that no customer has", .flag, standard: "true")
}

extension AuthenticatedRequest {
    /// The greatest number of customers among which the nearest ids are searched: some pages, a tenth of a second.
    private static let searched = 10_000

    /// Requires that customers have the ids, unless the request makes new customers.
    ///
    /// - Parameter makesNew: Whether it does without a value of ``Field/isNew``.
    func requireKnown(_ ids: [String], makesNew: Bool) async throws {
        guard !(self[.isNew]?.bool ?? makesNew) else { return }
        for id in ids where try await ledger.holdings(of: id, of: scope.bundleId, in: [], at: now) == nil {
            throw Refusal(
                .unknownCustomer,
                "No customer has the id “\(id)”.\(try await near(id)) “new” makes a customer of the id.")
        }
    }

    /// A sentence with the nearest ids of customers; empty if none is near, and for an app.
    func near(_ id: String) async throws -> String {
        guard Roles.readers.contains(role) else { return "" }
        var found: [String] = []
        for app in apps {
            var cursor: ScanCursor?
            for _ in 0..<Self.searched / 500 {
                let page = try await ledger.customers(of: app, after: cursor, limit: 500)
                let ids = page.items.flatMap(\.ids).filter { !found.contains($0) }
                found = Spelling.nearest(to: id, in: found + ids, atMost: 3)
                cursor = page.next
                if cursor == nil { break }
            }
        }
        return Spelling.meant(by: id, in: found, atMost: 3)
    }
}
