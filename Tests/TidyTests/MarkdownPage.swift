// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A page in Markdown as the rules see it.
struct MarkdownPage: Sendable {
    /// The path below the root of the repository.
    let path: String
    let text: String
    /// The lines of the text, each with what it belongs to.
    let lines: [Line]

    struct Line: Sendable {
        enum Part: Sendable { case prose, table, code }

        let number: Int
        let text: String
        let part: Part
    }

    init(_ text: String, path: String = "Example.md") {
        self.text = text
        self.path = path
        var isCode = false
        lines = text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().map { index, line in
            let start = line.drop { $0 == " " }
            let isFence = start.hasPrefix("```") || start.hasPrefix("~~~")
            if isFence { isCode.toggle() }
            let part: Line.Part = isCode || isFence ? .code : start.hasPrefix("|") ? .table : .prose
            return Line(number: index + 1, text: String(line), part: part)
        }
    }

    /// The text without blocks of code, a paragraph each.
    private var paragraphs: [String] {
        lines.filter { $0.part != .code }.map(\.text).joined(separator: "\n").components(separatedBy: "\n\n")
    }

    /// The code spans, each in one line.
    var codeSpans: [String] {
        paragraphs.flatMap { $0.matches("`([^`]+)`").map { $0[1].replacingOccurrences(of: "\n", with: " ") } }
    }

    /// The targets of its links.
    var links: [String] {
        paragraphs.flatMap { paragraph in
            paragraph.replacing("`[^`]*`").matches(#"\]\(([^)\s]+)\)|(?m:^ *\[[^\]]+\]: *(\S+))"#)
                .map { $0[1] + $0[2] }
        }
    }

    /// The anchors by which links find its headings on GitHub, and those that it names itself.
    var anchors: Set<String> {
        var counts: [String: Int] = [:]
        let named = text.matches(#"<a (?:id|name)="([^"]+)""#).map { $0[1] }
        return lines.filter { $0.part == .prose }.reduce(into: Set(named)) { anchors, line in
            guard let heading = line.text.matches("^#{1,6} +(.*?)[ #]*$").first?[1] else { return }
            let slug = Self.slug(heading)
            let count = counts[slug, default: 0]
            counts[slug] = count + 1
            anchors.insert(count == 0 ? slug : "\(slug)-\(count)")
        }
    }

    /// GitHub's: lower case, hyphens for blanks, and neither punctuation nor the targets of links.
    static func slug(_ heading: String) -> String {
        heading.replacing(#"\]\([^)]*\)"#).lowercased().replacing(#"[^\p{L}\p{M}\p{N}_ -]"#)
            .replacingOccurrences(of: " ", with: "-")
    }

    /// Its tables, a list of rows each.
    var tables: [[Line]] {
        lines.split { $0.part != .table }.map(Array.init)
    }
}

extension MarkdownPage.Line {
    /// The cells of a row. A pipe is no border only if it is escaped, also in a code span.
    var cells: [String] {
        let row = text.replacingOccurrences(of: #"\|"#, with: "\u{0}").trimmingCharacters(in: .whitespaces)
        let inner = row.hasSuffix("|") ? row.dropFirst().dropLast() : row.dropFirst()
        return inner.split(separator: "|", omittingEmptySubsequences: false).map {
            $0.replacingOccurrences(of: "\u{0}", with: "|").trimmingCharacters(in: .whitespaces)
        }
    }
}

// MARK: - The pages of the repository

extension MarkdownPage {
    /// Folders that git ignores.
    private static let ignored: Set = [".git", "dist", "node_modules"]

    /// All pages of the repository.
    static let all: [MarkdownPage] = {
        let paths = Repository.paths(without: { ignored.contains($0) || $0.hasPrefix(".build") })
        return paths.filter { $0.hasSuffix(".md") }.compactMap(MarkdownPage.init(at:))
    }()

    /// - Parameter path: A path below the root of the repository.
    init?(at path: String) {
        guard let text = try? String(contentsOf: Repository.root.appending(path: path), encoding: .utf8) else {
            return nil
        }
        self.init(text, path: path)
    }
}

/// The files of the repository.
enum Repository {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().standardizedFileURL

    static func has(_ path: String) -> Bool { FileManager.default.fileExists(atPath: root.appending(path: path).path) }

    /// The paths of all files below a folder, in order.
    ///
    /// - Parameter isLeftOut: Whether to leave out the folders with a name.
    static func paths(in folder: String = "", without isLeftOut: (String) -> Bool = { _ in false }) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: root.appending(path: folder).path)) ?? []
        return names.sorted().flatMap { name -> [String] in
            let path = folder.isEmpty ? name : "\(folder)/\(name)"
            var isFolder: ObjCBool = false
            guard FileManager.default.fileExists(atPath: root.appending(path: path).path, isDirectory: &isFolder) else {
                return []
            }
            guard isFolder.boolValue else { return [path] }
            return isLeftOut(name) ? [] : paths(in: path, without: isLeftOut)
        }
    }
}
