// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The faults of a ledger for people: the number of each kind, then the first faults.
struct FaultList {
    /// The number of faults listed without `--all`, so that the faults and their summary fit on a screen.
    static let listed = 20

    let faults: [Ledger.Fault]

    /// Prints the faults on standard error.
    ///
    /// - Parameter rest: A way to list the omitted faults: a sentence without its period.
    func print(all: Bool = false, rest: String) { lines(all: all, rest: rest).forEach(Terminal.report) }

    func lines(all: Bool = false, rest: String) -> [String] {
        let shown = all ? faults[...] : faults.prefix(Self.listed)
        let left = faults.count - shown.count
        // A single fault needs no summary. If all faults are listed below, the summary needs no examples.
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
    /// A sentence with the document, if known, and the fault.
    var sentence: String { (document.map { "document \($0): \(error)" } ?? error).printable }
}
