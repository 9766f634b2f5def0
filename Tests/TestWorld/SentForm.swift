// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DeflateCoding

/// A form in which people really send a receipt or a token, and what becomes of it: a row of the table about which all
/// entrances must agree.
package struct SentForm: Sendable {
    /// The form as people call it.
    package var name: String
    package var bytes: [UInt8]
    /// The name of the form: of the steps that are undone, or of the fault.
    package var form: String
    /// How many documents are taken; 0 if the form is refused with its name.
    package var count: Int

    /// The form as text; `nil` if it is binary, which JSON cannot hold.
    package var text: String? { String(validating: bytes, as: UTF8.self) }

    private static func taken(_ name: String, _ steps: String, _ text: String, count: Int = 1) -> SentForm {
        SentForm(name: name, bytes: Array(text.utf8), form: steps, count: count)
    }

    private static func taken(_ name: String, _ steps: String, _ bytes: [UInt8]) -> SentForm {
        SentForm(name: name, bytes: bytes, form: steps, count: 1)
    }

    /// The same, with the kind of the document at the end of the form's name.
    private func of(_ kind: String) -> SentForm {
        var named = self
        named.form = form.isEmpty ? kind : "\(form)+\(kind)"
        return named
    }

    private static func refused(_ name: String, _ form: String, _ text: some StringProtocol) -> SentForm {
        SentForm(name: name, bytes: Array(text.utf8), form: form, count: 0)
    }
}

extension SentForm {
    /// The forms of a receipt that are taken.
    package static func taken(receipt der: [UInt8]) -> [SentForm] {
        let text = Base64.encode(der)
        let url = text.replacing("+", with: "-").replacing("/", with: "_")
        let bare = text.replacing("=", with: "")
        let padding = bare == text ? "" : "padding"
        let percent = text.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
        let hex = hexadecimal(der)
        let gzip = gzip(der)
        return [
            taken("R", "", text),
            taken("R and a line end", "whiteSpace", text + "\n"),
            taken("R in lines of 64, LF", "whiteSpace", lines(text, 64, "\n")),
            taken("R in lines of 64, CRLF", "whiteSpace", lines(text, 64, "\r\n")),
            taken("R in lines of 76, LF", "whiteSpace", lines(text, 76, "\n")),
            taken("R in lines of 76, CRLF", "whiteSpace", lines(text, 76, "\r\n")),
            taken("R in lines with literal \\n", "escapes+whiteSpace", lines(text, 76, "\\n")),
            taken("R in lines with literal \\r\\n", "escapes+whiteSpace", lines(text, 76, "\\r\\n")),
            taken("R in lines with blanks", "whiteSpace", lines(text, 76, " ")),
            taken("R with blanks for +", "blanksForPlus", text.replacing("+", with: " ")),
            taken("R in base64url", "base64url", url),
            taken(
                "R in base64url without padding", padding.isEmpty ? "base64url" : "base64url+padding",
                url.replacing("=", with: "")),
            taken("R without padding", padding.isEmpty ? "" : padding, bare),
            taken("R percent-encoded", "percentEncoding", percent),
            taken("a data URL", "dataURL", "data:application/octet-stream;base64," + text),
            taken("R in double quotes", "quotes", "\"\(text)\""),
            taken("R in single quotes", "quotes", "'\(text)'"),
            taken("R in quotes with \\/", "quotes", "\"\(text.replacing("/", with: "\\/"))\""),
            taken("R with \\/", "escapes", text.replacing("/", with: "\\/")),
            taken("<string>R</string>", "propertyList", "<string>\(text)</string>"),
            taken("receipt-data in JSON", "jsonMember", #"{"receipt-data": "\#(text)"}"#),
            taken("a verifyReceipt request", "jsonMember", #"{"password":"x","receipt-data":"\#(text)"}"#),
            taken("transactionReceipt in JSON", "jsonMember", #"{"transactionReceipt": "\#(text)"}"#),
            taken("appStoreReceipt in JSON", "jsonMember", #"{"appStoreReceipt": "\#(text)"}"#),
            taken(
                "a receipt of Unity", "jsonMember",
                #"{"Store":"AppleAppStore","TransactionID":"1","Payload":"\#(text)"}"#),
            taken("a form body", "formBody", "receipt-data=\(percent)&password=x"),
            taken("a form body, the receipt last and not encoded", "formBody", "password=x&receipt-data=\(text)"),
            taken("hexadecimal", "hexadecimal", hex),
            taken("hexadecimal in capitals", "hexadecimal", hex.uppercased()),
            taken("hexadecimal with blanks", "hexadecimal", lines(hex, 8, " ")),
            taken("a description of NSData", "dataDescription", "<\(lines(hex, 8, " "))>"),
            taken("bytea of PostgreSQL", "postgresHex", "\\x" + hex),
            taken("DER", "", der),
            taken("DER and a line end", "", der + [0x0a]),
            taken("UTF-8 with a byte order mark", "byteOrderMark", "\u{feff}" + text),
            taken("UTF-16LE with a byte order mark", "utf16", [0xff, 0xfe] + text.utf8.flatMap { [$0, 0] }),
            taken("UTF-16BE with a byte order mark", "utf16", [0xfe, 0xff] + text.utf8.flatMap { [0, $0] }),
            taken(
                "PEM", "pem+whiteSpace", "-----BEGIN PKCS7-----\n\(lines(text, 64, "\n"))\n-----END PKCS7-----\n"),
            taken("base64 of R", "base64", Base64.encode(text.utf8)),
            taken("base64 of hexadecimal", "base64+hexadecimal", Base64.encode(hex.utf8)),
            taken("gzip of DER", "gzip", gzip),
            taken("base64 of gzip", "base64+gzip", Base64.encode(gzip)),
            taken(
                "a verifyReceipt answer", "verifyReceiptAnswer",
                #"{"status":0,"receipt":{},"latest_receipt":"\#(text)"}"#),
            taken("three wrappings", "jsonMember+quotes+percentEncoding", #"{"document":"\"\#(percent)\""}"#),
        ].map { $0.of("receipt") }
    }

    /// The forms of an old transaction receipt that are taken.
    package static func taken(old list: [UInt8]) -> [SentForm] {
        [
            taken("an old transaction receipt", "", list),
            taken("base64 of an old transaction receipt", "", Base64.encode(list)),
        ].map { $0.of("transactionReceipt") }
    }

    /// The forms of a token that are taken. `other` is another token, beside which it is sent.
    package static func taken(token: String, other: String) -> [SentForm] {
        let parts = token.split(separator: ".")
        let padded = parts.map { $0 + String(repeating: "=", count: (4 - $0.count % 4) % 4) }.joined(separator: ".")
        let isPadded = padded != token
        let standard = token.replacing("-", with: "+").replacing("_", with: "/")
        let middle = token.index(token.startIndex, offsetBy: token.count / 2)
        let both = "\"\(token)\", \"\(other)\""
        let members = [
            "signedPayload", "signedTransactionInfo", "jwsRepresentation", "purchaseToken", "verificationResult",
            "document",
        ].map { taken("\($0) in JSON", "jsonMember", "{\"\($0)\": \"\(token)\"}") }
        let forms = [
            taken("J", "", token),
            taken("J and a line end", "whiteSpace", token + "\n"),
            taken("J in lines of 76", "whiteSpace", lines(token, 76, "\n")),
            taken("J with one blank in it", "whiteSpace", token[..<middle] + " " + token[middle...]),
            taken("J percent-encoded", "percentEncoding", token.replacing(".", with: "%2E")),
            taken("J with padding", isPadded ? "padding" : "", padded),
            taken("J in the standard alphabet", standard == token ? "" : "standardAlphabet", standard),
            taken("J in quotes", "quotes", "\"\(token)\""),
            taken("J in quotes with backslashes", "escapes+quotes", "\\\"\(token)\\\""),
            taken("Bearer J", "bearer", "Bearer " + token),
            taken(
                "JWS JSON", "jsonToken",
                #"{"protected":"\#(parts[0])","payload":"\#(parts[1])","signature":"\#(parts[2])"}"#),
            taken("base64 of J", "base64", Base64.encode(token.utf8)),
            taken("[J, J]", "list", "[\(both)]", count: 2),
            taken("a history answer", "history", #"{"revision":"x","signedTransactions":[\#(both)]}"#, count: 2),
            taken(
                "a statuses answer", "statuses",
                #"{"data":[{"lastTransactions":[{"status":1,"signedTransactionInfo":"\#(token)"}]},"#
                    + #"{"lastTransactions":[{"signedTransactionInfo":"\#(other)","signedRenewalInfo":null}]}]}"#,
                count: 2),
            taken(
                "a notification history", "notificationHistory",
                #"{"notificationHistory":[{"signedPayload":"\#(token)"},{"signedPayload":"\#(other)"}]}"#, count: 2),
        ]
        return (forms + members).map { $0.of("token") }
    }

    /// The forms of a receipt that are refused by name.
    package static func refused(receipt der: [UInt8]) -> [SentForm] {
        let text = Base64.encode(der)
        let latin = String(String.UnicodeScalarView(der.map { Unicode.Scalar($0) }))
        return [
            refused("R cut in half", "receiptCut", text.prefix(text.count / 2)),
            refused("R cut at 1,000 characters", "receiptCut", text.prefix(1000)),
            refused("R cut, with dots", "receiptCut", text.prefix(1000) + "..."),
            refused("R without its first character", "firstCharacterLost", text.dropFirst()),
            refused("DER read as Latin-1", "receiptAsText", latin),
            refused(
                "DER read as UTF-8 with replacement characters", "receiptAsText",
                String(decoding: der, as: UTF8.self)),
        ]
            + [
                "", "null", "{}", "[]", #"{"receipt-data": null}"#, #"{"receipt-data": ""}"#, "\"\"", " \n",
            ].map { refused("nothing: \($0)", "nothing", $0) }
    }

    /// The forms of a token that are refused by name.
    package static func refused(token: String) -> [SentForm] {
        let parts = token.split(separator: ".")
        let payload = String(decoding: Base64.decodeURL(Array(parts[1].utf8)[...]) ?? [], as: UTF8.self)
        return [
            refused("header and payload", "tokenWithoutSignature", parts[0] + "." + parts[1]),
            refused("two dots and nothing", "tokenWithoutSignature", parts[0] + "." + parts[1] + "."),
            refused("J cut at the end", "tokenCut", token.dropLast(5)),
            refused("J cut in the payload", "tokenCut", parts[0] + "." + parts[1].prefix(100)),
            refused("J cut in the header", "tokenCut", token.prefix(parts[0].count - 7)),
            refused("J cut, with dots", "tokenCut", token.dropLast(5) + "..."),
            refused("the payload alone", "unsignedPayload", parts[1]),
            refused("the payload's JSON", "unsignedPayload", payload),
            refused("jsonRepresentation in base64", "unsignedPayload", Base64.encode(payload.utf8)),
            refused("verified(J)", "swiftDescription", "verified(\(token))"),
            refused("digits", "transactionId", "2000001092134138"),
            refused("an order id", "orderId", "MK5VQN9Z7X"),
            refused(
                "a purchase token of Google Play", "googlePurchaseToken",
                "minodnaemdijiflmnlbdecfg.AO-J1OxQz3kJ-7Zr_4yT0v2mVw1b5nXc8dLsKfHgPqRtYuIoAeWj6M9B"),
            refused("Xcode's id", "xcodeTransactionId", "0"),
        ]
    }

    private static func lines(_ text: String, _ width: Int, _ end: String) -> String {
        let characters = Array(text.utf8)
        return stride(from: 0, to: characters.count, by: width)
            .map { String(decoding: characters[$0..<min($0 + width, characters.count)], as: UTF8.self) }
            .joined(separator: end)
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// A file of gzip (RFC 1952).
    package static func gzip(_ bytes: [UInt8]) -> [UInt8] {
        func word(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
        let head: [UInt8] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]
        return head + (Deflate.compress(bytes) ?? []) + word(checksum(bytes))
            + word(UInt32(truncatingIfNeeded: bytes.count))
    }

    /// CRC-32.
    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        let table = (UInt32(0)..<256).map { byte in
            (0..<8).reduce(byte) { value, _ in value & 1 == 1 ? value >> 1 ^ 0xedb8_8320 : value >> 1 }
        }
        var sum = UInt32.max
        for byte in bytes { sum = table[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] ^ sum >> 8 }
        return ~sum
    }
}
