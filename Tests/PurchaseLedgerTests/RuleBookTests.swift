// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import TestData
import TestProcess
import Testing

/// Tests the ledger against the rule book in `Tests/RuleBook`, a second implementation of Apple's rules in Python.
/// `world.py` makes customers' histories, the ledger answers, and `rulebook.py` compares. For each difference,
/// `rulebook.py` prints how to reproduce that customer.
@Suite struct RuleBookTests {
    /// The environment variable `QUITTANCE_SOAK` makes many more customers, `QUITTANCE_SEED` those of another world.
    private static let isSoak = ProcessInfo.processInfo.environment["QUITTANCE_SOAK"] != nil
    private static let seed = (isSoak ? ProcessInfo.processInfo.environment["QUITTANCE_SEED"] : nil) ?? "1"
    private static let customers = isSoak ? 2000 : 100

    @Test(.enabled(if: Python.isThere, Python.whyNot))
    func `the rule book passes its own tests, among them the worked decisions`() throws {
        let outcome = try Python.run("rulebook.py", ["--self-test", TestData.folder.path])
        #expect(outcome.status == 0, "\(outcome.output)\(outcome.error)")
    }

    @Test(.enabled(if: Python.isThere, Python.whyNot))
    func `the ledger's answers are those of the rule book`() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("rule-book-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let world = folder.appendingPathComponent("world.jsonl")
        let answers = folder.appendingPathComponent("answers.jsonl")

        // `--at-least` is how often each kind of event must occur.
        let made = try Python.run(
            "world.py",
            [
                "--seed", Self.seed, "--customers", "\(Self.customers)", "--at-least", Self.isSoak ? "10" : "1",
                "--output", world.path,
            ])
        try #require(made.status == 0, "\(made.error)")
        try await Self.answer(world, into: answers)
        let judged = try Python.run("rulebook.py", [world.path, answers.path])
        if Self.isSoak { print("Seed \(Self.seed):\n\(made.error)") }
        #expect(judged.status == 0, "Seed \(Self.seed), files in \(folder.path).\n\(judged.output)\(judged.error)")
        if judged.status == 0 { try FileManager.default.removeItem(at: folder) }
    }

    /// Asks the ledger all questions of a world, and writes its answers, one line for each customer.
    private static func answer(_ world: URL, into file: URL) async throws {
        try Data().write(to: file)
        let output = try FileHandle(forWritingTo: file)
        let encoder = JSONEncoder()
        let history = try SignedHistory()
        for line in try Data(contentsOf: world).split(separator: UInt8(ascii: "\n")) {
            let customer = try JSONDecoder().decode(RuleBookCustomer.self, from: line)
            let answers = try await customer.answers(signing: customer.customer < 20 ? history : nil)
            try output.write(contentsOf: encoder.encode(answers) + Data("\n".utf8))
        }
        try output.close()
    }
}

/// The Python interpreter, if the machine has one.
private enum Python {
    static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../RuleBook").standardizedFileURL
    static let whyNot: Comment = "needs python3"
    static let isThere = (try? run("rulebook.py", ["-h"]).status) == 0

    static func run(_ script: String, _ arguments: [String]) throws -> TestProcess.Outcome {
        try TestProcess.run(["python3", "-B", script] + arguments, in: folder)
    }
}
