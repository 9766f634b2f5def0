// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Apple's rate limits: a number of calls per second to each endpoint. The store enforces it as a number of calls per
// hour (a budget).

extension StoreRoute {
    /// The number of calls per second that Apple permits an app to make to the endpoint in production.
    ///
    /// Apple's table has no row for ``extensionStatus``. That endpoint gets the same number as ``extendAll``.
    public var callsPerSecond: Int {
        switch self {
        case .transactionInfo, .history, .historyV1, .statuses, .appTransactionInfo, .finish, .consumption,
            .consumptionV1, .notificationHistory:
            50
        case .appAccountToken, .extend: 20
        case .orderLookup, .refunds, .refundsV1, .setDefaultMessage: 10
        case .extendAll, .extensionStatus, .testNotification, .testNotificationStatus, .uploadImage, .deleteImage,
            .images, .uploadMessage, .deleteMessage, .messages, .defaultMessage, .deleteDefaultMessage, .setRealtimeURL,
            .realtimeURL, .deleteRealtimeURL, .performanceTest, .performanceTestResult:
            1
        }
    }

    /// The number of calls that an app may make in an hour: in production 3,600 times ``callsPerSecond``, and in the
    /// sandbox a tenth of this number.
    ///
    /// - Parameter scale: The factor on Apple's number. At least one call is always permitted.
    public func callsPerHour(in environment: Environment, scale: Double = 1) -> Int {
        let calls = callsPerSecond * 3600 / (environment == .production ? 1 : 10)
        return max(1, Int(Double(calls) * min(max(scale, 0), Faults.maxScale)))
    }
}

/// Counts the calls in the present hour of the wall clock, for each endpoint and environment.
struct CallBudgets: Hashable, Sendable {
    private struct Budget: Hashable {
        var route: StoreRoute
        var environment: Environment
    }

    private static let length: Int64 = 3_600_000

    private var hour: Int64 = 0
    private var calls: [Budget: Int] = [:]

    /// Counts a call.
    ///
    /// - Returns: `nil` if the call is within the budget, otherwise the start of the next hour.
    mutating func count(
        _ route: StoreRoute, in environment: Environment, at now: Timestamp, scale: Double
    ) -> Timestamp? {
        let present = now.milliseconds / Self.length
        if present != hour {
            hour = present
            calls = [:]
        }
        let made = calls[Budget(route: route, environment: environment), default: 0]
        guard made < route.callsPerHour(in: environment, scale: scale) else {
            return Timestamp(milliseconds: (present + 1) * Self.length)
        }
        calls[Budget(route: route, environment: environment)] = made + 1
        return nil
    }
}
