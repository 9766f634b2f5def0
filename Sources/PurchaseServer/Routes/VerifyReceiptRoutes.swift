// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import Hummingbird

/// Apple's verifyReceipt over HTTP, for one environment.
struct VerifyReceiptRoutes: Sendable {
    let responder: VerifyReceiptResponder
    let bodies: BodyIntake
    let now: @Sendable () -> Timestamp

    func add(at path: RouterPath, to router: Router<BasicRequestContext>) {
        router.post(path) { request, _ in try await post(request) }
    }

    /// The response to a request with another method, which the App Store answers in the body instead of with 405.
    static func notPost() -> Response {
        let status = VerifyReceiptStatus.unreadableRequest
        RequestNotes.add { $0.verifyReceiptStatus = status.rawValue }
        return Response(json: VerifyReceiptResponse(status: status).json)
    }

    private func post(_ request: Request) async throws -> Response {
        do {
            let question = try await bodies.withBody(of: request, upTo: Limits.verifyReceiptRequest) { body in
                await responder.question(in: body, at: now())
            }
            let answer = try await responder.answer(to: question, of: request, within: bodies)
            RequestNotes.add { $0.verifyReceiptStatus = answer.status }
            return Response(json: answer.json)
        } catch let refusal as Refusal where refusal.isOverload {
            // Some clients of verifyReceipt look at the HTTP status, others at the status in the body. Both say: retry.
            var response = Response(refusal.status, json: VerifyReceiptResponse(status: .unavailable).json)
            response.headers.append(contentsOf: refusal.headers)
            return response
        }
    }
}
