// SPDX-License-Identifier: Apache-2.0

/// Finds the words that a mistyped word may have meant.
package enum Spelling {
    /// The maximum length of a compared word in characters. All names are shorter.
    private static let maxWordLength = 64
    /// Names of the same, as a grant has it and as other changes have it.
    private static let twins = ["why": "reason", "reason": "why", "--why": "--reason", "--reason": "--why"]

    /// The candidates with the fewest mistakes relative to `word`, without those that have too many.
    package static func nearest(to word: String, in candidates: [String], atMost count: Int = 1) -> [String] {
        guard word.count <= maxWordLength else { return [] }
        if let twin = twins[word], candidates.contains(twin) { return [twin] }
        // At most two mistakes are allowed or, in a long word, a mistake per three letters. A word of one or two
        // letters is allowed fewer, so that at least one letter is correct.
        let limit = min(max(2, word.count / 3), word.count - 1)
        let near = candidates.filter { abs($0.count - word.count) <= limit }
            .map { (name: $0, mistakes: mistakes(from: $0, to: word)) }.filter { $0.mistakes <= limit }
        return near.sorted { $0.mistakes < $1.mistakes }.prefix(count).map(\.name)
    }

    /// The question whether the nearest candidates were meant, after a space; empty if none is near.
    package static func meant(by word: String, in candidates: [String], atMost count: Int = 1) -> String {
        let near = nearest(to: word, in: candidates, atMost: count).map { "“\($0)”" }
        return near.isEmpty ? "" : " Did you mean \(near.joined(separator: ", "))?"
    }

    /// The number of letters to add, omit, replace or swap with their neighbours (optimal string alignment). Upper
    /// and lower case are no mistake.
    private static func mistakes(from name: String, to word: String) -> Int {
        let name = Array(name.lowercased())
        let word = Array(word.lowercased())
        var rows = [Array(0...word.count)]
        for (i, letter) in name.enumerated() {
            var row = [i + 1]
            for (j, other) in word.enumerated() {
                var best = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (letter == other ? 0 : 1))
                if i > 0, j > 0, letter == word[j - 1], other == name[i - 1] {
                    best = min(best, rows[i - 1][j - 1] + 1)
                }
                row.append(best)
            }
            rows.append(row)
        }
        return rows[name.count][word.count]
    }
}
