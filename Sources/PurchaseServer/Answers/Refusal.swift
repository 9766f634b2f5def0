// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Hummingbird
import PurchaseLedger

/// An error of the HTTP API: a status, a stable code and a sentence for people.
struct Refusal: Error {
    var status: HTTPResponse.Status
    var code: String
    var message: String
    /// Whether the same request may succeed later.
    var isRetryable = false
    /// The seconds that a client should wait before it retries (RFC 9110 section 10.2.3); `nil` if unknown.
    var retryAfter: Int64?
    /// Why the document was refused, if that is the reason.
    var cause: VerificationError?
    /// The cursor after which the remaining events begin, if the events after the cursor in the request were erased.
    var oldestCursor: EventCursor?
    /// Whether overload is the reason. The log then has at most one warning a minute, instead of one for each request.
    var isOverload = false

    static let noKey = Refusal(
        status: .unauthorized, code: "unauthorized", message: "Send an API key: Authorization: Bearer qt_….")
    static let notServer = Refusal(
        status: .forbidden, code: "forbidden",
        message: "This route needs a server key; the key in the request is a client key.")

    static let overloaded = Refusal(
        status: .serviceUnavailable, code: "overloaded",
        message: "The server is overloaded. Retry in \(ServerBounds.retryAfter) seconds.", isRetryable: true,
        retryAfter: ServerBounds.retryAfter, isOverload: true)

    static func notFound(_ what: String) -> Refusal {
        Refusal(status: .notFound, code: "notFound", message: "\(what) is not known here.")
    }

    static func invalid(_ message: String) -> Refusal {
        Refusal(status: .badRequest, code: "invalidRequest", message: message)
    }
}

extension Refusal {
    /// The refusal of a document: 503 if it may be accepted later, otherwise 400.
    init(_ error: VerificationError) {
        self.init(
            status: error.isRetryable ? .serviceUnavailable : .badRequest, code: error.code.rawValue,
            message: error.message, isRetryable: error.isRetryable, cause: error)
    }

    /// The refusal of a genuine document that this version cannot read: 503, so that the sender retries and a newer
    /// version can read it.
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
                message: "after is not a cursor of this app: send the nextCursor of the last page, or omit it.")
        case .expired(let oldest):
            self.init(
                status: .gone, code: "cursorExpired",
                message: "Events after this cursor were erased. The remaining events begin after oldest.",
                oldestCursor: oldest)
        }
    }

    init(_ error: LedgerStorageError) {
        self.init(
            status: .serviceUnavailable, code: "storageUnavailable",
            message: "The ledger is unavailable, and nothing was recorded. Retry later.", isRetryable: true)
    }
}
