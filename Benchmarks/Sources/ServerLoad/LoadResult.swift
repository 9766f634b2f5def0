// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The measurements, round by round, and their comparison with the required figures.
struct LoadResult {
    let plan: LoadPlan
    var notificationSize = 0
    /// Notifications verified per second.
    var verified: [Double] = []
    var intake: [LoadGenerator.Outcome] = []
    var firstPurchases: [LoadGenerator.Outcome] = []
    var health: [LoadGenerator.Outcome] = []
    var readsOfFew: [LoadGenerator.Outcome] = []
    var readsOfMany: [LoadGenerator.Outcome] = []
    var bytesKept = 0
    var notificationsKept = 0

    init(plan: LoadPlan) {
        self.plan = plan
    }

    /// The table in Markdown. Ratios are taken within a round.
    var table: String {
        let (few, many) = (Self.inWords(LoadPlan.fewTransactions), Self.inWords(plan.transactions))
        let verification = "notifications verified, two threads, no HTTP and no storage"
        let reads = "entitlement reads, \(many) transactions stored"
        let rows = [
            row(verification, rate(verified)),
            row("durable notification intake, \(LoadPlan.connections) connections", rate(intake.map(\.rate))),
            share("… relative to verification", ratio(intake.map(\.rate), verified), required: 0.35, target: 0.5),
            row("… p99", milliseconds(intake)),
            row("… CPU time per request", cpuTime(intake)),
            row("… first purchases by new customers only", rate(firstPurchases.map(\.rate))),
            row("… relative to verification", Self.percent(ratio(firstPurchases.map(\.rate), verified))),
            row("GET /health/live", rate(health.map(\.rate))),
            row("… CPU time per request", cpuTime(health)),
            row(reads, rate(readsOfMany.map(\.rate))),
            share("… relative to /health/live", ratio(readsOfMany, health), required: 0.25, target: 0.4),
            row("… CPU time per request", cpuTime(readsOfMany)),
            row("… p50", milliseconds(readsOfMany, 0.5)),
            limit("… p99", latency(readsOfMany, 0.99), "%.2f ms", required: 10),
            row("entitlement reads, \(few) stored", rate(readsOfFew.map(\.rate))),
            limit("… relative to \(many)", ratio(readsOfFew, readsOfMany), "%.2f ×", required: 1.5),
            limit(
                "on disk, a notification of \(notificationSize) bytes",
                Double(bytesKept) / Double(notificationsKept), "%.0f bytes", required: 4096),
        ]
        return (["| what | measured | required | target | reached |", "|---|---:|---:|---:|---|"] + rows)
            .joined(separator: "\n")
    }
}

// MARK: - Figures

extension LoadResult {
    private func rate(_ rates: [Double]) -> String { String(format: "%.0f/s", rates.median) }

    private func cpuTime(_ outcomes: [LoadGenerator.Outcome]) -> String {
        String(format: "%.0f µs", outcomes.map(\.cpuMicroseconds).median)
    }

    private func milliseconds(_ outcomes: [LoadGenerator.Outcome], _ share: Double = 0.99) -> String {
        String(format: "%.2f ms", latency(outcomes, share))
    }

    private func latency(_ outcomes: [LoadGenerator.Outcome], _ share: Double) -> Double {
        outcomes.map { $0.percentile(share) }.median
    }

    private func ratio(_ some: [LoadGenerator.Outcome], _ others: [LoadGenerator.Outcome]) -> Double {
        ratio(some.map(\.rate), others.map(\.rate))
    }

    private func ratio(_ some: [Double], _ others: [Double]) -> Double { zip(some, others).map { $0 / $1 }.median }

    private static func inWords(_ count: Int) -> String {
        count.isMultiple(of: 1_000_000) ? "\(count / 1_000_000) million" : "\(count / 1000) thousand"
    }
}

extension [Double] {
    fileprivate var median: Double { isEmpty ? .nan : sorted()[count / 2] }
}

// MARK: - Rows

extension LoadResult {
    private func row(
        _ what: String, _ measured: String, _ required: String = "", _ target: String = "", _ reached: String = ""
    )
        -> String
    {
        "| \([what, measured, required, target, reached].joined(separator: " | ")) |"
    }

    private func share(_ what: String, _ found: Double, required: Double, target: Double) -> String {
        let reached = found < required ? "NO" : found < target ? "yes, not the target" : "yes, and the target"
        return row(what, Self.percent(found), "≥ \(Self.percent(required))", "≥ \(Self.percent(target))", reached)
    }

    private static func percent(_ share: Double) -> String { String(format: "%.0f %%", share * 100) }

    private func limit(_ what: String, _ found: Double, _ format: String, required: Double) -> String {
        row(
            what, String(format: format, found), "≤ " + String(format: format, required), "",
            found <= required ? "yes" : "NO")
    }
}
