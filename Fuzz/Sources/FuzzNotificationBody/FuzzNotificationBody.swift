// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport

/// Fuzzes JSON as the body of a notification, as a payload, or as an answer.
///
/// JSON is written to text that reads as the same JSON. Each payload that can be decoded from it is encoded to JSON
/// that decodes to the same payload. If a trusted signer signs it, the verifier never reports a forged signature.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzNotificationBody(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let json = try JSONValue(parsing: bytes)
        requireSameWritten(json)
        for requireSame in types { requireSame(json) }
        convert(json)
        TrustedSigner.requireTrusted(bytes, json)
    }
}

private let types: [@Sendable (JSONValue) -> Void] = [
    requireSame(ResponseBodyV2.self), requireSame(ResponseBodyV2DecodedPayload.self),
    requireSame(JWSTransactionDecodedPayload.self), requireSame(JWSRenewalInfoDecodedPayload.self),
    requireSame(AppTransaction.self), requireSame(DecodedRealtimeRequestBody.self), requireSame(DecodedPurchases.self),
    requireSame(ResponseBodyV1.self), requireSame(VerifyReceiptRequest.self), requireSame(VerifyReceiptResponse.self),
    requireSame(VerifyTransactionReceiptResponse.self), requireSame(StatusResponse.self),
    requireSame(HistoryResponse.self), requireSame(NotificationHistoryResponse.self),
    requireSame(ConsumptionRequest.self), requireSame(APIErrorResponse.self),
]

private func requireSame<Payload: Codable & Equatable & SendableMetatype>(
    _ type: Payload.Type
) -> @Sendable (JSONValue) -> Void {
    { json in
        guard let payload = try? json.decode(type) else { return }
        let encoded = requireNoError("a \(type) can be encoded") { try JSONValue(encoding: payload) }
        let returned = requireNoError("an encoded \(type) decodes") { try encoded.decode(type) }
        require(returned == payload, "an encoded \(type) decodes to the same value")
        requireSameWritten(encoded)
    }
}

private func requireSameWritten(_ json: JSONValue) {
    let text = json.compactText
    let returned = requireNoError("written JSON is valid") { try JSONValue(parsing: text.utf8) }
    require(returned == json && returned.compactText.utf8.elementsEqual(text.utf8), "written JSON reads as the same")
}

/// Converts a document to the other form and mostly back. The results are not checked: no conversion may trap.
private func convert(_ json: JSONValue) {
    _ = (try? VerifyReceiptResponse(json))?.modern().value.legacy()
    _ = (try? VerifyTransactionReceiptResponse(json))?.modern().value.legacy()
    _ = (try? ResponseBodyV1(json))?.modern().value.legacy()
    _ = (try? json.decode(DecodedPurchases.self))?.legacy().value.modern()
    _ = (try? json.decode(JWSTransactionDecodedPayload.self))?.legacy()
    _ = (try? json.decode(JWSRenewalInfoDecodedPayload.self))?.legacy()
    _ = (try? json.decode(AppTransaction.self))?.legacy()
}
