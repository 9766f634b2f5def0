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
        let (few, many) = (Self.words(LoadPlan.fewTransactions), Self.words(plan.transactions))
        let verification = "notifications verified, two threads, no HTTP and no storage"
        let reads = "entitlement reads, \(many) transactions stored"
        let rows = [
            row(verification, rate(verified)),
            row("durable notification intake, \(LoadPlan.connections) connections", rate(intake.map(\.rate))),
            share("the same beside verification", ratio(intake.map(\.rate), verified), must: 0.35, aim: 0.5),
            row("p99 of it", milliseconds(intake)),
            row("what the server works for each", work(intake)),
            row("of first purchases by new customers only", rate(firstPurchases.map(\.rate))),
            row("the same beside verification", Self.percent(ratio(firstPurchases.map(\.rate), verified))),
            row("GET /health/live", rate(health.map(\.rate))),
            row("what the server works for each", work(health)),
            row(reads, rate(readsOfMany.map(\.rate))),
            share("the same beside /health/live", ratio(readsOfMany, health), must: 0.25, aim: 0.4),
            row("what the server works for each", work(readsOfMany)),
            row("p50 of them", milliseconds(readsOfMany, 0.5)),
            limit("p99 of them", worth(readsOfMany, 0.99), "%.2f ms", must: 10),
            row("entitlement reads, \(few) stored", rate(readsOfFew.map(\.rate))),
            limit("how much slower with \(many)", ratio(readsOfFew, readsOfMany), "%.2f ×", must: 1.5),
            limit(
                "on disk, a notification of \(notificationSize) bytes",
                Double(bytesKept) / Double(notificationsKept), "%.0f bytes", must: 4096),
        ]
        return (["| what | measured | must | aim | reached |", "|---|---:|---:|---:|---|"] + rows)
            .joined(separator: "\n")
    }
}

// MARK: - Figures

extension LoadResult {
    private func rate(_ rates: [Double]) -> String { String(format: "%.0f/s", rates.median) }

    private func work(_ outcomes: [LoadGenerator.Outcome]) -> String {
        String(format: "%.0f µs", outcomes.map(\.work).median)
    }

    private func milliseconds(_ outcomes: [LoadGenerator.Outcome], _ share: Double = 0.99) -> String {
        String(format: "%.2f ms", worth(outcomes, share))
    }

    private func worth(_ outcomes: [LoadGenerator.Outcome], _ share: Double) -> Double {
        outcomes.map { $0.percentile(share) }.median
    }

    private func ratio(_ some: [LoadGenerator.Outcome], _ others: [LoadGenerator.Outcome]) -> Double {
        ratio(some.map(\.rate), others.map(\.rate))
    }

    private func ratio(_ some: [Double], _ others: [Double]) -> Double { zip(some, others).map { $0 / $1 }.median }

    private static func words(_ count: Int) -> String {
        count.isMultiple(of: 1_000_000) ? "\(count / 1_000_000) million" : "\(count / 1000) thousand"
    }
}

extension [Double] {
    fileprivate var median: Double { isEmpty ? .nan : sorted()[count / 2] }
}

// MARK: - Rows

extension LoadResult {
    private func row(
        _ what: String, _ measured: String, _ must: String = "", _ aim: String = "", _ reached: String = ""
    )
        -> String
    {
        "| \([what, measured, must, aim, reached].joined(separator: " | ")) |"
    }

    private func share(_ what: String, _ found: Double, must: Double, aim: Double) -> String {
        let reached = found < must ? "NO" : found < aim ? "yes, not the aim" : "yes, and the aim"
        return row(what, Self.percent(found), "≥ \(Self.percent(must))", "≥ \(Self.percent(aim))", reached)
    }

    private static func percent(_ share: Double) -> String { String(format: "%.0f %%", share * 100) }

    private func limit(_ what: String, _ found: Double, _ format: String, must: Double) -> String {
        row(
            what, String(format: format, found), "≤ " + String(format: format, must), "",
            found <= must ? "yes" : "NO")
    }
}
