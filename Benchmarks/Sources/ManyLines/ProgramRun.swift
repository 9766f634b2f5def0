// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// One run of `quittance verify - --json` over all lines.
struct ProgramRun {
    let seconds: Double
    /// The CPU time of all threads.
    let processorSeconds: Double
    /// The most bytes in memory of any run so far.
    let peakMemory: Int
    /// Whether answer n is about line n and its transaction, for every n.
    let isInOrder: Bool

    init(_ program: String, _ tokens: SignedTokens) throws {
        let answers = tokens.folder.appendingPathComponent("answers")
        try Data().write(to: answers)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = [
            "verify", "-", "--json", "--bundle-id", "com.example.notes", "--root",
            tokens.folder.appendingPathComponent("root").path,
        ]
        process.standardInput = try FileHandle(forReadingFrom: tokens.folder.appendingPathComponent("lines"))
        process.standardOutput = try FileHandle(forWritingTo: answers)
        let before = Self.usage()
        seconds =
            try ContinuousClock().measure {
                try process.run()
                process.waitUntilExit()
            } / .seconds(1)
        let after = Self.usage()
        processorSeconds = after.seconds - before.seconds
        peakMemory = after.peak
        isInOrder = try process.terminationStatus == 0 && Self.areInOrder(answers, tokens.lines.count)
    }

    private static func areInOrder(_ file: URL, _ count: Int) throws -> Bool {
        let answers = try Data(contentsOf: file).split(separator: UInt8(ascii: "\n"))
        return try answers.count == count
            && zip(1..., answers).allSatisfy { number, answer in
                let answer = try JSONValue(parsing: answer)
                return answer["verified"] == .bool(true) && answer["line"]?.integer == Int64(number)
                    && answer["payload"]?["transactionId"] == .string("\(number)")
            }
    }

    /// What all child processes used that have ended.
    private static func usage() -> (seconds: Double, peak: Int) {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &usage)
        let times = [usage.ru_utime, usage.ru_stime].map { Double($0.tv_sec) + Double($0.tv_usec) / 1_000_000 }
        // In kilobytes on Linux.
        return (times.reduce(0, +), usage.ru_maxrss * 1024)
    }
}
