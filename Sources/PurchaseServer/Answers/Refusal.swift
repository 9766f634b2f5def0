// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Hummingbird
import InputForms
import PurchaseLedger

/// An error of the HTTP API: a status, a stable code and a sentence for people.
struct Refusal: Error {
    var status: HTTPResponse.Status
    var code: ErrorCode
    var message: String
    /// Whether the same request may succeed later.
    var isRetryable: Bool
    /// Header fields of the response, such as `Allow`.
    var headers: HTTPFields = [:]
    /// The verifier's error, if the request was refused because of its document.
    var cause: VerificationError?
    /// The name of the form in which the document was sent, if the request was refused because of this form.
    var form: String?
    /// The cursor after which the remaining events begin, if the events after the cursor in the request were erased.
    var oldestCursor: EventCursor?
    /// The environment of the document, if the request was refused because of the environment.
    var environment: String?
    /// The remedy for the client or the operator, as a sentence after ``message``.
    var cure: String?
    /// Apple's number, if the App Store refused the request.
    var appStoreCode: Int64?
    /// The earliest time at which the same request may succeed, if the App Store named a time.
    var retryAt: Timestamp?
    /// Whether overload is the reason. The log then has at most one warning a minute instead of a warning per request.
    var isOverload: Bool { code == .overloaded }

    /// - Parameters:
    ///   - status: `nil` for the status of the code.
    ///   - isRetryable: `nil` if the status decides.
    init(
        _ code: ErrorCode, _ message: String, status: HTTPResponse.Status? = nil, isRetryable: Bool? = nil,
        headers: HTTPFields = [:]
    ) {
        self.status = status ?? code.status
        self.code = code
        self.message = message
        self.isRetryable =
            isRetryable ?? [.requestTimeout, .internalServerError, .serviceUnavailable].contains(self.status)
        self.headers = headers
    }

    static let noKey = unauthorized("Send an API key: Authorization: Bearer qt_….", bearer())
    static let invalidKey = unauthorized(
        "The API key is not valid here: it has a typing error, was revoked, has expired, or is for another ledger.",
        bearer("invalid_token"))
    /// For a key of an app that the configuration lacks. The message may say so, because the secret of the key is
    /// valid.
    static let keyOfUnknownApp = unauthorized(
        "The API key is for an app that is not in the server's configuration.", bearer("invalid_token"))
    static func otherRole(_ allowed: Roles) -> Refusal {
        let names = APIKey.Role.allCases.filter(allowed.contains).map(\.rawValue).alternatives()
        return Refusal(
            .forbidden, "This route needs a \(names) key; the key in the request has another role.",
            headers: [.wwwAuthenticate: bearer("insufficient_scope")])
    }
    static let unknownRole = Refusal(
        .forbidden, "A newer version of the server made the API key. This version does not know its role.",
        headers: [.wwwAuthenticate: bearer("insufficient_scope")])

    private static func unauthorized(_ message: String, _ challenge: String) -> Refusal {
        Refusal(
            .unauthorized, message, headers: [.wwwAuthenticate: challenge])
    }

    /// The value of `WWW-Authenticate` (RFC 6750 section 3), without an error if the request had no key.
    static func bearer(_ error: String? = nil, _ description: String? = nil) -> String {
        let parameters = [("realm", "quittance"), ("error", error), ("error_description", description)]
        return "Bearer "
            + parameters.compactMap { name, value in value.map { "\(name)=\"\($0)\"" } }
            .joined(separator: ", ")
    }

    /// `Accept-Encoding` tells the client to send the body without a content coding (RFC 9110 section 12.5.3).
    static let encoded = Refusal(
        .refused, "The server reads no compressed body: omit Content-Encoding.", status: .unsupportedMediaType,
        headers: [.acceptEncoding: "identity"])

    static let overloaded = Refusal(
        .overloaded, "The server is overloaded. Retry in \(ServerBounds.retryAfter) seconds.",
        headers: [.retryAfter: "\(ServerBounds.retryAfter)"])

    static let invalidPeriodsCursor = Refusal(
        .invalidCursor,
        "“periods” is not a cursor of this subscription: send the periodsCursor of its last page, or omit “periods”.")

    static func notFound(_ what: String) -> Refusal { Refusal(.notFound, "\(what) is not known here.") }

    static func badRequest(_ message: String) -> Refusal { Refusal(.badRequest, message) }

    static func refused(_ status: HTTPResponse.Status, _ message: String) -> Refusal {
        Refusal(.refused, message, status: status)
    }

    /// - Parameter allowed: The value of `Allow`.
    static func methodNotAllowed(_ allowed: String) -> Refusal {
        Refusal(
            .methodNotAllowed, "This route accepts \(allowed).",
            headers: [.allow: allowed])
    }

    static func invalid(_ message: String) -> Refusal { Refusal(.invalidRequest, message) }

    static func unrecorded(_ environment: AppStoreModel.Environment) -> Refusal {
        .invalid("“environment”: The server records nothing of \(environment.rawValue), by its setting environments.")
    }
}

extension Refusal {
    /// The refusal of a document: 503 if the same document may be accepted later, otherwise 400.
    ///
    /// - Parameter namesApps: Whether the message may name the apps that the verifier accepts. Clients without a key
    ///   must not learn these apps. For a client with a key, the verifier accepts only the app of the key, which the
    ///   client knows.
    init(_ error: VerificationError, namesApps: Bool = false) {
        let isSecret = error.code == .otherApp && !namesApps && !error.isOtherAppleId
        self.init(
            ErrorCode(error.code),
            isSecret ? "The document is for an app that is not in the configuration." : error.message)
        cause = error
        if error.isOtherAppleId { cure = "Compare appAppleId in the configuration." }
        guard error.code == .otherEnvironment, let found = error.origin?.environment else { return }
        environment = found
        cure = "The server records it once its configuration has this environment in environments."
    }

    /// The refusal of an input without a document.
    init(_ fault: InputFault) {
        self.init(.malformed, fault.sentence)
        form = fault.name.rawValue
    }

    /// The refusal of a genuine document that this version cannot read: 503. The sender then retries, and a newer
    /// version can read the document.
    static func unreadable(_ error: VerificationError) -> Refusal {
        var refusal = Refusal(error, namesApps: true)
        refusal.status = .serviceUnavailable
        refusal.isRetryable = true
        return refusal
    }

    /// - Parameter known: The names in the configuration; `nil` if the client must not learn them.
    static func unknownEntitlement(known: Set<String>?) -> Refusal {
        let names = known.map { known in
            known.isEmpty
                ? "The configuration has none: add products with entitlements to the app."
                : "It has \(known.sorted().joined(separator: ", "))."
        }
        return Refusal(
            .unknownEntitlement,
            "The app's configuration has no entitlement of this name." + (names.map { " " + $0 } ?? ""))
    }

    /// - Parameters:
    ///   - member: The parameter or member of the request with the cursor.
    ///   - advice: What to send instead of a text that is no cursor.
    init(
        _ error: EventCursorError, in member: String = "after",
        advice: String = "send the nextCursor of the last page, or omit “after”"
    ) {
        switch error {
        case .invalid:
            self.init(
                .invalidCursor, "“\(member)” is not a cursor of this app and ledger: \(advice).")
        case .expired(let oldest):
            self.init(
                .cursorExpired,
                "Events after this cursor were erased. The remaining events begin after the cursor in “oldest”.")
            oldestCursor = oldest
        case .lost(let oldest):
            self.init(
                .cursorExpired,
                """
                The ledger was restored, and does not have the last events before this cursor: their changes may \
                not hold. Continue after the cursor in “oldest”, and read again the purchases that you know.
                """)
            oldestCursor = oldest
        }
    }

    init(_ error: LedgerStorageError) {
        guard error.code != .otherRoots else {
            self.init(
                .otherRoots, "The ledger does not mix these documents with those of other roots. Nothing was recorded.")
            return
        }
        // A database that did not respond may have committed all the same.
        let outcome = error.code == .unavailable ? "may or may not have recorded this" : "has recorded nothing"
        self.init(
            .storageUnavailable, "The ledger is unavailable, and \(outcome). Retry later.")
    }
}
