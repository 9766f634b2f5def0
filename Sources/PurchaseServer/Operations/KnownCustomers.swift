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
    /// The greatest number of customers that are compared for each beginning of an id.
    private static let compared = 50

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

    /// A sentence with the nearest ids of customers; empty if none is near, and for an app. Compared are ids with the
    /// same beginning, in upper or lower case: a comparison with all ids would cost more with each customer.
    func near(_ id: String) async throws -> String {
        guard Roles.readers.contains(role) else { return "" }
        var found: [String] = []
        for app in apps {
            for text in Set([id, id.lowercased(), id.uppercased()]).sorted() {
                // Most mistakes are at the end, and few ids have a long beginning in common.
                let count = text.count
                for omitted in [0, 1, 2, count / 4, count / 2, count * 3 / 4] where omitted < count {
                    let beginning = CustomerSelection.beginning(String(text.dropLast(omitted)))
                    let page = try await ledger.customers(beginning, of: app, limit: Self.compared)
                    let ids = Set(page.items.flatMap(\.ids)).subtracting(found).sorted()
                    found = Spelling.nearest(to: id, in: found + ids, atMost: 3)
                    // Of a page that is full, a shorter beginning has the same customers, or others by chance.
                    if !found.isEmpty || page.next != nil { break }
                }
            }
        }
        return Spelling.meant(by: id, in: found, atMost: 3)
    }
}
