// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import Synchronization
import Testing

/// How somebody answers in the place of the simulated App Store.
enum Lie: Hashable, Sendable, CustomTestStringConvertible {
    /// There is no answer.
    case silence
    /// The next token is refused, and no other.
    case tokenRefusedOnce
    /// A page in HTML with this status, as of a proxy or a portal.
    case page(Int)
    /// 202 with an object.
    case accepted
    /// 200 with the end of a list, but without the list.
    case emptyList
    /// A number in Apple's form.
    case code(Int64)

    var testDescription: String {
        switch self {
        case .silence: "silence"
        case .tokenRefusedOnce: "401 once"
        case .page(let status): "\(status) with a page"
        case .accepted: "202 with an object"
        case .emptyList: "200 without a list"
        case .code(let number): "\(number)"
        }
    }

    /// The answer to the first request, or to another one.
    fileprivate func answer(isFirst: Bool) throws -> APIAnswer? {
        switch self {
        case .silence: throw TransportError.timedOut
        case .tokenRefusedOnce: return isFirst ? APIAnswer(status: 401) : nil
        case .page(let status):
            let page = Array("\n<!DOCTYPE html><html>Sign in</html>".utf8)
            return APIAnswer(status: status, headers: ["content-type": "text/html; charset=utf-8"], body: page)
        case .accepted: return APIAnswer(status: 202, json: #"{"status":"queued"}"#)
        case .emptyList: return APIAnswer(json: #"{"hasMore":false,"data":null}"#)
        case .code(let number): return .refusal(number)
        }
    }
}

extension JobTests.Scene {
    /// Answers each request with a lie; `nil` to pass all on.
    func lie(_ lie: Lie?) {
        guard let lie else { return requests.answer = nil }
        let isFirst = Atomic(true)
        requests.answer = { _ in try lie.answer(isFirst: isFirst.exchange(false, ordering: .relaxed)) }
    }
}

extension APIAnswer {
    /// An answer in Apple's form.
    init(status: Int = 200, json: String) {
        self.init(status: status, headers: ["content-type": "application/json"], body: Array(json.utf8))
    }

    /// Apple's refusal with a number.
    static func refusal(_ number: Int64) -> APIAnswer {
        APIAnswer(status: Int(number / 10_000), json: #"{"errorCode":\#(number),"errorMessage":"x"}"#)
    }
}
