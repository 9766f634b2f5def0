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
    /// same beginning, as it is, in lower or upper case, or capitalised, and else those of the newest customers: a
    /// comparison with all ids would cost more with each customer.
    func near(_ id: String) async throws -> String {
        guard Roles.readers.contains(role) else { return "" }
        let capitalised = id.prefix(1).uppercased() + id.dropFirst().lowercased()
        let beginnings = Set([id, id.lowercased(), id.uppercased(), capitalised]).sorted().map(Self.beginnings)
        var found: Set<String> = []
        for app in apps {
            for selections in beginnings { found.formUnion(try await near(id, in: app, selections)) }
        }
        for app in apps where found.isEmpty { found.formUnion(try await near(id, in: app, [.newest])) }
        return Spelling.meant(by: id, in: found.sorted(), atMost: 3)
    }

    /// The nearest ids among an app's customers in the first of some selections that has a near one.
    private func near(_ id: String, in app: String, _ selections: [CustomerSelection]) async throws -> [String] {
        for selection in selections {
            let page = try await ledger.customers(selection, of: app, limit: Self.compared)
            let near = Spelling.nearest(to: id, in: Set(page.items.flatMap(\.ids)).sorted(), atMost: 3)
            // Of a page that is full, a shorter beginning has the same customers, or others by chance.
            if !near.isEmpty || page.next != nil { return near }
        }
        return []
    }

    /// The beginnings of a text, the longest first: most mistakes are at the end, and few ids have a long beginning in
    /// common.
    private static func beginnings(of text: String) -> [CustomerSelection] {
        let count = text.count
        let lengths = Set([count, count - 1, count - 2, count * 3 / 4, count / 2, count / 4, 1])
        return lengths.filter { $0 > 0 && $0 <= count }.sorted(by: >).map { .beginning(String(text.prefix($0))) }
    }
}
