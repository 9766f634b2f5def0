// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The measurements, round by round, and their comparison with the required figures.
struct LoadResult {
    /// What is measured: transactions, works or reads a second.
    enum Measure {
        case insert, scripted, intake, queuedIntake, groupedIntake, crowdedIntake, fullIntake, intakeOfFew
        case slowInsert, slowScripted, slowIntake, slowGroupedIntake, slowCrowdedIntake
        case select, read, gatheredRead, crowdedRead, readOfFew
        case literal, pipelined, oneServer, twoServers
    }

    let plan: LoadPlan
    private var rates: [Measure: [Double]] = [:]
    private var sizes: [String: Int] = [:]
    /// The intakes into the large ledger; those that `pgbench` made.
    var (intakes, literalIntakes) = (0, 0)

    init(plan: LoadPlan) {
        self.plan = plan
    }

    mutating func add(_ measure: Measure, _ rate: Double) {
        PostgresLoad.say("  \(measure): \(Int(rate))/s")
        rates[measure, default: []].append(rate)
    }

    /// Notes how many octets each table has with its indexes, or how many it has more than before.
    mutating func noteSizes(before: Bool, _ database: FilledDatabase, _ server: DatabaseServer) throws {
        let lines = try server.psql(
            database.name,
            """
            SELECT regexp_replace(relname, '_(rest|before|\\d+q\\d)$', '') AS name, sum(pg_total_relation_size(oid))
            FROM pg_class WHERE relkind = 'r' AND relnamespace = 'quittance'::regnamespace GROUP BY name
            """)
        for line in lines.split(separator: "\n").map({ $0.split(separator: "|") }) where line.count == 2 {
            sizes[(before ? "before " : "") + line[0]] = Int(line[1])
        }
    }

    /// The table in Markdown. Ratios are taken within a round.
    var table: String {
        let (width, crowd) = (LoadPlan.width, LoadPlan.crowd)
        let customers = plan.transactions / FilledDatabase.periods
        let all = intakes + literalIntakes
        let rows = [
            rate("pgbench: INSERT of 3,300 octets, \(width) clients", .insert),
            rate("pgbench: an intake's statements, \(width) clients", .scripted),
            share("… relative to the insert", .scripted, .insert),
            rate("intakes one by one, \(width) at a time on \(width) connections", .intake),
            share("… relative to the insert", .intake, .insert, required: 0.25, target: 0.4),
            rate("intakes one by one, \(LoadPlan.queue) at a time on \(width) connections", .queuedIntake),
            share("… relative to the insert", .queuedIntake, .insert, required: 0.25, target: 0.4),
            rate("intakes in groups, \(width) at a time", .groupedIntake),
            share("… relative to the insert", .groupedIntake, .insert, required: 0.6, target: 0.9),
            rate("intakes in groups, \(crowd) at a time", .crowdedIntake),
            share("… relative to the insert", .crowdedIntake, .insert, required: 0.6, target: 0.9),
            rate("intakes in groups, \(LoadPlan.multitude) at a time", .fullIntake),
            share("… relative to the insert", .fullIntake, .insert, required: 0.6, target: 0.9),
            rate("\(crowd) at a time with \(LoadPlan.fewTransactions) transactions stored", .intakeOfFew),
            multiple("… relative to \(plan.transactions)", .intakeOfFew, .crowdedIntake, atMost: 1.5),
            rate("\(LoadPlan.flush) more for a flush: pgbench: INSERT of 3,300 octets, \(width) clients", .slowInsert),
            share("… pgbench: an intake's statements, relative to it", .slowScripted, .slowInsert),
            share("… intakes one by one", .slowIntake, .slowInsert, required: 0.25, target: 0.4),
            share("… in groups, \(width) at a time", .slowGroupedIntake, .slowInsert, required: 0.6, target: 0.9),
            share("… in groups, \(crowd) at a time", .slowCrowdedIntake, .slowInsert, required: 0.6, target: 0.9),
            rate("pgbench: SELECT by primary key, \(width) clients", .select),
            rate("entitlement reads one by one, \(width) at a time on \(width) connections", .read),
            share("… relative to the SELECT", .read, .select, target: 0.5),
            rate("entitlement reads gathered, \(width) at a time", .gatheredRead),
            share("… relative to the SELECT", .gatheredRead, .select, target: 1),
            rate("entitlement reads gathered, \(crowd) at a time", .crowdedRead),
            share("… relative to the SELECT", .crowdedRead, .select, target: 1),
            rate("… with \(LoadPlan.fewTransactions) transactions stored", .readOfFew),
            multiple("… relative to \(plan.transactions)", .readOfFew, .crowdedRead, atMost: 1.5),
            rate("0.25 ms each way: a statement at a time (pgbench), one client", .literal),
            rate("intakes one after another", .pipelined),
            multiple("… relative to a statement at a time", .pipelined, .literal, atLeast: 3),
            rate("intakes of one server, \(LoadPlan.few) at a time", .oneServer),
            rate("intakes of two servers, \(LoadPlan.few) at a time each", .twoServers),
            multiple("… relative to one server", .twoServers, .oneServer, atLeast: 1.5),
            size("a chain of five periods", ["before chains"], customers),
            size("… its five transactions", ["before transactions"], customers),
            size("a customer", ["before customers"], customers),
            size("three documents", ["documents"], all),
            size("an event, numbered or not", ["events", "outbox"], all),
        ]
        return (["| what | measured | required | target | reached |", "|---|---:|---:|---:|---|"] + rows)
            .joined(separator: "\n")
    }
}

// MARK: - Rows

extension LoadResult {
    private func row(
        _ what: String, _ measured: String, _ required: String = "", _ target: String = "", _ reached: String = ""
    ) -> String {
        "| \([what, measured, required, target, reached].joined(separator: " | ")) |"
    }

    private func rate(_ what: String, _ measure: Measure) -> String {
        row(what, String(format: "%.0f/s", (rates[measure] ?? []).median))
    }

    private func ratio(_ some: Measure, _ others: Measure) -> Double {
        zip(rates[some] ?? [], rates[others] ?? []).map { $0 / $1 }.median
    }

    private func share(
        _ what: String, _ some: Measure, _ others: Measure, required: Double? = nil, target: Double? = nil
    ) -> String {
        func percent(_ share: Double) -> String { String(format: "%.1f %%", share * 100) }
        let found = ratio(some, others)
        func bound(_ share: Double?) -> String { share.map { "≥ \(percent($0))" } ?? "" }
        let reached = found < required ?? 0 ? "NO" : found < target ?? 0 ? "not the target" : "yes, and the target"
        return row(what, percent(found), bound(required), bound(target), target == nil ? "" : reached)
    }

    private func multiple(
        _ what: String, _ some: Measure, _ others: Measure, atLeast: Double? = nil, atMost: Double? = nil
    ) -> String {
        let found = ratio(some, others)
        let isReached = atLeast.map { found >= $0 } ?? true && atMost.map { found <= $0 } ?? true
        let bound = (atLeast.map { "≥ \($0) ×" } ?? "") + (atMost.map { "≤ \($0) ×" } ?? "")
        return row(what, String(format: "%.2f ×", found), bound, "", isReached ? "yes" : "NO")
    }

    private func size(_ what: String, _ tables: [String], _ count: Int) -> String {
        let octets = tables.reduce(0) { $0 + (sizes[$1] ?? 0) }
        return row("on disk with indexes: \(what)", "\(octets / max(1, count)) octets")
    }
}

extension [Double] {
    fileprivate var median: Double { isEmpty ? .nan : sorted()[count / 2] }
}
