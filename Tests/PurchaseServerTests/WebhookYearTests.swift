// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import Hummingbird
import Logging
import NIOCore
import PurchaseLedger
import PurchaseServer
import Synchronization
import TestData
import TestProcess
import TestWorld
import Testing

/// Tests `Examples/receiver.py`: from webhooks alone, its table equals the answers of the API, although the
/// receiver fails, and events come again and in another order.
@Suite(.timeLimit(.minutes(60))) struct WebhookYearTests {
    /// Applies the received bodies to the receiver, and compares the tables.
    private static let comparison = """
        import sys
        receiver, follower, tables = Receiver(), Follower(), 0
        for number, line in enumerate(open(sys.argv[1], encoding="utf8")):
            line = json.loads(line)
            if "table" not in line:
                receiver.apply(line)
                continue
            found, tables, follower.given = {}, tables + 1, receiver.given()
            for (customer, name), until in follower.table(line["now"]).items():
                found.setdefault(customer, {})[name] = None if until == math.inf else until
            for customer in sorted(found.keys() | line["table"].keys()):
                if found.get(customer) != line["table"].get(customer):
                    sys.exit(f"line {number}, {line['now']}: {customer} has {line['table'].get(customer)}, "
                             f"and the receiver has {found.get(customer)}")
        print(tables)
        """

    @Test(.takesLong, arguments: Seeds.first(1, soak: 3), [false, true])
    func `a receiver of webhooks alone has the table of the API`(seed: UInt64, isOrdered: Bool) async throws {
        let random = Mutex(SeededRandom(seed: seed &* 2 &+ (isOrdered ? 1 : 0)))
        let folder = try TemporaryFolder()
        try await TestReceiver.run(answering: { _ in
            // Some failed requests were handled all the same.
            let fails = random.withLock { Int.random(in: 0..<5, using: &$0) == 0 }
            return Response(status: fails ? .internalServerError : .noContent)
        }) { receiver, url in
            let lines = try await Self.lines(of: seed, isOrdered, receiver, url)
            try Data(lines.joined(separator: "\n").utf8).write(to: folder.url.appendingPathComponent("lines.jsonl"))
        }
        let examples = ["follower", "receiver"].map { "Examples/\($0).py" }
        let program = try (examples.map(Project.text) + [Self.comparison]).joined(separator: "\n")
        try Data(program.utf8).write(to: folder.url.appendingPathComponent("receiver.py"))
        let outcome = try TestProcess.run(["python3", folder.path("receiver.py"), folder.path("lines.jsonl")])
        #expect(outcome.status == 0, "seed \(seed): \(outcome.error)")
        let tables = Int(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
        #expect(tables >= 5, "seed \(seed)")
    }

    /// The bodies in the order of their arrival, and a table whenever everything was delivered.
    private static func lines(
        of seed: UInt64, _ isOrdered: Bool, _ receiver: TestReceiver, _ url: String
    ) async throws -> [String] {
        var year = try await FollowedYear(
            seed: seed, customers: Seeds.isSoak ? 300 : 40, days: Seeds.isSoak ? 365 : 90,
            steps: Seeds.isSoak ? 6000 : 500)
        let lines = Mutex<[String]>([])
        let taken = Mutex(0)
        let offset = Mutex(Duration.zero)
        var endpoint = WebhookEndpoint(
            id: "webhook", of: RandomHistory.bundleId, url: url, isOrdered: isOrdered, createdAt: RandomWorld.start)
        endpoint.isAsymmetric = true
        let begin = ContinuousClock.now
        let now = { @Sendable in
            RandomWorld.start.advanced(by: begin.duration(to: .now) + offset.withLock { $0 })
        }
        let service = try await year.webhooks(to: endpoint, now: now)
        let delivering = Task { try await service.run() }
        year.onTable = { [ledger = year.ledger, endpoint] events, table in
            // Failed events are due after seconds, minutes and hours: the time of the deliveries jumps to the latest.
            while !events.isSubset(of: receiver.delivered) {
                try await Task.sleep(for: .milliseconds(20))
                let failed = try await ledger.failedDeliveries(
                    of: endpoint.id, of: endpoint.bundleId, setAside: false, limit: FailedDelivery.maxWaiting)
                let wait = failed.compactMap(\.dueAt).max().map { now().duration(to: $0) } ?? .zero
                offset.withLock { $0 += max(.zero, wait) }
            }
            let all = receiver.all
            let start = taken.withLock { taken in
                defer { taken = all.count }
                return taken
            }
            lines.withLock { $0 += all[start...].map(\.json.compactText) + [table] }
        }
        try await year.run()
        delivering.cancel()
        try await delivering.value
        return lines.withLock { $0 }
    }
}
