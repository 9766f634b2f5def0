// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Hummingbird
import PurchaseLedger

/// Why a request of our own API is not answered: a status, a stable code and a sentence.
struct Refusal: Error {
    var status: HTTPResponse.Status
    var code: String
    var message: String
    /// Whether the same request may succeed later.
    var isRetryable = false
    /// In seconds, how long a client should wait before that (RFC 9110 section 10.2.3); `nil` if there is no telling.
    var retryAfter: Int64?
    /// Why a document was not accepted, if that is the reason.
    var cause: VerificationError?
    /// Behind which cursor the events begin that are left, if those behind the cursor that was sent were erased.
    var oldestCursor: EventCursor?
    /// Whether it is refused because of what others ask for. The log says so once a minute, not each time.
    var isOverload = false

    static let noKey = Refusal(
        status: .unauthorized, code: "unauthorized", message: "Send an API key: Authorization: Bearer qt_….")
    static let notServer = Refusal(
        status: .forbidden, code: "forbidden", message: "This needs a server key, and the key sent is a client key.")

    static let overloaded = Refusal(
        status: .serviceUnavailable, code: "overloaded",
        message: "Too much is being sent here. Send it again in \(ServerBounds.retryAfter) seconds.", isRetryable: true,
        retryAfter: ServerBounds.retryAfter, isOverload: true)

    static func notFound(_ what: String) -> Refusal {
        Refusal(status: .notFound, code: "notFound", message: "\(what) is not known here.")
    }

    static func invalid(_ message: String) -> Refusal {
        Refusal(status: .badRequest, code: "invalidRequest", message: message)
    }
}

extension Refusal {
    /// What a document was refused for. What may pass later is not the sender's fault.
    init(_ error: VerificationError) {
        self.init(
            status: error.isRetryable ? .serviceUnavailable : .badRequest, code: error.code.rawValue,
            message: error.message, isRetryable: error.isRetryable, cause: error)
    }

    /// What is genuine, and too new for this version: worth sending again.
    static func unreadable(_ error: VerificationError) -> Refusal {
        Refusal(
            status: .serviceUnavailable, code: error.code.rawValue, message: error.message, isRetryable: true,
            cause: error)
    }

    init(_ error: EventCursorError) {
        switch error {
        case .invalid:
            self.init(
                status: .badRequest, code: "invalidCursor",
                message: "after is no cursor of this app's events: send the nextCursor of the last page, or none.")
        case .expired(let oldest):
            self.init(
                status: .gone, code: "cursorExpired",
                message: "Events behind this cursor were erased. Those that are left begin behind oldest.",
                oldestCursor: oldest)
        }
    }

    init(_ error: LedgerStorageError) {
        self.init(
            status: .serviceUnavailable, code: "storageUnavailable",
            message: "The ledger cannot be used now; nothing was stored. Retry later.", isRetryable: true)
    }
}
