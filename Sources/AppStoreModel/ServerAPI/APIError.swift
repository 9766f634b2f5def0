// SPDX-License-Identifier: Apache-2.0

/// The answer of the App Store Server API to a refused request: an object with `errorCode` and `errorMessage`. An
/// answer with HTTP 401 has no such object.
public struct APIErrorResponse: Codable, Hashable, Sendable {
    /// The number of the error. It is stable, unlike the message.
    public var errorCode: Open<APIErrorCode>?
    /// A sentence for developers.
    public var errorMessage: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The answer of the Advanced Commerce API to a refused request. Its error codes overlap with the error codes of the
/// App Store Server API.
public struct AdvancedCommerceErrorResponse: Codable, Hashable, Sendable {
    /// The number of the error. It is stable, unlike the message.
    public var errorCode: Open<AdvancedCommerceErrorCode>?
    /// A sentence for developers.
    public var errorMessage: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The reason why the App Store Server API refused a request. The cases have Apple's names without `Error` at the end.
public enum APIErrorCode: Int64, CaseIterable, Sendable {
    case generalBadRequest = 4000000
    case invalidAppIdentifier = 4000002
    case invalidLimit = 4000004
    case invalidRequestRevision = 4000005
    case invalidTransactionId = 4000006
    case invalidOriginalTransactionId = 4000008
    case invalidExtendByDays = 4000009
    case invalidExtendReasonCode = 4000010
    case invalidRequestIdentifier = 4000011
    case startDateTooFarInPast = 4000012
    case startDateAfterEndDate = 4000013
    case invalidPaginationToken = 4000014
    case invalidStartDate = 4000015
    case invalidEndDate = 4000016
    case paginationTokenExpired = 4000017
    case invalidNotificationType = 4000018
    case multipleFiltersSupplied = 4000019
    case invalidTestNotificationToken = 4000020
    case invalidSort = 4000021
    case invalidProductType = 4000022
    case invalidProductId = 4000023
    case invalidSubscriptionGroupIdentifier = 4000024
    case invalidExcludeRevoked = 4000025
    case invalidInAppOwnershipType = 4000026
    case invalidEmptyStorefrontCountryCodeList = 4000027
    case invalidStorefrontCountryCode = 4000028
    case invalidRevoked = 4000030
    case invalidStatus = 4000031
    case invalidAccountTenure = 4000032
    case invalidAppAccountToken = 4000033
    case invalidConsumptionStatus = 4000034
    case invalidCustomerConsented = 4000035
    case invalidDeliveryStatus = 4000036
    case invalidLifetimeDollarsPurchased = 4000037
    case invalidLifetimeDollarsRefunded = 4000038
    case invalidPlatform = 4000039
    case invalidPlayTime = 4000040
    case invalidSampleContentProvided = 4000041
    case invalidUserStatus = 4000042
    case invalidTransactionNotConsumable = 4000043
    case invalidRefundPreference = 4000044
    case invalidTransactionTypeNotSupported = 4000047
    case appTransactionIdNotSupported = 4000048
    case invalidImage = 4000161
    case headerTooLong = 4000162
    case bodyTooLong = 4000163
    case invalidLocale = 4000164
    case altTextTooLong = 4000175
    case invalidAppAccountTokenUUID = 4000183
    case familyTransactionNotSupported = 4000185
    case transactionIdIsNotOriginalTransactionId = 4000187
    case consumptionPercentageAutoRenewableSubscription = 4000209
    case invalidPerformanceTestRequest = 4000211
    case invalidRequestId = 4000212
    case existingPerformanceTestRun = 4000213
    case badRequestRealtimeUrl = 4000215
    case badRequestImageSize = 4000216
    case badRequestTooManyBulletPoints = 4000218
    case badRequestBulletPointTextTooLong = 4000219
    case badRequestAboveImageRequiresAnImage = 4000224
    case invalidGroupId = 4000225
    case invalidAssignedTransactionNotSupported = 4000227
    case subscriptionExtensionIneligible = 4030004
    case subscriptionMaxExtension = 4030005
    case familySharedSubscriptionExtensionIneligible = 4030007
    case maximumNumberOfImagesReached = 4030014
    case maximumNumberOfMessagesReached = 4030016
    case messageNotApproved = 4030017
    case imageNotApproved = 4030018
    case imageInUse = 4030019
    case forbiddenNoPassingTest = 4030026
    case assignedSubscriptionExtensionIneligible = 4030028
    case accountNotFound = 4040001
    case accountNotFoundRetryable = 4040002
    case appNotFound = 4040003
    case appNotFoundRetryable = 4040004
    case originalTransactionIdNotFound = 4040005
    case originalTransactionIdNotFoundRetryable = 4040006
    case serverNotificationURLNotFound = 4040007
    case testNotificationNotFound = 4040008
    case statusRequestNotFound = 4040009
    case transactionIdNotFound = 4040010
    case imageNotFound = 4040014
    case messageNotFound = 4040015
    case performanceTestRunNotFound = 4040018
    case appTransactionDoesNotExist = 4040019
    case defaultMessageNotFound = 4040020
    case realtimeUrlNotFound = 4040021
    case groupNotFound = 4040022
    case imageAlreadyExists = 4090000
    case messageAlreadyExists = 4090001
    case rateLimitExceeded = 4290000
    case generalInternal = 5000000
    case generalInternalRetryable = 5000001

    /// Whether the same request may succeed later. After `rateLimitExceeded`, retry at the time in `Retry-After`.
    public var isRetryable: Bool {
        switch self {
        case .accountNotFoundRetryable, .appNotFoundRetryable, .originalTransactionIdNotFoundRetryable,
            .rateLimitExceeded, .generalInternalRetryable:
            true
        default: false
        }
    }
}

/// The reason why the Advanced Commerce API refused a request. The cases have Apple's names without `Error` at the end.
public enum AdvancedCommerceErrorCode: Int64, CaseIterable, Sendable {
    case invalidTransactionId = 4000006
    case invalidStorefront = 4000028
    case invalidAppAccountToken = 4000033
    case invalidCurrency = 4000053
    case oneItemNeededInModify = 4000063
    case nullRequestInfo = 4000079
    case nullRequestReferenceID = 4000080
    case invalidRequestReferenceID = 4000081
    case invalidConsistencyToken = 4000082
    case nullVersion = 4000083
    case unexpectedVersion = 4000084
    case nullTransactionId = 4000085
    case negativePrice = 4000086
    case skuLengthExceeded = 4000087
    case descriptionLengthExceeded = 4000088
    case displayNameLengthExceeded = 4000089
    case negativeProratedPrice = 4000091
    case nullOfferPeriod = 4000092
    case nullPeriodCount = 4000093
    case periodCountNotPositive = 4000094
    case nullReason = 4000095
    case invalidPreviousTransactionID = 4000096
    case repeatedRequestReferenceId = 4000097
    case nullCurrency = 4000098
    case nullTaxCode = 4000099
    case nullStorefront = 4000100
    case nullItems = 4000101
    case nullItem = 4000102
    case nullDescriptors = 4000103
    case nullPeriod = 4000104
    case nullSKU = 4000105
    case nullDisplayName = 4000106
    case nullDescription = 4000107
    case nullPrice = 4000109
    case nullRetainBillingCycle = 4000110
    case nullEffective = 4000111
    case nullNewSKU = 4000112
    case invalidPreviousSubscription = 4000113
    case productAlreadyExists = 4000114
    case invalidProductChanges = 4000115
    case invalidSalable = 4000116
    case invalidSalableDuration = 4000117
    case invalidDisplayName = 4000118
    case invalidDescription = 4000119
    case invalidProduct = 4000121
    case invalidSKU = 4000122
    case invalidRefundType = 4000123
    case invalidRefundReason = 4000124
    case invalidChangeReason = 4000125
    case invalidOfferReason = 4000126
    case invalidTaxProductCode = 4000127
    case invalidOfferPeriod = 4000128
    case invalidOfferPeriodCount = 4000129
    case invalidRenewalPeriod = 4000130
    case invalidRenewalPrice = 4000131
    case invalidAmount = 4000132
    case mismatchedStorefront = 4000133
    case missingPricingConfigForStorefront = 4000134
    case operationNotAllowed = 4000135
    case moreItemsThanAllowed = 4000136
    case moreOffersThanAllowed = 4000137
    case emptyAddChangeItems = 4000139
    case missingUpdatedItemsWithPeriodChange = 4000140
    case periodResetWithRetainBillingCycle = 4000141
    case periodChangeEffectiveConflict = 4000142
    case multipleOperationsOnSingleSKU = 4000143
    case removeItemsWithoutAddOrChangeItems = 4000144
    case removeItemNotFound = 4000145
    case changeItemNotFound = 4000146
    case misalignedBillingCycle = 4000147
    case billingCycleResetWithEffectiveLater = 4000148
    case periodChangeImmediateWithEffectiveAtNextBillingCycle = 4000149
    case multiplePrices = 4000150
    case invalidProratedPrice = 4000151
    case invalidOfferPrice = 4000152
    case nullRefundAmount = 4000153
    case negativeRefundAmount = 4000154
    case refundAmountWithoutCustom = 4000155
    case nullRefundReason = 4000156
    case nullRefundType = 4000157
    case simulateRefundDeclineOnlyInSandbox = 4000158
    case nullRefundRisking = 4000159
    case atLeastOneItem = 4000160
    case atLeastOneOfDisplayNameOrDescription = 4000165
    case nullTargetProductID = 4000166
    case invalidTargetProductID = 4000167
    case removalAllNotAllowed = 4000168
    case nullCurrentSKU = 4000169
    case currentSKULengthExceeded = 4000170
    case nullAdvancedCommerceData = 4000171
    case invalidOperation = 4000172
    case malformedPayload = 4000173
    case invalidSignature = 4000174
    case subscriptionAlreadyMigrated = 4000176
    case offerPreventsItemMidCycleChange = 4000177
    case priceChangeNotSupportedThroughModifyItems = 4000178
    case itemLimitExceeded = 4000179
    case pendingChangesMismatch = 4000180
    case pendingRefund = 4000181
    case proratedOnlyLatestTransaction = 4000182
    case partialSimulateRefundDecline = 4000184
    case revokeOnInactiveSubscription = 4000186
    case dependentSKUsCannotBeShared = 4000192
    case dependentSKUsCannotBeChained = 4000193
    case itemCannotBeSpecifiedMultipleTimes = 4000194
    case priceChangeCannotBeIssuedWhenAlreadyCommunicated = 4000205
    case invalidPriceForChangeItemInPriceIncrease = 4000214
    case invalidSKUProvidedMustBeCurrentSKUSetToRenew = 4000220
    case acaPriceIncreaseIsNotCurrentlySupportedInIndia = 4000221
    case invalidProratedPriceForChangeItemWithEffectiveLater = 4000222
    case freeTrialOfferMustUsePeriodCountOfOne = 4000223
    case unauthorized = 4010000
    case subscriptionDoesNotExist = 4030008
    case subscriptionAlreadyExists = 4030009
    case subscriptionNotEligible = 4030010
    case subscriptionAlreadyActive = 4030011
    case productNotOwned = 4030013
    case inactiveACASub = 4030015
    case insufficientFunds = 4030020
    case alreadyRefunded = 4030021
    case storefrontChange = 4030022
    case productNotEligible = 4030023
    case transactionNotRefundable = 4030024
    case transactionCannotBeRefundedContactSupport = 4030025
    case migrationNotAllowedWhenPriceIncreaseCommunicated = 4030027
    case transactionIdNotFound = 4040010
    case productNotFound = 4040016
    case rateLimitExceeded = 4290000
    case generalInternal = 5000000
    case generalInternalRetryable = 5000001

    /// Whether the same request may succeed later. After `rateLimitExceeded`, retry at the time in `Retry-After`.
    public var isRetryable: Bool {
        self == .rateLimitExceeded || self == .generalInternalRetryable
    }
}

extension Open<APIErrorCode> {
    /// The HTTP status of the answer: the first three of the seven digits.
    public var httpStatus: Int { Int(rawValue / 10_000) }
}

extension Open<AdvancedCommerceErrorCode> {
    /// The HTTP status of the answer: the first three of the seven digits.
    public var httpStatus: Int { Int(rawValue / 10_000) }
}

extension APIErrorCode {
    /// Apple's name, such as `TransactionIdNotFoundError`.
    public var name: String { appleName(of: self) }
}

extension AdvancedCommerceErrorCode {
    /// Apple's name, such as `NullSKUError`.
    public var name: String { appleName(of: self) }
}

/// Apple's name of a case: with a capital first letter and with `Error` at the end.
private func appleName(of code: some Any) -> String {
    let name = "\(code)"
    // Apple writes these abbreviations entirely in capitals.
    for abbreviation in ["aca", "sku"] where name.hasPrefix(abbreviation) {
        return abbreviation.uppercased() + name.dropFirst(abbreviation.count) + "Error"
    }
    return name.prefix(1).uppercased() + name.dropFirst() + "Error"
}
