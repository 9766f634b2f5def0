// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// A source in Swift or C as the rules see it.
struct SourceFile: Sendable {
    let target: String
    /// The path below the folder of the target.
    let path: String
    let text: String
    /// The text without comments and string literals.
    let code: String

    init(_ text: String, in target: String = "Example", path: String = "Example.swift") {
        (self.text, self.target, self.path) = (text, target, path)
        code = text.replacing(Self.noise)
    }

    /// The name by which exceptions are listed. It does not change if the file moves to another folder of the target.
    var name: String { "\(target)/\(path.split(separator: "/").last ?? "")" }

    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

    /// The modules that it imports.
    var imports: Set<String> {
        Set(
            code.matches(#"(?m)^ *(?:@\S+ +)?(?:\w+ +)?import +(?:struct |class |enum |protocol |func )?(\w+)"#).map {
                $0[1]
            })
    }

    private static let noise =
        ##"//[^\n]*|/\*[\s\S]*?\*/|#+"""[\s\S]*?"""#+|"""[\s\S]*?"""|#+"[^\n]*?"#+|"(?:\\.|[^"\\\n])*""##
}

/// A target of the manifest with its sources.
struct SourceTarget: Sendable, CustomTestStringConvertible {
    let name: String
    /// The string literals of its declaration in the manifest and of the products that it names: its dependencies, and
    /// others that name no module.
    let quoted: Set<String>
    let files: [SourceFile]

    var testDescription: String { name }
    /// Whether it is shipped and not the program `quittance`.
    var isLibrary: Bool { isShipped && name != "quittance" }
    /// Whether users get it. Tests are not shipped.
    let isShipped: Bool

    /// The imports for which the manifest declares no dependency of this target.
    var undeclaredImports: [String] {
        files.flatMap { file in
            file.imports.subtracting(quoted).subtracting(Self.toolchain).sorted().map { "\(file.name) imports \($0)" }
        }
    }

    private static let toolchain: Set = [
        "Dispatch", "Foundation", "FoundationEssentials", "FoundationNetworking", "Glibc", "Musl", "Darwin",
        "StoreKit", "Synchronization", "Testing",
    ]
}

extension SourceTarget {
    private static let root = Repository.root

    /// The targets of the package and of these tests, read from the texts of their manifests.
    static let all: [SourceTarget] = {
        // Without a manifest there are no targets, which a test notices. These tests have a manifest of their own.
        let manifest = ["Package.swift", "Tests/Package.swift"].compactMap {
            try? String(contentsOf: root.appending(path: $0), encoding: .utf8)
        }.joined()
        // A product is a constant of the manifest, and so is a list of products.
        var products: [String: String] = [:]
        for match in manifest.matches(#"\nlet (\w+) = (Target\.Dependency[^)]*\)|\[[^\]]*\])"#) {
            products[match[1]] = match[2].naming(products)
        }
        return manifest.matches(
            #"\.(?:target|executableTarget|testTarget)\(\s*name: "([^"]+)"[\s\S]*?(?=\n {8}\.|\n {4}\])"#
        )
        .map { SourceTarget(name: $0[1], declaration: $0[0].naming(products)) }
    }()

    private init(name: String, declaration: String) {
        let path = declaration.matches(#"path: "([^"]+)""#).first?[1]
        let folder = [path, "Sources/\(name)", "Tests/\(name)"].lazy.compactMap(\.self)
            .map { Self.root.appending(path: $0) }.first { FileManager.default.fileExists(atPath: $0.path) }
        self.name = name
        quoted = Set(declaration.matches(#""([^"]+)""#).map { $0[1] })
        isShipped = folder?.deletingLastPathComponent().lastPathComponent == "Sources"
        files = folder.map { Self.files(below: $0, of: name) } ?? []
    }

    private static func files(below folder: URL, of target: String) -> [SourceFile] {
        let paths = FileManager.default.subpaths(atPath: folder.path) ?? []
        return paths.filter { $0.hasSuffix(".swift") || $0.hasSuffix(".c") }.sorted().compactMap { path in
            (try? String(contentsOf: folder.appending(path: path), encoding: .utf8))
                .map { SourceFile($0, in: target, path: path) }
        }
    }
}

// Foundation's regular expressions search all sources in a tenth of a second; Swift's take five seconds.
extension String {
    /// The matches of a pattern. Each is the whole match, followed by its groups.
    func matches(_ pattern: String) -> [[String]] {
        let text = self as NSString
        let expression = try? NSRegularExpression(pattern: pattern)
        let matches = expression?.matches(in: self, range: NSRange(location: 0, length: text.length)) ?? []
        return matches.map { match in
            (0..<match.numberOfRanges).map { group in
                let range = match.range(at: group)
                return range.location == NSNotFound ? "" : text.substring(with: range)
            }
        }
    }

    /// The text, followed by what its words stand for.
    fileprivate func naming(_ values: [String: String]) -> String {
        self + matches(#"\b[a-z]\w*"#).compactMap { values[$0[0]] }.joined()
    }

    /// The text without the matches of a pattern.
    func replacing(_ pattern: String) -> String {
        replacingOccurrences(of: pattern, with: "", options: .regularExpression)
    }
}
