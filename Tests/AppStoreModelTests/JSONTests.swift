// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import Testing

@Suite struct JSONTests {
    @Test(arguments: [
        #"{}"#, #"[]"#, #"null"#, #"-0"#, #"{"b":1,"a":[true,false,null]}"#,
        #"{"download_id":503312345678901234567890,"e":1.50E+02}"#,
        #"{"same":1,"same":2}"#, #"["\"\\\n\u0001","é😀"]"#,
    ])
    func `compact JSON is written as it was read`(text: String) throws {
        #expect(try JSONValue(parsing: text.utf8).compactText == text)
    }

    @Test(arguments: [
        (#" {"a" : [ 1 , "x" ] } "#, #"{"a":[1,"x"]}"#), (#""\u00e9\u00E9\ud83d\ude00\/""#, #""éé😀/""#),
        ("\"\\b\\f\"", #""\u0008\u000c""#),
    ])
    func `white space and needless escapes are dropped, values are kept`(text: String, expected: String) throws {
        #expect(try JSONValue(parsing: text.utf8).compactText == expected)
    }

    private static let refused = [
        "", " ", "{", "}", "[", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{'a':1}", "01", "1.", ".5",
        "-", "+1", "1e", "1e+", "0x1", "NaN", "Infinity", "nul", "tru", "\"", "\"\\", "\"\\x\"", "\"\\u12\"",
        "\"\\ud800\\u004\"", "\"\\ud800\\x\"", "\"\u{1}\"", "\"\n\"", "1 2", "{} x", "\u{feff}{}", "[1 2]",
        "\"\\u00g0\"",
    ]

    @Test(arguments: refused) func `JSON that RFC 8259 does not allow is refused`(text: String) {
        #expect(throws: JSONError.self) { try JSONValue(parsing: text.utf8) }
    }

    /// Values, whole and damaged, that a reader may pass over as members of an object.
    private static let passed: [[UInt8]] =
        (refused + [
            "0", "-1.50E+02", "true", "false", "null", #""é😀""#, #""\ud800\u0000""#, #""a\"b""#, "[1,[2,{}]]", "[]",
            #"{"b":{"c":" "},"d":"}"}"#, "\"\u{7f}\"",
        ]).map { Array($0.utf8) } + [[0x22, 0xff, 0x22], [0x22, 0xc0, 0x80, 0x22], [0x80]]

    @Test(arguments: passed, ["", "0123456", "01234567", "é"])
    func `the names of members are found in each object that can be read, and in nothing else`(
        value: [UInt8], plain: String
    ) throws {
        let texts = [
            Array(#"{"\#(plain)":"\#(plain)","x\"y":"#.utf8) + value + Array(#" , "": [1,"\#(plain)"]}"#.utf8),
            Array("{\"\(plain)\":".utf8) + value + [UInt8(ascii: "}")], Array("[".utf8) + value + Array("]".utf8),
            value,
        ]
        for text in texts {
            let names = JSONValue.names(in: text)?.map { Array(text[$0]) }
            let whole = JSONValue(readable: text)?.members?.map(\.name)
            // The names of the table have no escapes but one.
            #expect(names?.map { String(decoding: $0, as: UTF8.self).replacing("\\", with: "") } == whole)
        }
    }

    @Test func `names are found within the limits of a document`() {
        let deep = Limits.jsonDepth - 1
        for (depth, isRead) in [(deep, true), (deep + 1, false)] {
            let text = "{\"a\":" + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
            #expect((JSONValue.names(in: Array(text.utf8)) != nil) == isRead)
        }
        for (count, isRead) in [(Limits.jsonValues - 2, true), (Limits.jsonValues - 1, false)] {
            let text = "{\"a\":[" + Array(repeating: "0", count: count).joined(separator: ",") + "]}"
            #expect((JSONValue.names(in: Array(text.utf8)) != nil) == isRead)
            #expect((JSONValue(readable: text.utf8) != nil) == isRead)
        }
    }

    /// Each byte at each place in a block of eight, where a test of eight bytes at once may take one for another.
    @Test func `a string ends at its first quote, whatever bytes are around it`() throws {
        for place in 0..<9 {
            for byte in UInt8(0)..<128 {
                var text = Array(repeating: UInt8(ascii: "!"), count: 17)
                text[place] = byte
                let json = [UInt8(ascii: "\"")] + text + Array("\"".utf8)
                let isPlain = byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
                let value = JSONValue(readable: json)
                #expect(value == (isPlain ? .string(String(decoding: text, as: UTF8.self)) : nil))
                let written = Array(JSONValue.string(String(decoding: text, as: UTF8.self)).compactText.utf8)
                #expect((written == json) == isPlain)
                #expect(JSONValue(readable: written) == .string(String(decoding: text, as: UTF8.self)))
            }
        }
    }

    @Test(
        arguments: [[0x22, 0xff, 0x22], [0x22, 0xc0, 0x80, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22], [0x80]] as [[UInt8]])
    func `bytes that are not UTF-8 are refused`(bytes: [UInt8]) {
        #expect(throws: JSONError.self) { try JSONValue(parsing: bytes) }
    }

    /// The text with « replaced by U+FDD0, which a literal cannot contain: the mark of lone surrogates in memory.
    private static func marked(_ text: String) -> [UInt8] {
        let scalars = text.unicodeScalars.map { $0 == "«" ? Unicode.Scalar(0xfdd0 as UInt32) ?? $0 : $0 }
        return Array(String(String.UnicodeScalarView(scalars)).utf8)
    }

    @Test(arguments: [
        #""\ud800""#, #""\udfff""#, #""a\udc00\ud800z""#, #""\ud800\ud800😀""#, #"{"\udbff":["\udc00é"]}"#,
        #""\ud800A""#, #""\ud800\n\"""#, #""«""#, "\"««\u{10d800}\"", "\"\u{10d800}\"", #""«\ud800«""#,
        "\"«\u{301}\\n\"", "\"\u{feff}\u{ff21}\u{f8ff}\"", #""««««\ud800««""#,
    ])
    func `a lone surrogate comes back unchanged, as does text that looks like its form in memory`(
        text: String
    ) throws {
        let bytes = Self.marked(text)
        let json = try JSONValue(parsing: bytes)
        #expect(Array(json.compactText.utf8) == bytes)
        #expect(try JSONValue(parsing: json.compactText.utf8) == json)
    }

    @Test func `no two different strings are equal because of a lone surrogate`() throws {
        let texts = [
            #""\ud800""#, #""\ud801""#, "\"«\u{10d800}\"", "\"««\u{10d800}\"", #""«\ud800""#, #""\ud800«""#,
            "\"\u{10d800}\"", #""\ufdd0""#, #""\ufffd""#, #""\ud83d""#, #""\ude00""#, #""\ud83d\ude00""#,
        ]
        #expect(Set(try texts.map { try JSONValue(parsing: Self.marked($0)) }).count == texts.count)
        // An escaped letter is the letter.
        let escaped = try JSONValue(parsing: #""\ufdd0\ud800""#.utf8)
        #expect(try JSONValue(parsing: Self.marked(#""«\ud800""#)) == escaped)
    }

    @Test func `a lone surrogate survives in a typed payload`() throws {
        let text = #"{"productId":"\ud800","new\udc00":"\udc00"}"#
        let payload = try JSONValue(parsing: text.utf8).decode(JWSTransactionDecodedPayload.self)
        #expect(try JSONValue(encoding: payload).compactText == text)
    }

    @Test func `nesting is read to its limit and no deeper`() throws {
        let limit = Limits.jsonDepth
        let deepest = String(repeating: "[", count: limit) + String(repeating: "]", count: limit)
        #expect(try JSONValue(parsing: deepest.utf8).compactText == deepest)
        for opening in ["[", #"{"a":"#] {
            let bomb = String(repeating: opening, count: 1_000_000)
            #expect(throws: JSONError.self) { try JSONValue(parsing: bomb.utf8) }
        }
    }

    @Test(arguments: 0..<200) func `a string of any length is read to its end`(length: Int) throws {
        let plain = String(repeating: "a", count: length)
        #expect(try JSONValue(parsing: "[\"\(plain)\",\"\"]".utf8) == .array([.string(plain), .string("")]))
        #expect(try JSONValue(parsing: "\"\(plain)\\n\(plain)\"".utf8) == .string("\(plain)\n\(plain)"))
        #expect(throws: JSONError.self) { try JSONValue(parsing: "\"\(plain)\n\(plain)\"".utf8) }
        #expect(throws: JSONError.self) { try JSONValue(parsing: "\"\(plain)".utf8) }
    }

    @Test(arguments: ["[0,0]", "[[],{}]", #"{"a":0,"a":1}"#])
    func `a document has as many values as the limit and no more`(text: String) throws {
        #expect(throws: Never.self) { try JSONValue(parsing: text.utf8, atMost: 3) }
        #expect(throws: JSONError.self) { try JSONValue(parsing: text.utf8, atMost: 2) }
    }

    @Test func `of duplicate members the last counts`() throws {
        let json = try JSONValue(parsing: #"{"a":1,"a":2}"#.utf8)
        #expect(json["a"]?.integer == 2)
        #expect(try json.decode([String: Int].self) == ["a": 2])
    }

    struct Payload: Codable, Hashable {
        struct Inner: Codable, Hashable {
            var id: Int64?
            var unknownMembers = UnknownMembers()
        }

        var name: String?
        var ratio: Double?
        var items: [Inner]?
        var raw: JSONValue?
        var word: Open<Environment>?
        var unknownMembers = UnknownMembers()
    }

    @Test(arguments: [
        #"{}"#, #"{"name":"x","ratio":1.5,"items":[{"id":9223372036854775807},{}],"raw":[12345678901234567890123.0]}"#,
        #"{"word":"Moon","later":{"z":1,"a":[2]},"unknownMembers":3}"#,
        #"{"items":[{"id":1,"new":null}],"new":1e3}"#,
    ])
    func `unknown members survive decoding and encoding`(text: String) throws {
        let json = try JSONValue(parsing: text.utf8)
        let payload = try json.decode(Payload.self)
        #expect(try JSONValue(encoding: payload).compactText == text)
    }

    @Test(arguments: [
        (#"{"name":1}"#, "name"), (#"{"items":{}}"#, "items"), (#"{"items":[{"id":1.5}]}"#, "id"),
        (#"{"items":[{"id":99999999999999999999}]}"#, "id"), (#"{"items":[3]}"#, "[0]"), (#"{"word":7}"#, "word"),
    ])
    func `a member of another type is an error that names it`(text: String, member: String) throws {
        let json = try JSONValue(parsing: text.utf8)
        let error = try #require(throws: DecodingError.self) { try json.decode(Payload.self) }
        guard case .typeMismatch(_, let context) = error else {
            Issue.record("\(error)")
            return
        }
        #expect(context.codingPath.last?.stringValue == member)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity])
    func `a number that JSON cannot write is an error`(number: Double) {
        #expect(throws: EncodingError.self) { try JSONValue(encoding: [number]) }
    }

    private class Base: Encodable {
        let base = 1
    }

    private final class Derived: Base {
        let ids: [UInt64] = [.max, 0]
        let nothing = Nothing()

        private enum CodingKeys: String, CodingKey {
            case ids
            case nothing
        }

        override func encode(to encoder: any Encoder) throws {
            try super.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(ids, forKey: .ids)
            try container.encode(nothing, forKey: .nothing)
        }
    }

    private struct Nothing: Encodable {
        func encode(to encoder: any Encoder) {}
    }

    @Test func `a class and its superclass share an object, and what encodes nothing is null`() throws {
        let text = #"{"base":1,"ids":[18446744073709551615,0],"nothing":null}"#
        #expect(try JSONValue(encoding: Derived()).compactText == text)
        #expect(try JSONValue(encoding: [Nothing(), Nothing()]).compactText == "[null,null]")
    }

    /// Writes to the inner object after a later member of the outer one.
    private struct OutOfOrder: Encodable {
        enum CodingKeys: String, CodingKey {
            case inner
            case later
        }

        func encode(to encoder: any Encoder) throws {
            var outer = encoder.container(keyedBy: CodingKeys.self)
            var inner = outer.nestedContainer(keyedBy: CodingKeys.self, forKey: .inner)
            try outer.encode(1, forKey: .later)
            try inner.encode(2, forKey: .later)
        }
    }

    @Test func `writing to a nested container after its enclosing one is an error`() {
        #expect(throws: EncodingError.self) { try JSONValue(encoding: OutOfOrder()) }
    }

    @Test func `a value as deep as the limit is encoded inside of others`() throws {
        let depth = Limits.jsonDepth
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        let json = try JSONValue(parsing: text.utf8)
        #expect(try JSONValue(encoding: ["deep": [json]]).compactText == #"{"deep":[\#(text)]}"#)
    }

    @Test func `Foundation's coders read and write payloads too, without unknown members`() throws {
        let payload = try JSONDecoder().decode(Payload.self, from: Data(#"{"name":"x","new":1}"#.utf8))
        #expect(payload.name == "x")
        #expect(payload.unknownMembers.members.isEmpty)
        #expect(String(decoding: try JSONEncoder().encode(payload), as: UTF8.self) == #"{"name":"x"}"#)
        let known = try JSONValue(parsing: #"{"name":"x","new":1}"#.utf8).decode(Payload.self)
        #expect(String(decoding: try JSONEncoder().encode(known), as: UTF8.self) == #"{"name":"x"}"#)
    }

    @Test(arguments: [("3.0", 3), ("1e2", 100), ("-0.0", 0)])
    func `a whole number may be written with a point`(text: String, number: Int) throws {
        #expect(try JSONValue(parsing: text.utf8).decode(Int.self) == number)
    }

    @Test func `names are compared by their bytes`() throws {
        // KELVIN SIGN looks like K and is equal to it for Swift.
        let json = try JSONValue(parsing: "{\"na\u{212a}\":1,\"naK\":2}".utf8)
        #expect(json["naK"] == .number("2"))
        #expect(json["na\u{212a}"] == .number("1"))
    }

    @Test func `a hundred thousand members are read and written`() throws {
        let text = "{" + (0..<100_000).map { "\"m\($0)\":1" }.joined(separator: ",") + "}"
        let json = try JSONValue(parsing: text.utf8)
        #expect(try json.decode([String: Int].self).count == 100_000)
        #expect(try JSONValue(encoding: json.decode(Payload.self)) == json)
    }
}

@Suite struct BytesTests {
    @Test(arguments: 0..<200) func `bytes are the same if each is`(count: Int) {
        let bytes = (0..<count).map { UInt8($0) }
        let among = ([0, 0] + bytes + [0])[2..<count + 2]
        #expect(bytes.isSame(as: among))
        #expect(!bytes.isSame(as: among + [0]) && !(bytes + [0]).isSame(as: among))
        for index in bytes.indices {
            var other = bytes
            other[index] ^= 0x40
            #expect(!other.isSame(as: among))
        }
    }
}
