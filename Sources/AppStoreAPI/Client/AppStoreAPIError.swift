// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The error of a failed call to Apple's servers.
public struct AppStoreAPIError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure, for programs.
    @nonexhaustive
    public enum Code: String, CaseIterable, Sendable {
        /// The environment has no server or lacks this endpoint, or the client does not use the environment. Nothing
        /// was sent.
        case noServer
        /// The request has an unusable id or an unwritable body. Nothing was sent.
        case invalidRequest
        /// The rate limit leaves no room before the deadline. Nothing was sent; see ``AppStoreAPIError/retryAt``.
        case overBudget
        /// Apple refused the bearer token (401), and then a new token too. The key, its issuer or the app's bundle id
        /// is wrong, the key is revoked, or this machine's clock is wrong. A production server also refuses an app that
        /// has never been in the App Store. Without a ``AppStoreAPIError/status``, the key could not sign a token.
        case credentials
        /// Apple refused the request because of the rate limit (4290000).
        case rateLimited
        /// Apple refused the request. Each of Apple's refusals has a number: ``AppStoreAPIError/errorCode`` or
        /// ``AppStoreAPIError/advancedCommerceErrorCode``.
        case refused
        /// Apple's server failed (5xx), or an intermediate server answered in its place, with a status 4xx or 5xx and
        /// without Apple's number.
        case unavailable
        /// No connection was possible, or the connection broke.
        case unreachable
        /// No answer arrived in time.
        case timedOut
        /// The answer is too long, is not JSON, lacks a required member, or has an undocumented status, or a body where
        /// Apple sends none.
        case malformedAnswer
        /// The answer contradicts what Apple said before: Apple refused an id that it had answered about, or sent an
        /// empty list of what it had signed, or a page leads to a page that was read before.
        case contradiction
        /// A list has more pages than the caller allows.
        case endlessPages
        /// The task was cancelled.
        case cancelled
    }

    /// The kind of failure, for programs.
    public var code: Code
    /// A description of the failure, for people: a sentence without ids, tokens and keys.
    public var message: String
    /// After a refused bearer token, sentences for the operator about possible causes. They give the ids of the key,
    /// the issuer and the app, none of which is secret. If this machine's clock is wrong, they say by how much. After a
    /// body that Apple does not send, the beginning of this body. `nil` after any other error.
    public var causes: String?
    /// The environment of the call; `nil` if none was called.
    public var environment: Environment?
    /// The HTTP status; `nil` if no answer arrived.
    public var status: Int?
    /// Apple's error number in the App Store Server API and Retention Messaging.
    public var errorCode: Open<APIErrorCode>?
    /// Apple's error number in the Advanced Commerce API.
    public var advancedCommerceErrorCode: Open<AdvancedCommerceErrorCode>?
    /// The earliest time at which the same call may succeed; `nil` if unknown.
    public var retryAt: Timestamp?
    /// Whether production refused the bearer token and the sandbox accepted it. The key is then valid in the sandbox.
    package var isAcceptedBySandbox = false

    /// Creates an error.
    init(_ code: Code, _ message: String, in environment: Environment? = nil, retryAt: Timestamp? = nil) {
        self.code = code
        self.message = message
        self.environment = environment
        self.retryAt = retryAt
    }

    /// Whether the same call may succeed later without any change.
    public var isRetryable: Bool {
        switch code {
        case .overBudget, .rateLimited, .unavailable, .unreachable, .timedOut, .malformedAnswer, .contradiction: true
        case .refused: isInvitation
        default: false
        }
    }

    /// Whether Apple did not carry out the request and asks for a retry.
    var isInvitation: Bool {
        code == .rateLimited || errorCode?.known?.isRetryable == true
            || advancedCommerceErrorCode?.known?.isRetryable == true
    }

    /// Whether the error has Apple's number, which proves that Apple's own servers answered.
    var hasNumber: Bool { errorCode != nil || advancedCommerceErrorCode != nil }

    /// Whether Apple refused the bearer token. An error without a status means that the key could not sign a token.
    var isRefusalOfToken: Bool { code == .credentials && status != nil }

    /// Whether no answer arrived, so that the client does not know if Apple carried out the request.
    var isSilence: Bool { code == .unreachable || code == .timedOut }

    /// Whether the transaction id is unknown to Apple in this environment. Only the first answer about an id can say
    /// so.
    package var isUnknownTransaction: Bool {
        code == .refused && (errorCode == .transactionIdNotFound || errorCode == .originalTransactionIdNotFound)
    }

    /// The code, the message, and the causes if they are known.
    public var description: String { "\(code.rawValue): \(message)\(causes.map { " \($0)" } ?? "")" }
}
