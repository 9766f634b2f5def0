// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Standard output and standard error.
enum Terminal {
    /// Whether people look at standard output: only then is anything coloured.
    static let isInteractive = isatty(STDOUT_FILENO) == 1

    static func print(_ line: String) {
        Swift.print(line)
    }

    static func complain(_ message: String) {
        var bytes = Array(message.utf8)
        bytes.append(UInt8(ascii: "\n"))
        // There is nobody left to tell when standard error cannot be written.
        _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}

/// How a piece of text stands out on a terminal.
enum Style: String {
    case bold = "1"
    case dim = "2"
    case red = "31"
    case green = "32"
}

extension String {
    /// The text in `style` where people look at it, and as it is for files and programs.
    func styled(_ style: Style) -> String {
        Terminal.isInteractive ? "\u{1b}[\(style.rawValue)m\(self)\u{1b}[0m" : self
    }

    /// The text without anything that could steer a terminal: a document can hold any character.
    var printable: String {
        String(
            String.UnicodeScalarView(unicodeScalars.map { $0.properties.generalCategory == .control ? "\u{fffd}" : $0 })
        )
    }

    /// Filled up with spaces to `width` characters.
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}
