// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import NIOHTTP1
import PurchaseLedger
import TestData
import TestProcess
import Testing

/// `quittance backfill`, `app-store` and `jobs` at a simulated App Store over HTTP.
@Suite(.timeLimit(.minutes(60))) struct BackfillCommandTests {
    /// A simulator with some subscribers, a ledger that has heard nothing, and a configuration for both.
    private struct Shop {
        let folder: URL
        let simulator: SimulatorProcess
        let config: String
        let product: String
        /// The first transaction of each customer, and its order.
        private(set) var customers: [(id: String, orderId: String)] = []

        init(customers count: Int, in folder: URL) async throws {
            self.folder = folder
            simulator = try await SimulatorProcess(["--kind", "--speed", "0"], in: folder)
            product = simulator.fact("bundleId") + ".pro.monthly"
            let (file, ledger) = (folder.appendingPathComponent("q.json"), folder.appendingPathComponent("l.sqlite"))
            config = file.path
            try SQLiteLedgerStorage(path: ledger.path).close()
            let (bundleId, app) = (simulator.fact("bundleId"), simulator.fact("appAppleId"))
            try Data(
                """
                {"database": "sqlite:\(ledger.path)", "roots": ["\(simulator.fact("rootsFile"))"], "logLevel": "error",
                 "appStoreServer": "\(simulator.fact("production"))", "simulatorClock": "\(simulator.fact("control"))",
                 "sandboxAppStoreServer": "\(simulator.fact("sandbox"))",
                 "apps": [{"bundleId": "\(bundleId)", "appAppleId": \(app),
                  "inAppPurchaseKey": {"file": "\(simulator.fact("keyFile"))", "keyId": "\(simulator.fact("keyId"))",
                   "issuerId": "\(simulator.fact("issuerId"))"},
                  "products": {"\(product)": {"entitlements": ["pro"]}}}]}
                """.utf8
            ).write(to: file)
            for number in 0..<count {
                try await simulator.command("/customers", #"{"name": "c\#(number)"}"#)
                let bought = try await simulator.command("/customers/c\(number)/buy", #"{"product": "\#(product)"}"#)
                let subscription = bought["customer"]?["subscriptions"]?.array?.first
                let orderId = subscription?["transactions"]?.array?.first?["orderId"]?.string
                customers.append((bought["transactionId"]?.string ?? "", orderId ?? ""))
            }
            try await simulator.command("/clock/advance", #"{"days": 40}"#)
        }

        func run(_ arguments: [String], input: String = "") throws -> CommandLineTests.Outcome {
            try CommandLineTests.run(arguments + ["--config", config], input: Array(input.utf8))
        }

        func write(_ lines: [String]) throws -> String {
            let list = folder.appendingPathComponent("list.txt").path
            try Data(lines.map { "\($0)\n" }.joined().utf8).write(to: URL(fileURLWithPath: list))
            return list
        }

        /// The chains that the ledger has of these purchases.
        func known(_ ids: [String]) async throws -> [Chain] {
            let storage = try SQLiteLedgerStorage(path: folder.appendingPathComponent("l.sqlite").path)
            defer { try? storage.close() }
            let scope = LedgerScope(bundleId: simulator.fact("bundleId"), environment: .production)
            return try await Array(Ledger(storage: storage).chains(ids.map { ChainKey($0, in: scope) }).values)
        }

        /// Of how many customers the ledger has two periods or more.
        func complete() async throws -> Int {
            try await known(customers.map(\.id)).count { $0.purchases.count > 1 }
        }
    }

    private static func withShop(customers: Int, _ body: (Shop) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let shop = try await Shop(customers: customers, in: folder.url)
        try await body(shop)
        #expect(shop.simulator.terminate() == 0)
    }

    private static func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

    @Test(.takesLong)
    func `a list of ids and orders is taken in, wrong lines are named, and a second run does only those`()
        async throws
    {
        try await Self.withShop(customers: 6) { shop in
            var lines = shop.customers.prefix(4).map(\.id) + [shop.customers[4].orderId, "", "id,order", "12345"]
            let list = try shop.write(lines)
            let plan = try shop.run(["backfill", list, "--dry-run"])
            #expect(plan.status == 1 && plan.output.contains("line 5: look up order \(shop.customers[4].orderId)"))
            #expect(plan.output.contains("6 lines to ask about, 0 done before, 1 wrong"), "\(plan.output)")
            #expect(!Self.exists(list + ".done"))
            #expect(try await shop.complete() == 0)
            let first = try shop.run(["backfill", list])
            #expect(first.status == 1)
            #expect(first.error.contains("line 7: The text is neither a transaction id"), "\(first.error)")
            #expect(first.error.contains("It has commas: write one id a line"), "\(first.error)")
            #expect(first.error.contains("line 8: refused: ") && first.error.contains("4040010"), "\(first.error)")
            #expect(first.error.contains("Neither production nor the sandbox knows it."), "\(first.error)")
            #expect(first.output.hasPrefix("5 histories taken in, 1 line not taken in, 1 line wrong; "), "\(first)")
            #expect(try await shop.complete() == 5)
            let done = try String(contentsOfFile: list + ".done", encoding: .utf8)
            #expect(done.split(separator: "\n").count == 5)
            lines[6...7] = [shop.customers[5].id]
            let second = try shop.run(["backfill", try shop.write(lines)])
            #expect(second.status == 0, "\(second)")
            #expect(second.output.hasPrefix("1 history taken in, 5 lines done before; "), "\(second.output)")
            #expect(!Self.exists(list + ".done"))
            #expect(try await shop.complete() == 6)
            let third = try shop.run(["backfill"], input: lines.joined(separator: "\n"))
            #expect(third.status == 0 && third.output.contains("; 0 new documents, "), "\(third)")
        }
    }

    @Test(.takesLong) func `a killed backfill goes on where it was`() async throws {
        try await Self.withShop(customers: 9) { shop in
            let done = shop.folder.appendingPathComponent("done").path
            let process = try TestProcess(
                [CommandLineTests.program.path, "backfill", "--done", done, "--config", shop.config], input: .pipe)
            // So many lines that some are done before the end of the list, which does not come.
            let lines = (0..<200).map { shop.customers[$0 / 10 % 8].id }
            try process.input?.write(contentsOf: Data(lines.map { "\($0)\n" }.joined().utf8))
            while (try? String(contentsOfFile: done, encoding: .utf8))?.contains("\n") != true {
                try #require(process.isRunning)
                try await Task.sleep(for: .milliseconds(20))
            }
            process.send(SIGKILL)
            process.wait()
            let again = try shop.run(
                ["backfill", try shop.write(lines + [shop.customers[8].id]), "--done", done])
            #expect(again.status == 0, "\(again)")
            #expect(again.output.contains(" done before; "), "\(again.output)")
            #expect(!Self.exists(done))
            #expect(try await shop.complete() == 9)
            #expect(try shop.run(["check"]).status == 0)
        }
    }

    @Test(.takesLong) func `a second backfill is refused while one runs, and runs after it`() async throws {
        try await Self.withShop(customers: 2) { shop in
            let process = try TestProcess(
                [CommandLineTests.program.path, "backfill", "--config", shop.config], input: .pipe)
            while try shop.run(["jobs", "--kind", "backfill", "--json"]).json.isEmpty {
                try #require(process.isRunning)
                try await Task.sleep(for: .milliseconds(20))
            }
            let list = try shop.write(shop.customers.map(\.id))
            let second = try shop.run(["backfill", list])
            #expect(second.status == 1 && second.error.contains("runs on this ledger since 20"), "\(second)")
            #expect(try await shop.complete() == 0)
            #expect(try shop.run(["jobs", "retry", "--kind", "backfill"]).status == 2)
            try process.input?.close()
            #expect(process.wait() == 0)
            #expect(try shop.run(["backfill", list]).status == 0)
            #expect(try await shop.complete() == 2)
            #expect(try shop.run(["jobs", "--kind", "backfill", "--json"]).json.isEmpty)
        }
    }

    @Test(.takesLong)
    func `a server that is killed in the middle of a backfill of one customer completes it when asked again`()
        async throws
    {
        try await Self.withShop(customers: 1) { shop in
            let (name, id) = ("c0", shop.customers[0].id)
            // Ten pages.
            let coins = shop.simulator.fact("bundleId") + ".coins"
            var all: [String] = [id]
            for _ in 0..<180 {
                let bought = try await shop.simulator.command(
                    "/customers/\(name)/buy", #"{"product": "\#(coins)"}"#)
                all.append(try #require(bought["transactionId"]?.string))
            }
            let options = ["--config", shop.config]
            let key = try CommandLineTests.key(options)
            let body = #"{"transactionId": "\#(id)"}"#
            let killed = try await ServerProcess(options, in: shop.folder)
            let question = Task { try await killed.send(.POST, "/v1/backfill", body, key: key).status }
            while try await killed.send(.GET, "/v1/transactions/\(id)", key: key).status != 200 {
                try await Task.sleep(for: .milliseconds(1))
            }
            // What it asks from now on stays without an answer, so that it is still at it when it is killed.
            try await shop.simulator.command("/faults", #"{"timeouts": 1}"#)
            killed.kill()
            let answered = try? await question.value
            let found = try await shop.known(all).count
            print("Killed with \(found) of \(all.count) transactions recorded, answer: \(answered ?? 0)")

            try await shop.simulator.command("/faults", #"{"timeouts": 0}"#)
            // The killed server's lease on the reading has not ended; unless the reading had. Nobody knows that the
            // server is dead, so the job stays as it is.
            let retried = try shop.run(["jobs", "retry", "--kind", "customerHistory"])
            let isLeft = retried.status == 0 && retried.output.contains("1 within three minutes anyway, or in work.")
            #expect(isLeft || retried.error.contains("no such job"), "\(retried)")
            try await shop.simulator.command("/clock/advance", #"{"seconds": 180}"#)
            let server = try await ServerProcess(options, in: shop.folder)
            var (status, answer) = try await server.send(.POST, "/v1/backfill", body, key: key)
            while status == 202 {
                try await Task.sleep(for: .milliseconds(50))
                (status, answer) = try await server.send(.POST, "/v1/backfill", body, key: key)
            }
            #expect(status == 200 && answer["complete"] == .bool(true), "\(answer.compactText)")
            #expect(answer["refused"]?.integer == 0)
            #expect(try await shop.known(all).count == all.count)
            let again = try await server.send(.POST, "/v1/backfill", body, key: key).json
            #expect(again["recorded"]?.integer == 0, "\(again.compactText)")
            let events = try await server.send(.GET, "/v1/events?limit=500", key: key).json["items"]?.array ?? []
            let starts = events.filter { $0["kind"]?.string == "subscription.started" }
            #expect(starts.count == 1, "\(starts.map(\.compactText))")
            #expect(server.terminate() == 0)
            #expect(try shop.run(["check"]).status == 0)
        }
    }

    @Test(.takesLong) func `however many requests wait for the App Store, a server keeps a bounded number of sockets`()
        async throws
    {
        try await Self.withShop(customers: 40) { shop in
            let options = ["--config", shop.config]
            let key = try CommandLineTests.key(options)
            let server = try await ServerProcess(options, in: shop.folder)
            let before = try server.sockets()
            var maxSockets = 0
            for _ in 0..<3 {
                let sockets = try await withThrowingTaskGroup(of: Int.self) { group in
                    for id in shop.customers.map(\.id) {
                        let body = #"{"transactionId": "\#(id)"}"#
                        group.addTask { try await server.send(.POST, "/v1/backfill", body, key: key).status }
                    }
                    var sockets = 0
                    while let status = try await group.next() {
                        #expect(status == 200)
                        sockets = max(sockets, try server.sockets())
                    }
                    return sockets
                }
                maxSockets = max(maxSockets, sockets)
            }
            let after = try server.sockets()
            print("Sockets: \(before), at most \(maxSockets), \(after) at the end")
            // Eight for the test's own requests, eight for each environment, and two for the simulator's clock.
            #expect(maxSockets <= before + 26 && after <= before + 26)
            #expect(server.terminate() == 0)
        }
    }

    @Test(.takesLong) func `a backfill without a key, a ledger or a list is wrong usage`() async throws {
        try await Self.withShop(customers: 0) { shop in
            let missing = try shop.run(["backfill", "/nowhere/list.txt"])
            #expect(missing.status == 2 && missing.error.contains("/nowhere/list.txt"), "\(missing)")
            #expect(try shop.run(["backfill", "--share", "0"]).status == 2)
            let folder = try shop.run(["backfill", shop.folder.path])
            #expect(folder.status == 2 && folder.error.contains("is a folder"), "\(folder)")
            #expect(try shop.run(["jobs", "--kind", "notification"]).status == 2)
            let ledger = try CommandLineTests.run(
                ["backfill", "--database", "sqlite:/nowhere/l", "--config", shop.config])
            #expect(ledger.status == 2 && ledger.error.contains("There is no ledger"), "\(ledger)")
            let key = try CommandLineTests.run([
                "backfill", "--bundle-id", "com.other", "--database", "sqlite:/nowhere/l",
            ])
            #expect(key.status == 2 && key.error.contains("inAppPurchaseKey"), "\(key)")
            let empty = try shop.run(["backfill"])
            #expect(empty.status == 0 && empty.output.hasPrefix("0 histories taken in; "), "\(empty)")
        }
    }

    // MARK: - app-store

    @Test(.takesLong) func `orders, refunds, extensions and accounts are asked for over HTTP`() async throws {
        try await Self.withShop(customers: 1) { shop in
            let (id, orderId) = shop.customers[0]
            func json(_ arguments: String...) throws -> JSONValue {
                let outcome = try shop.run(["app-store"] + arguments)
                #expect(outcome.status == 0, "\(outcome)")
                return try JSONValue(parsing: outcome.output.utf8)
            }
            let order = try json("order", orderId)
            #expect(order["transactions"]?.array?.first?["transactionId"]?.string == id, "\(order.compactText)")
            #expect(try json("refunds", id)["transactions"]?.array?.isEmpty == true)
            let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
            #expect(try json("set-app-account-token", id, account)["appAccountToken"]?.string == account)
            #expect(try json("extend", id, "--days", "7", "--reason", "3")["success"] == .bool(true))
            let request = "6a1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e01"
            _ = try json(
                "extend-all", shop.product, "--days", "1", "--reason", "3", "--request-identifier", request, "--yes")
            #expect(try json("extension-status", shop.product, request)["complete"] == .bool(false))
            #expect(try await shop.complete() == 1)
            let unknown = try shop.run(["app-store", "order", "MZZZZZZZZZ"])
            #expect(unknown.status == 1 && unknown.error.contains("The order is not known"), "\(unknown)")
            let refused = try shop.run(["app-store", "extend", "7", "--days", "7", "--reason", "3"])
            #expect(refused.status == 1 && refused.error.contains("Apple refused"), "\(refused)")
            let other = try shop.run(["app-store", "refunds", "7"])
            #expect(other.status == 1 && other.error.contains("pass --environment for the other"), "\(other)")
            #expect(try shop.run(["app-store", "extend", id, "--days", "91", "--reason", "3"]).status == 2)
        }
    }

    @Test(.takesLong)
    func `an extension of all subscribers names their number on a terminal, and needs a yes`() async throws {
        try await Self.withShop(customers: 3) { shop in
            let list = try shop.write(shop.customers.prefix(2).map(\.id))
            #expect(try shop.run(["backfill", list]).status == 0)
            func extend(_ answer: String) throws -> (status: Int32, text: String) {
                try PseudoTerminal.run(
                    [
                        CommandLineTests.program.path, "app-store", "extend-all", shop.product, "--days", "2",
                        "--reason", "3",
                    ]
                        + ["--config", shop.config], answer: answer)
            }
            let refused = try extend("\n")
            #expect(refused.status == 1 && refused.text.contains("Nothing was done"), "\(refused)")
            #expect(refused.text.contains("The ledger has 2 active subscriptions of \(shop.product) "), "\(refused)")
            #expect(refused.text.contains("by 2 days?") && !refused.text.contains("To repeat"), "\(refused)")
            let done = try extend("y\n")
            #expect(done.status == 0 && done.text.contains("requestIdentifier"), "\(done)")
        }
    }

    // MARK: - customer show

    @Test(.takesLong)
    func `an order id leads to its customer through the App Store, and nothing is recorded`() async throws {
        try await Self.withShop(customers: 2) { shop in
            let order = shop.customers[0].orderId
            let missing = try shop.run(["customer", "show", order])
            #expect(missing.status == 1 && missing.output.isEmpty, "\(missing)")
            let place = "The order \(order) is the transaction \(shop.customers[0].id) of "
            #expect(missing.error.contains(place) && missing.error.contains("app-store order \(order) records it"))
            #expect(try await shop.known([shop.customers[0].id]).isEmpty)
            #expect(try shop.run(["backfill", try shop.write(shop.customers.map(\.id))]).status == 0)
            let found = try shop.run(["customer", "show", order])
            #expect(found.status == 0 && found.output.contains("\n  pro "), "\(found)")
            #expect(found.output.contains(shop.customers[0].id) && !found.output.contains(shop.customers[1].id))
            let unknown = try shop.run(["customer", "show", "ZZZZZZZZZZ"])
            #expect(unknown.status == 1 && unknown.error.contains("The App Store knows no such order."), "\(unknown)")
        }
    }

    // MARK: - jobs

    @Test func `jobs are listed with their reasons, and retried on demand`() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("l.sqlite")
        func ledger<Value>(_ body: (Ledger) async throws -> Value) async throws -> Value {
            let storage = try SQLiteLedgerStorage(path: path)
            defer { try? storage.close() }
            return try await body(Ledger(storage: storage))
        }
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        let later = Timestamp(milliseconds: 4_000_000_000_000)
        let parked = Job.ID(Job.Kind(rawValue: "parkedDocument"), "abc", in: scope)
        let waiting = Job.ID(Job.Kind(rawValue: "subscriptionStatus"), "7", in: scope)
        try await ledger { ledger in
            try await ledger.add(Job(parked, dueAt: later, payload: [1], failure: "untrusted\u{1b}Chain"), at: later)
            try await ledger.add(Job(waiting, dueAt: later), at: later)
        }
        let options = ["--database", "sqlite:\(path)"]
        let all = try CommandLineTests.run(["jobs"] + options)
        #expect(all.status == 0 && all.output.hasPrefix("2 jobs, 1 of them with a failure.\n"), "\(all)")
        #expect(all.output.contains("parkedDocument  com.example  Production  abc  due 2096-"), "\(all.output)")
        #expect(!all.output.contains("\u{1b}"))
        let failed = try CommandLineTests.run(["jobs", "--failed", "--json"] + options)
        #expect(try failed.json.map { $0["name"]?.string } == ["abc"])
        #expect(try failed.json.first?["dueAt"]?.integer == later.milliseconds)
        #expect(try CommandLineTests.run(["jobs", "retry"] + options).status == 2)
        #expect(try CommandLineTests.run(["jobs", "retry", "xyz"] + options).status == 2)
        let retried = try CommandLineTests.run(["jobs", "retry", "--kind", "parkedDocument"] + options)
        #expect(retried.status == 0 && retried.output == "1 job due now.\n", "\(retried)")
        let due = try await ledger { ledger in
            [try await ledger.job(parked)?.dueAt, try await ledger.job(waiting)?.dueAt]
        }
        #expect(due[0] ?? later < later)
        #expect(due[1] == later)
    }

    @Test func `many jobs are counted by kind and reason, with an example each, before the first of them`() async throws
    {
        let folder = try TemporaryFolder()
        let path = folder.path("l.sqlite")
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        let later = Timestamp(milliseconds: 4_000_000_000_000)
        let storage = try SQLiteLedgerStorage(path: path)
        let ledger = Ledger(storage: storage)
        for number in 0..<40 {
            let failure = number < 30 ? "untrustedChain: x" : number < 35 ? "expired: y" : nil
            try await ledger.add(
                Job(
                    Job.ID(Job.Kind(rawValue: "parkedDocument"), "p\(number)", in: scope), dueAt: later,
                    failure: failure), at: later)
        }
        for number in 0..<5 {
            try await ledger.add(
                Job(Job.ID(Job.Kind(rawValue: "subscriptionStatus"), "\(number)", in: scope), dueAt: later), at: later)
        }
        try storage.close()

        let options = ["--database", "sqlite:\(path)"]
        let first = try CommandLineTests.run(["jobs"] + options)
        let lines = first.output.split(separator: "\n")
        #expect(
            lines.prefix(2) == [
                "45 jobs, 35 of them with a failure.",
                "  40 parkedDocument, 35 with a failure, the first due \(later.iso8601)",
            ])
        #expect(lines.contains { $0.hasPrefix("      30 untrustedChain, such as parkedDocument  com.example  ") })
        #expect(lines.contains { $0.hasPrefix("      5 expired, such as parkedDocument  com.example  ") })
        #expect(lines.contains { $0.hasPrefix("      such as subscriptionStatus  com.example  ") })
        #expect(lines.count { $0.contains(#/^(parkedDocument|subscriptionStatus) /#) } == 20)
        #expect(lines.last == "25 more: --all lists all.")
        let all = try CommandLineTests.run(["jobs", "--all"] + options).output.split(separator: "\n")
        #expect(all.count { $0.contains(#/^(parkedDocument|subscriptionStatus) /#) } == 45)
        #expect(!all.contains { $0.contains("such as") || $0.contains("more:") })
        #expect(try CommandLineTests.run(["jobs", "--json"] + options).json.count == 45)
    }

    @Test func `the list says how far a history was read and what is overdue, and retry leaves leased jobs alone`()
        async throws
    {
        let folder = try TemporaryFolder()
        let path = folder.path("l.sqlite")
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
        func id(_ kind: String, _ name: String, _ environment: AppStoreModel.Environment) -> Job.ID {
            let scope = LedgerScope(bundleId: "com.example", environment: environment)
            return Job.ID(Job.Kind(rawValue: kind), name, in: scope)
        }
        let storage = try SQLiteLedgerStorage(path: path)
        let ledger = Ledger(storage: storage)
        let cursor = #"""
            {"through":1900000000000,"window":86400000,"succeededAt":1900000001000,"again":[],"refusals":0}
            """#
        let overdue = Timestamp(milliseconds: now.milliseconds - 3 * 3_600_000 - 60_000)
        for job in [
            Job(id("notificationHistory", "", .production), dueAt: now, payload: Array(cursor.utf8)),
            Job(id("notificationHistory", "", .sandbox), dueAt: overdue),
            Job(id("subscriptionStatus", "7", .production), dueAt: overdue, failure: "timedOut: x"),
            Job(id("subscriptionStatus", "8", .production), dueAt: now.advanced(by: .seconds(86_400))),
        ] { try await ledger.add(job, at: now) }
        // As a worker does it that goes on for as long as it may.
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        // From now, since other tests may have had the thread for minutes.
        let end = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)).advanced(by: .seconds(175))
        let leased = try #require(try await ledger.lease(.subscriptionStatus, in: scope, until: end, at: now).first)
        try storage.close()

        let options = ["--database", "sqlite:\(path)"]
        let all = try CommandLineTests.run(["jobs"] + options)
        let read = "read through 2030-03-17T17:46:40Z, last to its end at 2030-03-17T17:46:41Z"
        #expect(all.output.contains(read), "\(all)")
        #expect(all.output.contains("2 notificationHistory, the oldest due since \(overdue.iso8601), 3 h\n"), "\(all)")
        #expect(all.output.contains("2 subscriptionStatus, 1 with a failure, the first due "), "\(all)")
        #expect(all.output.hasPrefix("4 jobs, 1 of them with a failure.\n"), "\(all)")
        let sandbox = try CommandLineTests.run(["jobs", "--environment", "sandbox"] + options)
        #expect(sandbox.output.contains("never read") && sandbox.output.hasPrefix("1 job, 0 of them with a failure.\n"))
        #expect(try CommandLineTests.run(["jobs", "--environment", "xcode"] + options).status == 2)
        let json = try CommandLineTests.run(["jobs", "--json", "--environment", "production"] + options).json
        #expect(json.count == 3)
        let history = json.first { $0["kind"]?.string == "notificationHistory" }
        #expect(history?["readThrough"]?.integer == 1_900_000_000_000)
        #expect(history?["succeededAt"]?.integer == 1_900_000_001_000)
        #expect(json.count { $0["readThrough"] != nil } == 1)

        let retry = ["jobs", "retry", "--kind", "subscriptionStatus"] + options
        let other = try CommandLineTests.run(retry + ["--environment", "sandbox"])
        #expect(other.status == 2 && other.error.contains("no such job"), "\(other)")
        let retried = try CommandLineTests.run(retry)
        #expect(retried.output == "1 job due now. 1 within three minutes anyway, or in work.\n", "\(retried)")
        let reopened = try SQLiteLedgerStorage(path: path)
        defer { try? reopened.close() }
        let after = Ledger(storage: reopened)
        #expect(try await after.job(leased.id) == leased, "the worker finishes it as it was leased")
        #expect(
            try await after.job(id("subscriptionStatus", "8", .production))?.dueAt.milliseconds ?? .max < now
                .milliseconds + 3_600_000)
    }
}
