// SPDX-License-Identifier: Apache-2.0

/// Distributes a list to workers, each of which has a long stretch of it: lists often have all transactions of a
/// customer together, and then one worker reads that customer's history and finds the other lines answered by it.
struct Stretches<Lines: IteratorProtocol> {
    /// The lines of a stretch: several customers, each with some hundred transactions.
    private static var length: Int { 1000 }

    private var lines: Lines
    private var isAtEnd = false
    /// What is left of each worker's stretch.
    private var stretches: [ArraySlice<Lines.Element>]

    init<List: Sequence>(_ list: List, for workers: Int) where List.Iterator == Lines {
        lines = list.makeIterator()
        stretches = Array(repeating: [], count: workers)
    }

    /// The next line for a worker; `nil` if no line is left for it.
    mutating func next(for worker: Int) -> Lines.Element? {
        if stretches[worker].isEmpty { refill(worker) }
        return stretches[worker].popFirst()
    }

    /// Takes a stretch from the list, and at its end the second half of the longest stretch that is left.
    private mutating func refill(_ worker: Int) {
        var stretch: [Lines.Element] = []
        while !isAtEnd, stretch.count < Self.length {
            if let line = lines.next() { stretch.append(line) } else { isAtEnd = true }
        }
        stretches[worker] = stretch[...]
        guard stretch.isEmpty, let longest = stretches.indices.max(by: { stretches[$0].count < stretches[$1].count })
        else { return }
        let middle = stretches[longest].startIndex + stretches[longest].count / 2
        stretches[worker] = stretches[longest][middle...]
        stretches[longest] = stretches[longest][..<middle]
    }
}
