// SPDX-License-Identifier: Apache-2.0

// The Swift example of docs/customer-proof.md. A test compares the two.

import Crypto
import Foundation

func customerToken(for customer: String, secret: String) throws -> String {
    struct Claims: Encodable {
        var sub: String
        var exp: Int
    }
    func part(_ bytes: Data) -> String {
        bytes.base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }
    let claims = Claims(sub: customer, exp: Int(Date().timeIntervalSince1970) + 3600)
    let header = Data(#"{"alg":"HS256","typ":"JWT"}"#.utf8)
    let input = part(header) + "." + part(try JSONEncoder().encode(claims))
    let key = SymmetricKey(data: Data(secret.utf8))
    return input + "." + part(Data(HMAC<SHA256>.authenticationCode(for: Data(input.utf8), using: key)))
}
