// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import Synchronization
import Testing

/// Stands between a client and the simulated App Store, and answers in its place while it lies.
final class LyingStore: AppStoreTransport {
    /// How it lies.
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
    }

    private let store: SimulatedTransport
    private let time: JobTests.SharedTime
    private let state: Mutex<Lie?>

    init(_ store: SimulatedTransport, _ time: JobTests.SharedTime) {
        (self.store, self.time) = (store, time)
        state = Mutex(nil)
    }

    /// `nil` while it passes everything on.
    var lie: Lie? {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }

    /// Apple's refusal with a number.
    static func refusal(_ number: Int64) -> APIAnswer {
        let body = #"{"errorCode":\#(number),"errorMessage":"x"}"#
        return APIAnswer(
            status: Int(number / 10_000), headers: ["content-type": "application/json"], body: Array(body.utf8))
    }

    func answer(
        to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
    ) async throws -> APIAnswer {
        let lie = state.withLock { lie in
            defer { if lie == .tokenRefusedOnce { lie = nil } }
            return lie
        }
        let (json, html) = (["content-type": "application/json"], ["content-type": "text/html; charset=utf-8"])
        switch lie {
        case .silence:
            time.now.milliseconds += timeout.components.seconds * 1000
            throw TransportError.timedOut
        case .tokenRefusedOnce: return APIAnswer(status: 401)
        case .page(let status):
            return APIAnswer(status: status, headers: html, body: Array("\n<!DOCTYPE html><html>Sign in</html>".utf8))
        case .accepted: return APIAnswer(status: 202, headers: json, body: Array(#"{"status":"queued"}"#.utf8))
        case .emptyList:
            return APIAnswer(status: 200, headers: json, body: Array(#"{"hasMore":false,"data":null}"#.utf8))
        case .code(let number): return Self.refusal(number)
        case nil: return try await store.answer(to: request, in: environment, within: timeout)
        }
    }
}
