// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// One run of `quittance verify - --json` over all lines.
struct ProgramRun {
    let seconds: Double
    /// The CPU time of all threads.
    let processorSeconds: Double
    /// The most bytes in memory.
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
        var peak = 0
        let before = Self.processorSeconds()
        seconds =
            try ContinuousClock().measure {
                try process.run()
                // The peak of the program itself: the system counts that of this process, which started it, to its own.
                while process.isRunning {
                    peak = max(peak, Self.peakMemory(process.processIdentifier))
                    usleep(10_000)
                }
                process.waitUntilExit()
            } / .seconds(1)
        processorSeconds = Self.processorSeconds() - before
        peakMemory = peak
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

    /// The CPU time of all child processes that have ended.
    private static func processorSeconds() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &usage)
        return [usage.ru_utime, usage.ru_stime].map { Double($0.tv_sec) + Double($0.tv_usec) / 1_000_000 }.reduce(0, +)
    }

    /// The most bytes that a process had in memory so far. On Linux only.
    private static func peakMemory(_ process: Int32) -> Int {
        let status = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = status?.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return (line?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 1024
    }
}
