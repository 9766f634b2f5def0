// SPDX-License-Identifier: Apache-2.0

/// A question to verifyReceipt: Apple's `requestBody`.
public struct VerifyReceiptRequest: Hashable, Sendable {
    /// The longest body that the App Store accepts, in bytes; one more is HTTP 413.
    public static let sizeLimit = 3_145_728

    /// `receipt-data`: the receipt as base64.
    public var receiptData: String
    /// `password`: the app's shared secret.
    public var password: String?
    /// `exclude-old-transactions`: only the latest renewal of each subscription is wanted.
    public var excludeOldTransactions: Bool

    public init(receiptData: String, password: String? = nil, excludeOldTransactions: Bool = false) {
        self.receiptData = receiptData
        self.password = password
        self.excludeOldTransactions = excludeOldTransactions
    }
}

extension VerifyReceiptRequest {
    /// Reads a request; members that are not known are ignored, and of duplicates the last counts.
    ///
    /// - Throws: ``VerifyReceiptStatus``: the answer to a body that is no such request.
    public init(parsing body: some Sequence<UInt8>) throws(VerifyReceiptStatus) {
        guard let json = try? JSONValue(parsing: body) else { throw .unreadableRequest }
        guard let data = json["receipt-data"]?.string else { throw .malformedReceipt }
        receiptData = data
        password = json["password"]?.string
        excludeOldTransactions = json["exclude-old-transactions"] == .bool(true)
    }
}

/// An answer of verifyReceipt: Apple's `responseBody`.
public struct VerifyReceiptResponse: Hashable, Sendable {
    /// `status`: 0 for a genuine receipt.
    public var status: Open<VerifyReceiptStatus>
    /// `environment`: `Production` or `Sandbox`.
    public var environment: Open<Environment>?
    /// `receipt`: what the receipt that was sent says. Only with status 0.
    public var receipt: Receipt?

    public init(status: VerifyReceiptStatus, environment: Environment? = nil, receipt: Receipt? = nil) {
        self.status = Open(status)
        self.environment = environment.map(Open.init)
        self.receipt = receipt
    }

    /// The answer as JSON, in the order of the App Store's own.
    public var json: [UInt8] {
        // A purchase takes about 1,000 bytes.
        var json = JSONWriter(reservingCapacity: 2048 + 1024 * (receipt?.inApp.count ?? 0))
        json.object { json in
            if let receipt {
                json.name("receipt")
                receipt.write(to: &json)
            }
            json.member("environment", environment?.rawValue)
            json.member("status", number: status.rawValue)
        }
        return json.bytes
    }
}

/// What verifyReceipt says about a receipt: Apple's `status`.
public enum VerifyReceiptStatus: Int, Error, CaseIterable, Sendable {
    case valid = 0
    /// Not an HTTP POST, or by Apple's older text JSON that could not be read.
    case unreadableRequest = 21000
    /// Apple does not send it any more.
    case retired = 21001
    /// `receipt-data` is missing or malformed, or the App Store had a passing fault.
    case malformedReceipt = 21002
    /// The receipt could not be authenticated.
    case unauthenticReceipt = 21003
    /// The shared secret is not the app's.
    case wrongSharedSecret = 21004
    /// The receipt server was unavailable.
    case unavailable = 21005
    /// Genuine, but the subscription has expired: iOS 6 style receipts only.
    case expiredSubscription = 21006
    /// A sandbox receipt came to the production endpoint.
    case sandboxReceipt = 21007
    /// A production receipt came to the sandbox endpoint.
    case productionReceipt = 21008
    /// Internal data access error; try again later.
    case internalDataAccess = 21009
    /// The account was not found or has been deleted.
    case accountNotFound = 21010
}
