// SPDX-License-Identifier: Apache-2.0

// An id that a person typed is not believed in silence: an unknown one is refused, with the nearest that exist.

import AppStoreModel
import PurchaseLedger

extension Field {
    /// A command that is not given the flag refuses an unknown customer.
    static let isNew = Field("new", "whether an id that no customer has makes a customer", .flag)
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
            let near = try await nearest(to: id).map { "“\($0)”" }.joined(separator: ", ")
            throw Refusal(
                .unknownCustomer,
                "No customer has the id “\(id)”.\(near.isEmpty ? "" : " Near are \(near).")"
                    + " With “new” it makes a customer.")
        }
    }

    private func nearest(to id: String) async throws -> [String] {
        var found: [String] = []
        var cursor: ScanCursor?
        for _ in 0..<Self.searched / 500 {
            let page = try await ledger.customers(of: scope.bundleId, after: cursor, limit: 500)
            found = Spelling.nearest(to: id, in: found + page.items.flatMap(\.ids), atMost: 3)
            cursor = page.next
            if cursor == nil { break }
        }
        return found
    }
}
