// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import PurchaseServer

/// Verifies the documents of an input on all cores, and prints the answers in the order of the documents.
struct BatchVerification: Sendable {
    let verifier: AppStoreVerifier
    let device: DeviceIdentifier?
    let now: Timestamp
    let explain: Bool
    let json: Bool

    /// The number of batches in memory: two per core, so that each core always has the next batch ready.
    private static let width = 2 * ProcessInfo.processInfo.activeProcessorCount

    /// Verifies all documents.
    ///
    /// - Returns: The worst status.
    func run(_ input: BatchReader) async throws -> VerifyStatus {
        var input = input
        var tasks: [Task<BatchAnswer, Never>] = []
        var printer = AnswerPrinter()
        while let batch = input.next() {
            tasks.append(Task { await answer(to: batch) })
            // Before the command waits for input, it prints all answers, because the program at the other end of a pipe
            // may need the answers before it writes more.
            while tasks.count >= Self.width || !tasks.isEmpty && !input.isReady {
                try printer.print(await tasks.removeFirst().value)
            }
        }
        for task in tasks { try printer.print(await task.value) }
        printer.clearProgress()
        return printer.status
    }

    private func answer(to batch: Batch) async -> BatchAnswer {
        var verifier = verifier
        let checks = PassedChecks()
        if explain { verifier.onCheck = { checks.add($0) } }
        var answer = BatchAnswer()
        for item in batch.items {
            let verdict = await Verdict(item.document, verifier: verifier, device: device, at: now)
            answer.documents += 1
            answer.status = max(answer.status, verdict.status)
            add(verdict, about: item, explain ? checks.take() : nil, to: &answer.output)
        }
        return answer
    }

    private func add(_ verdict: Verdict, about item: Item, _ checks: [VerificationCheck]?, to output: inout Output) {
        if let checks, !json {
            let title = item.reference.isEmpty ? "" : String(item.reference.dropLast()) + "\n"
            output.print(title + verdict.explanation(checks))
        }
        if let errorText = verdict.errorText { output.printError("quittance: \(item.reference)\(errorText)") }
        if json {
            output.print(verdict.json(of: item, checks))
        } else if let text = verdict.text {
            output.print(item.reference + text)
        }
    }
}

/// The output for a batch, and the worst status of its documents.
private struct BatchAnswer: Sendable {
    var output = Output()
    var status = VerifyStatus.verified
    var documents = 0
}

/// Prints answers. Prints the progress too, if standard error is a terminal and standard output is not.
private struct AnswerPrinter {
    private(set) var status = VerifyStatus.verified
    private var documents = 0
    /// The count on the terminal; 0 if no count is shown.
    private var shown = 0
    private let showsProgress = Terminal.isErrorInteractive && !Terminal.isInteractive

    /// The number of documents between two counts. So many documents take about a tenth of a second.
    private static let step = 2_000

    mutating func print(_ answer: BatchAnswer) throws {
        if answer.output.hasErrors { clearProgress() }
        try answer.output.write()
        status = max(status, answer.status)
        documents += answer.documents
        guard showsProgress, documents - shown >= Self.step else { return }
        shown = documents
        Terminal.writeError(Array("\r\(documents) documents verified …".utf8))
    }

    /// Erases the count, so that errors begin at the start of a line.
    func clearProgress() {
        if shown > 0 { Terminal.writeError(Array("\r\u{1b}[K".utf8)) }
    }
}
