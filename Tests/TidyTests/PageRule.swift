// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// A rule that holds for each page in Markdown.
struct PageRule: Sendable, CustomTestStringConvertible {
    var name: String
    /// The violations of the rule in a page, as texts.
    var violations: @Sendable (MarkdownPage) -> [String]
    /// Examples that break the rule.
    var bad: [String]
    /// Examples that look similar but follow the rule.
    var good: [String]

    var testDescription: String { name }

    static let all = [columns, cells, links]
}

extension PageRule {
    private static let columns = PageRule(
        name: "a line has at most 120 columns, tables, code and a link alone left out",
        violations: { page in
            page.lines.filter { $0.part == .prose && $0.text.count > 120 && $0.text.matches(linkAlone).isEmpty }
                .map { "line \($0.number) has \($0.text.count) columns" }
        },
        bad: [
            String(repeating: "word ", count: 30), "    " + String(repeating: "–", count: 117),
            "See [a](https://example.com/" + String(repeating: "a", count: 120) + ") there.",
            "```\n```\n" + String(repeating: "word ", count: 30),
        ],
        good: [
            String(repeating: "–", count: 120), "```\n" + String(repeating: "word ", count: 30) + "\n```",
            "| " + String(repeating: "word ", count: 30) + " |",
            "- [a link](https://example.com/" + String(repeating: "a", count: 120) + ").",
            "https://example.com/" + String(repeating: "a", count: 120),
        ])

    private static let linkAlone = #"^ *(?:[-*+] +)?(?:\[[^\]]*\]\([^)\s]*\)|\[[^\]]+\]: *\S+|<?https?://\S+)[.,;:]?$"#

    private static let cells = PageRule(
        name: "the rows of a table have the same number of cells",
        violations: { page in
            page.tables.flatMap { rows in
                rows.filter { $0.cells.count != rows[0].cells.count }
                    .map { "line \($0.number) has \($0.cells.count) cells instead of \(rows[0].cells.count)" }
            }
        },
        bad: [
            "| a | b |\n|---|---|\n| c |", "| a | b |\n|---|\n| c | d |", "| a | b |\n|---|---|\n| `c|d` | e |",
        ],
        good: [
            "| a | b |\n|---|---|\n| c | |", "| a |\n|---|\n\n| b | c |\n|---|---|",
            "| a | b |\n|---|---|\n| `c\\|d` | e |",
            "```\n| a |\n| b | c |\n```",
        ])

    private static let links = PageRule(
        name: "a relative link leads to a file, and an anchor to a heading",
        violations: { page in
            page.links.filter { $0.matches("^[a-z]+:").isEmpty && !leadsSomewhere($0, from: page) }
        },
        bad: [
            "[a](nowhere.md)", "[a](#nowhere)", "# Here\n[a](#Here)", "[a](docs/api.md#nowhere)", "[a\nb](nowhere.md)",
            "[a]: nowhere.md", "[`a`](nowhere.md)", "```\n# Here\n```\n[a](#here)", "[a](docs/../nowhere)",
        ],
        good: [
            "[a](https://example.com/nowhere.md)", "[a](doc:Nowhere)", "`[a](nowhere.md)`",
            "```\n[a](nowhere.md)\n```", "[a](docs/api.md)", "[a](Sources)", "# Here, `it` is\n[a](#here-it-is)",
            "# A\n# A\n[a](#a-1)", "[a](docs/limits.md#the-ledger)", "# [A](README.md) b_c\n[a](#a-b_c)",
        ])

    private static func leadsSomewhere(_ link: String, from page: MarkdownPage) -> Bool {
        let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let folder = URL(filePath: "/" + page.path).deletingLastPathComponent()
        let path = parts[0].isEmpty ? page.path : String(folder.appending(path: parts[0]).standardized.path.dropFirst())
        guard parts[0].isEmpty || Repository.has(path) else { return false }
        guard parts.count == 2 else { return true }
        let target = parts[0].isEmpty ? page : MarkdownPage(at: path)
        return target?.anchors.contains(parts[1]) ?? false
    }
}
