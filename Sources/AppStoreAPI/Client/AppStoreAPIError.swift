// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Why a call of Apple's servers has no answer.
public struct AppStoreAPIError: Error, Sendable, CustomStringConvertible {
    /// What went wrong, for programs.
    @nonexhaustive
    public enum Code: String, CaseIterable, Sendable {
        /// The environment has no server or not this endpoint, or the client does not use it. Nothing was sent.
        case noServer
        /// The request has an unusable id. Nothing was sent.
        case invalidRequest
        /// The rate limit leaves no room before the deadline. Nothing was sent; see ``AppStoreAPIError/retryAt``.
        case overBudget
        /// Apple refused the bearer token (401), and a new one too: the key, its issuer or the app's bundle id is
        /// wrong, or the key is revoked. A production server also refuses an app that has never been in the App Store.
        case credentials
        /// Apple refused the request because of the rate limit (4290000).
        case rateLimited
        /// Apple refused the request; see ``AppStoreAPIError/errorCode``, which every refusal of Apple's has.
        case refused
        /// Apple's server failed (5xx), or a server on the way answered in its place: a status 4xx without a number of
        /// Apple's.
        case unavailable
        /// There is no connection, or it broke.
        case unreachable
        /// There was no answer in time.
        case timedOut
        /// The answer is too long, no JSON, of another status than documented, or lacks what it must have.
        case malformedAnswer
        /// A list of pages does not end.
        case endlessPages
        /// The task was cancelled.
        case cancelled
    }

    /// What went wrong, for programs.
    public var code: Code
    /// What went wrong, for people: a sentence without ids, tokens and keys.
    public var message: String
    /// After a refused bearer token, what the operator should compare, as sentences: with the ids of key, issuer and
    /// app, none of which is secret, and how far this machine's clock is wrong. `nil` after any other error.
    public var causes: String?
    /// The environment that was called; `nil` if none was.
    public var environment: Environment?
    /// The HTTP status; `nil` if there was no answer.
    public var status: Int?
    /// Apple's number, of the App Store Server API and Retention Messaging.
    public var errorCode: Open<APIErrorCode>?
    /// Apple's number, of the Advanced Commerce API.
    public var advancedCommerceErrorCode: Open<AdvancedCommerceErrorCode>?
    /// The earliest time at which the same call may succeed, if it is known.
    public var retryAt: Timestamp?
    /// Whether production refused the bearer token and the sandbox accepted it, so that the key is not wrong for all.
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
        case .overBudget, .rateLimited, .unavailable, .unreachable, .timedOut, .malformedAnswer: true
        case .refused: isInvitation
        default: false
        }
    }

    /// Whether Apple did not carry out the request and asks for another attempt.
    var isInvitation: Bool {
        code == .rateLimited || errorCode?.known?.isRetryable == true
            || advancedCommerceErrorCode?.known?.isRetryable == true
    }

    /// Whether the error has a number, by which Apple's own servers are known.
    var hasNumber: Bool { errorCode != nil || advancedCommerceErrorCode != nil }

    /// Whether Apple refused the bearer token. A key that does not sign has no token.
    var isRefusalOfToken: Bool { code == .credentials && status != nil }

    /// Whether no answer arrived, so that nobody knows if Apple carried out the request.
    var isSilence: Bool { code == .unreachable || code == .timedOut }

    /// Whether Apple does not know the transaction id in this environment.
    package var isUnknownTransaction: Bool {
        errorCode == .transactionIdNotFound || errorCode == .originalTransactionIdNotFound
    }

    /// The code, the message, and the causes if they are known.
    public var description: String { "\(code.rawValue): \(message)\(causes.map { " \($0)" } ?? "")" }
}
