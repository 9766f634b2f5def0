// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Testing

/// The characters that a form allows, and the characters that are published.
@Suite struct PublishedTextTests {
    private static let line = TextForm("A line", 1...10)
    private static let lines = TextForm("A text", 0...10, .characters, .lines)
    private static let letters = TextForm("A word", 1...10, .characters, .letters("-."))

    /// What RFC 9839 does not call assignable, tabs, line ends and separators, and the characters with Bidi_Control.
    private static let refused: [ClosedRange<UInt32>] =
        [
            0...0x1f, 0x7f...0x9f, 0x61c...0x61c, 0x200e...0x200f, 0x2028...0x202e, 0x2066...0x2069, 0xfdd0...0xfdef,
        ] + (0...16).map { $0 << 16 + 0xfffe...$0 << 16 + 0xffff }

    @Test func `a form refuses exactly controls, direction marks, separators and noncharacters`() {
        let long = TextForm("A line", 1...100_000_000)
        var wrong: [UInt32] = []
        var ranges = Self.refused[...]
        // Of the higher planes, the ends.
        for value in 0...0x10_ffff as ClosedRange<UInt32> where value < 0x1_1000 || value & 0xffff > 0xfff0 {
            while let range = ranges.first, range.upperBound < value { ranges.removeFirst() }
            guard let scalar = Unicode.Scalar(value) else { continue }
            let isRefused = long.fault(in: "x\(Character(scalar))")?.contains(" at position 2 is not allowed") ?? false
            if isRefused != (ranges.first?.contains(value) ?? false) { wrong.append(value) }
        }
        #expect(wrong == [])
    }

    @Test(arguments: [
        ("a", [true, true, true]), ("", [false, true, false]), (" ", [false, true, false]),
        ("\u{3000}", [false, true, false]), ("a\tb\r\n", [false, true, false]), ("a b", [true, true, false]),
        ("A-z.09", [true, true, true]), ("a_b", [true, true, false]), ("éééééé", [false, true, false]),
        ("ééééé", [true, true, false]), ("0123456789", [true, true, true]), ("0123456789a", [false, false, false]),
        ("e\u{301}", [true, true, false]), ("👩‍👩‍👧", [false, true, false]), ("\u{212a}", [true, true, false]),
    ])
    func `a form has a length in bytes or characters, and allows a blank text only if it allows an empty one`(
        text: String, isAllowed: [Bool]
    ) {
        #expect([Self.line, Self.lines, Self.letters].map { $0.allows(text) } == isAllowed)
    }

    @Test(arguments: [
        (#""a\u0000""#, "U+0000 at position 2"), (#""😀\ud83d""#, "U+D83D at position 2"),
        (#""\ufdd0""#, "U+FDD0 at position 1"), (#""ab\ude00""#, "U+DE00 at position 3"),
        (#""\udbff\udfff""#, "U+10FFFF at position 1"), (#""\r\n\u2028""#, "U+2028 at position 3"),
        (#""\t""#, nil), (#""\ud83d\ude00""#, nil), ("\"\u{10d800}\"", nil),
    ])
    func `a fault names the character as it was sent, and its position`(json: String, fault: String?) throws {
        let text = try #require(try JSONValue(parsing: json.utf8).string)
        let found = Self.lines.fault(in: text)
        #expect(found == fault.map { "\($0) is not allowed. \(Self.lines.rule)" })
    }

    @Test(arguments: [
        (#"{"a":["x",1.50,true,null],"b":{}}"#, nil), (#""\"\\/\t\r\n""#, #""\"\\/\t\r\n""#), (#""éé😀\ufffd""#, nil),
        (#""\u0000a\u0007""#, "\"\u{fffd}a\u{fffd}\""), (#"["\ud800","\udc00\ud800x"]"#, "[\"�\",\"��x\"]"),
        (#"{"\u0085":{"b":"\u202e\u2028"}}"#, "{\"�\":{\"b\":\"��\"}}"), (#""\ufdd0\ufdd0\ud800""#, "\"���\""),
        (#""\ufdd0x\uffff""#, "\"�x�\""), ("\"\u{7f}\u{9f}\u{200d}\"", "\"��\u{200d}\""),
        (#""e\u0301""#, "\"e\u{301}\""), (#""\\u0000""#, nil),
        (#""\\\u0000\\""#, "\"\\\\\u{fffd}\\\\\""),
    ])
    func `an answer is published with U+FFFD in place of each refused character, and is otherwise unchanged`(
        json: String, published: String?
    ) throws {
        let value = try JSONValue(parsing: json.utf8)
        #expect(try JSONWriter.bytes(publishing: value) == Array((published ?? value.compactText).utf8))
    }
}
