// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestData
import TestProcess
import TestWorld
import Testing

/// Tests the follower of `docs/events.md`: from events alone, its table equals the answers of the API.
@Suite(.timeLimit(.minutes(60))) struct FollowerTests {
    private static let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("docs/events.md")

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

    @Test(arguments: Seeds.first(1, soak: 5))
    func `the follower of the page has the table of the API at every hundredth event`(seed: UInt64) async throws {
        var year = try await FollowedYear(
            seed: seed, customers: Seeds.isSoak ? 300 : 60, days: Seeds.isSoak ? 365 : 120,
            steps: Seeds.isSoak ? 6000 : 900)
        try await year.run()
        let folder = try TemporaryFolder()
        let code = try String(contentsOf: Self.page, encoding: .utf8)
        let start = try #require(code.range(of: "```python\n"))
        let end = try #require(code.range(of: "```", range: start.upperBound..<code.endIndex))
        let program = code[start.upperBound..<end.lowerBound] + "\n" + Self.comparison
        try Data(program.utf8).write(to: folder.url.appendingPathComponent("follower.py"))
        try Data(year.lines.joined(separator: "\n").utf8).write(to: folder.url.appendingPathComponent("year.jsonl"))
        let outcome = try TestProcess.run(["python3", folder.path("follower.py"), folder.path("year.jsonl")])
        #expect(outcome.status == 0, "seed \(seed): \(outcome.error)")
        #expect(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines) == "\(year.tables)")
        #expect(year.tables >= 10, "\(year.kinds.mapValues(\.count))")
        print("The follower equals \(year.tables) tables of seed \(seed): \(year.kinds.mapValues(\.count))")
    }
}
