// SPDX-License-Identifier: Apache-2.0

// Endpoints of the App Store Server API for one customer's transactions. `anyTransactionId` is a transaction id, an
// original transaction id or an app transaction id of the customer.

public import AppStoreModel

extension Endpoint where Answer == TransactionInfoResponse {
    /// Get Transaction Info: the present state of one transaction.
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

    /// Get Transaction History V1 (deprecated): like ``transactionHistory(_:_:)``, but without finished consumables.
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
        return Self(
            EndpointRow(name: name, request: request, rate: 50), requiring: "hasMore", "signedTransactions",
            isEmpty: { $0.signedTransactions?.isEmpty != false })
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
    /// Set App Account Token. The endpoint does not accept transactions of family members.
    public static func setAppAccountToken(
        _ body: UpdateAppAccountTokenRequest, of originalTransactionId: String
    ) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/transactions/*/appAccountToken", [originalTransactionId])
        return Self(EndpointRow(name: "Set App Account Token", request: request, rate: 20).with(body))
    }

    /// Finish Transaction: tells Apple that the app has delivered the purchase.
    public static func finishTransaction(_ transactionId: String) -> Self {
        let request = APIRequest("POST", "/inApps/v1/transactions/*/finish", [transactionId])
        return Self(EndpointRow(name: "Finish Transaction", request: request, rate: 50))
    }

    /// Send Consumption Information: reports to Apple about a purchase whose customer requests a refund. The customer's
    /// consent is required.
    public static func sendConsumptionInformation(_ body: ConsumptionRequest, about transactionId: String) -> Self {
        let request = APIRequest("PUT", "/inApps/v2/transactions/consumption/*", [transactionId])
        let row = EndpointRow(
            name: "Send Consumption Information", request: request, rate: 50, successStatus: 202)
        return Self(row.with(body))
    }

    /// Send Consumption Information V1, required for Advanced Commerce transactions.
    public static func sendConsumptionInformationV1(_ body: ConsumptionRequestV1, about transactionId: String) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/transactions/consumption/*", [transactionId])
        let row = EndpointRow(
            name: "Send Consumption Information V1", request: request, rate: 50, successStatus: 202)
        return Self(row.with(body))
    }
}

extension Endpoint where Answer == OrderLookupResponse {
    /// Look Up Order ID: the transactions of an order id from a customer's e-mail. Production only.
    public static func lookUpOrder(_ orderId: String) -> Self {
        let row = EndpointRow(
            name: "Look Up Order ID", request: .init("GET", "/inApps/v1/lookup/*", [orderId]), rate: 10,
            environments: [.production])
        // An order that exists has transactions.
        return Self(row, requiring: "status") { $0.status != 0 || $0.signedTransactions?.isEmpty == false }
    }
}

extension Endpoint where Answer == RefundHistoryResponse {
    /// Get Refund History: a page of a customer's refunds.
    ///
    /// - Parameter revision: The revision of the previous page; required after the first page.
    public static func refundHistory(_ anyTransactionId: String, after revision: String? = nil) -> Self {
        var request = APIRequest("GET", "/inApps/v2/refund/lookup/*", [anyTransactionId])
        if let revision { request.add("revision", [revision]) }
        let row = EndpointRow(name: "Get Refund History", request: request, rate: 10)
        return Self(
            row, requiring: "hasMore", "signedTransactions", isEmpty: { $0.signedTransactions?.isEmpty != false })
    }

    /// Get Refund History V1 (deprecated): at most 50 refunds.
    public static func refundHistoryV1(_ originalTransactionId: String) -> Self {
        let request = APIRequest("GET", "/inApps/v1/refund/lookup/*", [originalTransactionId])
        let row = EndpointRow(name: "Get Refund History V1", request: request, rate: 10)
        return Self(row, requiring: "signedTransactions")
    }
}

/// A filter of Get Transaction History. A transaction must meet every condition. A list condition holds if the
/// transaction matches any value of the list.
public struct TransactionHistoryFilter: Hashable, Sendable {
    /// The cursor: `revision` of an earlier answer to the same filter.
    public var revision: String?
    /// The earliest purchase date, inclusive.
    public var startDate: Timestamp?
    /// The latest purchase date, exclusive.
    public var endDate: Timestamp?
    /// The product ids; an empty list means all products.
    public var productIds: [String] = []
    /// The product types; an empty list means all types.
    public var productTypes: [HistoryProductType] = []
    /// The subscription groups; an empty list means all groups.
    public var subscriptionGroupIdentifiers: [String] = []
    /// Whether the customer bought the product, or a family member shares it.
    public var inAppOwnershipType: InAppOwnershipType?
    /// `true` for revoked transactions only, `false` for unrevoked transactions only.
    public var revoked: Bool?
    /// The order, by the date of the last change. Apple's default is ascending. Only the revision of an ascending
    /// history can be kept for later.
    public var sort: HistorySort?

    /// A filter for all transactions, in ascending order.
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
