// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// Holds the size of the sources and of the pages. If you need more, raise the number, and say in the body of the
/// commit what the lines are for. If you delete, lower the number, so that nobody uses up what you saved.
@Suite struct SizeTests {
    @Test func `Sources has as many lines of code as was decided`() throws {
        let decided = 62_800
        #expect(try rounded(Self.codeLines(below: "Sources"), to: 100) == decided)
    }

    @Test func `docs has as many bytes as was decided`() throws {
        let decided = 432_000
        #expect(try rounded(Self.files(below: "docs", "md").reduce(0) { $0 + $1.utf8.count }, to: 1000) == decided)
    }

    @Test func `blank lines and comments are no code`() {
        #expect(Self.codeLines(of: "// a\n\nlet a = 1  // b\n    /// c\n    f()\n") == 2)
    }

    private static func codeLines(below folder: String) throws -> Int {
        try files(below: folder, "swift").reduce(0) { $0 + codeLines(of: $1) }
    }

    private static func codeLines(of text: String) -> Int {
        text.split(whereSeparator: \.isNewline).map { $0.drop(while: \.isWhitespace) }
            .count { !$0.isEmpty && !$0.hasPrefix("//") }
    }

    private static func files(below folder: String, _ suffix: String) throws -> [String] {
        try Repository.paths(in: folder).filter { $0.hasSuffix(".\(suffix)") }
            .map { try String(contentsOf: Repository.root.appending(path: $0), encoding: .utf8) }
    }

    private func rounded(_ count: Int, to step: Int) -> Int { (count + step - 1) / step * step }
}
