// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator

/// Requests as they go over the wire.
enum HTTPRequest {
    static func get(_ path: String, headers: String = "") -> [UInt8] {
        Array("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(headers)\r\n".utf8)
    }

    static func notification(_ token: String) -> [UInt8] {
        let body = #"{"signedPayload":"\#(token)"}"#
        let head = """
            POST /notifications/v2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Content-Length: \(body.utf8.count)\r\n\r\n
            """
        return Array((head + body).utf8)
    }

    /// Reads of an entitlement of customers, chosen at random among this many.
    static func entitlements(_ customers: Int) -> [[UInt8]] {
        var random = SeededRandom(seed: 8)
        let key = FilledLedger.key().text
        return (0..<100_000).map { _ in
            let id = FilledLedger.customerId(Int.random(in: 0..<customers, using: &random))
            return get(
                "/v1/customers/\(id)/entitlements/\(SimulatedStore.entitlement)",
                headers: "Authorization: Bearer \(key)\r\n")
        }
    }
}
