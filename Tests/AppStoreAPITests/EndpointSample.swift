// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel

/// A call of each endpoint, with the ids that Apple's table is typed with.
struct EndpointSample: Sendable {
    /// Apple's name.
    var name: String
    var row: EndpointTests.Row
    var request: APIRequest
    /// The environment that has it.
    var environment: Environment
    /// Calls it.
    var call: @Sendable (AppStoreClient) async throws(AppStoreAPIError) -> Void

    private init<Answer>(_ endpoint: Endpoint<Answer>) {
        let environment = endpoint.environments.contains(.production) ? Environment.production : .sandbox
        (name, row, request, self.environment) = (endpoint.name, .init(endpoint), endpoint.request, environment)
        call = { client throws(AppStoreAPIError) in _ = try await client.send(endpoint, to: environment) }
    }

    static let all: [EndpointSample] = server + messaging + commerce

    private static let server: [EndpointSample] = [
        .init(.transactionInfo("11")), .init(.transactionHistory("11")), .init(.transactionHistoryV1("11")),
        .init(.subscriptionStatuses("11")), .init(.appTransactionInfo("11")),
        .init(.setAppAccountToken(.init(appAccountToken: "u"), of: "11")), .init(.finishTransaction("11")),
        .init(
            .sendConsumptionInformation(
                .init(customerConsented: true, deliveryStatus: Open(.delivered), sampleContentProvided: false),
                about: "11")),
        .init(.sendConsumptionInformationV1(.sample, about: "11")), .init(.lookUpOrder("M1")),
        .init(.refundHistory("11")), .init(.refundHistoryV1("11")),
        .init(
            .extendRenewalDate(
                .init(extendByDays: 1, extendReasonCode: Open(.other), requestIdentifier: "u"), of: "11")),
        .init(
            .extendRenewalDates(
                .init(
                    extendByDays: 1, extendReasonCode: Open(.other), requestIdentifier: "u", productId: "com.example.a")
            )),
        .init(.extensionStatus(of: "com.example.a", requestIdentifier: "u")),
        .init(
            .notificationHistory(
                .init(startDate: Timestamp(milliseconds: 1), endDate: Timestamp(milliseconds: 2)))),
        .init(.requestTestNotification), .init(.testNotificationStatus("t")), .init(.customerGroups("11")),
        .init(.groupMembers("9")), .init(.claimSeat(.init(requestIdentifier: "u"), of: "11")), .init(.seats(of: "11")),
        .init(.unclaimSeat("s", of: "11")), .init(.associateSeat("s", of: "11", with: .init(appTransactionId: "7"))),
    ]

    private static let messaging: [EndpointSample] = [
        .init(.uploadImage([1], as: "i")), .init(.deleteImage("i")), .init(.images),
        .init(.uploadMessage(.init(), as: "m")), .init(.deleteMessage("m")), .init(.messages),
        .init(.configureDefaultMessage(.init(), of: "com.example.a", in: "en-US")),
        .init(.defaultMessage(of: "com.example.a", in: "en-US")),
        .init(.deleteDefaultMessage(of: "com.example.a", in: "en-US")), .init(.configureRealtimeURL(.init())),
        .init(.realtimeURL), .init(.deleteRealtimeURL), .init(.startPerformanceTest(.init())),
        .init(.performanceTestResult("r")),
    ]

    private static let info = AdvancedCommerceRequestInfo(requestReferenceId: "u")

    private static let commerce: [EndpointSample] = [
        .init(.cancelSubscription(.init(requestInfo: info), of: "11")),
        .init(.changeSubscriptionMetadata(.init(requestInfo: info), of: "11")),
        .init(.changeSubscriptionPrice(.init(requestInfo: info, items: [.init(SKU: "s", price: 1990)]), of: "11")),
        .init(
            .migrateSubscription(
                .init(
                    requestInfo: info, descriptors: .init(), items: [],
                    targetProductId: "p", taxCode: "C003-00-1"), of: "11")),
        .init(
            .revokeSubscription(
                .init(
                    requestInfo: info, refundReason: Open(rawValue: "OTHER"), refundRiskingPreference: false,
                    refundType: Open(rawValue: "FULL")), of: "11")),
        .init(
            .requestRefund(.init(requestInfo: info, items: [], refundRiskingPreference: false), of: "11")),
    ]
}

extension ConsumptionRequestV1 {
    static let sample = ConsumptionRequestV1(
        customerConsented: true, consumptionStatus: Open(.undeclared), platform: Open(.apple),
        sampleContentProvided: false, deliveryStatus: Open(.deliveredAndWorking), appAccountToken: "",
        accountTenure: Open(.undeclared), playTime: Open(.undeclared), lifetimeDollarsRefunded: Open(.undeclared),
        lifetimeDollarsPurchased: Open(.undeclared), userStatus: Open(.active))
}
