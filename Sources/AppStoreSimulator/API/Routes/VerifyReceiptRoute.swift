// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The endpoint verifyReceipt over HTTP. It is the store's only endpoint that is not part of the App Store Server API,
// and Apple has deprecated it.

extension SimulatedStore {
    static let verifyReceiptPath = "/verifyReceipt"

    /// The longest body, in bytes: Apple's number.
    private static let maxBody = 3_145_728

    /// Answers a request. As with Apple's endpoint, the HTTP status is 200 even for an error, which the body's `status`
    /// names. Only a body above the limit gets HTTP status 413.
    ///
    /// Of the store's faults, only internal errors, retryable errors and timeouts apply to this endpoint.
    mutating func verifyReceipt(_ request: StoreRequest, in environment: Environment) -> StoreResponse {
        guard request.body.count <= Self.maxBody else { return StoreResponse(status: 413) }
        guard request.method == "POST" else { return Self.response(VerifyReceiptResponse(status: .unreadableRequest)) }
        let fault: VerifyReceiptStatus? = random.choice(of: [
            (faults.internalErrors, .internalDataAccess), (faults.retryableErrors, .unavailable),
        ])
        var response =
            if let fault {
                Self.response(VerifyReceiptResponse(status: fault))
            } else if let answer = answerOldReceipt(request.body, in: environment) {
                Self.response(answer.json, answer.status)
            } else {
                Self.response(
                    world.verifyReceipt(request.body, in: environment, password: sharedSecret, signer: signer))
            }
        response.isWithheld = random.decides(faults.timeouts)
        return response
    }

    /// The response to a request about an old transaction receipt, which is about a single purchase; `nil` for all
    /// other requests.
    private func answerOldReceipt(
        _ body: [UInt8], in environment: Environment
    ) -> VerifyTransactionReceiptResponse? {
        // A malformed request gets the response for app receipts.
        guard let request = try? VerifyReceiptRequest(parsing: body), let document = request.receipt else { return nil }
        return world.verifyTransactionReceipt(
            document, in: environment, password: request.password, secret: sharedSecret, signer: signer)
    }

    private static func response(_ answer: VerifyReceiptResponse) -> StoreResponse {
        response(answer.json, answer.status)
    }

    private static func response(_ json: [UInt8], _ status: Open<VerifyReceiptStatus>?) -> StoreResponse {
        var response = StoreResponse(status: 200)
        response.headers = ["content-type": "application/json"]
        response.body = json
        if status != .valid { response.note = "verifyReceipt: status \(status?.rawValue ?? 0)" }
        return response
    }
}
