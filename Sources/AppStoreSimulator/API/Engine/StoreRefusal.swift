// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// A numbered error of the App Store Server API, as the response to a request.
struct StoreRefusal: Error, Hashable {
    var code: APIErrorCode
    /// The sentence that tells developers the error: `errorMessage` of the response.
    var message: String
    /// The time at which calls may resume, for 429 only.
    var retryAfter: Timestamp?

    /// Creates an error.
    ///
    /// - Parameter message: A sentence that replaces the code's usual text, `APIErrorCode.message`.
    init(_ code: APIErrorCode, _ message: String? = nil) {
        self.code = code
        self.message = message ?? code.message
    }

    /// The response: the status in the code's first digits, and the code with its text.
    var response: StoreResponse {
        var error = APIErrorResponse()
        error.errorCode = Open(code)
        error.errorMessage = message
        let status = Open(code).httpStatus
        // Encoding cannot fail: the error consists of a text and a number.
        guard var response = try? StoreResponse(status: status, encoding: error) else {
            return StoreResponse(status: status)
        }
        // Apple's value is a UNIX time in milliseconds: neither seconds nor a duration.
        if let retryAfter { response.headers["retry-after"] = "\(retryAfter.milliseconds)" }
        response.note = "\(code.rawValue) \(code.name): \(message)"
        return response
    }
}

extension APIErrorCode {
    /// The usual text of a response with this code. It is for people. Clients must decide by the code's number only.
    var message: String { Self.messages[self] ?? "The request is refused." }

    // The texts of 4000000, 4040001, 4040010, 4290000, 5000000 and 5000001 are Apple's. All other texts are the
    // simulator's.
    private static let messages: [APIErrorCode: String] = [
        .generalBadRequest: "Bad request.",
        .invalidAppIdentifier: "The app identifier is not valid.",
        .invalidLimit: "The limit is out of range.",
        .invalidRequestRevision: "The revision does not belong to the customer and the sort order.",
        .invalidTransactionId: "The transaction id is not a string of digits.",
        .invalidOriginalTransactionId: "The original transaction id is not a string of digits.",
        .invalidExtendByDays: "extendByDays is not a number from 1 to 90.",
        .invalidExtendReasonCode: "extendReasonCode is not a number from 0 to 3.",
        .invalidRequestIdentifier: "requestIdentifier is missing, too long or not a UUID.",
        .startDateTooFarInPast: "startDate is more than 180 days ago, in the sandbox 30 days.",
        .startDateAfterEndDate: "startDate is not before endDate.",
        .invalidPaginationToken: "The pagination token does not belong to the request.",
        .invalidStartDate: "startDate is not a valid time in milliseconds.",
        .invalidEndDate: "endDate is not a valid time in milliseconds.",
        .paginationTokenExpired: "The pagination token is expired.",
        .invalidNotificationType: "There is no such notification type, or not with this subtype.",
        .multipleFiltersSupplied: "transactionId and notificationType exclude each other.",
        .invalidTestNotificationToken: "The test notification token is not valid.",
        .invalidSort: "sort is neither ASCENDING nor DESCENDING.",
        .invalidProductType: "The product type is unknown.",
        .invalidProductId: "The app has no such product.",
        .invalidSubscriptionGroupIdentifier: "The app has no such subscription group.",
        .invalidExcludeRevoked: "excludeRevoked is neither true nor false.",
        .invalidInAppOwnershipType: "The ownership type is unknown.",
        .invalidEmptyStorefrontCountryCodeList: "storefrontCountryCodes is an empty list.",
        .invalidStorefrontCountryCode: "A storefront country code is not in ISO 3166-1 alpha-3.",
        .invalidRevoked: "revoked is neither true nor false.",
        .invalidStatus: "status is not a number from 1 to 5.",
        .invalidAccountTenure: "accountTenure is not a number from 0 to 7.",
        .invalidAppAccountToken: "appAccountToken is neither a UUID nor empty.",
        .invalidConsumptionStatus: "consumptionStatus is not a number from 0 to 3.",
        .invalidCustomerConsented: "customerConsented is not true.",
        .invalidDeliveryStatus: "deliveryStatus is unknown.",
        .invalidLifetimeDollarsPurchased: "lifetimeDollarsPurchased is not a number from 0 to 7.",
        .invalidLifetimeDollarsRefunded: "lifetimeDollarsRefunded is not a number from 0 to 7.",
        .invalidPlatform: "platform is not a number from 0 to 2.",
        .invalidPlayTime: "playTime is not a number from 0 to 7.",
        .invalidSampleContentProvided: "sampleContentProvided is neither true nor false.",
        .invalidUserStatus: "userStatus is not a number from 0 to 4.",
        .invalidTransactionNotConsumable: "The transaction is not for a consumable.",
        .invalidRefundPreference: "refundPreference is unknown.",
        .invalidTransactionTypeNotSupported: "The endpoint does not support the product's type.",
        .appTransactionIdNotSupported: "The endpoint does not support app transaction ids.",
        .invalidImage: "The image is not a PNG of the required size without transparency.",
        .headerTooLong: "The header has more than 66 characters.",
        .bodyTooLong: "The body has more than 144 characters.",
        .invalidLocale: "The locale is not valid.",
        .altTextTooLong: "An alternative text has more than 150 characters.",
        .invalidAppAccountTokenUUID: "appAccountToken is not a UUID.",
        .familyTransactionNotSupported: "The endpoint does not support transactions of family members.",
        .transactionIdIsNotOriginalTransactionId: "The transaction id is not an original transaction id.",
        .consumptionPercentageAutoRenewableSubscription:
            "consumptionPercentage is not for auto-renewable subscriptions.",
        .invalidPerformanceTestRequest: "The request for a performance test is not valid.",
        .invalidRequestId: "The request id is not a UUID.",
        .existingPerformanceTestRun: "A performance test is running.",
        .badRequestRealtimeUrl: "realtimeURL is not an https URL of at most 256 characters.",
        .badRequestImageSize: "imageSize is neither FULL_SIZE nor BULLET_POINT.",
        .badRequestTooManyBulletPoints: "There are more than five bullet points.",
        .badRequestBulletPointTextTooLong: "The text of a bullet point has more than 66 characters.",
        .badRequestAboveImageRequiresAnImage: "A header above the image requires an image.",
        .invalidGroupId: "The group id is not valid.",
        .invalidAssignedTransactionNotSupported: "The endpoint does not support assigned transactions.",
        .subscriptionExtensionIneligible: "The subscription's state does not allow an extension.",
        .subscriptionMaxExtension: "The subscription was extended twice within 365 days.",
        .familySharedSubscriptionExtensionIneligible: "Only the purchaser's subscription can be extended.",
        .maximumNumberOfImagesReached: "The app has 2,000 images.",
        .maximumNumberOfMessagesReached: "The app has 2,000 messages.",
        .messageNotApproved: "The message is not approved.",
        .imageNotApproved: "The image is not approved.",
        .imageInUse: "A message uses the image.",
        .forbiddenNoPassingTest: "No performance test in the sandbox has passed.",
        .assignedSubscriptionExtensionIneligible: "An assigned subscription cannot be extended.",
        .accountNotFound: "Account not found.",
        .accountNotFoundRetryable: "Account not found. Please try again.",
        .appNotFound: "App not found.",
        .appNotFoundRetryable: "App not found. Please try again.",
        .originalTransactionIdNotFound: "Original transaction id not found.",
        .originalTransactionIdNotFoundRetryable: "Original transaction id not found. Please try again.",
        .serverNotificationURLNotFound: "The app has no notification URL for this environment.",
        .testNotificationNotFound: "The test notification is expired or has not been sent yet.",
        .statusRequestNotFound: "There is no such request for an extension.",
        .transactionIdNotFound: "Transaction id not found.",
        .imageNotFound: "Image not found.",
        .messageNotFound: "Message not found.",
        .performanceTestRunNotFound: "Performance test not found.",
        .appTransactionDoesNotExist: "The customer has no app transaction.",
        .defaultMessageNotFound: "Default message not found.",
        .realtimeUrlNotFound: "The app has no real-time URL.",
        .groupNotFound: "Group not found.",
        .imageAlreadyExists: "There is an image with this identifier.",
        .messageAlreadyExists: "There is a message with this identifier.",
        .rateLimitExceeded: "Rate limit exceeded.",
        .generalInternal: "An unknown error occurred.",
        .generalInternalRetryable: "An unknown error occurred. Please try again.",
    ]

    /// The codes that have a text, for a test.
    package static var codesWithText: Set<APIErrorCode> { Set(messages.keys) }
}
