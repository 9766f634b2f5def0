// SPDX-License-Identifier: Apache-2.0

import Foundation
import Goals

/// Reads a run of the benchmarks, as `--format jmh` exports it, and prints its medians beside the required figures.
@main
struct RatioTable {
    static func main() throws {
        guard CommandLine.arguments.count == 2 else {
            FileHandle.standardError.write(Data("usage: RatioTable <file.jmh.json>\n".utf8))
            exit(64)
        }
        let file = try Data(contentsOf: URL(fileURLWithPath: CommandLine.arguments[1]))
        let results = try JSONDecoder().decode([Result].self, from: file)
        print(Row.header)
        for goal in Goal.all {
            print(Row(goal, results.first { $0.benchmark.hasSuffix(".\(goal.name)") }))
        }
    }
}

/// One benchmark in the export.
private struct Result: Decodable {
    /// `package.benchmark.<target>.<name>`.
    let benchmark: String
    let secondaryMetrics: [String: Metric]

    struct Metric: Decodable {
        let scorePercentiles: [String: Double]
    }

    func median(_ measure: String) -> Double { percentile("50.0", measure) }

    func percentile(_ percentile: String, _ measure: String) -> Double {
        secondaryMetrics[measure]?.scorePercentiles[percentile] ?? .nan
    }

    /// The throughput of two threads relative to one, in their best rounds: on a shared machine, another process had
    /// one of the two cores in most rounds.
    var scaling: Double { 2 * percentile("0.0", Measure.whole) / percentile("0.0", Measure.beside) }
}

/// A line of the table in Markdown.
private struct Row: CustomStringConvertible {
    private let cells: [String]

    static let header = """
        | what | median | raw checks | measured | must | aim | reached | allocations |
        |---|---:|---:|---:|---:|---:|---|---:|
        """

    init(_ goal: Goal, _ result: Result?) {
        guard let result else {
            cells = [goal.title, "–", "–", "not measured", goal.bound.must, goal.bound.aim, "–", "–"]
            return
        }
        let (whole, raw) = (result.median(Measure.whole) / 1000, result.median(Measure.beside) / 1000)
        let ratio = goal.bound.isScaling ? result.scaling : result.median(Measure.ratio) / 1000
        let allocations = [result.median(Measure.allocations), result.median(Measure.rawAllocations)]
        cells = [
            goal.title, Self.microseconds(whole), goal.bound.isScaling ? "–" : Self.microseconds(raw),
            goal.bound.isTime ? Self.microseconds(whole) : Self.times(ratio),
            goal.bound.must, goal.bound.aim, goal.bound.verdict(ratio: ratio, whole: whole, raw: raw),
            goal.bound.isScaling ? "–" : String(format: "%.0f, raw %.0f", allocations[0], allocations[1]),
        ]
    }

    var description: String { "| " + cells.joined(separator: " | ") + " |" }

    static func microseconds(_ time: Double) -> String { String(format: "%.1f µs", time) }
    static func times(_ ratio: Double) -> String { String(format: "%.2f ×", ratio) }
}

extension Goal.Bound {
    fileprivate var isTime: Bool { if case .time = self { true } else { false } }
    fileprivate var isScaling: Bool { if case .scaling = self { true } else { false } }

    fileprivate var must: String {
        switch self {
        case .ratio(let must, _): "≤ " + Row.times(must)
        case .ratioBeside(let microseconds, let must): "≤ \(Row.times(must)) + \(Int(microseconds)) µs"
        case .time(let must, _): "≤ \(Int(must)) µs"
        case .scaling(let must): "≥ " + Row.times(must)
        }
    }

    fileprivate var aim: String {
        switch self {
        case .ratio(_, let aim?): "≤ " + Row.times(aim)
        case .time(_, let aim?): "≤ \(Int(aim)) µs"
        default: ""
        }
    }

    fileprivate func verdict(ratio: Double, whole: Double, raw: Double) -> String {
        switch self {
        case .ratio(let must, let aim): Self.verdict(ratio, must, aim)
        case .ratioBeside(let microseconds, let must): Self.verdict(whole, must * raw + microseconds, nil)
        case .time(let must, let aim): Self.verdict(whole, must, aim)
        case .scaling(let must): ratio >= must ? "yes" : "NO"
        }
    }

    private static func verdict(_ found: Double, _ must: Double, _ aim: Double?) -> String {
        guard found <= must else { return "NO" }
        guard let aim else { return "yes" }
        return found <= aim ? "yes, and the aim" : "yes, not the aim"
    }
}
