// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import TestData
import Testing

@Suite struct JWSTests {
    // {"alg":"ES256","x5c":["AA=="]}
    private static let header = "eyJhbGciOiJFUzI1NiIsIng1YyI6WyJBQT09Il19"

    @Test func `a token is decoded into its parts without a change`() throws {
        let jws = try JWS("\(Self.header).e30.AQID".utf8)
        let header = try jws.header()
        #expect(header.alg == "ES256")
        #expect(header.x5c == ["AA=="])
        #expect(header.kid == nil)
        #expect(jws.payload == Array("{}".utf8))
        #expect(jws.signature == [1, 2, 3])
        #expect(Array(jws.signingInput) == Array("\(Self.header).e30".utf8))
    }

    @Test(arguments: [
        "", ".", "..", "a", "a.b", "\(header).e30", "\(header).e30.AQID.x", "\(header)..AQID", "\(header).e30.",
        ".e30.AQID", "\(header).e30=.AQID", "\(header).e3.AQID\n", "\(header).e/.AQID", "\(header).e+.AQID",
        "\(header).e.AQID", "\(header).e31.AQID", "\(header).e30.AQJ",
        // {"alg":"ES256","crit":["b64"]}
        "eyJhbGciOiJFUzI1NiIsImNyaXQiOlsiYjY0Il19.e30.AQID", "e30.e30.AQID", "bm90.e30.AQID",
        // x5c is not an array, has a number, has eleven.
        "eyJhbGciOiJFUzI1NiIsIng1YyI6MX0.e30.AQID", "eyJhbGciOiJFUzI1NiIsIng1YyI6WzFdfQ.e30.AQID",
        "eyJhbGciOiJFUzI1NiIsIng1YyI6WyIiLCIiLCIiLCIiLCIiLCIiLCIiLCIiLCIiLCIiLCIiXX0.e30.AQID",
    ])
    func `a text that is no compact JWS is refused`(text: String) {
        #expect(throws: JWSError.self) { try JWS(text.utf8).header() }
    }

    @Test(arguments: [0, 1]) func `a certificate in x5c may be as long as the limit and no longer`(more: Int) {
        let certificate = Base64.encode([UInt8](repeating: 0, count: (Limits.certificate + 2) / 3 * 3 + 3 * more))
        let header = Data(#"{"alg":"ES256","x5c":["\#(certificate)"]}"#.utf8).base64EncodedString()
            .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        #expect(((try? JWS("\(header).e30.AQID".utf8).header()) != nil) == (more == 0))
    }

    @Test func `a token longer than the limit is refused before it is read`() {
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: Limits.token + 1)
        #expect(throws: JWSError.self) { try JWS(long) }
    }
}

@Suite struct Base64Tests {
    @Test(arguments: Seeds.first(100))
    func `bytes are encoded and decoded in either alphabet`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let bytes = (0..<Int(seed)).map { _ in UInt8.random(in: 0...255, using: &random) }
        let text = Data(bytes).base64EncodedString()
        #expect(Base64.decode(text.utf8) == (bytes.isEmpty ? nil : bytes))
        let url = text.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        #expect(Base64.decodeURL(Array(url.utf8)[...]) == bytes)
    }

    @Test func `a character outside the alphabet is refused`() {
        let alphabet = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        for character in UInt8.min...UInt8.max {
            for position in 0..<6 {
                var text = Array("AAAAAAA=".utf8)
                text[position] = character
                #expect((Base64.decode(text) != nil) == alphabet.contains(character), "\(character) at \(position)")
            }
        }
    }

    @Test(arguments: [
        ("AA==", [0]), ("AAE=", [0, 1]), ("AAEC", [0, 1, 2]), ("+/+/", [251, 255, 191]), ("AB==", [0]),
    ])
    func `standard base64 is read, with non-zero trailing bits`(text: String, bytes: [UInt8]) {
        #expect(Base64.decode(text.utf8) == bytes)
    }

    @Test(arguments: [
        "", "A", "AA", "AAE", "AA=", "AA===", "AAAA=", "AAAA====", "====", "=AAA", "A=AA", "AA=A", " AAA", "AA\nAA",
        "AAA\n",
        "-_-_", "AA==AA==", "data:AAAA", "AAA%3D", "ÄÄ==",
    ])
    func `base64 that the App Store does not accept is refused`(text: String) {
        #expect(Base64.decode(text.utf8) == nil)
    }

    @Test(arguments: [("AA", [0]), ("-_-_", [251, 255, 191]), ("AAE", [0, 1]), ("", [])])
    func `base64url is read without padding`(text: String, bytes: [UInt8]) {
        #expect(Base64.decodeURL(Array(text.utf8)[...]) == bytes)
    }

    @Test(arguments: ["A", "AAAAA", "AA==", "+/+/", "AA\n", "A A", "AB", "AAB", "AP", "-_-"])
    func `base64url with padding, characters of the other alphabet or non-zero trailing bits is refused`(text: String) {
        #expect(Base64.decodeURL(Array(text.utf8)[...]) == nil)
    }
    /// Stored tokens are compared decoded, so a second spelling would come back as another document.
    @Test(arguments: 1..<6) func `no bytes have a second spelling in base64url`(length: Int) {
        let text = Base64.encodeURL(Array(repeating: 0xa5, count: length)[...])
        #expect(Base64.decodeURL(text[...]) == Array(repeating: 0xa5, count: length))
        for place in text.indices {
            for character in UInt8.min...UInt8.max {
                var other = text
                other[place] = character
                let decoded = Base64.decodeURL(other[...])
                #expect(decoded.map { Base64.encodeURL($0[...]) == other } ?? true, "\(character) at \(place)")
                for longer in [text + [character], [character] + text, text + [character, character]] {
                    #expect(Base64.decodeURL(longer[...]).map { Base64.encodeURL($0[...]) == longer } ?? true)
                }
            }
        }
    }
}
