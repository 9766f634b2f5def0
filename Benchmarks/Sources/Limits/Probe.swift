// SPDX-License-Identifier: Apache-2.0

import Allocator
import Foundation

/// Time and memory of one case.
struct Probe {
    let line: String

    init(_ worst: Case) async throws {
        let (warmUp, input) = (try worst.small(), try worst.large())
        _ = await worst.verify(warmUp)
        let (outcome, growth) = await Self.growth { await worst.verify(input) }
        var times: [Duration] = []
        for _ in 0..<5 {
            times.append(await ContinuousClock().measure { _ = await worst.verify(input) })
        }
        let time = times.sorted()[times.count / 2] / .milliseconds(1)
        let isWithin = time <= LimitsCommand.milliseconds && growth <= LimitsCommand.mebibytes
        line =
            "| \(worst.name) | \(input.count) | \(outcome) | "
            + String(format: "%.1f ms | %.1f MiB | ", time, growth) + (isWithin ? "yes |" : "NO |")
    }

    /// The MiB by which a call raises the resident memory.
    private static func growth(_ body: () async -> String) async -> (String, mebibytes: Double) {
        // Memory that building the input left free goes back to the system. Otherwise the call would use it unnoticed.
        returnFreeMemory()
        // The kernel resets its peak (proc_pid_clear_refs(5)).
        try? Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/self/clear_refs"))
        let before = status("VmRSS")
        let outcome = await body()
        return (outcome, Double(status("VmHWM") - before) / 1024)
    }

    /// The value of a line in /proc/self/status, in KiB.
    private static func status(_ name: String) -> Int {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("\(name):") }
        return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
    }
}
