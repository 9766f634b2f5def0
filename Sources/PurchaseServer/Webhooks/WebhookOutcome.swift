// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import NIOCore
import NIOHTTP1
import NIOSSL
import OutgoingHTTP
import PurchaseLedger

/// The outcome of an attempt to deliver an event to an endpoint.
package struct WebhookOutcome: Hashable, Sendable {
    /// The status of the answer; `nil` if there was no answer.
    package var status: Int?
    /// The reason for a failure: a phrase. `nil` after a success: an answer with a status from 200 to 299.
    package var failure: String?
    /// The reason why no address of the host is called, for the operator alone: with it, the holder of a key could find
    /// out which names the operator's network knows, and their addresses. ``failure`` is ``refused`` then.
    package var refusal: String?
    /// The pause that the receiver asked for (`Retry-After`), at most a day; `nil` if it did not, or after a success.
    package var retryAfter: Duration?
    /// The time until the answer or the failure, in milliseconds.
    package var milliseconds: Int
    /// The beginning of the answer's body, at most `WebhookAttempt.answerLimit` bytes, in which control characters are
    /// blanks.
    package var answer: String

    package init(
        status: Int? = nil, failure: String? = nil, refusal: String? = nil, retryAfter: Duration? = nil,
        milliseconds: Int, answer: String = ""
    ) {
        self.status = status
        self.failure = refusal == nil ? failure : Self.refused
        self.refusal = refusal
        self.retryAfter = retryAfter
        self.milliseconds = milliseconds
        self.answer = answer
    }
}

extension WebhookOutcome {
    /// The failure of each host that is not called, whether its name is unknown or has a forbidden address.
    package static let refused = "refused"

    /// The longest pause that a receiver may ask for, in milliseconds: a day, the longest of the steps.
    private static let longestPause: Int64 = 86_400_000

    /// The outcome of an exchange.
    ///
    /// - Parameters:
    ///   - now: The time of the request.
    ///   - limit: The time that the exchange may take.
    init(_ answer: WebhookExchange.Answer, at now: Timestamp, milliseconds: Int, limit: Duration) {
        let isSuccess = answer.failure == nil && answer.status.map { (200...299).contains($0) } ?? false
        var failure: String?
        if let error = answer.failure {
            failure = error.reason(hasHead: answer.status != nil, limit: limit)
        } else if let status = answer.status, !isSuccess {
            failure = (300...399).contains(status) ? "\(status) (redirects are not followed)" : "\(status)"
        }
        let next = isSuccess ? nil : RetryAfter.time(answer.retryAfter, at: now, longest: Self.longestPause)
        self.init(
            status: answer.status, failure: failure,
            retryAfter: next.map { .milliseconds($0.milliseconds - now.milliseconds) }, milliseconds: milliseconds,
            answer: String(visible: answer.body, limit: WebhookAttempt.answerLimit))
    }
}

extension Duration {
    /// The duration for people, such as `20 s`.
    var inSeconds: String {
        let milliseconds = self / .milliseconds(1)
        return milliseconds >= 1000 ? "\(Int(milliseconds / 1000)) s" : "\(Int(milliseconds)) ms"
    }
}

extension WebhookExchange.Failure {
    /// The reason in words for people.
    ///
    /// - Parameters:
    ///   - hasHead: Whether the answer had a status.
    ///   - limit: The time that the exchange may take.
    fileprivate func reason(hasHead: Bool, limit: Duration) -> String {
        let isEarly = hasHead ? "the answer ended early" : "the connection was closed without an answer"
        switch self {
        case .cancelled: return "cancelled"
        case .timeout:
            return hasHead ? "the answer did not end within \(limit.inSeconds)" : "no answer within \(limit.inSeconds)"
        case .noConnection(ChannelError.connectTimeout): return "no connection within \(limit.inSeconds)"
        case .closed, .stale, .broken(NIOSSLError.uncleanShutdown): return isEarly
        case .tooLong: return "the fields of the answer are too long"
        case .broken(HTTPParserError.invalidEOFState): return "the answer ended early"
        case .broken(is HTTPParserError): return "the answer is not HTTP"
        case .noConnection(let error), .broken(let error):
            return OutgoingHTTP.reason(of: error)
        }
    }
}
