// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Reconciliation

/// Runs a backfill at the command line, and reports failed lines and the progress.
final class BackfillRun {
    private let backfill: Backfill
    private let list: BackfillList
    private let lease: BackfillLease
    private let progress: BackfillProgress
    private var taken = 0
    private var covered = 0
    private var failed = 0
    private var recorded = 0
    private var known = 0

    /// - Parameter lease: The backfill's right to run; see ``BackfillLease``. The caller prolongs the lease during the
    ///   run.
    init(_ backfill: Backfill, _ list: BackfillList, _ lease: BackfillLease) {
        let progress = BackfillProgress(of: list.count)
        var backfill = backfill
        backfill.onWait = { time in
            progress.printError("The App Store accepts no more requests until \(time.iso8601): waiting.")
        }
        list.onWrong = { progress.printError("\($0): \($1.printable)") }
        self.backfill = backfill
        self.list = list
        self.lease = lease
        self.progress = progress
    }

    /// Processes all lines.
    ///
    /// - Returns: Whether all lines succeeded.
    func run() async -> Bool {
        var isStopped = false
        do {
            try await backfill.run(list) { line, outcome in
                guard !lease.isLost else { throw LostLease() }
                if isTaken(line.number, outcome) { try list.done?.add(line.question) }
                progress.update(done: taken + covered, skipped: list.doneBefore, failed: failed + list.wrong)
            }
        } catch {
            isStopped = true
            progress.printError("\(error) Run the command again to go on.")
        }
        progress.clear()
        return !isStopped && failed + list.wrong == 0
    }

    /// Counts an outcome, reports a failure, and returns whether the line succeeded.
    private func isTaken(_ number: Int, _ outcome: Backfill.Outcome) -> Bool {
        switch outcome {
        case .taken(let report):
            recorded += report.recorded
            known += report.alreadyKnown
            if let refusal = report.refusal {
                return fail(number, "documents that are not valid: \(report.refused). \(refusal)")
            }
            taken += 1
        case .covered: covered += 1
        case .failed(let reason): return fail(number, reason)
        }
        return true
    }

    private func fail(_ number: Int, _ reason: String) -> Bool {
        failed += 1
        progress.printError("line \(number): \(reason.printable)")
        return false
    }

    func printSummary() throws {
        let parts = [
            "\(counted(taken, "history", plural: "histories")) taken in",
            covered == 0 ? nil : "\(counted(covered, "line")) in a history of an earlier line",
            list.doneBefore == 0 ? nil : "\(counted(list.doneBefore, "line")) done before",
            failed == 0 ? nil : "\(counted(failed, "line")) not taken in",
            list.wrong == 0 ? nil : "\(counted(list.wrong, "line")) wrong",
        ]
        try Terminal.print(
            "\(parts.compactMap(\.self).joined(separator: ", ")); \(counted(recorded, "new document")), "
                + "\(known) already known.")
    }
}

/// The error if the lease was not prolonged for long, and a later backfill has taken it over.
private struct LostLease: Error, CustomStringConvertible {
    let description = "A newer backfill of the app has begun, since this backfill stood still for long."
}
