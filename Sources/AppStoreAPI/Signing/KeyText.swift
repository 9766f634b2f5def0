// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto

/// The text of a key file. If the text is no key, the error gives the kind of the text, and never its contents.
struct KeyText {
    private let text: String

    /// A mark that some editors write at the beginning of a file.
    private static let byteOrderMark: Unicode.Scalar = "\u{feff}"

    /// - Parameter text: The text of the file. A byte order mark, blanks around lines and empty lines are ignored.
    init(_ text: String) {
        let scalars = text.unicodeScalars.drop { $0 == Self.byteOrderMark }
        let lines = scalars.split { "\r\n".unicodeScalars.contains($0) }.map { line in
            let start = line.drop { " \t".unicodeScalars.contains($0) }
            let end = start.lastIndex { !" \t".unicodeScalars.contains($0) }
            return end.map { String(start[...$0]) } ?? ""
        }
        self.text = lines.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    func privateKey() throws(InAppPurchaseKeyError) -> P256.Signing.PrivateKey {
        // The library accepts any 32 bytes in the form of a key, even if the key is on a different curve. The algorithm
        // is therefore checked first.
        guard otherAlgorithm == nil, let key = try? P256.Signing.PrivateKey(pemRepresentation: text) else {
            throw InAppPurchaseKeyError(found: kind)
        }
        return key
    }
}

// MARK: - Kinds of other texts

extension KeyText {
    /// The kind of a text that is no key, as a sentence; `nil` if unknown.
    private var kind: String? {
        if text.isEmpty { return "It is empty." }
        if text.contains(#"\n"#) {
            return #"The text has the characters \n instead of line ends: replace the characters, as printf '%b' does."#
        }
        guard let label else { return unlabelled }
        if label.hasSuffix("CERTIFICATE") { return "The text is a certificate, not a private key." }
        if label.hasSuffix("PUBLIC KEY") { return "The text is a public key, not the private key." }
        if label.hasPrefix("ENCRYPTED") || text.contains("ENCRYPTED\n") {
            return "The key is encrypted with a passphrase: decrypt the key, as openssl pkey does."
        }
        guard label.hasSuffix("PRIVATE KEY") else { return nil }
        if label.hasPrefix("RSA") { return Algorithm.rsa.sentence }
        return keyKind
    }

    /// A description of the private key between the lines BEGIN and END; `nil` if the key's algorithm is unknown.
    private var keyKind: String? {
        guard let contents else { return "The part between the lines BEGIN and END is damaged, and no base64." }
        if let inner = Base64.decode(contents), inner.first == Self.sequence { return Self.twice }
        return otherAlgorithm?.sentence
    }

    /// The algorithm of the key, if it differs from the algorithm of In-App Purchase keys.
    private var otherAlgorithm: Algorithm? {
        guard let contents else { return nil }
        return Algorithm.allCases.first { contents.firstRange(of: $0.identifier) != nil }
    }

    /// A description of a text without the line BEGIN; `nil` if the text is no key in base64.
    private var unlabelled: String? {
        guard let bytes = Base64.decode(text.utf8.filter { $0 != UInt8(ascii: "\n") }) else { return nil }
        if bytes.starts(with: Self.begin.utf8) { return Self.twice }
        return bytes.first == Self.sequence ? "The text lacks the lines BEGIN and END around the base64." : nil
    }

    private static let begin = "-----BEGIN "
    private static let twice = "The key is in base64 twice: decode the key once, as base64 -d does."
    /// The DER tag at the beginning of a key.
    private static let sequence: UInt8 = 0x30

    /// The label in the first line, such as `PRIVATE KEY` (RFC 7468 section 2).
    private var label: String? {
        guard text.hasPrefix(Self.begin), let line = text.split(separator: "\n").first, line.hasSuffix("-----") else {
            return nil
        }
        return String(line.dropFirst(Self.begin.count).dropLast(5))
    }

    /// The bytes between the lines BEGIN and END; `nil` if the lines are not base64.
    private var contents: [UInt8]? {
        let lines = text.split(separator: "\n").dropFirst()
        let end = lines.firstIndex { $0.hasPrefix("-----END ") }
        return end.flatMap { Base64.decode(lines[..<$0].joined().utf8) }
    }

    /// The algorithms of other keys, with the object identifiers in their DER.
    private enum Algorithm: CaseIterable {
        case rsa, p384, p521, secp256k1, ed25519

        var identifier: [UInt8] {
            switch self {
            case .rsa: [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]
            case .p384: [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22]
            case .p521: [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23]
            case .secp256k1: [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x0a]
            case .ed25519: [0x06, 0x03, 0x2b, 0x65, 0x70, 0x04]
            }
        }

        var sentence: String {
            switch self {
            case .rsa: "The key is an RSA key."
            case .p384: "The key is on the curve P-384."
            case .p521: "The key is on the curve P-521."
            case .secp256k1: "The key is on the curve secp256k1."
            case .ed25519: "The key is an Ed25519 key."
            }
        }
    }
}

/// The error for a text that is not an In-App Purchase key. The error gives the kind of the text, and none of its
/// contents, because the contents may be a secret.
public struct InAppPurchaseKeyError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of the text, as a sentence; `nil` if the kind is unknown.
    public let found: String?

    /// The expected text, then the found kind.
    public var description: String {
        let expected = "Expected the text of a .p8 file: a private key on the curve P-256 in PEM."
        return found.map { "\(expected) \($0)" } ?? expected
    }
}
