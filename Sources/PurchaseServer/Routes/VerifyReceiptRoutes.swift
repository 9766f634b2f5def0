// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import Hummingbird

/// Apple's verifyReceipt over HTTP, for one environment.
struct VerifyReceiptRoutes: Sendable {
    let path: String
    let responder: VerifyReceiptResponder
    let bodies: BodyIntake
    let now: @Sendable () -> Timestamp

    var routes: [APIRoute] {
        [
            APIRoute(
                .post, path, "answers as Apple's verifyReceipt does",
                members: ["receipt-data", "password", "exclude-old-transactions"],
                bodyLimit: Limits.verifyReceiptRequest,
                statuses: [.ok, .serviceUnavailable], otherMethods: notPost
            ) { request, _ in try await post(request) }
        ]
    }

    /// The response to a request with a method other than POST. As the App Store does, the server answers such a
    /// request with a status in the body instead of with 405.
    private func notPost() -> Response {
        let status = VerifyReceiptStatus.unreadableRequest
        RequestNotes.add { $0.verifyReceiptStatus = status.rawValue }
        return Response(json: VerifyReceiptResponse(status: status).json)
    }

    private func post(_ request: Request) async throws -> Answer<VerifyReceiptResponse> {
        do {
            let question = try await bodies.withBody(of: request, upTo: Limits.verifyReceiptRequest) { body in
                await responder.question(in: body, at: now())
            }
            let answer = try await responder.answer(to: question, of: request, within: bodies)
            RequestNotes.add { $0.verifyReceiptStatus = answer.status }
            return Answer(json: answer.json)
        } catch let refusal as Refusal where refusal.isOverload {
            // Some clients of verifyReceipt read the HTTP status, others the status in the body. Both statuses
            // therefore ask the client to retry.
            return Answer(
                json: VerifyReceiptResponse(status: .unavailable).json, refusal.status, headers: refusal.headers)
        }
    }
}
