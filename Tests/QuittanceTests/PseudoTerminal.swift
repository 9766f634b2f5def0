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

    /// - Parameter answer: What the person types, in advance.
    /// - Returns: The exit status, and all that the terminal showed.
    static func run(_ command: [String], answer: String) throws -> (status: Int32, text: String) {
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        try #require(terminal >= 0 && unlock(terminal) == 0)
        defer { close(terminal) }
        let path = String(cString: try #require(Self.name(terminal)))
        // Until another end is open, what is written is lost.
        let end = open(path, O_RDWR | O_NOCTTY)
        defer { close(end) }
        try FileHandle(fileDescriptor: terminal).write(contentsOf: Data(answer.utf8))
        let output = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: output) }
        let process = try TestProcess(
            command, input: .file(URL(fileURLWithPath: path)), output: .file(output), error: .pipe)
        let status = process.wait()
        return (status, String(decoding: try Data(contentsOf: output), as: UTF8.self))
    }
}
