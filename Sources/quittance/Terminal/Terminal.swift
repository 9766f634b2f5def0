// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
import Logging

/// A count with its noun, such as `1 document` or `2 documents`.
func counted(_ count: Int, _ noun: String, plural: String? = nil) -> String {
    "\(count) \(count == 1 ? noun : plural ?? "\(noun)s")"
}

/// Runs `body`, and turns its errors into `ValidationError`, that is, wrong usage.
///
/// - Parameter beginning: The text before the error in the message.
func asUsage<Value>(_ beginning: String = "", _ body: () throws -> Value) throws -> Value {
    do {
        return try body()
    } catch {
        throw ValidationError(beginning + ((error as? VerificationError)?.message ?? "\(error)"))
    }
}

extension TextForm {
    /// Requires the form of an argument.
    ///
    /// - Parameter name: The option, such as `--to`, or the name of the argument.
    func require(_ text: String, in name: String) throws {
        if let fault = fault(in: text) { throw ValidationError("\(name): \(fault)") }
    }
}

/// Standard output and standard error.
enum Terminal {
    /// The name by which the shell called the program, for printed commands.
    static let program = (CommandLine.arguments.first ?? "quittance").printable

    /// Whether standard output is a terminal. Otherwise no text is coloured.
    static let isInteractive = isatty(STDOUT_FILENO) == 1

    /// Whether standard error is a terminal. Otherwise no counters and no progress of file copies are printed.
    static let isErrorInteractive = isatty(STDERR_FILENO) == 1

    /// Whether standard input is a terminal, so that a person can answer questions.
    static let isInputInteractive = isatty(STDIN_FILENO) == 1

    /// Writes a line to standard output without buffering, so that a program behind a pipe reads the line at once.
    ///
    /// - Throws: Exit status 2 if the line cannot be written, for example on a full disk, because lost output is no
    ///   success.
    static func print(_ line: String) throws { try write(Array("\(line)\n".utf8)) }

    /// Writes text to standard output, as ``print(_:)`` does.
    static func write(_ text: [UInt8]) throws {
        guard write(text, to: STDOUT_FILENO) else {
            printError("quittance: Cannot write the output: \(String(cString: strerror(errno)))")
            throw ExitCode(2)
        }
    }

    /// Writes text to standard error, without the process's arguments and variables that may have a password.
    static func writeError(_ text: [UInt8]) {
        // If standard error cannot be written, the failure cannot be reported either.
        _ = write(GivenSecrets.all.isEmpty ? text : GivenSecrets.remove(from: text), to: STDERR_FILENO)
    }

    /// Reserves the descriptors of closed standard files. Otherwise a file or connection opened later could get such a
    /// descriptor, and output would go there. Reading from or writing to a reserved descriptor fails.
    static func reserveStandardFiles() {
        for file in STDIN_FILENO...STDERR_FILENO where fcntl(file, F_GETFD) < 0 {
            // `open` takes the lowest free descriptor: `file`.
            _ = open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Writes a line to standard error.
    @Sendable static func printError(_ message: String) { writeError(Array("\(message)\n".utf8)) }

    /// Writes a sentence to standard error, after the program's name.
    static func report(_ sentence: String) { printError("quittance: \(sentence)") }

    /// Reports on standard error why a command failed.
    ///
    /// - Returns: Exit status 1.
    static func failure(_ sentences: String...) -> ExitCode {
        sentences.forEach(report)
        return ExitCode(1)
    }

    /// Writes a document to standard output, as JSON on one line.
    static func print(json: some Encodable) throws {
        try print(String(decoding: try JSONWriter.bytes(publishing: json), as: UTF8.self))
    }

    private static func write(_ text: [UInt8], to file: Int32) -> Bool {
        var rest = text[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(file, $0.baseAddress, $0.count) }
            guard count > 0 || count < 0 && errno == EINTR else { return false }
            rest = rest.dropFirst(max(0, count))
        }
        return true
    }
}

extension Logger {
    /// Logs a notice at any log level, because the program that started this process may wait for the notice.
    func always(_ message: Message, metadata: Metadata) {
        var logger = self
        logger.logLevel = min(logger.logLevel, .notice)
        logger.notice(message, metadata: metadata)
    }
}

/// The style of text on a terminal.
enum Style: String {
    case bold = "1"
    case dim = "2"
    case red = "31"
    case green = "32"
}

extension String {
    /// The text in `style` on a terminal, and unchanged for files and programs.
    func styled(_ style: Style) -> String {
        Terminal.isInteractive ? "\u{1b}[\(style.rawValue)m\(self)\u{1b}[0m" : self
    }

    /// The text in which all characters that control a terminal or its writing direction are replaced, because a
    /// document can contain any character.
    var printable: String {
        let scalars = unicodeScalars.map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: Unicode.Scalar(0xfffd) ?? scalar
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars))
    }

    /// The text or, if it has more than 120 characters, its first 117 and an ellipsis. A token inside a notification
    /// has thousands of characters.
    var shortened: String { count <= 120 ? self : "\(prefix(117))…" }

    /// The text padded with spaces to `width` characters.
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
