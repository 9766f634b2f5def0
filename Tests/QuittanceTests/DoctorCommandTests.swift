// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import LedgerSQLite
import NIOHTTP1
import PurchaseLedger
import PurchaseServer
import TestData
import TestPostgres
import TestProcess
import TestWorld
import Testing

@testable import quittance

/// Tests `quittance doctor` and `quittance serve --check`: each breaks a single thing, and finds it and nothing else.
@Suite(.timeLimit(.minutes(60))) struct DoctorCommandTests {
    private static let issuer = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"

    /// A folder with a ledger, a key and a configuration of which nothing is to be said.
    private final class Shop: Sendable {
        let folder: TemporaryFolder
        let ledger: String
        let configuration: String
        let pem: String

        /// How commands open the ledger.
        let composition: Composition

        init(database: String? = nil) throws {
            folder = try TemporaryFolder()
            pem = try StoreKey(seed: 1).pem
            ledger = database ?? "sqlite:\(folder.path())"
            var settings = ServerConfiguration()
            settings.database = LedgerLocation(ledger)
            composition = Composition(configuration: settings)
            configuration = """
                {"database": "\(ledger)", "erasureJournal": "\(folder.path("erasures"))", "hostname": "127.0.0.1",
                 "webhookSecretFile": "\(folder.path("secret"))", "apps": [
                  {"bundleId": "com.example", "appAppleId": 7, "sharedSecret": "0123456789abcdef0123456789abcdef",
                   "inAppPurchaseKey": {"file": "\(folder.path("SubscriptionKey_ABCDE12345.p8"))",
                    "keyId": "ABCDE12345", "issuerId": "\(DoctorCommandTests.issuer)"},
                   "retention": {"rules": [{"message": "\(DoctorCommandTests.issuer)", "products": ["month"],
                    "promotionalOffer": "spring"}]},
                   "products": {"month": {"entitlements": ["pro"], "clientOffers": ["spring"]}}}]}
                """
            for (name, text) in [
                ("SubscriptionKey_ABCDE12345.p8", pem), ("secret", String(repeating: "s", count: 64)),
                ("quittance.json", configuration),
            ] { try write(text, to: name) }
            if database == nil { try SQLiteLedgerStorage(path: folder.path()).close() }
        }

        func write(_ text: String, to name: String, mode: Int = 0o600) throws {
            _ = try folder.write(text, to: name)
            try setMode(mode, of: name)
        }

        func setMode(_ mode: Int, of name: String) throws {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: folder.path(name))
        }

        /// Replaces a part of the configuration.
        func replace(_ part: String, by other: String) throws {
            try #require(configuration.contains(part))
            try write(configuration.replacing(part, with: other), to: "quittance.json")
        }

        /// Trusts the roots of a simulator, and adds other settings.
        func trustSimulator(_ settings: String = "") throws {
            let roots = try TestStore().writeRoots(to: folder.url).map { #""\#($0)""# }.joined(separator: ", ")
            try replace(#""hostname""#, by: #""roots": [\#(roots)], \#(settings)"hostname""#)
        }

        /// The codes that `serve --check` finds, and its exit status.
        func check(
            _ options: [String] = [], environment: [String: String] = [:]
        ) throws -> (codes: [String], status: Int32) {
            let outcome = try CommandLineTests.run(
                ["serve", "--check", "--config", folder.path("quittance.json")] + options, environment: environment)
            #expect(outcome.error.isEmpty, "\(outcome.error)")
            DoctorCommandTests.expectNoSecret(in: outcome.output, pem)
            return (DoctorCommandTests.codes(in: outcome.output), outcome.status)
        }
    }

    private static let databases = TestPostgres.isThere ? ["file", "database"] : ["file"]

    /// An address of a new, empty database; `nil` for a file.
    private static func address(_ kind: String) throws -> String? {
        guard kind == "database" else { return nil }
        let database = try TestPostgres.database()
        return TestPostgres.uri(database.name, at: [database.server.folder])
    }

    /// A shop whose ledger a server has opened before.
    private static func shop(_ kind: String) async throws -> Shop {
        let shop = try Shop(database: address(kind))
        try await shop.composition.opened(.serving).close()
        return shop
    }

    private static func codes(in text: String) -> [String] {
        text.matches(of: #/(?m)^  (?:fault|hint) ([a-zA-Z]+): /#).map { String($0.1) }.sorted()
    }

    private static func expectNoSecret(in text: String, _ pem: String) {
        let key = pem.split(separator: "\n").dropFirst().first.map(String.init) ?? "?"
        for secret in [key, "0123456789abcdef0123456789abcdef", "ssssssss", "eyJ", "s3cr3t"] {
            #expect(!text.contains(secret), "\(text)")
        }
    }

    // MARK: - The configuration

    /// What is broken, and the code that is found.
    private struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        let kind: FindingKind?
        var options: [String] = []
        var environment: [String: String] = [:]
        let break_: @Sendable (Shop) throws -> Void

        init(
            _ kind: FindingKind?, _ name: String, _ options: [String] = [], environment: [String: String] = [:],
            _ break_: @escaping @Sendable (Shop) throws -> Void = { _ in }
        ) {
            (testDescription, self.kind, self.break_) = (name, kind, break_)
            (self.options, self.environment) = (options, environment)
        }

        /// A part of the configuration in place of another.
        init(_ kind: FindingKind, _ part: String, by other: String) {
            self.init(kind, "\(other.prefix(40)) in place of \(part.prefix(40))") { try $0.replace(part, by: other) }
        }
    }

    private static let cases = [
        Case(nil, "all is well"),
        Case(.configurationInvalid, #""appAppleId": 7,"#, by: #""appAppleID": 7,"#),
        Case(
            .configurationInvalid, #""month": {"entitlements""#,
            by: #""month": {"entitlements": []}, "month": {"entitlements""#),
        Case(.noAppAppleId, "an app has no Apple ID") {
            try $0.write(
                $0.configuration.replacing(
                    #""apps": ["#,
                    with: #""apps": [{"bundleId": "com.example.other", "inAppPurchaseKey": {"file": ""#
                        + $0.folder.path("SubscriptionKey_ABCDE12345.p8")
                        + #"", "keyId": "ABCDE12345", "issuerId": "\#(issuer)"}},"#), to: "quittance.json")
        },
        Case(.noInAppPurchaseKey, "an app has no key") {
            try $0.replace(
                #""apps": ["#, by: #""apps": [{"bundleId": "com.example.other", "appAppleId": 8},"#)
        },
        Case(.keyFileUnusable, "the key is missing") {
            try FileManager.default.removeItem(atPath: $0.folder.path("SubscriptionKey_ABCDE12345.p8"))
        },
        Case(.keyFileUnusable, "others may read the key") {
            try $0.setMode(0o644, of: "SubscriptionKey_ABCDE12345.p8")
        },
        Case(.keyOfOtherKind, "the key is of the App Store Connect API") {
            try $0.write($0.pem, to: "AuthKey_ABCDE12345.p8")
            try $0.replace("SubscriptionKey_ABCDE12345", by: "AuthKey_ABCDE12345")
        },
        Case(.keyNamedOtherwise, #""keyId": "ABCDE12345""#, by: #""keyId": "ABCDE12346""#),
        Case(.webhookSecretFileUnusable, "the secret is short") { try $0.write("s3cr3t", to: "secret") },
        Case(.rootsUnusable, #""hostname""#, by: #""roots": ["/nowhere.pem"], "hostname""#),
        Case(.appStoreInsecure, #""hostname""#, by: #""appStoreServer": "http://192.0.2.1:9001", "hostname""#),
        Case(.productOfTwoApps, "a product is in two apps") {
            try $0.replace(
                #""apps": ["#,
                by: #""apps": [{"bundleId": "com.example.other", "appAppleId": 8, "inAppPurchaseKey": {"file": ""#
                    + $0.folder.path("SubscriptionKey_ABCDE12345.p8")
                    + #"", "keyId": "ABCDE12345", "issuerId": "\#(issuer)"}, "products": {"month": {}}},"#)
        },
        Case(.unknownProduct, #""promotionalOffer": "spring""#, by: #""alternateProduct": "yaer""#),
        Case(.unknownOffer, #""promotionalOffer": "spring""#, by: #""promotionalOffer": "spirng""#),
        Case(.openToAll, #""hostname": "127.0.0.1""#, by: #""hostname": "0.0.0.0""#),
        Case(.configurationExposed, "others may read the configuration") {
            try $0.setMode(0o644, of: "quittance.json")
        },
        Case(
            .kubernetesVariables, "a service of Kubernetes is called quittance",
            environment: ["QUITTANCE_PORT": "tcp://10.0.0.1:8080"]),
        Case(.simulatorTrusted, "the roots are a simulator's") { try $0.trustSimulator() },
        Case(.simulatorClockSilent, "the simulator is away") {
            try $0.trustSimulator(#""simulatorClock": "http://127.0.0.1:1", "#)
        },
        Case(.erasuresLost, "the journal is no journal") { try $0.write("quittance-erasures 2 x y\n", to: "erasures") },
    ]

    private static let casesOfFile = [
        Case(.ledgerNotCurrent, "there is no ledger yet") {
            try FileManager.default.removeItem(atPath: $0.folder.path())
        },
        Case(.ledgerUnusable, "the file is no ledger") { try $0.write("no ledger", to: "ledger.sqlite") },
        Case(.ledgerExposed, "others may read the ledger") { try $0.setMode(0o644, of: "ledger.sqlite") },
        Case(.ledgerConcern, "a damaged log lies beside the ledger") {
            try $0.write("", to: "ledger.sqlite-wal-damaged-1")
        },
    ]

    @Test(.takesLong, arguments: casesOfFile)
    private func `what is broken in a file is found, and nothing else`(_ one: Case) throws {
        try expectFound(one, in: Shop())
    }

    @Test(.takesLong, arguments: cases, databases)
    private func `what is broken is found, and nothing else`(_ one: Case, kind: String) async throws {
        try await expectFound(one, in: Self.shop(kind))
    }

    private func expectFound(_ one: Case, in shop: Shop) throws {
        try one.break_(shop)
        // SQLite may leave an empty log and its index.
        func contents() throws -> [String: Data] {
            try shop.folder.contents().filter { !$0.key.hasSuffix("-shm") && !$0.value.isEmpty }
        }
        let before = try contents()
        let (codes, status) = try shop.check(one.options, environment: one.environment)
        let simulated: [FindingKind] = one.kind == .simulatorClockSilent ? [.simulatorTrusted] : []
        #expect(
            codes.filter { $0 != "databaseSettings" }
                == (simulated + [one.kind].compactMap(\.self)).map(\.rawValue).sorted())
        #expect(status == (one.kind?.level == .fault ? 1 : 0))
        #expect(try contents() == before)
    }

    @Test func `offers that nothing signs are found, and a server without a ledger`() throws {
        let shop = try Shop()
        try shop.write(
            #"{"apps": [{"bundleId": "a", "appAppleId": 7, "products": {"m": {"clientOffers": ["x"]}}}]}"#,
            to: "quittance.json")
        let offers = try shop.check(["--database", "sqlite:\(shop.folder.path())"])
        #expect(offers.codes == ["noInAppPurchaseKey", "offerWithoutKey"] && offers.status == 0)
        let none = try CommandLineTests.run(["serve", "--check"])
        #expect(Self.codes(in: none.output) == ["noLedger"] && none.status == 0, "\(none)")
    }

    @Test(arguments: databases) func `half a copy and a ledger of other roots are faults`(kind: String) async throws {
        let (half, other) = (try Shop(database: Self.address(kind)), try Shop(database: Self.address(kind)))
        let store = try TestStore()
        let target = try await half.composition.opened(.copyingInto)
        try await target.note(UnfinishedCopy(source: "sqlite:/old.sqlite", beganAt: TestStore.start))
        try target.close()
        #expect(try half.check() == (["unfinishedCopy"], 1))
        let storage = try await other.composition.opened(.serving)
        let document = try await store.verifier().evidence(
            transaction: store.sign(TestStore.transaction("1")), at: TestStore.start)
        _ = try await Ledger(storage: storage).record([document], at: TestStore.start)
        try storage.close()
        // The PostgreSQL of the tests has fsync off.
        #expect(try other.check() == ((kind == "file" ? [] : ["databaseSettings"]) + ["otherRoots"], 1))
    }

    /// A small disk, what lies on it, and what is found.
    private struct Disk: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let kind: FindingKind
        let cure: String
        /// The file that moves to the disk.
        let name: String
        /// What a shell does: the disk is `$1`.
        let script: String

        static let all = [
            Disk(
                testDescription: "a full disk of the ledger", kind: .diskFull, cure: "no purchase is recorded.",
                name: "ledger.sqlite", script: #"mount -t tmpfs -o size=8m none "$1" && cp -p "$2" "$1""#),
            Disk(
                testDescription: "a full disk of the journal", kind: .diskFull, cure: "no customer can be deleted.",
                name: "erasures", script: #"mount -t tmpfs -o size=16k none "$1" && touch "$1/erasures""#),
            Disk(
                testDescription: "a journal on a disk without writes", kind: .notWritable,
                cure: ", or mount it writable.", name: "erasures",
                script: #"mount -t tmpfs none "$1" && touch "$1/erasures" && mount -o remount,ro "$1""#),
        ]
    }

    @Test(
        .enabled(if: TestMount.isPossible, "This user cannot mount a disk"), arguments: Disk.all, databases)
    private func `a disk that is full or without writes is found, and nothing else`(
        disk: Disk, kind: String
    ) async throws {
        guard kind == "file" || disk.name == "erasures" else { return }
        let shop = try await Self.shop(kind)
        let folder = shop.folder.path("disk")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try shop.replace(shop.folder.path(disk.name), by: "\(folder)/\(disk.name)")
        let outcome = try TestProcess.run([
            "unshare", "--mount", "sh", "-c", disk.script + #" && exec "$0" serve --check --config "$3""#,
            CommandLineTests.program.path, folder, shop.folder.path(disk.name), shop.folder.path("quittance.json"),
        ])
        #expect(outcome.status == 1)
        #expect(
            Self.codes(in: outcome.output).filter { $0 != "databaseSettings" } == [disk.kind.rawValue], "\(outcome)")
        #expect(outcome.output.contains(disk.cure), "\(outcome)")
    }

    @Test func `a fault of the journal of erasures has one cure, which is of the journal`() throws {
        let shop = try Shop()
        try shop.write("no journal\n", to: "erasures")
        let check = ["serve", "--check", "--config", shop.folder.path("quittance.json")]
        let other = try CommandLineTests.run(check).output
        #expect(Self.codes(in: other) == ["erasuresLost"] && other.contains("    Stop the server before"), "\(other)")
        try shop.replace(shop.folder.path("erasures"), by: shop.folder.path("none/erasures"))
        let none = try CommandLineTests.run(check).output
        #expect(Self.codes(in: none) == ["notWritable"] && none.contains("    Create the folder, or cor"), "\(none)")
    }

    @Test(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `faults of a ledger in a database are found`() throws {
        let database = try TestPostgres.database()
        let shop = try Shop(database: TestPostgres.uri(database.name, at: [database.server.folder]))
        #expect(try shop.check() == (["ledgerNotCurrent"], 0))
        #expect(try CommandLineTests.run(["migrate", "--config", shop.folder.path("quittance.json")]).status == 0)
        // The PostgreSQL of the tests has fsync off.
        #expect(try shop.check() == (["databaseSettings"], 0))
        try database.psql("ALTER DATABASE \(database.name) SET default_transaction_read_only = on")
        #expect(try shop.check() == (["databaseSettings", "notWritable"], 1))
        try database.server.psql("postgres", "ALTER DATABASE \(database.name) RESET default_transaction_read_only")
        try database.psql("ALTER DATABASE \(database.name) SET synchronous_commit = off")
        #expect(try shop.check() == (["databaseSettings", "databaseSettings"], 0))
        try shop.write("no journal\n", to: "erasures")
        #expect(try shop.check() == (["databaseSettings", "databaseSettings", "erasuresLost"], 1))
        try shop.replace(#""erasureJournal": "\#(shop.folder.path("erasures"))", "#, by: "")
        #expect(try shop.check().codes == ["databaseSettings", "databaseSettings", "noErasureJournal"])
        try shop.replace(database.name, by: "nowhere")
        #expect(try shop.check() == (["ledgerUnusable"], 1))
    }

    // MARK: - A running server

    /// A simulated App Store, which notifies a server, and that server.
    private struct Running {
        let folder: TemporaryFolder
        let simulator: SimulatorProcess
        let server: ServerProcess

        init(database: String? = nil) async throws {
            folder = try TemporaryFolder()
            let (port, health) = (TestPort.unused(), TestPort.unused())
            let notify = "http://127.0.0.1:\(port)/notifications/v2"
            simulator = try await SimulatorProcess(
                ["--kind", "--speed", "0", "--notify", notify, "--sandbox-notify", notify], in: folder.url)
            let (folder, simulator) = (folder, simulator)
            func text(_ name: String) -> String { #""\#(simulator.fact(name))""# }
            let configuration = """
                {"database": "\(database ?? "sqlite:\(folder.path())")", "port": \(port), "healthPort": \(health),
                 "erasureJournal": "\(folder.path("erasures"))", "roots": [\(text("rootsFile"))],
                 "simulatorClock": \(text("control")), "appStoreServer": \(text("production")),
                 "sandboxAppStoreServer": \(text("sandbox")),
                 "apps": [{"bundleId": \(text("bundleId")), "appAppleId": \(simulator.fact("appAppleId")),
                  "inAppPurchaseKey": {"file": \(text("keyFile")), "keyId": \(text("keyId")),
                   "issuerId": \(text("issuerId"))},
                  "products": {"com.example.notes.pro.monthly": {"entitlements": ["pro"]}}}]}
                """
            let file = try folder.write(configuration, to: "quittance.json")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
            server = try await ServerProcess(
                ["--config", file.path, "--port", "\(port)"], in: folder.url,
                environment: ["QUITTANCE_HEALTH_PORT": "\(health)"])
            try await simulator.command("/customers", #"{"name": "anna"}"#)
            try await simulator.command(
                "/customers/anna/buy", #"{"product": "com.example.notes.pro.monthly"}"#)
            while try await server.send(.GET, "/health/ready").json["lastNotificationAccepted"]?.integer == nil {
                try await Task.sleep(for: .milliseconds(20))
            }
        }

        func doctor(_ more: [String] = []) throws -> (codes: [String], answer: JSONValue) {
            let outcome = try CommandLineTests.run(
                ["doctor", "--json", "--config", folder.path("quittance.json")] + more)
            let answer = try #require(try outcome.json.first, "\(outcome)")
            let hasFaults = answer["faults"] != .number("0")
            #expect(outcome.error.isEmpty == !more.contains("--loop"), "\(outcome)")
            #expect(outcome.status == (hasFaults ? 1 : 0), "\(outcome)")
            let pem = try String(contentsOfFile: simulator.fact("keyFile"), encoding: .utf8)
            DoctorCommandTests.expectNoSecret(in: outcome.output, pem)
            let codes = (answer["findings"]?.array ?? []).compactMap { $0["code"]?.string }
            // The PostgreSQL of the tests has fsync off.
            return (codes.filter { !["simulatorTrusted", "databaseSettings"].contains($0) }.sorted(), answer)
        }
    }

    @Test(.takesLong, arguments: databases)
    func `all is well with a server that the App Store reaches, and a doctor under load changes nothing`(
        kind: String
    ) async throws {
        let running = try await Running(database: Self.address(kind))
        let address = "http://127.0.0.1:\(running.server.port)"
        let whole = try running.doctor(["--loop", "--public", address])
        #expect(whole.codes == [] && whole.answer["notLookedAt"]?.array == [], "\(whole.answer.compactText)")
        #expect(try running.doctor(["--server", address]).codes == [])
        let files = try FileManager.default.contentsOfDirectory(atPath: running.folder.url.path).sorted()
        // A short form of 200 times under load.
        let load = Task {
            for number in 0... {
                try Task.checkCancellation()
                try await running.simulator.command("/customers", #"{"name": "c\#(number)"}"#)
                try await running.simulator.command(
                    "/customers/c\(number)/buy", #"{"product": "com.example.notes.pro.monthly"}"#)
            }
        }
        for _ in 0..<5 { #expect(try await aside { try running.doctor(["--public", address]).codes } == []) }
        load.cancel()
        _ = await load.result
        #expect(try FileManager.default.contentsOfDirectory(atPath: running.folder.url.path).sorted() == files)
        #expect(try await running.server.send(.GET, "/health/ready").status == 200)
        #expect(running.server.terminate() == 0)
        #expect(running.simulator.terminate() == 0)
    }

    @Test(.takesLong, arguments: databases)
    func `a server that is away, other, or behind another address is found`(kind: String) async throws {
        let running = try await Running(database: Self.address(kind))
        let address = "http://127.0.0.1:\(running.server.port)"
        #expect(try running.doctor(["--server", "http://127.0.0.1:1"]).codes == ["serverSilent"])
        #expect(try running.doctor(["--server", running.simulator.fact("control")]).codes == ["serverSilent"])
        let other = try running.doctor(["--environment", "sandbox"])
        #expect(other.codes == ["otherConfiguration"])
        let sentence = other.answer["findings"]?.array?.compactMap { $0["found"]?.string } ?? []
        #expect(sentence.contains { $0.hasSuffix("has other values: environment.") }, "\(sentence)")
        let second = try await Running(database: Self.address(kind))
        let foreign = "http://127.0.0.1:\(second.server.port)"
        for address in ["http://127.0.0.1:1", running.simulator.fact("control"), foreign] {
            #expect(try running.doctor(["--public", address]).codes == ["publicAddress"])
        }
        #expect(second.server.terminate() == 0)
        #expect(second.simulator.terminate() == 0)
        #expect(try running.doctor(["--public", address + "/notifications/v2"]).codes == [])
        if kind == "file" {
            _ = try running.folder.write("", to: "ledger.sqlite-wal-damaged-1")
            #expect(try running.doctor().codes == ["ledgerConcern"])
        }
        #expect(running.server.terminate() == 0)
        #expect(try running.doctor().codes.contains("serverSilent"))
        #expect(running.simulator.terminate() == 0)
    }

    @Test(
        .enabled(if: PackagingScript.isRunnable, "needs python3"),
        arguments: [
            (
                503, "0.0.0", #"{"error": {"code": "storageUnavailable", "message": "The disk is full."}}"#,
                ["otherVersion", "serverNotReady"]
            ),
            (
                200, ServerApplication.version, #"{"status": "ready", "concern": "The clock is doubtful."}"#,
                ["serverConcern"]
            ),
        ], databases)
    func `a server that is not ready, of another version, or with a concern is found`(
        answer: (status: Int, version: String, body: String, codes: [String]), kind: String
    ) async throws {
        let (shop, port) = (try await Self.shop(kind), TestPort.unused())
        let script = """
            import http.server, sys
            class Answer(http.server.BaseHTTPRequestHandler):
                def version_string(self): return "quittance/" + sys.argv[3]
                def log_message(self, *_): pass
                def do_GET(self):
                    self.send_response(int(sys.argv[2]))
                    self.end_headers()
                    self.wfile.write(sys.argv[4].encode())
            http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
            """
        let stub = try TestProcess([
            "python3", "-c", script, "\(port)", "\(answer.status)", answer.version, answer.body,
        ])
        defer { stub.send(SIGKILL) }
        let arguments = [
            "doctor", "--json", "--bundle-id", "com.example", "--database", shop.ledger, "--server",
            "http://127.0.0.1:\(port)",
        ]
        var found: Set<String> = ["serverSilent"]
        while found.contains("serverSilent") {
            let report = try #require(try CommandLineTests.run(arguments).json.first)
            found = Set((report["findings"]?.array ?? []).compactMap { $0["code"]?.string })
        }
        // Only a configuration has a journal of erasures for a database.
        let others = kind == "file" ? [] : ["databaseSettings", "noErasureJournal"]
        #expect(found == Set(answer.codes + others + ["noAppAppleId", "noInAppPurchaseKey", "noNotification"]))
    }

    @Test func `what could not be looked at is said, and wrong usage is not a fault`() throws {
        let shop = try Shop()
        try shop.replace(#""hostname""#, by: #""hostnam""#)
        let outcome = try CommandLineTests.run(["doctor", "--config", shop.folder.path("quittance.json")])
        #expect(outcome.status == 1 && Self.codes(in: outcome.output) == ["configurationInvalid"], "\(outcome)")
        #expect(outcome.output.contains("ledger\n  not looked at: The configuration is wrong."), "\(outcome)")
        #expect(outcome.output.hasSuffix("1 fault, 0 hints.\n"))
        for wrong in [["--server", "x"], ["--public", "http://a?b"], ["--moon"]] {
            #expect(try CommandLineTests.run(["doctor"] + wrong).status == 2)
        }
    }
}
