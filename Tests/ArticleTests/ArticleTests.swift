// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// The code in the articles and pages compiles and runs: a test of this target contains each block.
@Suite struct ArticleTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The files with an ending below a folder, by path.
    private static func files(_ ending: String, below folder: String) throws -> [String: String] {
        let folder = root.appending(path: folder)
        let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(ending) }
        return try Dictionary(
            uniqueKeysWithValues: paths.map { path in
                (path, try String(contentsOf: folder.appending(path: path), encoding: .utf8))
            })
    }

    /// The code with neither indentation nor empty lines.
    private static func normalized(_ code: Substring) -> String {
        code.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
            .map { "\n\($0)" }.joined()
    }

    @Test func `a test contains every block of Swift in an article`() throws {
        var articles = try Self.files(".md", below: "Sources")
        for path in ["docs/swift.md", "docs/app-store-api.md"] {
            articles[path] = try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
        }
        let tests = try Self.files(".swift", below: "Tests/ArticleTests").values.map { Self.normalized($0[...]) }
        let blocks = articles.flatMap { path, text in
            text.split(separator: "```swift\n").dropFirst().map { (path, Self.normalized($0.prefix { $0 != "`" })) }
        }
        #expect(blocks.count > 15)
        for (path, block) in blocks { #expect(tests.contains { $0.contains(block) }, "\(path):\(block)") }
    }
}
