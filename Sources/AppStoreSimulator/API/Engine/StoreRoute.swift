// SPDX-License-Identifier: Apache-2.0

/// The endpoints of the App Store Server API in a simulated App Store, by short names.
public enum StoreRoute: String, CaseIterable, Sendable {
    /// Get Transaction Info.
    case transactionInfo
    /// Get Transaction History.
    case history
    /// Get Transaction History V1.
    case historyV1
    /// Get All Subscription Statuses.
    case statuses
    /// Get App Transaction Info.
    case appTransactionInfo
    /// Set App Account Token.
    case appAccountToken
    /// Finish Transaction.
    case finish
    /// Send Consumption Information.
    case consumption
    /// Send Consumption Information V1.
    case consumptionV1
    /// Look Up Order ID.
    case orderLookup
    /// Get Refund History.
    case refunds
    /// Get Refund History V1.
    case refundsV1
    /// Extend a Subscription Renewal Date.
    case extend
    /// Extend Subscription Renewal Dates for All Active Subscribers.
    case extendAll
    /// Get Status of Subscription Renewal Date Extensions.
    case extensionStatus
    /// Get Notification History.
    case notificationHistory
    /// Request a Test Notification.
    case testNotification
    /// Get Test Notification Status.
    case testNotificationStatus
    /// Upload Image.
    case uploadImage
    /// Delete Image.
    case deleteImage
    /// Get Image List.
    case images
    /// Upload Message.
    case uploadMessage
    /// Delete Message.
    case deleteMessage
    /// Get Message List.
    case messages
    /// Configure Default Message.
    case setDefaultMessage
    /// Get Default Message.
    case defaultMessage
    /// Delete Default Message.
    case deleteDefaultMessage
    /// Configure Realtime URL.
    case setRealtimeURL
    /// Get Realtime URL.
    case realtimeURL
    /// Delete Realtime URL.
    case deleteRealtimeURL
    /// Initiate Performance Test.
    case performanceTest
    /// Get Performance Test Results.
    case performanceTestResult
}
