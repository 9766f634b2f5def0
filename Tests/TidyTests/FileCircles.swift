// SPDX-License-Identifier: Apache-2.0

/// Finds files that use each other's types in a circle, so that none of them can be read alone.
///
/// A file uses a type if it names it outside comments and strings. Only types at the top level count, and those that an
/// extension nests in another file's type. A name that several files declare counts for none.
struct FileCircles {
    private let uses: [[Int]]
    private var index: [Int?]
    private var low: [Int]
    private var stack: [Int] = []
    private var count = 0
    /// The circles, each by the indexes of its files.
    private(set) var circles: [[Int]] = []

    init(_ files: [SourceFile]) {
        let declared = files.map(\.declaredTypes)
        var owners: [String: [Int]] = [:]
        for (file, types) in declared.enumerated() {
            for name in types.visible { owners[name, default: []].append(file) }
        }
        uses = files.enumerated().map { file, source in
            let foreign = Set(source.code.matches(#"\b[A-Z_]\w*"#).map { $0[0] })
                .subtracting(declared[file].visible).subtracting(declared[file].hidden)
            return Set(foreign.compactMap { owners[$0]?.count == 1 ? owners[$0]?.first : nil }).sorted()
        }
        index = Array(repeating: nil, count: files.count)
        low = Array(repeating: 0, count: files.count)
        for file in files.indices where index[file] == nil { visit(file) }
    }

    /// Tarjan's strongly connected components.
    private mutating func visit(_ file: Int) {
        let number = count
        (index[file], low[file], count) = (number, number, count + 1)
        stack.append(file)
        for used in uses[file] {
            if let seen = index[used] {
                if stack.contains(used) { low[file] = min(low[file], seen) }
            } else {
                visit(used)
                low[file] = min(low[file], low[used])
            }
        }
        guard low[file] == number, let start = stack.firstIndex(of: file) else { return }
        if stack.count - start > 1 { circles.append(stack[start...].sorted()) }
        stack.removeSubrange(start...)
    }
}

extension SourceFile {
    /// The names of types that other files can use, and of those that they cannot.
    fileprivate var declaredTypes: (visible: Set<String>, hidden: Set<String>) {
        let pattern =
            #"(?m)^( *)((?:@\w+(?:\([^)\n]*\))? +)*(?:(?:public|package|open|internal|private|fileprivate|final|"#
            + #"indirect|nonisolated)(?:\(\w+\))? +)*)"#
            + #"(struct|class|enum|actor|protocol|typealias|extension) +\[?([A-Z_][\w.]*)"#
        var types: (visible: Set<String>, hidden: Set<String>) = ([], [])
        var isExtension = false
        for match in code.matches(pattern) {
            let (indent, modifiers, keyword, name) = (match[1].count, match[2], match[3], match[4])
            if indent == 0 { isExtension = keyword == "extension" }
            guard keyword != "extension", indent == 0 || isExtension && indent == 4 else { continue }
            if modifiers.contains("private") { types.hidden.insert(name) } else { types.visible.insert(name) }
        }
        return types
    }
}
