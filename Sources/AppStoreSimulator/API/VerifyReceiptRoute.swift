// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// verifyReceipt over HTTP: the one endpoint outside the App Store Server API. Apple has deprecated it.

extension SimulatedStore {
    static let verifyReceiptPath = "/verifyReceipt"

    /// The longest body, in bytes: Apple's number.
    private static let longestBody = 3_145_728

    /// Answers a request. Like Apple's endpoint, it says what is wrong in the body's `status`; the HTTP status is 200.
    ///
    /// Of the faults, internal errors and time-outs apply.
    mutating func verifyReceipt(_ request: StoreRequest, in environment: Environment) -> StoreResponse {
        guard request.body.count <= Self.longestBody else { return StoreResponse(status: 413) }
        guard request.method == "POST" else { return Self.response(VerifyReceiptResponse(status: .unreadableRequest)) }
        let fault: VerifyReceiptStatus? = random.choice(of: [
            (faults.internalErrors, .internalDataAccess), (faults.retryableErrors, .unavailable),
        ])
        let answer =
            fault.map { VerifyReceiptResponse(status: $0) }
            ?? world.verifyReceipt(request.body, in: environment, password: sharedSecret, signer: signer)
        var response = Self.response(answer)
        response.isWithheld = random.decides(faults.timeouts)
        return response
    }

    private static func response(_ answer: VerifyReceiptResponse) -> StoreResponse {
        var response = StoreResponse(status: 200)
        response.headers = ["content-type": "application/json"]
        response.body = answer.json
        if answer.status != .valid { response.note = "verifyReceipt: status \(answer.status?.rawValue ?? 0)" }
        return response
    }
}
