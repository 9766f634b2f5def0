// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Send Consumption Information: checks the members of the app's report about a purchase whose refund was requested.
//
// Apple documents some errors of this endpoint by name only, without a number. For these errors, this store sends the
// number of a bad request, 4000000, with its own text.

extension SimulatedStore {
    mutating func consumption(_ call: StoreCall) throws -> StoreResponse {
        let transaction = try purchase(call)
        guard transaction.inAppOwnershipType != .familyShared else {
            throw StoreRefusal(.familyTransactionNotSupported)
        }
        guard transaction.advancedCommerceInfo == nil else {
            throw StoreRefusal(.generalBadRequest, "Transactions of the Advanced Commerce API are not supported here.")
        }
        let report = try ConsumptionReport(call.json(), transaction)
        let share = report.wishesProration ? proration(of: transaction, consumed: report.percentage) : nil
        world.answerConsumptionRequest(call.id, refunds: share)
        return StoreResponse(status: 202)
    }

    /// The share to refund if the app prefers a prorated refund, in thousandths of a percent.
    ///
    /// For a subscription, the share is the remaining part of the period. For other purchases, it is the unconsumed
    /// part in production, and always half in the sandbox.
    private func proration(of transaction: JWSTransactionDecodedPayload, consumed: Int?) -> Int {
        if let start = transaction.purchaseDate?.milliseconds, let end = transaction.expiresDate?.milliseconds,
            start < end
        {
            let left = max(0, min(end - start, end - world.now.milliseconds))
            return Int(Double(left) / Double(end - start) * 100_000)
        }
        return transaction.environment == .production ? 100_000 - (consumed ?? 0) : 50_000
    }

    mutating func consumptionV1(_ call: StoreCall) throws -> StoreResponse {
        guard try customer(ofAny: call.id, in: call.environment).appTransactionId != call.id,
            let transaction = world.transaction(call.id)
        else { throw StoreRefusal(.transactionIdNotFound) }
        guard transaction.type == .consumable || transaction.type == .autoRenewableSubscription else {
            throw StoreRefusal(.invalidTransactionTypeNotSupported)
        }
        try ConsumptionReport.checkVersion1(call.json())
        world.answerConsumptionRequest(call.id, refunds: nil)
        return StoreResponse(status: 202)
    }
}

/// The body of Send Consumption Information.
private struct ConsumptionReport {
    var percentage: Int?
    var wishesProration: Bool

    /// Reads the body of version 2.
    ///
    /// - Throws: `StoreRefusal` with the code of the first invalid member.
    init(_ json: JSONValue, _ transaction: JWSTransactionDecodedPayload) throws(StoreRefusal) {
        try Self.checkConsent(json)
        let delivery: DeliveryStatus = try json.word("deliveryStatus", else: .invalidDeliveryStatus)
        _ = try json.flag("sampleContentProvided", else: .invalidSampleContentProvided)
        let isRenewable = transaction.type == .autoRenewableSubscription
        percentage = try Self.percentage(json, isRenewable: isRenewable)
        if delivery != .delivered, percentage ?? 0 != 0 {
            throw StoreRefusal(.generalBadRequest, "consumptionPercentage of what was not delivered is not 0.")
        }
        wishesProration = false
        guard json.member("refundPreference") != nil else { return }
        let preference: RefundPreference = try json.word("refundPreference", else: .invalidRefundPreference)
        wishesProration = preference == .grantProrated
        if wishesProration, !isRenewable, !(1..<100_000).contains(percentage ?? 0) {
            throw StoreRefusal(
                .generalBadRequest, "GRANT_PRORATED needs a consumptionPercentage above 0 and below 100000.")
        }
    }

    private static func checkConsent(_ json: JSONValue) throws(StoreRefusal) {
        guard try json.flag("customerConsented", else: .invalidCustomerConsented) else {
            throw StoreRefusal(.invalidCustomerConsented)
        }
    }

    private static func percentage(_ json: JSONValue, isRenewable: Bool) throws(StoreRefusal) -> Int? {
        guard let value = json.member("consumptionPercentage") else { return nil }
        if isRenewable { throw StoreRefusal(.consumptionPercentageAutoRenewableSubscription) }
        guard let percentage = value.integer, (0...100_000).contains(percentage) else {
            throw StoreRefusal(.generalBadRequest, "consumptionPercentage is not a number from 0 to 100000.")
        }
        return Int(percentage)
    }

    /// The numeric members of version 1 with their highest values; the lowest value is 0.
    private static let numbersOfVersion1: [(name: String, highest: Int64, code: APIErrorCode)] = [
        ("consumptionStatus", 3, .invalidConsumptionStatus), ("platform", 2, .invalidPlatform),
        ("deliveryStatus", 5, .invalidDeliveryStatus), ("accountTenure", 7, .invalidAccountTenure),
        ("playTime", 7, .invalidPlayTime), ("lifetimeDollarsRefunded", 7, .invalidLifetimeDollarsRefunded),
        ("lifetimeDollarsPurchased", 7, .invalidLifetimeDollarsPurchased), ("userStatus", 4, .invalidUserStatus),
    ]

    /// Checks the body of version 1. Only `refundPreference` may be missing.
    ///
    /// - Throws: `StoreRefusal` with the code of the first invalid member.
    static func checkVersion1(_ json: JSONValue) throws(StoreRefusal) {
        try checkConsent(json)
        _ = try json.flag("sampleContentProvided", else: .invalidSampleContentProvided)
        for number in numbersOfVersion1 {
            _ = try json.number(number.name, in: 0...number.highest, else: number.code)
        }
        guard let account = json["appAccountToken"]?.string, account.isEmpty || account.isUUID else {
            throw StoreRefusal(.invalidAppAccountToken)
        }
        if json.member("refundPreference") != nil {
            _ = try json.number("refundPreference", in: 0...3, else: .invalidRefundPreference)
        }
    }
}
