// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import Reconciliation

/// The lines of a backfill's list, read on demand. Each line names a customer by an order id, transaction ids or a
/// receipt. Lines done in an earlier run are skipped. Invalid lines are reported and skipped.
final class BackfillList: Sequence, IteratorProtocol {
    typealias Element = (number: Int, question: HistoryQuestion)

    let done: DoneFile?
    /// The number of lines; `nil` for standard input, which can be read only once.
    let count: Int?
    /// 0 for standard input: its lines may arrive slowly, so the backfill at first hands them to its workers in small
    /// portions.
    var underestimatedCount: Int { count ?? 0 }
    /// The number of skipped lines, done by an earlier run.
    private(set) var doneBefore = 0
    /// The number of invalid lines, such as lines without a customer.
    private(set) var wrong = 0
    /// Called for each invalid line, with the line's reference and the reason.
    var onWrong: (_ reference: String, _ reason: String) -> Void = { _, _ in }

    private var reader: BatchReader
    private var lines: ArraySlice<(number: Int, text: ArraySlice<UInt8>)> = []

    /// - Throws: `ValidationError` if the file cannot be read.
    init(_ path: String?, done: DoneFile?) throws {
        var isFolder: ObjCBool = false
        if let path, FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
            throw ValidationError("\(path) is a folder, not a list.")
        }
        self.done = done
        count = path == nil || path == "-" ? nil : try Self.countLines(path)
        reader = BatchReader(path, isList: true)
    }

    private static func countLines(_ path: String?) throws -> Int {
        try BatchReader(path, isList: true).reduce(0) { count, batch in
            if case .unreadable(let error, line: nil) = batch { throw ValidationError("\(error)") }
            return count + (batch.lines.isEmpty ? 1 : batch.lines.count)
        }
    }

    func next() -> Element? {
        while let (number, text) = nextLine() {
            do throws(HistoryQuestionError) {
                let question = try HistoryQuestion(recognizing: text)
                if done?.contains(question) != true { return (number, question) }
                doneBefore += 1
            } catch {
                refuse(number, "\(error)")
            }
        }
        return nil
    }

    private func nextLine() -> (number: Int, text: ArraySlice<UInt8>)? {
        while lines.isEmpty {
            guard let batch = reader.next() else { return nil }
            if case .unreadable(let error, let line) = batch { refuse(line, "\(error)") }
            lines = batch.lines[...]
        }
        return lines.removeFirst()
    }

    private func refuse(_ line: Int?, _ reason: String) {
        wrong += 1
        onWrong(line.map { "line \($0)" } ?? "the list", reason)
    }
}
