// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestProcess
import Testing

/// Runs a program that asks a person on a terminal.
enum PseudoTerminal {
    // glibc has these, but hides them from Swift.
    private static let unlock = unsafeBitCast(dlsym(nil, "unlockpt"), to: (@convention(c) (Int32) -> Int32).self)
    private static let name = unsafeBitCast(
        dlsym(nil, "ptsname"), to: (@convention(c) (Int32) -> UnsafePointer<CChar>?).self)

    /// Calls `body` with the terminal's two ends: the person's, and the path of the program's.
    private static func withTerminal<Value>(_ body: (FileHandle, URL) throws -> Value) throws -> Value {
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        try #require(terminal >= 0 && unlock(terminal) == 0)
        defer { close(terminal) }
        let path = String(cString: try #require(Self.name(terminal)))
        // Until another end is open, what is written is lost.
        let end = open(path, O_RDWR | O_NOCTTY)
        defer { close(end) }
        return try body(FileHandle(fileDescriptor: terminal), URL(fileURLWithPath: path))
    }

    /// Runs a program whose standard output is a terminal until it has shown `marker`, then stops it.
    ///
    /// - Returns: All that the terminal showed until then.
    static func watch(_ command: [String], until marker: String) throws -> String {
        try withTerminal { person, path in
            let process = try TestProcess(command, output: .file(path))
            defer {
                process.send(SIGTERM)
                process.wait()
            }
            var text = ""
            while !text.contains(marker) {
                // What a program showed before it ended is still there.
                let hasEnded = !process.isRunning
                var terminal = pollfd(fd: person.fileDescriptor, events: Int16(POLLIN), revents: 0)
                if poll(&terminal, 1, 20) > 0 {
                    text += String(decoding: person.availableData, as: UTF8.self)
                } else {
                    try #require(!hasEnded, "It has ended, and showed: \(text)")
                }
            }
            return text
        }
    }

    /// - Parameter answer: What the person types, in advance.
    /// - Returns: The exit status, and all that the terminal showed.
    static func run(_ command: [String], answer: String) throws -> (status: Int32, text: String) {
        try withTerminal { person, path in
            try person.write(contentsOf: Data(answer.utf8))
            return try run(command, on: path)
        }
    }

    private static func run(_ command: [String], on terminal: URL) throws -> (status: Int32, text: String) {
        let output = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: output) }
        let process = try TestProcess(
            command, input: .file(terminal), output: .file(output), error: .pipe)
        let status = process.wait()
        return (status, String(decoding: try Data(contentsOf: output), as: UTF8.self))
    }
}
