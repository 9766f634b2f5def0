// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import Testing

/// Decodes a document as `type` and encodes it again.
typealias RoundTrip = @Sendable (JSONValue) throws -> JSONValue

func roundTrip<Payload: Codable & SendableMetatype>(_ type: Payload.Type) -> RoundTrip {
    { json in try JSONValue(encoding: json.decode(Payload.self)) }
}

extension JSONValue {
    /// The same with members in the order of their names.
    var sorted: JSONValue {
        switch self {
        case .array(let elements): .array(elements.map(\.sorted))
        case .object(let members):
            .object(members.map { Member($0.name, $0.value.sorted) }.sorted { $0.name < $1.name })
        default: self
        }
    }

    /// The same with `change` made to every object in it.
    func changingObjects(_ change: ([Member]) -> [Member]) -> JSONValue {
        switch self {
        case .array(let elements): .array(elements.map { $0.changingObjects(change) })
        case .object(let members):
            .object(change(members.map { Member($0.name, $0.value.changingObjects(change)) }))
        default: self
        }
    }
}

/// Reads every file of the test resources of Apple's own library.
@Suite(.enabled(if: TestData.isThere, "\(TestData.whyNot)")) struct LosslessTests {
    struct Model: Sendable, CustomTestStringConvertible {
        var file: String
        var roundTrip: RoundTrip
        var testDescription: String { file }

        init<Payload: Codable & SendableMetatype>(_ file: String, _ type: Payload.Type) {
            self.file = file
            roundTrip = AppStoreModelTests.roundTrip(type)
        }
    }

    static let models = [
        Model("advancedCommerceDescriptors", AdvancedCommerceDescriptors.self),
        Model("advancedCommerceOffer", AdvancedCommerceOffer.self),
        Model("advancedCommerceOneTimeChargeCreateRequest", AdvancedCommerceOneTimeChargeCreateRequest.self),
        Model("advancedCommerceOneTimeChargeItem", AdvancedCommerceOneTimeChargeItem.self),
        Model("advancedCommerceRequestInfo", AdvancedCommerceRequestInfo.self),
        Model("advancedCommerceRequestRefundItem", AdvancedCommerceRequestRefundItem.self),
        Model("advancedCommerceRequestRefundRequest", AdvancedCommerceRequestRefundRequest.self),
        Model("advancedCommerceRequestRefundResponse", AdvancedCommerceRequestRefundResponse.self),
        Model("advancedCommerceSubscriptionCancelRequest", AdvancedCommerceSubscriptionCancelRequest.self),
        Model("advancedCommerceSubscriptionCancelResponse", AdvancedCommerceSubscriptionResponse.self),
        Model(
            "advancedCommerceSubscriptionChangeMetadataDescriptors",
            AdvancedCommerceSubscriptionChangeMetadataDescriptors.self),
        Model("advancedCommerceSubscriptionChangeMetadataItem", AdvancedCommerceSubscriptionChangeMetadataItem.self),
        Model(
            "advancedCommerceSubscriptionChangeMetadataRequest", AdvancedCommerceSubscriptionChangeMetadataRequest.self),
        Model("advancedCommerceSubscriptionChangeMetadataResponse", AdvancedCommerceSubscriptionResponse.self),
        Model("advancedCommerceSubscriptionCreateItem", AdvancedCommerceSubscriptionCreateItem.self),
        Model("advancedCommerceSubscriptionCreateRequest", AdvancedCommerceSubscriptionCreateRequest.self),
        Model("advancedCommerceSubscriptionMigrateDescriptors", AdvancedCommerceDescriptors.self),
        Model("advancedCommerceSubscriptionMigrateItem", AdvancedCommerceSubscriptionMigrateItem.self),
        Model("advancedCommerceSubscriptionMigrateRenewalItem", AdvancedCommerceSubscriptionMigrateItem.self),
        Model("advancedCommerceSubscriptionMigrateRequest", AdvancedCommerceSubscriptionMigrateRequest.self),
        Model("advancedCommerceSubscriptionMigrateResponse", AdvancedCommerceSubscriptionResponse.self),
        Model("advancedCommerceSubscriptionModifyAddItem", AdvancedCommerceSubscriptionModifyAddItem.self),
        Model("advancedCommerceSubscriptionModifyChangeItem", AdvancedCommerceSubscriptionModifyChangeItem.self),
        Model(
            "advancedCommerceSubscriptionModifyDescriptors", AdvancedCommerceSubscriptionChangeMetadataDescriptors.self),
        Model("advancedCommerceSubscriptionModifyInAppRequest", AdvancedCommerceSubscriptionModifyInAppRequest.self),
        Model("advancedCommerceSubscriptionModifyPeriodChange", AdvancedCommerceSubscriptionModifyPeriodChange.self),
        Model("advancedCommerceSubscriptionModifyRemoveItem", AdvancedCommerceSubscriptionItemReference.self),
        Model("advancedCommerceSubscriptionPriceChangeItem", AdvancedCommerceSubscriptionPriceChangeItem.self),
        Model("advancedCommerceSubscriptionPriceChangeRequest", AdvancedCommerceSubscriptionPriceChangeRequest.self),
        Model("advancedCommerceSubscriptionPriceChangeResponse", AdvancedCommerceSubscriptionResponse.self),
        Model(
            "advancedCommerceSubscriptionReactivateInAppRequest",
            AdvancedCommerceSubscriptionReactivateInAppRequest.self),
        Model("advancedCommerceSubscriptionReactivateItem", AdvancedCommerceSubscriptionItemReference.self),
        Model("advancedCommerceSubscriptionRevokeRequest", AdvancedCommerceSubscriptionRevokeRequest.self),
        Model("advancedCommerceSubscriptionRevokeResponse", AdvancedCommerceSubscriptionResponse.self),
        Model("apiException", APIErrorResponse.self),
        Model("apiTooManyRequestsException", APIErrorResponse.self),
        Model("apiUnknownError", APIErrorResponse.self),
        Model("appData", NotificationAppData.self),
        Model("appTransaction", AppTransaction.self),
        Model("appTransactionDoesNotExistError", APIErrorResponse.self),
        Model("appTransactionInfoResponse", AppTransactionInfoResponse.self),
        Model("decodedRealtimeRequest", DecodedRealtimeRequestBody.self),
        Model("extendRenewalDateForAllActiveSubscribersResponse", MassExtendRenewalDateResponse.self),
        Model("extendSubscriptionRenewalDateResponse", ExtendRenewalDateResponse.self),
        Model("familyTransactionNotSupportedError", APIErrorResponse.self),
        Model("getAllSubscriptionStatusesResponse", StatusResponse.self),
        Model("getDefaultMessageResponse", DefaultConfiguration.self),
        Model("getImageListResponse", GetImageListResponse.self),
        Model("getMessageListResponse", GetMessageListResponse.self),
        Model("getNotificationHistoryResponse", NotificationHistoryResponse.self),
        Model("getRealtimeUrlResponse", RealtimeURL.self),
        Model("getRefundHistoryResponse", RefundHistoryResponse.self),
        Model("getStatusOfSubscriptionRenewalDateExtensionsResponse", MassExtendRenewalDateStatusResponse.self),
        Model("getTestNotificationStatusResponse", CheckTestNotificationResponse.self),
        Model("invalidAppAccountTokenUUIDError", APIErrorResponse.self),
        Model("invalidTransactionIdError", APIErrorResponse.self),
        Model("lookupOrderIdResponse", OrderLookupResponse.self),
        Model("performanceTestResponse", PerformanceTestResponse.self),
        Model("performanceTestResultResponse", PerformanceTestResultResponse.self),
        Model("requestTestNotificationResponse", SendTestNotificationResponse.self),
        Model("signedConsumptionRequestNotification", ResponseBodyV2DecodedPayload.self),
        Model("signedExternalPurchaseTokenNotification", ResponseBodyV2DecodedPayload.self),
        Model("signedExternalPurchaseTokenSandboxNotification", ResponseBodyV2DecodedPayload.self),
        Model("signedNotification", ResponseBodyV2DecodedPayload.self),
        Model("signedRenewalInfo", JWSRenewalInfoDecodedPayload.self),
        Model("signedRescindConsentNotification", ResponseBodyV2DecodedPayload.self),
        Model("signedSummaryNotification", ResponseBodyV2DecodedPayload.self),
        Model("signedTransaction", JWSTransactionDecodedPayload.self),
        Model("signedTransactionWithRevocation", JWSTransactionDecodedPayload.self),
        Model("transactionHistoryResponse", HistoryResponse.self),
        Model("transactionHistoryResponseWithMalformedEnvironment", HistoryResponse.self),
        Model("transactionIdNotFoundError", APIErrorResponse.self),
        Model("transactionIdNotOriginalTransactionId", APIErrorResponse.self),
        Model("transactionInfoResponse", TransactionInfoResponse.self),
    ]

    private static func json(_ model: Model) throws -> JSONValue {
        try JSONValue(parsing: TestData.bytes("models/\(model.file).json"))
    }

    @Test(arguments: models)
    func `a file is encoded as it was decoded`(model: Model) throws {
        let json = try Self.json(model)
        #expect(try model.roundTrip(json).sorted == json.sorted)
    }

    /// The names of the members whose value is from an open vocabulary, in any payload.
    private static let words: Set<String> = [
        "environment", "receiptType", "type", "inAppOwnershipType", "transactionReason", "offerType",
        "offerDiscountType",
        "revocationReason", "revocationType", "billingPlanType", "autoRenewStatus", "expirationIntent",
        "priceIncreaseStatus", "commitmentAutoRenewStatus", "commitmentRenewalBillingPlanType",
        "renewalBillingPlanType",
        "originalPlatform", "notificationType", "subtype", "consumptionRequestReason", "status", "reason",
        "refundReason",
        "refundType", "effective", "imageState", "imageSize", "messageState", "result", "sendAttemptResult",
        "errorCode",
    ]

    @Test(arguments: models)
    func `an invented member and an invented word in every object are kept`(model: Model) throws {
        let json = try Self.json(model).changingObjects { members in
            members.map { member in
                guard Self.words.contains(member.name) else { return member }
                return switch member.value {
                case .string: .init(member.name, .string("INVENTED_WORD"))
                case .number: .init(member.name, .number("9876"))
                default: member
                }
            }
                + [.init("inventedMember", .number("12345678901234567890.5"))].filter { _ in
                    // The failures by result are a dictionary, which has no unknown names.
                    !members.contains { $0.name == "TIMED_OUT" }
                }
        }
        #expect(try model.roundTrip(json).sorted == json.sorted)
    }

    @Test func `every file of the folder is in the table`() throws {
        let files = try FileManager.default.contentsOfDirectory(
            atPath: TestData.folder.appendingPathComponent("models").path)
        let missing = Set(files.map { $0.replacing(".json", with: "") }).subtracting(Self.models.map(\.file))
        // Apple's own example of an answer that must not decode.
        #expect(missing == ["transactionHistoryResponseWithMalformedAppAppleId"])
    }

    @Test func `a member of another type is an error that names it`() throws {
        let json = try JSONValue(
            parsing: TestData.bytes("models/transactionHistoryResponseWithMalformedAppAppleId.json"))
        let error = #expect(throws: DecodingError.self) { try json.decode(HistoryResponse.self) }
        guard case .typeMismatch(_, let context) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(context.codingPath.map(\.stringValue) == ["appAppleId"])
    }

    @Test func `the App Store's own verifyReceipt answer is written as it was read, in its order`() throws {
        let json = try JSONValue(parsing: TestData.bytes("golden/sandbox-2020-9-purchases.answer.json"))
        let answer = try VerifyReceiptResponse(json)
        #expect(answer.unknownMembers.members.isEmpty)
        let returned = try JSONValue(parsing: answer.json)
        #expect(returned.sorted == json.sorted)
        #expect(returned["receipt"] == json["receipt"])
    }

    @Test(arguments: ["xcode-signed-transaction", "xcode-signed-renewal-info", "xcode-signed-app-transaction"])
    func `Xcode's payloads decode without their fractions of milliseconds`(file: String) throws {
        let json = try JSONValue(parsing: JWS(TestData.bytes("jws/\(file)")).payload)
        let kind = try #require(SignedKind(recognizing: json))
        let returned =
            switch kind {
            case .transaction: try roundTrip(JWSTransactionDecodedPayload.self)(json)
            case .renewalInfo: try roundTrip(JWSRenewalInfoDecodedPayload.self)(json)
            default: try roundTrip(AppTransaction.self)(json)
            }
        for member in try #require(json.members) {
            guard case .number(let literal) = member.value else {
                #expect(returned[member.name] == member.value)
                continue
            }
            let whole = try #require(Double(literal)).rounded(.down)
            #expect(returned[member.name]?.integer == Int64(whole), "\(member.name)")
        }
    }
}
