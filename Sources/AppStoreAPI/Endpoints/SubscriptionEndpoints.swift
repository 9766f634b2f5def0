// SPDX-License-Identifier: Apache-2.0

// Endpoints of the App Store Server API for subscriptions and notifications.

public import AppStoreModel

extension Endpoint where Answer == StatusResponse {
    /// Get All Subscription Statuses: all subscriptions of a customer.
    ///
    /// - Parameter statuses: The statuses of the wanted subscriptions. An empty list means all subscriptions.
    public static func subscriptionStatuses(
        _ anyTransactionId: String, with statuses: [SubscriptionStatus] = []
    ) -> Self {
        var request = APIRequest("GET", "/inApps/v1/subscriptions/*", [anyTransactionId])
        request.add("status", statuses.map { "\($0.rawValue)" })
        return Self(
            EndpointRow(name: "Get All Subscription Statuses", request: request, rate: 50), requiring: "data",
            isEmpty: { $0.data?.allSatisfy { $0.lastTransactions?.isEmpty != false } != false })
    }
}

extension Endpoint where Answer == ExtendRenewalDateResponse {
    /// Extend a Subscription Renewal Date. Reuse the body's request identifier only to repeat the request.
    public static func extendRenewalDate(
        _ body: ExtendRenewalDateRequest, of originalTransactionId: String
    ) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/subscriptions/extend/*", [originalTransactionId])
        let row = EndpointRow(name: "Extend a Subscription Renewal Date", request: request, rate: 20)
        return Self(row.with(body), requiring: "success")
    }
}

extension Endpoint where Answer == MassExtendRenewalDateResponse {
    /// Extend Subscription Renewal Dates for All Active Subscribers.
    public static func extendRenewalDates(_ body: MassExtendRenewalDateRequest) -> Self {
        let row = EndpointRow(
            name: "Extend Subscription Renewal Dates for All Active Subscribers",
            request: .init("POST", "/inApps/v1/subscriptions/extend/mass"), rate: 1)
        return Self(row.with(body), requiring: "requestIdentifier")
    }
}

extension Endpoint where Answer == MassExtendRenewalDateStatusResponse {
    /// Get Status of Subscription Renewal Date Extensions. Apple documents no rate for this endpoint.
    public static func extensionStatus(of productId: String, requestIdentifier: String) -> Self {
        let row = EndpointRow(
            name: "Get Status of Subscription Renewal Date Extensions",
            request: .init("GET", "/inApps/v1/subscriptions/extend/mass/*/*", [productId, requestIdentifier]), rate: 1)
        return Self(row, requiring: "complete")
    }
}

// MARK: - Notifications

extension Endpoint where Answer == NotificationHistoryResponse {
    /// Get Notification History: a page of the notifications of up to 180 days, in the sandbox up to 30 days.
    public static func notificationHistory(_ body: NotificationHistoryRequest) -> Self {
        let row = EndpointRow(
            name: "Get Notification History", request: .init("POST", "/inApps/v1/notifications/history"), rate: 50)
        return Self(row.with(body), requiring: "hasMore", "notificationHistory") { page in
            (page.notificationHistory ?? []).allSatisfy { $0.signedPayload != nil }
        }
    }
}

extension Endpoint where Answer == SendTestNotificationResponse {
    /// Request a Test Notification.
    public static var requestTestNotification: Self {
        let row = EndpointRow(
            name: "Request a Test Notification", request: .init("POST", "/inApps/v1/notifications/test"), rate: 1,
            repetition: .onInvitation)
        return Self(row, requiring: "testNotificationToken")
    }
}

extension Endpoint where Answer == CheckTestNotificationResponse {
    /// Get Test Notification Status. Apple answers 4040008 until the first delivery attempt is recorded.
    public static func testNotificationStatus(_ testNotificationToken: String) -> Self {
        let row = EndpointRow(
            name: "Get Test Notification Status",
            request: .init("GET", "/inApps/v1/notifications/test/*", [testNotificationToken]), rate: 1)
        return Self(row, requiring: "signedPayload")
    }
}
