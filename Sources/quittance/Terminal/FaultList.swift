// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Faults of a ledger for people: how many of each kind there are, then the first of them.
struct FaultList {
    /// How many faults are listed unless all are asked for: with their summary they fit on a screen.
    static let listed = 20

    let faults: [Ledger.Fault]

    /// Prints the faults on standard error.
    ///
    /// - Parameter rest: What to do to see those that are left out: a sentence without its period.
    func print(all: Bool = false, rest: String) {
        lines(all: all, rest: rest).forEach(Terminal.report)
    }

    func lines(all: Bool = false, rest: String) -> [String] {
        let shown = all ? faults[...] : faults.prefix(Self.listed)
        let left = faults.count - shown.count
        // A list that is whole is its own summary if it has one line, and its own examples.
        let summary = faults.count > 1 ? kinds(withExamples: left > 0) : []
        return summary + shown.map(\.sentence) + (left > 0 ? ["\(left) more: \(rest)."] : [])
    }

    /// The kinds with their numbers, the most frequent first.
    private func kinds(withExamples hasExamples: Bool) -> [String] {
        let kinds = Dictionary(grouping: faults, by: \.code)
            .sorted { ($1.value.count, $0.key) < ($0.value.count, $1.key) }
        return ["\(faults.count) faults:"]
            + kinds.map { code, faults in
                let example = hasExamples ? ", such as \(faults[0].sentence)" : ""
                return "  \(faults.count) \(code)\(example)"
            }
    }
}

extension Ledger.Fault {
    /// What is wrong, after the document that it is about.
    var sentence: String { (document.map { "document \($0): \(error)" } ?? error).printable }
}
