// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel

/// A false answer to a request. The request has no effect at the App Store. The answer is that of a proxy between the
/// server and the App Store, or of an App Store that contradicts its own documentation.
enum Lie: CaseIterable {
    /// No answer until the client times out.
    case silence
    /// The bearer token is refused, although the token is valid.
    case refusedToken
    /// A proxy's page: forbidden, not found, sign in, too long.
    case forbiddenPage, missingPage, signInPage, tooLongPage
    /// A captive portal's page with status 200.
    case welcomePage
    /// A proxy's object with the status of success.
    case blocked
    /// A status and a body that the endpoint does not document.
    case otherStatus
    /// A claim that the start of the notification history is too long ago, although the date is allowed.
    case tooEarly
    /// An error code without a documented meaning.
    case unknownCode

    /// Whether the request can get this answer: ``tooEarly`` is an answer only to requests for the notification
    /// history.
    func fits(_ request: APIRequest) -> Bool { self != .tooEarly || request.path.hasSuffix("/notifications/history") }

    /// The false answer.
    ///
    /// - Throws: `TransportError` if the lie is silence.
    func answer(to request: APIRequest) throws(TransportError) -> APIAnswer {
        switch self {
        case .silence: throw .timedOut
        case .refusedToken: Self.page(401, "Unauthenticated", type: "text/plain")
        case .forbiddenPage: Self.page(403, "<!DOCTYPE html><html><h1>Forbidden</h1></html>")
        case .missingPage: Self.page(404, "<html><h1>Not Found</h1></html>")
        case .signInPage: Self.page(407, "<html><h1>Proxy Authentication Required</h1></html>")
        case .tooLongPage: Self.page(413, "<html><h1>Request Entity Too Large</h1></html>")
        case .welcomePage: Self.page(200, "<html><h1>Welcome to our network</h1></html>")
        case .blocked:
            Self.page(
                request.isConsumption ? 202 : 200, #"{"error":"blocked","hasMore":false,"data":null}"#,
                type: "application/json")
        case .otherStatus: Self.page(202, "<html><h1>Accepted</h1></html>")
        case .tooEarly: Self.refusal(Open(.startDateTooFarInPast))
        case .unknownCode: Self.refusal(Open(rawValue: 4_009_999))
        }
    }

    private static func page(_ status: Int, _ text: String, type: String = "text/html") -> APIAnswer {
        APIAnswer(status: status, headers: ["content-type": type], body: Array(text.utf8))
    }

    private static func refusal(_ code: Open<APIErrorCode>) -> APIAnswer {
        let text = #"{"errorCode":\#(code.rawValue),"errorMessage":"Refused."}"#
        return page(400, text, type: "application/json")
    }
}

extension APIRequest {
    /// Whether the request answers a consumption request of the App Store.
    var isConsumption: Bool { path.contains("/consumption/") }
}
