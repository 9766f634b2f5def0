// SPDX-License-Identifier: Apache-2.0

/// Distributes a list to workers, each of which has a long stretch of it: lists often have all transactions of a
/// customer together, and then one worker reads that customer's history and finds the other lines answered by it.
struct Stretches<Lines: IteratorProtocol> {
    /// The lines of a stretch: several customers, each with some hundred transactions.
    private static var maxLines: Int { 1000 }
    /// The lines of each worker's first stretch, if the list arrives little by little: they are not waited for. Each
    /// round of stretches is twice as long.
    private static var minLines: Int { 10 }

    private var lines: Lines
    private var isAtEnd = false
    private let isThere: Bool
    private var refills = 0
    /// What is left of each worker's stretch.
    private var stretches: [ArraySlice<Lines.Element>]

    init<List: Sequence>(_ list: List, for workers: Int) where List.Iterator == Lines {
        lines = list.makeIterator()
        // A list from a pipe does not know its length.
        isThere = list.underestimatedCount > 0
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
