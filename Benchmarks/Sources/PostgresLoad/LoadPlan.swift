// SPDX-License-Identifier: Apache-2.0

import LedgerPostgres

/// What is measured, and how often. Each round has every measurement, since on a shared machine rates of different
/// minutes cannot be compared.
struct LoadPlan {
    var transactions: Int
    var seconds: Int
    var rounds: Int

    /// The number of transactions in the small ledger with which the large one is compared.
    static let fewTransactions = 50_000
    /// Clients of `pgbench`, and works at a time.
    static let width = 32
    /// Works at a time that keep all connections busy: for each of them, another one waits.
    static let queue = 64
    /// Works at a time in four groups of twenty, as where the required figures were set.
    static let crowd = 80
    /// Works at a time that fill the groups: four of 32.
    static let multitude = 128
    /// Works at a time for each storage over the network: so few that it is the network that limits them, not the
    /// machine, on which everything runs.
    static let few = 2
    /// How much longer a flush takes on the slow disk. With it `pgbench` inserts with 32 clients as often as where the
    /// required figures were set, 7,600 to 9,200 times a second.
    static let flush = Duration.milliseconds(3)

    func run() async throws -> LoadResult {
        let server = try DatabaseServer()
        PostgresLoad.say("Filling \(Self.fewTransactions) and \(transactions) transactions …")
        try server.warmUp()
        let few = try await FilledDatabase("few", transactions: Self.fewTransactions, on: server)
        let many = try await FilledDatabase("many", transactions: transactions, on: server)
        let network = try DelayingProxy(to: server.folder)
        let handles = try await Handles(server, network, few, many)
        var result = LoadResult(plan: self)
        try result.noteSizes(before: true, many, server)
        for round in 1...rounds {
            PostgresLoad.say("Round \(round) of \(rounds) …")
            try await measureIntake(few, many, server, handles, &result)
            try await measureSlowDisk(many, server, handles, &result)
            try await measureReads(few, many, server, handles, &result)
            try await measureNetwork(many, server, network, handles, &result)
        }
        try result.noteSizes(before: false, many, server)
        return result
    }

    private func measureIntake(
        _ few: FilledDatabase, _ many: FilledDatabase, _ server: DatabaseServer, _ handles: Handles,
        _ result: inout LoadResult
    ) async throws {
        let first = try insert(many, server, count: 4000 * seconds)
        let scripted = 1000 * seconds
        result.add(
            .scripted,
            try server.pgbench(
                many.name, Yardsticks(database: many).scriptedIntake, clients: Self.width, count: scripted))
        result.literalIntakes += scripted
        let count = Int(first) * seconds / 3
        func intakes(_ storage: PostgresLedgerStorage, _ database: FilledDatabase, _ width: Int) async throws -> Double
        {
            // A chain that gets many new periods is no longer like the others.
            let count = min(count, database.customers)
            result.intakes += database.name == many.name ? count : 0
            return try await Work.intakes(count, into: [storage], database, width: width)
        }
        result.add(.intake, try await intakes(handles.single, many, Self.width))
        result.add(.queuedIntake, try await intakes(handles.single, many, Self.queue))
        let second = try insert(many, server, count: 4000 * seconds)
        result.add(.groupedIntake, try await intakes(handles.grouped, many, Self.width))
        result.add(.crowdedIntake, try await intakes(handles.grouped, many, Self.crowd))
        result.add(.fullIntake, try await intakes(handles.grouped, many, Self.multitude))
        let third = try insert(many, server, count: 4000 * seconds)
        result.add(.insert, (first + second + third) / 3)
        result.add(.intakeOfFew, try await intakes(handles.groupedFew, few, Self.crowd))
    }

    /// Inserts a second. They are measured before and after what is compared with them, since the machine's speed
    /// changes within a round too.
    private func insert(_ database: FilledDatabase, _ server: DatabaseServer, count: Int) throws -> Double {
        let rate = try server.pgbench(
            database.name, Yardsticks(database: database).insert, clients: Self.width, count: count)
        PostgresLoad.say("  one insert: \(Int(rate))/s")
        return rate
    }

    /// The same on a disk whose flush takes as long as on the one for which the required figures were set.
    private func measureSlowDisk(
        _ many: FilledDatabase, _ server: DatabaseServer, _ handles: Handles, _ result: inout LoadResult
    ) async throws {
        try server.delayFlushes(by: Self.flush)
        defer { try? server.delayFlushes(by: .zero) }
        let yardsticks = Yardsticks(database: many)
        let first = try insert(many, server, count: 2000 * seconds)
        let (scripted, count) = (600 * seconds, Int(first) * seconds / 3)
        result.add(
            .slowScripted,
            try server.pgbench(many.name, yardsticks.scriptedIntake, clients: Self.width, count: scripted))
        result.literalIntakes += scripted
        func intakes(_ storage: PostgresLedgerStorage, _ width: Int) async throws -> Double {
            result.intakes += min(count, many.customers)
            return try await Work.intakes(min(count, many.customers), into: [storage], many, width: width)
        }
        result.add(.slowIntake, try await intakes(handles.single, Self.width))
        result.add(.slowGroupedIntake, try await intakes(handles.grouped, Self.width))
        result.add(.slowCrowdedIntake, try await intakes(handles.grouped, Self.crowd))
        let second = try insert(many, server, count: 2000 * seconds)
        result.add(.slowInsert, (first + second) / 2)
    }

    private func measureReads(
        _ few: FilledDatabase, _ many: FilledDatabase, _ server: DatabaseServer, _ handles: Handles,
        _ result: inout LoadResult
    ) async throws {
        result.add(
            .select,
            try server.pgbench(
                many.name, Yardsticks(database: many).select, clients: Self.width, count: 30_000 * seconds))
        result.add(.read, try await Work.reads(seconds, from: handles.single, many, width: Self.width))
        result.add(.gatheredRead, try await Work.reads(seconds, from: handles.grouped, many, width: Self.width))
        result.add(.crowdedRead, try await Work.reads(seconds, from: handles.grouped, many, width: Self.crowd))
        result.add(.readOfFew, try await Work.reads(seconds, from: handles.groupedFew, few, width: Self.crowd))
    }

    private func measureNetwork(
        _ many: FilledDatabase, _ server: DatabaseServer, _ network: DelayingProxy, _ handles: Handles,
        _ result: inout LoadResult
    ) async throws {
        let literal = try server.pgbench(
            many.name, Yardsticks(database: many).literalIntake, clients: 1, count: 100 * seconds,
            folder: network.folder)
        result.add(.literal, literal)
        result.add(
            .pipelined,
            try await Work.intakes(300 * seconds, into: [handles.remoteSingle], many, width: 1))
        let (count, one, two) = (800 * seconds, Array(handles.remote.prefix(1)), handles.remote)
        result.add(.oneServer, try await Work.intakes(count, into: one, many, width: Self.few))
        result.add(.twoServers, try await Work.intakes(count * 3 / 2, into: two, many, width: 2 * Self.few))
        result.intakes += 300 * seconds + count + count * 3 / 2
        result.literalIntakes += 100 * seconds
    }
}

/// The handles on both ledgers.
private struct Handles {
    /// One work for each connection, each committed by itself.
    let single: PostgresLedgerStorage
    let grouped: PostgresLedgerStorage
    let groupedFew: PostgresLedgerStorage
    /// Over the network, as `single`.
    let remoteSingle: PostgresLedgerStorage
    /// Two servers over the network.
    let remote: [PostgresLedgerStorage]

    init(
        _ server: DatabaseServer, _ network: DelayingProxy, _ few: FilledDatabase, _ many: FilledDatabase
    ) async throws {
        let (near, far) = (server.address(many.name), server.address(many.name, folder: network.folder))
        single = try await FilledDatabase.open(near) {
            ($0.connections, $0.sharesStatements) = (LoadPlan.width, false)
        }
        grouped = try await FilledDatabase.open(near) { _ in }
        groupedFew = try await FilledDatabase.open(server.address(few.name)) { _ in }
        remoteSingle = try await FilledDatabase.open(far) {
            ($0.connections, $0.sharesStatements) = (1, false)
        }
        remote = [try await FilledDatabase.open(far) { _ in }, try await FilledDatabase.open(far) { _ in }]
    }
}
