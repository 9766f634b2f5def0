// SPDX-License-Identifier: Apache-2.0

/// Distributes a list to workers in long stretches: a worker takes many consecutive lines at once. A list often has all
/// transactions of a customer together. A single worker then reads the customer's history, which answers the customer's
/// other lines.
struct Stretches<Lines: IteratorProtocol> {
    /// The number of lines in a stretch: enough for several customers with a few hundred transactions each.
    private static var maxLines: Int { 1000 }
    /// The number of lines in each worker's first stretch if the list arrives little by little, so that workers do not
    /// wait for long stretches. The length doubles with each round of stretches.
    private static var minLines: Int { 10 }

    private var lines: Lines
    private var isAtEnd = false
    private let isThere: Bool
    private var refills = 0
    /// The rest of each worker's stretch.
    private var stretches: [ArraySlice<Lines.Element>]

    init<List: Sequence>(_ list: List, for workers: Int) where List.Iterator == Lines {
        lines = list.makeIterator()
        // A list that arrives through a pipe has no known length.
        isThere = list.underestimatedCount > 0
        stretches = Array(repeating: [], count: workers)
    }

    /// The next line for a worker; `nil` if no line is left.
    mutating func next(for worker: Int) -> Lines.Element? {
        if stretches[worker].isEmpty { refill(worker) }
        return stretches[worker].popFirst()
    }

    /// Takes a stretch from the list. At the end of the list, takes the second half of the longest remaining stretch.
    private mutating func refill(_ worker: Int) {
        var stretch: [Lines.Element] = []
        let rounds = min(refills / max(1, stretches.count), 7)
        let length = isThere ? Self.maxLines : min(Self.maxLines, Self.minLines << rounds)
        refills += 1
        while !isAtEnd, stretch.count < length {
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
