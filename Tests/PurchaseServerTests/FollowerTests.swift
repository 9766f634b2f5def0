// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import HTTPTypes
import HummingbirdTesting
import Logging
import NIOCore
import PurchaseLedger
import PurchaseServer
import TestData
import TestProcess
import TestWorld
import Testing

/// Tests `Examples/follower.py`: from events alone, its table equals the answers of the API.
@Suite(.timeLimit(.minutes(60))) struct FollowerTests {
    /// Applies the lines of ``FollowedYear`` to the follower, and compares the tables.
    private static let comparison = """
        import sys
        follower, tables = Follower(), 0
        for number, line in enumerate(open(sys.argv[1], encoding="utf8")):
            line = json.loads(line)
            for event in line.get("items", []):
                follower.apply(event)
            if "begin" in line:
                follower = Follower()
                for page in line["begin"]:
                    follower.begin(page)
            if "table" in line:
                found, tables = {}, tables + 1
                for (customer, name), until in follower.table(line["now"]).items():
                    found.setdefault(customer, {})[name] = None if until == math.inf else until
                for customer in sorted(found.keys() | line["table"].keys()):
                    if found.get(customer) != line["table"].get(customer):
                        sys.exit(f"line {number}, {line['now']}: {customer} has {line['table'].get(customer)}, "
                                 f"and the follower has {found.get(customer)}")
        print(tables)
        """

    @Test(.takesLong, arguments: Seeds.first(1, soak: 5))
    func `the follower of the page has the table of the API at every hundredth event`(seed: UInt64) async throws {
        var year = try await FollowedYear.usual(seed: seed)
        try await year.run()
        let outcome = try Self.run(Self.comparison, on: year.lines.joined(separator: "\n"))
        #expect(outcome.status == 0, "seed \(seed): \(outcome.error)")
        #expect(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines) == "\(year.tables)")
        #expect(year.tables >= FollowedYear.usualTables, "\(year.kinds.mapValues(\.count))")
        print("The follower equals \(year.tables) tables of seed \(seed): \(year.kinds.mapValues(\.count))")
    }

    /// Runs the follower, and then Python code with the path of a file that has a text.
    private static func run(_ code: String, on text: String) throws -> TestProcess.Outcome {
        let folder = try TemporaryFolder()
        let program = try Project.text("Examples/follower.py") + "\n" + code
        try Data(program.utf8).write(to: folder.url.appendingPathComponent("follower.py"))
        try Data(text.utf8).write(to: folder.url.appendingPathComponent("input"))
        return try TestProcess.run(["python3", folder.path("follower.py"), folder.path("input")])
    }

    @Test func `with listed testers the follower counts the sandbox for them alone, as the API does`() async throws {
        let app = RandomHistory.bundleId
        let now = RandomWorld.start
        let ledger = Ledger(storage: MemoryLedgerStorage())
        for (customer, environment) in [("anna", .sandbox), ("ben", .sandbox), ("cleo", Environment.production)] {
            let grant = GrantRequest(entitlement: "pro", environment: environment, why: "a test")
            _ = try await ledger.make(grant, forCustomer: customer, of: app, at: now)
        }
        var random = SeededRandom(seed: 1)
        let (key, text) = APIKey.make(name: "follower", role: .server, bundleId: app, at: now, using: &random)
        try await ledger.put(key)
        var service = LedgerService(ledger: ledger, verifier: try RandomHistory.store.get().verifier())
        var configuration = AppConfiguration(AppIdentity(bundleId: app))
        configuration.sandboxAccess = .listed
        configuration.sandboxCustomers = ["anna"]
        service.apps = [app: configuration]
        let server = ServerApplication(ledger: service, requestSeed: 1, now: { now }, logger: Logger(label: "test"))
        let pages = try await checkedApplication(of: server).test(.router) { client in
            var pages: [String] = []
            for path in ["/v1/events", "/v1/customers"] {
                let response = try await client.execute(
                    uri: path, method: .get, headers: [.authorization: "Bearer \(text)"])
                pages.append(String(buffer: response.body))
            }
            return pages
        }
        let outcome = try Self.run(
            """
            import sys
            events, customers = map(json.loads, open(sys.argv[1], encoding="utf8"))
            follower = Follower(testers={"anna"})
            for event in events["items"]:
                follower.apply(event)
            found = {customer for customer, name in follower.table(\(now.milliseconds))}
            answered = {each["ids"][0] for each in customers["items"] if each["entitlements"]}
            print(sorted(found), found == answered)
            """, on: pages.joined(separator: "\n"))
        #expect(outcome.output == "['anna', 'cleo'] True\n", "\(outcome.error)")
    }
}
