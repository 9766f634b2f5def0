// SPDX-License-Identifier: Apache-2.0

// The Swift example of docs/webhooks.md. A test compares the two.

import Crypto
import Foundation

/// Whether a request is from the server. The names in `headers` are in lower case.
func isGenuine(body: Data, headers: [String: String], secret: String, now: Date = Date()) -> Bool {
    guard let id = headers["webhook-id"], let sent = headers["webhook-timestamp"], let seconds = Double(sent),
        abs(now.timeIntervalSince1970 - seconds) <= 300, secret.hasPrefix("whsec_"),
        let key = Data(base64Encoded: String(secret.dropFirst(6)))
    else { return false }
    let signed = Data("\(id).\(sent).".utf8) + body
    let signatures = headers["webhook-signature", default: ""].split(separator: " ")
    return signatures.contains { signature in
        guard signature.hasPrefix("v1,"), let code = Data(base64Encoded: String(signature.dropFirst(3))) else {
            return false
        }
        return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: signed, using: SymmetricKey(data: key))
    }
}
