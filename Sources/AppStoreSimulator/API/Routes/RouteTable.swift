// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// An endpoint: its method, its path, and the function that answers.
struct Route: Sendable {
    typealias Answer = @Sendable (inout SimulatedStore, StoreCall) throws -> StoreResponse

    let name: StoreRoute
    let method: String
    /// The parts of the path; `nil` for each variable part.
    let path: [Substring?]
    /// The environments whose hosts have the endpoint.
    let environments: Set<Environment>
    let answer: Answer

    private init(
        _ name: StoreRoute, _ method: String, _ path: String,
        in environments: Set<Environment> = [.production, .sandbox], _ answer: @escaping Answer
    ) {
        self.name = name
        self.method = method
        self.path = path.split(separator: "/", omittingEmptySubsequences: false).map { $0 == "*" ? nil : $0 }
        self.environments = environments
        self.answer = answer
    }

    /// The variable parts of a path, decoded; `nil` if the path does not match.
    func parameters(of path: [Substring]) -> [String]? {
        guard path.count == self.path.count else { return nil }
        var parameters: [String] = []
        for (part, own) in zip(path, self.path) {
            if let own {
                guard part == own else { return nil }
            } else {
                parameters.append(part.unescaped)
            }
        }
        return parameters
    }
}

extension Route {
    /// All routes. The first route that fits a request answers. A route with a fixed part therefore precedes the routes
    /// that have a variable part in the same place.
    static let all = transactions + subscriptions + notifications + images + messages

    private static let transactions = [
        Route(.appTransactionInfo, "GET", "/inApps/v1/transactions/appTransactions/*") {
            try $0.appTransactionInfo($1)
        },
        Route(.transactionInfo, "GET", "/inApps/v1/transactions/*") { try $0.transactionInfo($1) },
        Route(.appAccountToken, "PUT", "/inApps/v1/transactions/*/appAccountToken") { try $0.setAppAccountToken($1) },
        Route(.finish, "POST", "/inApps/v1/transactions/*/finish") { try $0.finish($1) },
        Route(.consumption, "PUT", "/inApps/v2/transactions/consumption/*") { try $0.consumption($1) },
        Route(.consumptionV1, "PUT", "/inApps/v1/transactions/consumption/*") { try $0.consumptionV1($1) },
        Route(.history, "GET", "/inApps/v2/history/*") { try $0.history($1) },
        Route(.historyV1, "GET", "/inApps/v1/history/*") { try $0.historyV1($1) },
        Route(.refunds, "GET", "/inApps/v2/refund/lookup/*") { try $0.refunds($1) },
        Route(.refundsV1, "GET", "/inApps/v1/refund/lookup/*") { try $0.refundsV1($1) },
        Route(.orderLookup, "GET", "/inApps/v1/lookup/*", in: [.production]) { try $0.lookUpOrder($1) },
    ]

    private static let subscriptions = [
        Route(.extensionStatus, "GET", "/inApps/v1/subscriptions/extend/mass/*/*") { try $0.extensionStatus($1) },
        Route(.extendAll, "POST", "/inApps/v1/subscriptions/extend/mass") { try $0.extendAll($1) },
        Route(.extend, "PUT", "/inApps/v1/subscriptions/extend/*") { try $0.extend($1) },
        Route(.statuses, "GET", "/inApps/v1/subscriptions/*") { try $0.statuses($1) },
    ]

    private static let notifications = [
        Route(.notificationHistory, "POST", "/inApps/v1/notifications/history") { try $0.notificationHistory($1) },
        Route(.testNotification, "POST", "/inApps/v1/notifications/test") { try $0.requestTestNotification($1) },
        Route(.testNotificationStatus, "GET", "/inApps/v1/notifications/test/*") { try $0.testNotification($1) },
    ]

    private static let images = [
        Route(.images, "GET", "/inApps/v1/messaging/image/list") { try $0.images($1) },
        Route(.uploadImage, "PUT", "/inApps/v1/messaging/image/*") { try $0.uploadImage($1) },
        Route(.deleteImage, "DELETE", "/inApps/v1/messaging/image/*") { try $0.deleteImage($1) },
    ]

    private static let messages = [
        Route(.messages, "GET", "/inApps/v1/messaging/message/list") { try $0.messages($1) },
        Route(.uploadMessage, "PUT", "/inApps/v1/messaging/message/*") { try $0.uploadMessage($1) },
        Route(.deleteMessage, "DELETE", "/inApps/v1/messaging/message/*") { try $0.deleteMessage($1) },
        Route(.setDefaultMessage, "PUT", "/inApps/v1/messaging/default/*/*") { try $0.setDefaultMessage($1) },
        Route(.defaultMessage, "GET", "/inApps/v1/messaging/default/*/*") { try $0.defaultMessage($1) },
        Route(.deleteDefaultMessage, "DELETE", "/inApps/v1/messaging/default/*/*") { try $0.deleteDefaultMessage($1) },
        Route(.setRealtimeURL, "PUT", "/inApps/v1/messaging/realtime/url") { try $0.setRealtimeURL($1) },
        Route(.realtimeURL, "GET", "/inApps/v1/messaging/realtime/url") { try $0.realtimeURL($1) },
        Route(.deleteRealtimeURL, "DELETE", "/inApps/v1/messaging/realtime/url") { try $0.deleteRealtimeURL($1) },
        Route(.performanceTest, "POST", "/inApps/v1/messaging/performanceTest", in: [.sandbox]) {
            try $0.startPerformanceTest($1)
        },
        Route(.performanceTestResult, "GET", "/inApps/v1/messaging/performanceTest/result/*", in: [.sandbox]) {
            try $0.performanceTestResult($1)
        },
    ]
}
