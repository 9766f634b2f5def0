// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import PurchaseLedger
package import Reconciliation

/// The JSON of what the App Store answered to a question. No answer has a signed document or an account.
package struct LookupBody: Encodable, Sendable {
    /// The transactions, subscriptions or notifications, in Apple's order.
    var items: [LookupItemBody]
    /// Whether these are all items. If not, the App Store has more than 500, or more than could be read in time.
    var complete: Bool
    /// The number of new documents in the ledger; absent without `record`.
    var recorded: Int?
    /// The number of documents that the ledger had, or did not need; absent without `record`.
    var alreadyKnown: Int?

    package init(_ lookup: Lookup) {
        items = lookup.items.map { LookupItemBody($0) }
        complete = lookup.isComplete
        recorded = lookup.result?.new
        alreadyKnown = lookup.result?.known
    }
}

/// The JSON of a transaction, a subscription or a notification in an answer of the App Store.
struct LookupItemBody: Encodable, Sendable {
    /// Apple's members of the transaction; absent if the item has none.
    var transaction: JSONValue?
    /// Apple's members of the renewal info; absent if the item has none.
    var renewalInfo: JSONValue?
    /// Apple's members of the app transaction; absent if the item has none.
    var appTransaction: JSONValue?
    /// Apple's members of the notification, with those of its documents; absent if the item has none.
    var notification: JSONValue?
    /// Apple's status of the subscription: 1 active, 2 expired, 3 billing retry, 4 grace period, 5 revoked; absent for
    /// anything else.
    var status: Int?
    /// Apple's attempts to send the notification; absent for anything else.
    var attempts: [SendAttemptBody]?
    /// Why the server refuses a document in the answer; absent if all documents are valid.
    var refusal: String?

    init(_ item: Lookup.Item) {
        for document in item.documents {
            switch document.kind {
            case .transaction: transaction = document.members
            case .renewalInfo: renewalInfo = document.members
            case .appTransaction: appTransaction = document.members
            case .notification: notification = document.members
            case .receipt: break
            }
        }
        status = item.status?.rawValue
        attempts = item.attempts?.map { SendAttemptBody($0) }
        refusal = item.refusal
    }
}

/// The JSON of an attempt of the App Store to send a notification.
struct SendAttemptBody: Encodable, Sendable {
    /// The time of the attempt, in milliseconds since 1970; absent if Apple does not say it.
    var at: Timestamp?
    /// Apple's word for the result, such as `SUCCESS` or `TIMED_OUT`.
    var result: String
    /// What the result means, as a sentence.
    var meaning: String

    init(_ attempt: SendAttemptItem) {
        at = attempt.attemptDate
        result = attempt.sendAttemptResult?.rawValue ?? ""
        meaning = SendAttemptResult.meaning(of: attempt.sendAttemptResult)
    }
}

/// The JSON of a test notification that the App Store is going to send.
package struct TestNotificationBody: Encodable, Sendable {
    /// Apple's id of the test, with which `GET /v1/notifications/test/{id}` returns the result, for six months.
    var id: String
}

extension SendAttemptResult {
    /// What a result means, and what to do, as a sentence.
    package static func meaning(of result: Open<SendAttemptResult>?) -> String {
        switch result?.known {
        case .success: "A server at your URL accepted it: if it is not in this ledger, the URL leads to another server."
        case .timedOut: "The server did not answer in time: see whether it is overloaded, or a firewall drops packets."
        case .tlsIssue: "TLS failed: renew the certificate, send its whole chain, and allow TLS 1.2 or later."
        case .circularRedirect: "The URL redirects in a circle: enter the final URL in App Store Connect."
        case .noResponse: "The server sent no response: see whether the proxy reaches Quittance."
        case .socketIssue: "The connection failed: see DNS, the port, and the firewall."
        case .unsupportedCharset: "The answer has an unknown character set: another program answers at your URL."
        case .invalidResponse: "The answer is no HTTP: another program answers at your URL."
        case .prematureClose: "The connection ended before the answer: see the limits of the proxy."
        case .unsuccessfulHTTPResponseCode:
            "The answer was no success: the log of the server or of the proxy has its status."
        case .other, nil: "Apple names no reason: read the log of the proxy."
        }
    }
}
