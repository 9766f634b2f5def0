// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The filters of Get Transaction History. A transaction must pass all filters. A filter with several values accepts
/// each of them.
struct HistoryFilter: Sendable {
    var start: Timestamp?
    var end: Timestamp?
    var products: [String]
    var types: [ProductType]
    var groups: [String]
    var ownership: InAppOwnershipType?
    /// `true` if only revoked transactions pass, `false` if only transactions pass that are not revoked; `nil` if both
    /// pass.
    var isRevoked: Bool?
    var sort = HistorySort.ascending

    /// Reads the query. Parameters that Apple does not document are ignored.
    ///
    /// - Throws: `StoreRefusal` with the code of the first invalid parameter.
    init(_ call: StoreCall, for catalogue: StoreCatalogue) throws(StoreRefusal) {
        start = try call.time("startDate", else: .invalidStartDate)
        end = try call.time("endDate", else: .invalidEndDate)
        if let start, let end, start >= end {
            throw StoreRefusal(.invalidStartDate, APIErrorCode.startDateAfterEndDate.message)
        }
        products = call.values("productId")
        guard products.allSatisfy({ catalogue[$0] != nil }) else { throw StoreRefusal(.invalidProductId) }
        let types = call.values("productType").map { HistoryProductType(rawValue: $0)?.type }
        self.types = types.compactMap(\.self)
        guard !types.contains(nil) else { throw StoreRefusal(.invalidProductType) }
        groups = call.values("subscriptionGroupIdentifier")
        let known = Set(catalogue.products.compactMap(\.plan?.group))
        guard known.isSuperset(of: groups) else { throw StoreRefusal(.invalidSubscriptionGroupIdentifier) }
        ownership = try call.word("inAppOwnershipType", else: .invalidInAppOwnershipType)
        if let sort: HistorySort = try call.word("sort", else: .invalidSort) { self.sort = sort }
        if try call.flag("excludeRevoked", else: .invalidExcludeRevoked) == true { isRevoked = false }
        if let isRevoked = try call.flag("revoked", else: .invalidRevoked) { self.isRevoked = isRevoked }
    }

    /// Whether a transaction passes all filters.
    func passes(_ transaction: JWSTransactionDecodedPayload) -> Bool {
        let date = transaction.purchaseDate ?? Timestamp(milliseconds: 0)
        if let start, date < start { return false }
        if let end, date >= end { return false }
        if let ownership, transaction.inAppOwnershipType != ownership { return false }
        if let isRevoked, isRevoked != (transaction.revocationDate != nil) { return false }
        return (products.isEmpty || products.contains(transaction.productId ?? ""))
            && (types.isEmpty || types.contains { transaction.type == $0 })
            && (groups.isEmpty || groups.contains(transaction.subscriptionGroupIdentifier ?? ""))
    }
}

extension HistoryProductType {
    /// The same product type, by its name in transactions. The query has other names.
    fileprivate var type: ProductType {
        switch self {
        case .autoRenewable: .autoRenewableSubscription
        case .nonRenewable: .nonRenewingSubscription
        case .consumable: .consumable
        case .nonConsumable: .nonConsumable
        }
    }
}

extension StoreCall {
    /// A parameter with one of Apple's constants as its value; `nil` if the parameter is absent.
    fileprivate func word<Word: RawRepresentable>(
        _ name: String, else code: APIErrorCode
    ) throws(StoreRefusal) -> Word? where Word.RawValue == String {
        try value(name).read(as: { Word(rawValue: $0) }, else: StoreRefusal(code))
    }

    fileprivate func flag(_ name: String, else code: APIErrorCode) throws(StoreRefusal) -> Bool? {
        // Client libraries in Python write `True` for true.
        try value(name).read(as: { Bool($0.lowercased()) }, else: StoreRefusal(code))
    }

    fileprivate func time(_ name: String, else code: APIErrorCode) throws(StoreRefusal) -> Timestamp? {
        try value(name).read(
            as: { Int64($0).flatMap { $0 < 0 ? nil : Timestamp(milliseconds: $0) } }, else: StoreRefusal(code))
    }
}
