// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

extension Store {
    var tokens: [Case] { unsignedTokens + signedTokens + notifications }

    /// The bytes that a payload or header may have in a token of the maximum length: base64 encodes three bytes as
    /// four, and the certificates need some.
    private static let part = Limits.token / 4 * 3 - 6_000

    /// A name, and a function that makes JSON of about the given number of bytes.
    private typealias Shape = (name: String, make: @Sendable (Int) -> String)

    private static let shapes: [Shape] = [
        ("an array of digits", { "[" + filling($0, "0,", values: 1) + "0]" }),
        ("an array of arrays", { "[" + filling($0, "[],", values: 1) + "[]]" }),
        ("an array of arrays of digits", { "[" + filling($0, "[0],", values: 2) + "[0]]" }),
        ("an array of objects", { "[" + filling($0, "{},", values: 1) + "{}]" }),
        ("an array of objects with a member", { "[" + filling($0, #"{"":0},"#, values: 2) + "0]" }),
        ("arrays 60 deep", { "[" + filling($0, nest(60) + ",", values: 60) + "0]" }),
        ("an array of long numbers", { "[" + filling($0, "1234567890123456789,", values: 1) + "0]" }),
        ("an array of long texts", { "[" + filling($0, #""a text of 21 letters.","#, values: 1) + "0]" }),
        ("more values than are read", { "[" + String(repeating: "[],", count: $0 / 3) + "0]" }),
        ("one huge number", { String(repeating: "9", count: $0) }),
        ("one huge fraction", { "0." + String(repeating: "9", count: $0) + "e300" }),
        ("one long text", { "\"" + String(repeating: "a", count: $0) + "\"" }),
        ("one text of escapes", { "\"" + filling($0, #"\n"#) + "\"" }),
        ("one text of unicode escapes", { "\"" + filling($0, #"\u00e9"#) + "\"" }),
    ]

    /// Members of a payload.
    private static let members: [Shape] = [
        ("many empty names", { filling($0, #""":0,"#, values: 1) + #""x":0"# }),
        ("many duplicate members", { filling($0, #""productId":"","#, values: 1) + #""x":0"# }),
        ("many names", names),
        ("items without anything", { items(filling($0, "{},", values: 1)) }),
        ("items with a member", { items(filling($0, #"{"SKU":""},"#, values: 2)) }),
        ("items with refunds", { items(filling($0, #"{"refunds":[{}]},"#, values: 3)) }),
        ("one item with refunds", { items(#"{"refunds":["# + filling($0, "{},", values: 1) + "{}]},") }),
        ("a price of many digits", { #""price":0."# + String(repeating: "0", count: $0) }),
    ]

    private static func items(_ items: String) -> String { #""advancedCommerceInfo":{"items":[\#(items){}]}"# }

    @Sendable private static func names(_ count: Int) -> String {
        (0..<min(count / 13, Limits.tokenValues - 100)).map { "\"x\($0)\":0" }.joined(separator: ",")
    }

    /// `part`, repeated as often as it fits into `count` bytes and into the bound on values.
    ///
    /// - Parameter values: How many values `part` has; 0 if they do not count.
    private static func filling(_ count: Int, _ part: String, values: Int = 0) -> String {
        let most = values == 0 ? .max : (Limits.tokenValues - 100) / values
        return String(repeating: part, count: max(1, min(count / part.utf8.count, most)))
    }

    private static func nest(_ depth: Int) -> String {
        String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }

    /// A transaction's payload with additional members.
    private static func transaction(_ more: String) -> [UInt8] {
        Array(
            """
            {"transactionId":"1","originalTransactionId":"1","bundleId":"com.example.notes","environment":"Production",\
            "signedDate":\(now.milliseconds),\(more)}
            """.utf8)
    }

    private func token(
        _ name: String, as verify: @escaping @Sendable ([UInt8]) async throws -> String,
        _ make: @escaping @Sendable (Int) throws -> [UInt8]
    ) -> Case {
        Case("token, \(name)", verify) { try make(min($0, Self.part)) }
    }

    private func verifyTransaction(_ token: [UInt8]) async throws -> String {
        try await verify(token: token, as: JWSTransactionDecodedPayload.self)
    }

    /// Inputs that any client can make.
    private var unsignedTokens: [Case] {
        let payloads = Self.shapes.map { shape in
            token("unsigned: payload is \(shape.name)", as: verifyTransaction) { count in
                try forged(payload: Self.transaction(#""x":"# + shape.make(count)))
            }
        }
        let headers = Self.shapes.map { shape in
            token("unsigned: header has \(shape.name)", as: verifyTransaction) { count in
                try forged(payload: Self.transaction(#""x":0"#), header: #""x":\#(shape.make(count)),"#)
            }
        }
        return payloads + headers + [
            token("unsigned: nothing but dots", as: verifyTransaction) { count in
                [UInt8](repeating: UInt8(ascii: "."), count: count / 3 * 4)
            },
            token("unsigned: a date that is a huge number", as: verifyTransaction) { count in
                try forged(payload: Self.transaction(#""signedDate":"# + String(repeating: "7", count: count)))
            },
            token("unsigned: a date that is a huge fraction", as: verifyTransaction) { count in
                try forged(
                    payload: Self.transaction(#""signedDate":0."# + String(repeating: "7", count: count) + "e12"))
            },
            token("unsigned: a certificate of many parts", as: verifyTransaction) { count in
                try forged(payload: Self.transaction(#""x":0"#), certificate: count / 4 * 3)
            },
            token("unsigned: a certificate of many parts, as long as it may be", as: verifyTransaction) { count in
                try forged(payload: Self.transaction(#""x":0"#), certificate: Limits.certificate - 8)
            },
        ]
    }

    /// A token whose first certificate consists of empty elements, of `count` bytes in total.
    private func forged(payload: [UInt8], certificate count: Int) throws -> [UInt8] {
        let leaf = Data(DER.sequence(DER.filling(count, with: [5, 0]))).base64EncodedString()
        let header = Data(#"{"alg":"ES256","x5c":["\#(leaf)","AAAA","AAAA"]}"#.utf8).base64EncodedString()
            .replacing("=", with: "").replacing("+", with: "-").replacing("/", with: "_")
        return Array(header.utf8) + (try forged(payload: payload).drop { $0 != UInt8(ascii: ".") })
    }

    /// A signed token whose signature was changed.
    private func forged(payload: [UInt8], header: String = "") throws -> [UInt8] {
        var token = Array(try authority.sign(tokenPayload: payload, headerMembers: header).utf8)
        token[token.count - 2] = token[token.count - 2] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        return token
    }

    /// Inputs that only the holder of a trusted root can make.
    private var signedTokens: [Case] {
        let unknown = Self.shapes.map { shape in
            ("an unknown member is \(shape.name)", { @Sendable in #""x":"# + shape.make($0) }) as Shape
        }
        return (unknown + Self.members).map { member in
            token("signed: \(member.name)", as: verifyTransaction) { count in
                Array(try authority.sign(tokenPayload: Self.transaction(member.make(count))).utf8)
            }
        } + [
            token("signed: a header of junk", as: verifyTransaction) { count in
                let junk = #""x":["# + Self.filling(count, "0,", values: 1) + "0],"
                return Array(
                    try authority.sign(tokenPayload: Self.transaction(#""x":0"#), headerMembers: junk).utf8)
            },
            token("signed: renewal info of many names", as: verifyTransaction) { count in
                let payload =
                    #"{"environment":"Production","signedDate":\#(Self.now.milliseconds),\#(Self.names(count))}"#
                return Array(try authority.sign(tokenPayload: Array(payload.utf8)).utf8)
            },
        ]
    }

    private var notifications: [Case] {
        [
            token("signed: notification with a transaction of many items", as: verify(notification:)) { count in
                try notification(Self.items(Self.filling(count / 8 * 5, "{},", values: 1)))
            },
            token("signed: notification with a transaction of escapes", as: verify(notification:)) { count in
                try notification(#""productId":""# + Self.filling(count / 8 * 5, #"\u00e9"#) + "\"")
            },
            token("signed: notification with many values beside", as: verify(notification:)) { count in
                try notification(#""x":0"#, beside: #""x":["# + Self.filling(count / 2, "0,", values: 1) + "0],")
            },
        ]
    }

    private func notification(_ members: String, beside more: String = "") throws -> [UInt8] {
        let transaction = try authority.sign(tokenPayload: Self.transaction(members))
        let payload = """
            {"notificationType":"DID_RENEW","notificationUUID":"1","version":"2.0","signedDate":\(Self.now.milliseconds),\
            \(more)"data":{"bundleId":"com.example.notes","appAppleId":1,"environment":"Production",\
            "signedTransactionInfo":"\(transaction)"}}
            """
        return Array(try authority.sign(tokenPayload: Array(payload.utf8)).utf8)
    }
}
