// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// Tests the pages in Markdown, and what they say about the sources.
@Suite struct PageTests {
    @Test(arguments: PageRule.all) func `no page breaks a rule`(rule: PageRule) {
        let found = MarkdownPage.all.flatMap { page in rule.violations(page).map { "\(page.path): \($0)" } }
        #expect(found.isEmpty, "\(rule.name):\n\(found.joined(separator: "\n"))")
    }

    @Test(arguments: PageRule.all) func `a rule finds what breaks it and nothing else`(rule: PageRule) {
        #expect(rule.bad.filter { rule.violations(MarkdownPage($0)).isEmpty } == [])
        #expect(rule.good.filter { !rule.violations(MarkdownPage($0)).isEmpty } == [])
    }

    @Test func `the pages are found`() {
        let paths = Set(MarkdownPage.all.map(\.path))
        #expect(
            paths.isSuperset(of: [
                "README.md", "docs/api.md", "docs/decisions/README.md", "Tests/Vectors/README.md",
                "Sources/AppStoreTrust/Documentation.docc/AppStoreTrust.md",
            ]))
    }

    // MARK: - ARCHITECTURE.md

    private static let architecture = "ARCHITECTURE.md"

    @Test func `ARCHITECTURE.md has at most 20,000 bytes`() throws {
        let page = try #require(MarkdownPage(at: Self.architecture))
        #expect(page.text.utf8.count <= 20_000)
    }

    @Test func `the table of targets is that of the manifest`() throws {
        let page = try #require(MarkdownPage(at: Self.architecture))
        let manifest = try String(contentsOf: Repository.root.appending(path: "Package.swift"), encoding: .utf8)
        let declared = ManifestTarget.shipped(in: manifest)
        #expect(declared.map(\.name).contains("CLibPQ") && declared.map(\.name).contains("quittance"))
        let found = ManifestTarget.differences(of: ManifestTarget.listed(in: page), from: declared)
        #expect(found.isEmpty, "\(found.joined(separator: "\n"))")
    }

    private static let manifest = """

        let x = Target.Dependency.product(name: "X", package: "x-package")
        let y = Target.Dependency.product(
            name: "Y", package: "y", condition: server)
        let both = [x, y]
        let package = Package(
            targets: [
                .target(name: "A"),
                .systemLibrary(name: "C", providers: [.apt(["c-dev"])]),
                .target(name: "B", dependencies: ["A", .target(name: "C", condition: c), x]),
                .executableTarget(
                    name: "d",
                    dependencies: [
                        "A",
                    ] + both),
                .target(name: "T", path: "Tests/T"),
                .testTarget(name: "ATests", dependencies: ["A"]),
            ]
        """

    @Test(arguments: [
        ("| `A` | | – |\n| `B` | | `A`, `C`, X |\n| `C` | | – |\n| `d` | | `A`, X, Y |", []),
        ("| `A` | | – |\n| `B` | | `A`, X |\n| `C` | | – |\n| `d` | | `A`, X, Y |", ["B lacks C"]),
        (
            "| `A` | | X |\n| `B` | | `A`, `C`, X |\n| `d` | | `A`, X, Y |\n| `E` | | – |",
            ["E is no target below Sources", "A does not depend on X", "C has 0 rows"]
        ),
    ]) func `a difference between table and manifest is found`(rows: String, found: [String]) {
        let listed = ManifestTarget.listed(in: MarkdownPage("| target | holds | imports |\n|---|---|---|\n" + rows))
        #expect(ManifestTarget.differences(of: listed, from: ManifestTarget.shipped(in: Self.manifest)) == found)
    }

    // MARK: - Names

    /// The pages whose code spans must name files and suites that exist.
    private static let checked = MarkdownPage.all.filter {
        $0.path == architecture || $0.path.hasPrefix("docs/decisions/") || $0.path == "CONTRIBUTING.md"
    }

    /// The names of all files and folders of the sources and tests.
    private static let names = Set(
        (Repository.paths(in: "Sources") + Repository.paths(in: "Tests")).flatMap { $0.components(separatedBy: "/") })

    private static let suites = Set(
        SourceTarget.all.filter { !$0.isShipped }.flatMap(\.files).flatMap { file in
            file.code.matches(#"\b(?:struct|class|actor|enum) (\w+Tests)\b"#).map { $0[1] }
        })

    /// Whether a code span names a file or a suite that does not exist. Paths are below the root, `Sources` or `Tests`.
    private static func isMissing(_ span: String) -> Bool {
        if span.matches(#"^[A-Z]\w*Tests$"#).first != nil { return !suites.contains(span) }
        if span.matches(#"^\w[\w.+-]*\.(swift|md|py|json)$"#).first != nil {
            return !names.contains(span) && !Repository.has(span)
        }
        guard span.matches(#"^\w[\w.+-]*(/[\w.+-]+)*/?$"#).first != nil, span.contains("/") else { return false }
        if !span.dropLast().contains("/") { return !names.contains(String(span.dropLast())) && !Repository.has(span) }
        return !["", "Sources/", "Tests/"].contains { Repository.has($0 + span) }
    }

    @Test(arguments: checked.map(\.path)) func `the files and suites that a page names exist`(path: String) throws {
        let page = try #require(MarkdownPage(at: path))
        #expect(page.codeSpans.filter(Self.isMissing) == [])
    }

    /// The tests that a table of pitfalls in a comment names and that do not exist: `ATests: words of a test's name`.
    private static func missingTests(in comments: String) -> [String] {
        let page = MarkdownPage(comments.matches("(?m)^// ?(.*)$").map { $0[1] }.joined(separator: "\n"))
        let rows = page.tables.filter { $0[0].cells == ["pitfall", "test"] }.flatMap { $0.dropFirst(2) }
        return rows.flatMap { ($0.cells.last ?? "").components(separatedBy: "; ") }.filter { test in
            let parts = test.components(separatedBy: ": ")
            let named = parts[0].matches(#"\w+Tests\b"#).map { $0[0] }
            guard named.allSatisfy(suites.contains), parts.count > 1, let suite = named.last else {
                return !named.allSatisfy(suites.contains)
            }
            let names = SourceTarget.all.flatMap(\.files).filter {
                !$0.code.matches(#"\b(struct|enum) \#(suite)\b"#).isEmpty
            }
            .flatMap { $0.text.matches("func `([^`]+)`").map { $0[1] } }
            return !names.contains { $0.contains(parts[1]) }
        }
    }

    @Test func `each pitfall names a test that exists`() {
        let files = SourceTarget.all.filter { !$0.isShipped }.flatMap(\.files).filter {
            $0.text.contains("// | pitfall | test |")
        }
        #expect(files.count >= 2)
        for file in files { #expect(Self.missingTests(in: file.text) == [], "\(file.target)/\(file.path)") }
    }

    @Test(arguments: [
        ("| a | PageTests: names a test that exists; PageTests |", []),
        ("| a | PageTests: names no test |", ["PageTests: names no test"]),
        ("| a | PageTests; NowhereTests: names |", ["NowhereTests: names"]),
    ]) func `a missing test of a pitfall is found`(row: String, missing: [String]) {
        #expect(Self.missingTests(in: "// | pitfall | test |\n// |---|---|\n// \(row)\n") == missing)
    }

    @Test func `a missing file or suite is found`() {
        let good = [
            "PageTests", "PageTests.swift", "TidyTests/PageTests.swift", "Tests/TidyTests", "Payloads/", "Makefile",
            "PurchaseLedger/Rules", "/health/live", "text", "a.b", "docs/api.md", "sslrootcert=FILE", "1/2/",
        ]
        #expect(good.filter(Self.isMissing) == ["1/2/"])
        let bad = ["NowhereTests", "Nowhere.swift", "TidyTests/Nowhere.swift", "Nowhere/", "Sources/Nowhere"]
        #expect(bad.filter { !Self.isMissing($0) } == [])
    }
}
