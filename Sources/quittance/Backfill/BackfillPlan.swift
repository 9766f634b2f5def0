// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Reconciliation

/// The planned requests of a backfill, for `--dry-run`.
struct BackfillPlan {
    /// The share of Apple's rate limits to use, in percent.
    let share: Int

    /// Prints the planned requests of each line in the list, and the totals.
    ///
    /// - Throws: Exit status 1 if lines are invalid.
    func print(_ list: BackfillList) throws {
        list.onWrong = { Terminal.report("\($0): \($1.printable)") }
        var count = 0
        for (number, question) in list {
            count += 1
            try Terminal.print("line \(number): \(question.plan)")
        }
        // Each line needs at least two requests: for the history, and for the statuses. Production accepts 50 requests
        // a second.
        let seconds = count * 2 * 100 / (50 * share)
        try Terminal.print(
            "\(counted(count, "line")) to ask about, \(list.doneBefore) done before, \(list.wrong) wrong; "
                + "\(seconds.asDuration) or more in production, ten times that in the sandbox.")
        guard list.wrong == 0 else { throw ExitCode(1) }
    }
}

extension HistoryQuestion {
    fileprivate var plan: String {
        guard order == nil, let first = transactions.first else { return "look up order \(order ?? "")" }
        let others = transactions.count - 1
        return "history of \(first)" + (others == 0 ? "" : ", and of \(others) others if that does not have them")
    }
}
