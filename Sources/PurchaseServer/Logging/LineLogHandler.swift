// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging

/// The format of log lines.
public enum LogFormat: String, CaseIterable, Sendable {
    /// `time=2026-11-22T04:17:05.123Z level=info message=request status=200`. A value is quoted if it is empty, or has
    /// a space, a quote, a backslash, `=`, or a character that is not printable ASCII.
    case text
    /// `{"time":"2026-11-22T04:17:05.123Z","level":"info","message":"request","status":200}`.
    case json
}

/// Writes each log event as one line, with the time in UTC.
///
/// Line breaks and control characters are escaped, since values may come from a request. Otherwise a value could begin
/// a new line, or control a terminal.
package struct LineLogHandler: LogHandler {
    package var logLevel = Logger.Level.info
    package var metadata: Logger.Metadata = [:]
    private let format: LogFormat
    private let now: @Sendable () -> Timestamp
    private let write: @Sendable (_ line: String) -> Void

    /// - Parameter write: Writes a line, and adds the line break.
    package init(
        _ format: LogFormat, now: @escaping @Sendable () -> Timestamp,
        write: @escaping @Sendable (_ line: String) -> Void
    ) {
        self.format = format
        self.now = now
        self.write = write
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let members = members(event)
        switch format {
        case .text:
            var line = ""
            // Most lines are shorter, so that their text is not moved while it grows.
            line.reserveCapacity(256)
            for (name, value) in members {
                line += line.isEmpty ? "" : " "
                line += name
                line += "="
                line += Self.text(value)
            }
            write(line)
        case .json: write(Self.json(members))
        }
    }

    /// The members of a line: first the fixed members, then the metadata. Metadata with the name of a fixed member gets
    /// a different name, so that no package can replace a fixed member.
    private func members(_ event: LogEvent) -> [(name: String, value: Logger.MetadataValue)] {
        let own = event.metadata ?? [:]
        let all = metadata.isEmpty ? own : metadata.merging(own) { _, new in new }
        var fixed: [(String, Logger.MetadataValue)] = [
            ("time", .string(now().iso8601)), ("level", .string(event.level.rawValue)),
            ("message", .string("\(event.message)")),
        ]
        if let error = event.error { fixed.append(("error", .string("\(error)"))) }
        let taken = fixed.map(\.0)
        return fixed + all.sorted { $0.key < $1.key }.map { (Self.name($0.key, besides: taken), $0.value) }
    }

    private static func name(_ name: String, besides taken: [String]) -> String {
        if taken.contains(name) { return "\(name)_" }
        guard !name.utf8.allSatisfy(isPlain) else { return name }
        return String(decoding: name.utf8.map { isPlain($0) ? $0 : UInt8(ascii: "_") }, as: UTF8.self)
    }
}

// MARK: - Values

extension LineLogHandler {
    private static func json(_ members: [(name: String, value: Logger.MetadataValue)]) -> String {
        var json = JSONWriter()
        json.object { json in
            for (name, value) in members {
                json.name(name)
                switch value {
                case .stringConvertible(let number as Int): json.number(Int64(number))
                case .stringConvertible(let number as Int64): json.number(number)
                default: json.string("\(value)")
                }
            }
        }
        let text = String(decoding: json.bytes, as: UTF8.self)
        guard !json.bytes.allSatisfy({ (0x20...0x7e).contains($0) }) else { return text }
        // JSON itself requires escapes only below U+0020.
        return text.unicodeScalars.map { isHidden($0) ? $0.utf16.map(unicodeEscape).joined() : String($0) }.joined()
    }

    private static func unicodeEscape(_ unit: UInt16) -> String {
        let digits = String(unit, radix: 16)
        return "\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)"
    }

    /// Whether a byte is printable ASCII and needs no quotes.
    private static func isPlain(_ byte: UInt8) -> Bool {
        (0x21...0x7e).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "=")
            && byte != UInt8(ascii: "\\")
    }

    private static func text(_ value: Logger.MetadataValue) -> String {
        let text = "\(value)"
        guard text.isEmpty || !text.utf8.allSatisfy(isPlain) else { return text }
        return "\"\(text.unicodeScalars.map(escaped).joined())\""
    }

    private static func escaped(_ scalar: Unicode.Scalar) -> String {
        switch scalar {
        case "\"", "\\": return "\\\(scalar)"
        case "\n": return "\\n"
        default: return isHidden(scalar) ? "\\u{\(String(scalar.value, radix: 16))}" : String(scalar)
        }
    }

    /// Whether a character may act on a terminal, or is invisible.
    private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse: true
        default: false
        }
    }
}
