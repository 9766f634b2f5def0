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
///
/// With `--crowds`, `world.py` makes apps whose customers share purchases, and whose backends grant and correct.
@Suite struct RuleBookTests {
    /// The environment variable `QUITTANCE_SOAK` makes many more customers, `QUITTANCE_SEED` those of another world.
    private static let isSoak = Seeds.isSoak
    private static let chosenSeed = ProcessInfo.processInfo.environment["QUITTANCE_SEED"]
    private static let seed = chosenSeed ?? "1"
    /// How often each kind of event must occur. A few customers of another seed, and the fewer without optimisation,
    /// may not have met all of them.
    private static let atLeast = isSoak ? "10" : chosenSeed == nil && Seeds.isOptimised ? "1" : "0"

    @Test(.enabled(if: Python.isThere, Python.whyNot))
    func `the rule book passes its own tests, among them the worked decisions`() throws {
        let outcome = try Python.run("rulebook.py", ["--self-test", TestData.folder.path])
        #expect(outcome.status == 0, "\(outcome.output)\(outcome.error)")
    }

    @Test(.enabled(if: Python.isThere, Python.whyNot))
    func `the ledger's answers are those of the rule book`() async throws {
        let history = try SignedHistory()
        try await Self.compare(["--customers", Self.isSoak ? "2000" : Seeds.isOptimised ? "140" : "30"]) { line in
            let customer = try JSONDecoder().decode(RuleBookCustomer.self, from: line)
            return try await customer.answers(signing: customer.customer < 20 ? history : nil)
        }
    }

    @Test(.enabled(if: Python.isThere, Python.whyNot))
    func `whatever customers, the backend and clocks do, all have what the rule book says, also after a rebuild`()
        async throws
    {
        let history = try SignedHistory()
        try await Self.compare(["--crowds", Self.isSoak ? "400" : Seeds.isOptimised ? "12" : "4"]) { line in
            try await JSONDecoder().decode(RuleBookCrowd.self, from: line).answers(signing: history)
        }
    }

    /// Makes a world, answers its lines, and lets the rule book judge.
    private static func compare<Answers: Encodable>(
        _ size: [String], _ answer: (Data) async throws -> Answers
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("rule-book-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let world = folder.appendingPathComponent("world.jsonl")
        let answers = folder.appendingPathComponent("answers.jsonl")
        let made = try Python.run(
            "world.py", ["--seed", seed, "--at-least", atLeast, "--output", world.path] + size)
        try #require(made.status == 0, "\(made.error)")

        try Data().write(to: answers)
        let output = try FileHandle(forWritingTo: answers)
        for line in try Data(contentsOf: world).split(separator: UInt8(ascii: "\n")) {
            try await output.write(contentsOf: JSONEncoder().encode(answer(line)) + Data("\n".utf8))
        }
        try output.close()

        let judged = try Python.run("rulebook.py", [world.path, answers.path])
        if isSoak { print("Seed \(seed):\n\(made.error)\(judged.output)") }
        #expect(judged.status == 0, "Seed \(seed), files in \(folder.path).\n\(judged.output)\(judged.error)")
        if judged.status == 0 { try FileManager.default.removeItem(at: folder) }
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
