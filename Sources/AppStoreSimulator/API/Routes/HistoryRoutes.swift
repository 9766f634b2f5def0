// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// A customer's transactions in pages, in the order of their last changes.
//
// Changes are numbered, and a page continues after the number at which the page before ended. If the world changes
// between two pages, a client that reads in ascending order gets the later changes too, and misses no transaction. In
// descending order, a changed transaction moves to the beginning of the list, which the client has already read. The
// client then misses the change, or even the transaction, if it was on a later page.

extension SimulatedStore {
    func history(_ call: StoreCall) throws -> StoreResponse {
        try history(call) { _ in true }
    }

    /// Version 1 leaves out finished consumables.
    func historyV1(_ call: StoreCall) throws -> StoreResponse {
        try history(call) { $0.type != .consumable || !world.finished.contains($0.transactionId ?? "") }
    }

    private func history(
        _ call: StoreCall, where isListed: (JWSTransactionDecodedPayload) -> Bool
    ) throws -> StoreResponse {
        let customer = try customer(ofAny: call.id, in: call.environment)
        let filter = try HistoryFilter(call, for: world.catalogue)
        let isDescending = filter.sort == .descending
        var revision = try RevisionToken(call, isDescending ? .descending : .ascending, of: customer)
        var rest = world.history(of: customer.name).filter { change, transaction in
            isListed(transaction) && filter.passes(transaction)
                && (isDescending ? change < revision.change : change > revision.change)
        }
        if isDescending { rest.reverse() }
        let page = rest.prefix(Paging.pageLength)
        revision.change = page.last?.change ?? revision.change
        var answer = HistoryResponse()
        answer.revision = revision.text
        answer.hasMore = page.count < rest.count
        answer.bundleId = world.catalogue.bundleId
        answer.appAppleId = appAppleId(in: call.environment)
        answer.environment = Open(call.environment)
        answer.signedTransactions = try sign(page.map(\.transaction))
        return try StoreResponse(encoding: answer)
    }
}
