// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel

/// What somebody between a server and the App Store, or the App Store itself against its own pages, answers to a
/// request that it does not carry out.
enum Lie: CaseIterable {
    /// Nothing, until the client gives up.
    case silence
    /// The bearer token is refused, although it is right.
    case refusedToken
    /// A proxy's page: forbidden, not found, sign in, too long.
    case forbiddenPage, missingPage, signInPage, tooLongPage
    /// A captive portal's page, as if all was well.
    case welcomePage
    /// A status and a body that the endpoint does not have.
    case otherStatus
    /// The start of the notification history is too long ago, although it is not.
    case tooEarly
    /// An error code that nobody knows.
    case unknownCode

    /// Whether somebody might say this about a request.
    func fits(_ request: APIRequest) -> Bool { self != .tooEarly || request.path.hasSuffix("/notifications/history") }

    /// The answer.
    ///
    /// - Throws: `TransportError` if there is none.
    func answer() throws(TransportError) -> APIAnswer {
        switch self {
        case .silence: throw .timedOut
        case .refusedToken: Self.page(401, "Unauthenticated", type: "text/plain")
        case .forbiddenPage: Self.page(403, "<!DOCTYPE html><html><h1>Forbidden</h1></html>")
        case .missingPage: Self.page(404, "<html><h1>Not Found</h1></html>")
        case .signInPage: Self.page(407, "<html><h1>Proxy Authentication Required</h1></html>")
        case .tooLongPage: Self.page(413, "<html><h1>Request Entity Too Large</h1></html>")
        case .welcomePage: Self.page(200, "<html><h1>Welcome to our network</h1></html>")
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
