// SPDX-License-Identifier: Apache-2.0

// Endpoints of the App Store Server API about one customer's transactions. `anyTransactionId` is a transaction id, an
// original transaction id or an app transaction id of the customer.

public import AppStoreModel

extension Endpoint where Answer == TransactionInfoResponse {
    /// Get Transaction Info: one transaction as it is now.
    public static func transactionInfo(_ transactionId: String) -> Self {
        let row = EndpointRow(
            name: "Get Transaction Info", request: .init("GET", "/inApps/v1/transactions/*", [transactionId]), rate: 50)
        return Self(row, requiring: "signedTransactionInfo")
    }
}

extension Endpoint where Answer == HistoryResponse {
    /// Get Transaction History: a page of a customer's transactions.
    public static func transactionHistory(
        _ anyTransactionId: String, _ filter: TransactionHistoryFilter = .init()
    ) -> Self {
        history("Get Transaction History", "/inApps/v2/history/*", anyTransactionId, filter)
    }

    /// Get Transaction History V1 (deprecated): without consumables that the app has finished.
    public static func transactionHistoryV1(
        _ anyTransactionId: String, _ filter: TransactionHistoryFilter = .init()
    ) -> Self {
        history("Get Transaction History V1", "/inApps/v1/history/*", anyTransactionId, filter)
    }

    private static func history(
        _ name: String, _ path: String, _ id: String, _ filter: TransactionHistoryFilter
    ) -> Self {
        var request = APIRequest("GET", path, [id])
        request.query = filter.query
        return Self(EndpointRow(name: name, request: request, rate: 50), requiring: "hasMore")
    }
}

extension Endpoint where Answer == AppTransactionInfoResponse {
    /// Get App Transaction Info: the customer's download of the app.
    public static func appTransactionInfo(_ anyTransactionId: String) -> Self {
        let row = EndpointRow(
            name: "Get App Transaction Info",
            request: .init("GET", "/inApps/v1/transactions/appTransactions/*", [anyTransactionId]), rate: 50)
        return Self(row, requiring: "signedAppTransactionInfo")
    }
}

extension Endpoint where Answer == Void {
    /// Set App Account Token. Not for family members.
    public static func setAppAccountToken(
        _ body: UpdateAppAccountTokenRequest, of originalTransactionId: String
    ) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/transactions/*/appAccountToken", [originalTransactionId])
        return Self(EndpointRow(name: "Set App Account Token", request: request, rate: 20).with(body))
    }

    /// Finish Transaction: what was bought has been delivered.
    public static func finishTransaction(_ transactionId: String) -> Self {
        let request = APIRequest("POST", "/inApps/v1/transactions/*/finish", [transactionId])
        return Self(EndpointRow(name: "Finish Transaction", request: request, rate: 50))
    }

    /// Send Consumption Information, only with the customer's consent.
    public static func sendConsumptionInformation(_ body: ConsumptionRequest, about transactionId: String) -> Self {
        let request = APIRequest("PUT", "/inApps/v2/transactions/consumption/*", [transactionId])
        let row = EndpointRow(
            name: "Send Consumption Information", request: request, rate: 50, successStatus: 202)
        return Self(row.with(body))
    }

    /// Send Consumption Information V1, which transactions of Advanced Commerce need.
    public static func sendConsumptionInformationV1(_ body: ConsumptionRequestV1, about transactionId: String) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/transactions/consumption/*", [transactionId])
        let row = EndpointRow(
            name: "Send Consumption Information V1", request: request, rate: 50, successStatus: 202)
        return Self(row.with(body))
    }
}

extension Endpoint where Answer == OrderLookupResponse {
    /// Look Up Order ID: the transactions of the order id in a customer's e-mail. Production only.
    public static func lookUpOrder(_ orderId: String) -> Self {
        let row = EndpointRow(
            name: "Look Up Order ID", request: .init("GET", "/inApps/v1/lookup/*", [orderId]), rate: 10,
            environments: [.production])
        return Self(row, requiring: "status")
    }
}

extension Endpoint where Answer == RefundHistoryResponse {
    /// Get Refund History: a page of a customer's refunds.
    ///
    /// - Parameter revision: That of the page before; required after the first.
    public static func refundHistory(_ anyTransactionId: String, after revision: String? = nil) -> Self {
        var request = APIRequest("GET", "/inApps/v2/refund/lookup/*", [anyTransactionId])
        if let revision { request.add("revision", [revision]) }
        return Self(EndpointRow(name: "Get Refund History", request: request, rate: 10), requiring: "hasMore")
    }

    /// Get Refund History V1 (deprecated): at most 50 refunds.
    public static func refundHistoryV1(_ originalTransactionId: String) -> Self {
        let request = APIRequest("GET", "/inApps/v1/refund/lookup/*", [originalTransactionId])
        return Self(EndpointRow(name: "Get Refund History V1", request: request, rate: 10))
    }
}

/// Which transactions Get Transaction History returns. Different conditions must all hold; of a list, one value.
public struct TransactionHistoryFilter: Hashable, Sendable {
    /// Where to go on: the `revision` of an earlier answer with the same filter.
    public var revision: String?
    /// Purchased at this instant or later.
    public var startDate: Timestamp?
    /// Purchased before this instant.
    public var endDate: Timestamp?
    /// Of these products; of all if it is empty.
    public var productIds: [String] = []
    /// Of these kinds; of all if it is empty.
    public var productTypes: [HistoryProductType] = []
    /// Of these groups; of all if it is empty.
    public var subscriptionGroupIdentifiers: [String] = []
    /// Bought by the customer, or shared by the family.
    public var inAppOwnershipType: InAppOwnershipType?
    /// Only revoked transactions, or only others.
    public var revoked: Bool?
    /// The order, by the date of the last change. Apple's default is ascending. Only a revision of an ascending history
    /// is of use later.
    public var sort: HistorySort?

    /// All transactions, in ascending order.
    public init() {}

    var query: [APIRequest.QueryItem] {
        let values: [(String, [String])] = [
            ("revision", [revision].compactMap(\.self)),
            ("startDate", [startDate].compactMap { $0.map { "\($0.milliseconds)" } }),
            ("endDate", [endDate].compactMap { $0.map { "\($0.milliseconds)" } }),
            ("productId", productIds), ("productType", productTypes.map(\.rawValue)),
            ("subscriptionGroupIdentifier", subscriptionGroupIdentifiers),
            ("inAppOwnershipType", [inAppOwnershipType].compactMap { $0?.rawValue }),
            ("revoked", [revoked].compactMap { $0.map { "\($0)" } }), ("sort", [sort].compactMap { $0?.rawValue }),
        ]
        return values.flatMap { name, values in values.map { APIRequest.QueryItem(name, $0) } }
    }
}
