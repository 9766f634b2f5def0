// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Escapes NUL, because texts in databases cannot contain NUL. PostgreSQL refuses NUL. SQLite ends a text at NUL, so
/// that two texts with the same beginning could be taken for equal. NUL is written as U+0001 `0`, and U+0001 as U+0001
/// `1`.
package enum StoredText {
    @usableFromInline static let escape: UInt8 = 1

    /// Calls `body` with the escaped bytes.
    @inlinable
    package static func withBytes<Result>(
        of text: String, _ body: (UnsafeBufferPointer<CChar>) -> Result
    ) -> Result {
        var text = text
        return text.withUTF8 { plain in
            guard plain.contains(where: { $0 <= escape }) else { return plain.withMemoryRebound(to: CChar.self, body) }
            return escaped(plain).withUnsafeBufferPointer { $0.withMemoryRebound(to: CChar.self, body) }
        }
    }

    /// The escaped bytes.
    package static func escape(_ text: String) -> [UInt8] {
        var text = text
        return text.withUTF8 { plain in
            plain.contains { $0 <= escape } ? escaped(plain) : Array(plain)
        }
    }

    @usableFromInline
    static func escaped(_ plain: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        plain.flatMap { $0 <= escape ? [escape, UInt8(ascii: "0") + $0] : [$0] }
    }

    /// The text of escaped bytes. Every text column of a row goes through it, so it is not generic: no other module
    /// would specialise the search for the escape.
    package static func unescape(_ text: UnsafeBufferPointer<UInt8>) -> String {
        guard text.has(escape) else { return String(decoding: text, as: UTF8.self) }
        var bytes: [UInt8] = []
        var isEscaped = false
        for byte in text {
            if isEscaped {
                bytes.append(byte == UInt8(ascii: "0") ? 0 : escape)
            } else if byte != escape {
                bytes.append(byte)
            }
            isEscaped = !isEscaped && byte == escape
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
