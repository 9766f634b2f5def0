// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// A customer's refunds, in the order of their dates.

extension SimulatedStore {
    /// The most refunds in a response of version 1, which has no pages: Apple's number.
    private static let refundsOfVersion1 = 50

    func refunds(_ call: StoreCall) throws -> StoreResponse {
        let customer = try customer(ofAny: call.id, in: call.environment)
        var revision = try RevisionToken(call, .refunds, of: customer)
        let rest = refunds(of: customer).filter { ($0.date, $0.change) > (revision.date, revision.change) }
        let page = rest.prefix(Paging.pageLength)
        if let last = page.last {
            revision.date = last.date
            revision.change = last.change
        }
        var answer = RefundHistoryResponse()
        answer.signedTransactions = try sign(page.map(\.transaction))
        answer.revision = revision.text
        answer.hasMore = page.count < rest.count
        return try StoreResponse(encoding: answer)
    }

    /// Answers with all refunds of the customer, or with the newest if there are more than ``refundsOfVersion1``.
    func refundsV1(_ call: StoreCall) throws -> StoreResponse {
        guard call.id.isTransactionId else { throw StoreRefusal(.invalidOriginalTransactionId) }
        guard world.transaction(call.id)?.originalTransactionId == call.id,
            let customer = world.customer(ofTransaction: call.id), customer.environment == call.environment
        else { throw StoreRefusal(.originalTransactionIdNotFound) }
        var answer = RefundHistoryResponse()
        answer.signedTransactions = try sign(refunds(of: customer).suffix(Self.refundsOfVersion1).map(\.transaction))
        return try StoreResponse(encoding: answer)
    }

    private struct GrantedRefund {
        var date: Int64
        var change: UInt64
        var transaction: JWSTransactionDecodedPayload
    }

    /// The refunds of a customer. A family member's loss of access is not a refund.
    private func refunds(of customer: StoreCustomer) -> [GrantedRefund] {
        world.history(of: customer.name).compactMap { change, transaction -> GrantedRefund? in
            guard let date = transaction.revocationDate, transaction.inAppOwnershipType == .purchased else {
                return nil
            }
            return GrantedRefund(date: date.milliseconds, change: change, transaction: transaction)
        }.sorted { ($0.date, $0.change) < ($1.date, $1.change) }
    }
}
