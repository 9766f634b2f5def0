// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport

/// Fuzzes a compact JWS. The input is the JWS, or its header with its payload on the next line.
///
/// Only signed bytes verify, and a token has one text only.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJWS(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let token = bytes.first == UInt8(ascii: "{") ? compact(bytes) : bytes
        SignedForm.token.requireNoForgery(token)
        let jws = try JWS(token)
        _ = try jws.header()
        let parts = [Base64.decodeURL(jws.encodedHeader) ?? [], jws.payload, jws.signature].map(base64URL)
        require(token.elementsEqual(parts.joined(separator: ".").utf8), "one token has one text")
    }
}

private func compact(_ parts: [UInt8]) -> [UInt8] {
    let lines = parts.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
    // An arbitrary signature, whose r and s are small enough for the curve.
    let signature = Array(repeating: UInt8(1), count: 64)
    return Array(
        [Array(lines[0]), Array(lines.dropFirst().joined()), signature].map(base64URL).joined(separator: ".").utf8)
}

private func base64URL(_ bytes: [UInt8]) -> String {
    Base64.encode(bytes).replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}
