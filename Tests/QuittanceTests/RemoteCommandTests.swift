// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests commands that work on a running server with a key, from a machine that has nothing else.
@Suite(.timeLimit(.minutes(60))) struct RemoteCommandTests {
    /// Lets `body` use a ledger, and a server with a copy of it. `options` are those of a command with a new key.
    private static func withServer(
        _ body: (_ shop: SupportCommandTests.Shop, _ options: (_ role: String, _ app: String) throws -> [String])
            async throws -> Void
    ) async throws {
        let (shop, keys) = (try SupportCommandTests.Shop(), try TemporaryFolder())
        try await shop.fill()
        try await shop.record([TestStore.transaction("410000000000061")], claimedBy: "bert")
        try await shop.ledger { ledger in
            for alias in ["an.old@example.com", "bert"] {
                let scope = LedgerScope(bundleId: "com.example", environment: .production)
                _ = try await ledger.addAlias(alias, to: "anna", in: scope, at: TestStore.start)
            }
        }
        let copy = shop.folder.path("server.sqlite")
        try FileManager.default.copyItem(atPath: shop.path, toPath: copy)
        let database = ["--database", "sqlite:\(copy)"]
        let server = try await ServerProcess(["--config", shop.config] + database, in: shop.folder.url)
        defer { server.kill() }
        try await body(shop) { role, app in
            let key = try CommandLineTests.key(["--bundle-id", app] + database, role: role)
            let file = try keys.write(key, to: "\(role) \(app)").path
            return ["--server", "http://127.0.0.1:\(server.port)", "--key-file", file]
        }
    }

    /// Commands, with a part of what they print.
    private static let known = [
        ("customer get anna", #""ids":["anna","#), ("customer entitlement anna pro", "pro  isActive"),
        ("customer entitlement anna silver", "no entitlement of this name"), ("purchases subscription 1", "stale"),
        ("customer show 410000000000061 --json", #""ids":["anna""#), ("customer show MV5G8XK2PQ", "inAppPurchaseKey"),
        ("customer show nobody", "names no customer"), ("customer attributes annna", "Did you mean “anna”?"),
        ("customer consent anna --customer-consented", "consentedAt 20"), ("grants list annna --json", "Did you mean"),
        ("customer move 2 --to annna --reason x", "Did you mean “anna”? --new makes"),
        ("customer move 2 --to cora --to dora --new --reason x", "1  owners: cora, dora  not denied\n"),
        ("customer show dora --json", #""transactionId":"2""#), ("purchases deny 99 --reason x", "is not known"),
        ("grants make annna --entitlement pro --forever --why w", "Did you mean “anna”?"),
        ("grants make anna --entitlement pro --why w", "A grant needs either "),
        ("purchases deny 4 --reason x", "4  owners: anna  denied since "), ("customer show anna", "by the operator"),
        ("purchases allow 4 --reason x", "4  owners: anna  not denied\n"), ("purchases deny 5 --reason x", "not known"),
        ("purchases deny 5 --environment sandbox --reason x", "5  owners: anna  denied since "),
        ("customer unlink anna --alias anna --reason x", "first id"),
        ("customer unlink nobody --alias x --reason x", "“nobody” names no customer"),
        ("customer unmerge anna --reason x", "No merge that the ledger knows"),
        ("grants list 410000000000061", "It names the transaction 410000000000061 of com.example in Production."),
        ("grants list ANNA", "Did you mean “anna”?"), ("purchases evidence x", "A document's name is"),
    ]

    /// These commands, and those of the page that work on a server. The audit list says who asked, which differs.
    private static func commands() throws -> [(words: [String], part: String)] {
        let found = try Project.text("docs/support.md").matches(of: /(?m)(?:^|`)quittance ([^`\n]+)/)
            .map { String($0.1) }
        let local = /products|jobs|events|watch|doctor|audit/
        let others = found.filter { $0.prefixMatch(of: local) == nil }.map { ($0, "") }
        return (known + others).map { command, part in
            let line = command.replacing(" --config quittance.json", with: "")
            let words = line.matches(of: /'([^']*)'|[^ ]+/).map { String($0.1 ?? $0.0) }
            return (words + (line.hasPrefix("customer delete") ? ["--yes"] : []), part)
        }
    }

    @Test(.takesLong) func `each command of docs/support.md prints with --server what it prints on the ledger`()
        async throws
    {
        try await Self.withServer { shop, options in
            let remote = try options("server", "com.example")
            /// Without what differs from run to run, and the id of the key that made a grant.
            func constant(_ text: String) -> String {
                text.replacing(/\d{4}-\d\d-\d\dT[\d:.]+Z|\d\d:\d\d UTC|[0-9a-f-]{16,}|\d{13}/, with: "…")
                    .replacing(#/  key [0-9a-z]{8}(?=\n|$)/#, with: "")
            }
            var done = 0
            for (words, part) in try Self.commands() {
                let here = try shop.run(words + ["--bundle-id", "com.example"])
                let there = try CommandLineTests.run(words + remote)
                let text = here.status == 0 ? here.output : here.error
                #expect(part.isEmpty || text.contains(part), "\(words): \(here)")
                #expect(constant(here.output) == constant(there.output), "\(words)")
                #expect(constant(here.error) == constant(there.error), "\(words)")
                #expect(here.status == there.status && here.status < 3, "\(words)")
                done += here.status == 0 ? 1 : 0
            }
            #expect(done > 12)
        }
    }

    @Test(.takesLong) func `a lesser key, one of another app, a revoked one and a server that is away are said`()
        async throws
    {
        try await Self.withServer { shop, options in
            let list = ["grants", "list", "anna"]
            let away = ["--server", "http://127.0.0.1:1"]
            let server = try options("server", "com.example")
            for (arguments, status, message) in [
                (list + (try options("client", "com.example")), 1, "This route needs a read, support or server key"),
                (list + (try options("server", "com.third")), 1, "an app that is not in the server's configuration"),
                (list + away + server.suffix(2), 2, "127.0.0.1:1 does not answer"), (list + away, 2, "--key-file"),
                (list + server + ["--bundle-id", "com.example"], 2, "the key has an app"),
                (list + server.suffix(2), 2, "--key-file needs --server"),
            ] as [([String], Int32, String)] {
                let outcome = try CommandLineTests.run(arguments)
                #expect(outcome.status == status && outcome.error.contains(message), "\(outcome)")
            }
            let client = try CommandLineTests.run(["customer", "get", "anna"] + options("client", "com.example"))
            #expect(client.status == 0 && client.output.contains(#""id":"anna""#), "\(client)")
            let other = try CommandLineTests.run(["customer", "show", "anna"] + options("server", "com.example.other"))
            #expect(other.output.contains("The customer anna of com.example.other\n"), "\(other)")
            let key = try String(contentsOfFile: server[3], encoding: .utf8)
            let database = ["--database", "sqlite:\(shop.folder.path("server.sqlite"))"]
            #expect(try CommandLineTests.run(["keys", "revoke", key] + database).status == 0)
            var revoked = try CommandLineTests.run(list + server)
            while revoked.status == 0 { revoked = try CommandLineTests.run(list + server) }
            #expect(revoked.status == 1 && revoked.error.contains("was revoked"), "\(revoked)")
        }
    }
}
