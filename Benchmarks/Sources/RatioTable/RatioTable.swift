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

    /// The throughput of two threads relative to one, each in its best round: on a shared machine with two cores,
    /// another process uses one of them in most rounds.
    var scaling: Double { 2 * percentile("0.0", Measure.whole) / percentile("0.0", Measure.beside) }
}

/// A line of the table in Markdown.
private struct Row: CustomStringConvertible {
    private let cells: [String]

    static let header = """
        | what | median | raw checks | measured | required | target | reached | allocations |
        |---|---:|---:|---:|---:|---:|---|---:|
        """

    init(_ goal: Goal, _ result: Result?) {
        guard let result else {
            cells = [goal.title, "–", "–", "not measured", goal.bound.required, goal.bound.target, "–", "–"]
            return
        }
        let (whole, raw) = (result.median(Measure.whole) / 1000, result.median(Measure.beside) / 1000)
        let ratio = goal.bound.isScaling ? result.scaling : result.median(Measure.ratio) / 1000
        let allocations = [result.median(Measure.allocations), result.median(Measure.rawAllocations)]
        cells = [
            goal.title, Self.microseconds(whole), goal.bound.isScaling ? "–" : Self.microseconds(raw),
            goal.bound.isTime ? Self.microseconds(whole) : Self.times(ratio),
            goal.bound.required, goal.bound.target, goal.bound.verdict(ratio: ratio, whole: whole, raw: raw),
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

    fileprivate var required: String {
        switch self {
        case .ratio(let required, _): "≤ " + Row.times(required)
        case .ratioBeside(let microseconds, let required): "≤ \(Row.times(required)) + \(Int(microseconds)) µs"
        case .time(let required, _): "≤ \(Int(required)) µs"
        case .scaling(let required): "≥ " + Row.times(required)
        }
    }

    fileprivate var target: String {
        switch self {
        case .ratio(_, let target?): "≤ " + Row.times(target)
        case .time(_, let target?): "≤ \(Int(target)) µs"
        default: ""
        }
    }

    fileprivate func verdict(ratio: Double, whole: Double, raw: Double) -> String {
        switch self {
        case .ratio(let required, let target): Self.verdict(ratio, required, target)
        case .ratioBeside(let microseconds, let required): Self.verdict(whole, required * raw + microseconds, nil)
        case .time(let required, let target): Self.verdict(whole, required, target)
        case .scaling(let required): ratio >= required ? "yes" : "NO"
        }
    }

    private static func verdict(_ found: Double, _ required: Double, _ target: Double?) -> String {
        guard found <= required else { return "NO" }
        guard let target else { return "yes" }
        return found <= target ? "yes, and the target" : "yes, not the target"
    }
}
