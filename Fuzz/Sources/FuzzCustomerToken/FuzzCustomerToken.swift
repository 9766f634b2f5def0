// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import Foundation
import FuzzSupport

@testable import PurchaseServer

/// Fuzzes a customer token. The input is the token, or its header with its payload on the next line, which are then
/// signed.
///
/// A token that was not signed proves nothing. One that was signed proves what its payload says, as another parser
/// reads it.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzCustomerToken(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        guard bytes.first == UInt8(ascii: "{") else {
            let token = String(decoding: bytes, as: UTF8.self)
            try proof.check(token, for: customer, of: app, at: now)
            require(token == proof.token(for: customer, expires: now.advanced(by: .seconds(60))), "tokens are signed")
            return
        }
        let parts = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
        try proof.check(signed(parts), for: customer, of: app, at: now)
        requireClaims(Data(parts.dropFirst().joined()))
    }
}

private let customer = "anna"
private let app = "com.example.notes"
private let now = SignedForm.now
private let secret = String(repeating: "s", count: CustomerProof.minSecretBytes)
private let proof = requireNoError("a secret of the shortest length is one") {
    guard let proof = CustomerProof(secret: secret) else { throw CancellationError() }
    return proof
}

private func signed(_ parts: [ArraySlice<UInt8>]) -> String {
    let input = parts.map { Base64.encodeURL($0) }.joined(separator: [UInt8(ascii: ".")])
    let code = HMAC<SHA256>.authenticationCode(for: Array(input), using: SymmetricKey(data: Array(secret.utf8)))
    return String(decoding: Array(input) + [UInt8(ascii: ".")] + Base64.encodeURL(Array(code)[...]), as: UTF8.self)
}

/// Requires that Foundation reads the accepted claims the same, if it reads them at all: it refuses deep JSON.
private func requireClaims(_ payload: Data) {
    guard let claims = try? JSONSerialization.jsonObject(with: payload) as? [String: Any] else { return }
    require(claims["sub"] as? String == customer, "the token names the customer")
    let seconds = (claims["exp"] as? NSNumber)?.doubleValue ?? 0
    let current = Double(now.milliseconds) / 1000
    require(seconds > current - 1 && seconds < current + 90_000, "the token ends within a day")
    let audiences = claims["aud"].map { $0 as? [Any] ?? [$0] }
    require(audiences?.contains { $0 as? String == app } ?? true, "the token is for this app, if for any")
}
