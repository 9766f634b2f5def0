// SPDX-License-Identifier: Apache-2.0

/// The result of verifyReceipt: Apple's `status`.
public enum VerifyReceiptStatus: Int, Error, CaseIterable, Sendable {
    case valid = 0
    /// The request was not an HTTP POST or, according to Apple's older documentation, was not readable JSON.
    case unreadableRequest = 21000
    /// Apple no longer sends this status.
    case retired = 21001
    /// `receipt-data` is missing or malformed, or the App Store had a temporary fault.
    case malformedReceipt = 21002
    /// The receipt could not be authenticated.
    case unauthenticReceipt = 21003
    /// The shared secret does not belong to the app.
    case wrongSharedSecret = 21004
    /// The receipt server was unavailable.
    case unavailable = 21005
    /// A genuine receipt of an expired subscription. Only for transaction receipts from before iOS 7.
    case expiredSubscription = 21006
    /// A sandbox receipt came to the production endpoint.
    case sandboxReceipt = 21007
    /// A production receipt came to the sandbox endpoint.
    case productionReceipt = 21008
    /// An internal data access error. Retry later.
    case internalDataAccess = 21009
    /// The account was not found or has been deleted.
    case accountNotFound = 21010
}
