// SPDX-License-Identifier: Apache-2.0

/// The output of a command about several documents, in order, for standard output and standard error. The output is
/// collected so that many answers need only one write.
struct Output: Sendable {
    private var parts: [(isError: Bool, text: [UInt8])] = []

    /// Whether there is output for standard error.
    var hasErrors: Bool { parts.contains(where: \.isError) }

    /// Adds a line to standard output.
    mutating func print(_ line: String) { add(Array(line.utf8), isError: false) }

    /// Adds a line to standard error.
    mutating func printError(_ line: String) { add(Array(line.utf8), isError: true) }

    private mutating func add(_ line: [UInt8], isError: Bool) {
        if parts.last?.isError != isError { parts.append((isError, [])) }
        parts[parts.count - 1].text += line
        parts[parts.count - 1].text.append(UInt8(ascii: "\n"))
    }

    /// Writes all output.
    func write() throws {
        for part in parts {
            if part.isError { Terminal.writeError(part.text) } else { try Terminal.write(part.text) }
        }
    }
}
