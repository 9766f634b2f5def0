// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A target as the manifest declares it, or as a table of targets lists it: its name, and the modules that it depends
/// on.
struct ManifestTarget: Hashable, Sendable {
    let name: String
    let dependencies: Set<String>

    /// The targets of a manifest whose sources are in `Sources`: those without a path, and no tests.
    static func shipped(in manifest: String) -> [ManifestTarget] {
        // A product is a constant of the manifest, and so is a list of products.
        var products: [String: [String]] = [:]
        for match in manifest.matches(#"\nlet (\w+) = Target\.Dependency\.product\(\s*name: "([^"]+)""#) {
            products[match[1]] = [match[2]]
        }
        for match in manifest.matches(#"\nlet (\w+) = \[([^\]]*)\]"#) {
            products[match[1]] = match[2].matches(#"\w+"#).flatMap { products[$0[0]] ?? [] }
        }
        let declarations =
            #"\.(?:target|executableTarget|systemLibrary)\(\s*name: "([^"]+)"([\s\S]*?)(?=\n {8}\.|\n {4}\])"#
        return manifest.matches(declarations).compactMap { match in
            guard !match[2].contains("path:") else { return nil }
            let dependencies = match[2].components(separatedBy: "dependencies:").dropFirst().first ?? ""
            let named = dependencies.matches(#""([^"]+)"|\b([a-z]\w*)\b"#).flatMap { name in
                name[1].isEmpty ? products[name[2]] ?? [] : [name[1]]
            }
            return ManifestTarget(name: match[1], dependencies: Set(named))
        }
    }

    /// The targets in the first table of a page whose first and last columns are `target` and `imports`. A target's
    /// module is in a code span, a product of another package is not.
    static func listed(in page: MarkdownPage) -> [ManifestTarget] {
        let table = page.tables.first { $0[0].cells.first == "target" && $0[0].cells.last == "imports" } ?? []
        return table.dropFirst(2).map { row in
            let imports = (row.cells.last ?? "").components(separatedBy: ", ").filter { $0 != "–" }
            return ManifestTarget(
                name: row.cells[0].replacing("`"), dependencies: Set(imports.map { $0.replacing("`") }))
        }
    }

    /// How a list differs from what a manifest declares, a sentence for each target.
    static func differences(of listed: [ManifestTarget], from declared: [ManifestTarget]) -> [String] {
        let unknown = listed.filter { target in !declared.contains { $0.name == target.name } }
        return unknown.map { "\($0.name) is no target below Sources" }
            + declared.flatMap { target -> [String] in
                let rows = listed.filter { $0.name == target.name }
                guard let row = rows.first, rows.count == 1 else { return ["\(target.name) has \(rows.count) rows"] }
                return target.dependencies.subtracting(row.dependencies).sorted().map { "\(target.name) lacks \($0)" }
                    + row.dependencies.subtracting(target.dependencies).sorted().map {
                        "\(target.name) does not depend on \($0)"
                    }
            }
    }
}
