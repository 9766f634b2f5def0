// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Endpoints for a single transaction: its info, the app transaction, the account token, finishing, the order.

extension SimulatedStore {
    func transactionInfo(_ call: StoreCall) throws -> StoreResponse {
        guard try customer(ofAny: call.id, in: call.environment).appTransactionId != call.id,
            let transaction = world.transaction(call.id)
        else { throw StoreRefusal(.transactionIdNotFound) }
        var answer = TransactionInfoResponse()
        answer.signedTransactionInfo = try signer.sign(transaction, at: world.now)
        return try StoreResponse(encoding: answer)
    }

    func appTransactionInfo(_ call: StoreCall) throws -> StoreResponse {
        let customer = try customer(ofAny: call.id, in: call.environment)
        guard let app = world.appTransaction(of: customer.name) else { throw StoreRefusal(.appTransactionDoesNotExist) }
        var answer = AppTransactionInfoResponse()
        answer.signedAppTransactionInfo = try signer.sign(app, at: world.now)
        return try StoreResponse(encoding: answer)
    }

    mutating func setAppAccountToken(_ call: StoreCall) throws -> StoreResponse {
        let transaction = try purchase(call)
        guard let token = try call.json()["appAccountToken"]?.string, token.isUUID else {
            throw StoreRefusal(.invalidAppAccountTokenUUID)
        }
        guard transaction.inAppOwnershipType != .familyShared else {
            throw StoreRefusal(.familyTransactionNotSupported)
        }
        guard transaction.originalTransactionId == call.id else {
            throw StoreRefusal(.transactionIdIsNotOriginalTransactionId)
        }
        try world.setAppAccountToken(token.lowercased(), ofTransaction: call.id)
        return StoreResponse(status: 200)
    }

    mutating func finish(_ call: StoreCall) throws -> StoreResponse {
        _ = try purchase(call)
        try world.finish(call.id)
        return StoreResponse(status: 200)
    }

    /// The values of `status` in the response about a known order and about an unknown order.
    private static let knownOrder = 0
    private static let unknownOrder = 1

    func lookUpOrder(_ call: StoreCall) throws -> StoreResponse {
        let isOrderId = (1...64).contains(call.id.utf8.count) && call.id.allSatisfy { $0.isASCII && !$0.isWhitespace }
        guard isOrderId, call.id.allSatisfy({ $0.isLetter || $0.isNumber }) else {
            throw StoreRefusal(.generalBadRequest)
        }
        let transactions = world.transactions(ofOrder: call.id).filter { $0.environment == .production }
        var answer = OrderLookupResponse()
        answer.status = transactions.isEmpty ? Self.unknownOrder : Self.knownOrder
        answer.signedTransactions = transactions.isEmpty ? nil : try sign(transactions)
        return try StoreResponse(encoding: answer)
    }
}
