// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import Foundation
import PurchaseServer
import TestData
import TestProcess
import TestWorld
import Testing

/// The signatures of webhooks, judged by foreign code: by the reference library of Standard Webhooks, by Python's
/// `cryptography`, and by the examples of `docs/webhooks.md`, which are also tested here.
@Suite(.timeLimit(.minutes(60))) struct WebhookJudgeTests {
    private static let file = Array("0123456789abcdef0123456789abcdef".utf8)

    private static func now() -> Timestamp {
        Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }

    // MARK: - Secrets

    @Test
    func `secrets differ by file, endpoint and generation, and white space at the end of the file does not count`()
        throws
    {
        let secrets = try WebhookSecrets(file: Self.file)
        let other = try WebhookSecrets(file: Self.file.reversed())
        let all = [
            secrets.secret(of: "a", generation: 1), secrets.secret(of: "a", generation: 2),
            secrets.secret(of: "b", generation: 1), secrets.secret(of: "a", generation: 11),
            other.secret(of: "a", generation: 1),
        ]
        #expect(Set(all.map(\.text)).count == all.count && Set(all.map(\.publicKey)).count == all.count)
        #expect(secrets.fingerprint != other.fingerprint)
        let same = try WebhookSecrets(file: Self.file + Array(" \t\r\n\n".utf8))
        #expect(same.fingerprint == secrets.fingerprint)
        #expect(same.secret(of: "a", generation: 1).text == all[0].text)
    }

    @Test(arguments: [(0, "\n"), (31, ""), (31, "\n\n\n"), (32, ""), (1000, "\n")])
    func `a file of fewer than 32 bytes is refused`(count: Int, end: String) {
        let bytes = Array(repeating: UInt8(ascii: "x"), count: count) + Array(end.utf8)
        #expect(((try? WebhookSecrets(file: bytes)) != nil) == (count >= 32))
        if count < 32 {
            let error = #expect(throws: WebhookSecretsError.self) { try WebhookSecrets(file: bytes) }
            #expect(error?.description.hasPrefix("The file has \(count) bytes, and needs at least 32.") == true)
        }
    }

    @Test func `a secret file that others can read, and one that is no secret, are refused without its content`() throws
    {
        let folder = try TemporaryFolder()
        let path = folder.path("secret")
        func error(_ text: String, mode: Int) throws -> String? {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            do {
                _ = try WebhookSecrets.read(path)
                return nil
            } catch { return error.description }
        }
        let text = String(repeating: "secret", count: 8)
        #expect(try error(text, mode: 0o600) == nil)
        #expect(try error(text, mode: 0o440) == nil)
        let open = try error(text, mode: 0o644)
        #expect(open?.hasPrefix(path) == true && open?.contains("chmod o=") == true && open?.contains(text) == false)
        #expect(try error("secret", mode: 0o600)?.contains("openssl rand -base64 48") == true)
        #expect(try error(String(repeating: "x", count: 16_385), mode: 0o600)?.contains("too long") == true)
        #expect(throws: KeyFileError.self) { try WebhookSecrets.read(path + ".none") }
    }

    @Test(arguments: [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true), ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false),
        ("whsec_", false),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", false), ("whsec_YQ==", false),
        ("whsec_" + Data(count: 24).base64EncodedString(), true),
        ("whsec_" + Data(count: 23).base64EncodedString(), false),
        ("whsec_" + Data(count: 64).base64EncodedString(), true),
        ("whsec_" + Data(count: 65).base64EncodedString(), false),
        ("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false),
    ])
    func `a secret as text has its prefix and 24 to 64 bytes in base64`(text: String, isSecret: Bool) {
        #expect(WebhookSecret(text: text)?.text == (isSecret ? text : nil))
    }

    @Test func `the timestamp has whole seconds, rounded down`() {
        for (milliseconds, seconds) in [(1_999, 1), (2_000, 2), (0, 0), (-1, -1), (-1000, -1), (-1001, -2)] {
            #expect(Timestamp(milliseconds: Int64(milliseconds)).webhookSeconds == Int64(seconds))
        }
    }

    // MARK: - Judges

    /// A receiver that prints, for each request, the judgements of all judges as a line of JSON. It answers 204.
    private static let receiver = """
        import base64, http.server, json, sys
        import library, by_hand, asymmetric
        from standardwebhooks import Webhook
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        def derive(kind, generation, endpoint):
            info = f"{kind}/{generation}/{endpoint}".encode()
            return HKDF(hashes.SHA256(), 32, b"quittance webhooks", info).derive(FILE)

        FILE = sys.argv[1].encode()
        GENERATIONS = [1, 2]
        secrets = ["whsec_" + base64.b64encode(derive("v1", each, "abc")).decode() for each in GENERATIONS]
        keys = ["whpk_" + base64.b64encode(
            Ed25519PrivateKey.from_private_bytes(derive("v1a", each, "abc")).public_key()
            .public_bytes(Encoding.Raw, PublicFormat.Raw)).decode() for each in GENERATIONS]

        def holds(judge, *arguments):
            try:
                return judge(*arguments) or True
            except Exception as error:
                return f"{type(error).__name__}"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                print(json.dumps({
                    "id": headers["webhook-id"], "timestamp": headers["webhook-timestamp"],
                    "signature": headers["webhook-signature"], "body": body.decode(),
                    "reference": [holds(Webhook(each).verify, body, headers) for each in secrets],
                    "library": [holds(library.event, each, body, headers) for each in secrets],
                    "byHand": [holds(by_hand.event, each, body, headers) for each in secrets],
                    "asymmetric": [holds(asymmetric.verify, each, body, headers) for each in keys]}), flush=True)
                self.send_response(204)
                self.end_headers()
            def log_message(self, *arguments): pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        print(json.dumps({"port": server.server_port, "secrets": secrets, "keys": keys}), flush=True)
        server.serve_forever()
        """

    /// The blocks of a language on the page, in order.
    private static func blocks(_ language: String) throws -> [String] {
        try Project.code(language, in: "docs/webhooks.md")
    }

    @Test(.takesLong)
    func `a Python receiver verifies all signatures, also of two secrets, and no changed request`() async throws {
        let folder = try TemporaryFolder()
        for (name, code) in try zip(["library", "by_hand", "asymmetric"], Self.blocks("python")) {
            try Data(code.utf8).write(to: folder.url.appendingPathComponent("\(name).py"))
        }
        try Data(Self.receiver.utf8).write(to: folder.url.appendingPathComponent("judge.py"))
        let process = try TestProcess(
            [TestPython.path(), "judge.py", String(decoding: Self.file, as: UTF8.self)], in: folder.url, output: .pipe)
        defer {
            process.send(SIGKILL)
            process.wait()
        }
        func line() async throws -> JSONValue {
            try JSONValue(parsing: await TestLines.first(of: process.output).utf8)
        }
        let start = try await line()
        let secrets = try WebhookSecrets(file: Self.file)
        let (old, new) = (secrets.secret(of: "abc", generation: 1), secrets.secret(of: "abc", generation: 2))
        // The judge derives the secrets itself, from RFC 5869.
        #expect(start["secrets"]?.array?.map(\.string) == [old.text, new.text])
        #expect(start["keys"]?.array?.map(\.string) == [old.publicKey, new.publicKey])

        let networks = ["127.0.0.1"].compactMap { IPNetwork($0) }
        let sender = WebhookSender(networks: networks, clock: ContinuousClock(), limit: .seconds(3600))
        let port = try #require(start["port"]?.integer)
        let url = try WebhookURL("http://127.0.0.1:\(port)/", allowing: networks)
        /// Sends a message, and returns for each judge the secrets or keys by which the message is genuine.
        func judge(_ message: WebhookMessage) async throws -> [String: [Bool]] {
            #expect(await sender.send(message, to: url, of: "abc").failure == nil)
            let line = try await line()
            #expect(line["id"]?.string == message.id && line["body"]?.string.map { Array($0.utf8) } == message.body)
            #expect(line["timestamp"]?.string == "\(message.timestamp.milliseconds / 1000)")
            let names = ["reference", "library", "byHand", "asymmetric"]
            let judgements = names.map { name in line[name]?.array?.map { $0.string == nil } ?? [] }
            return Dictionary(uniqueKeysWithValues: zip(names, judgements))
        }
        func expected(_ symmetric: [Bool], _ asymmetric: [Bool]) -> [String: [Bool]] {
            ["reference": symmetric, "library": symmetric, "byHand": symmetric, "asymmetric": asymmetric]
        }
        let body = Array(#"{"id":"7.e1","kind":"grant.made","detail":"Ä 😀 \u2028 /"}"#.utf8)
        func message(_ secrets: [WebhookSecret], isAsymmetric: Bool, at now: Timestamp) -> WebhookMessage {
            WebhookMessage(id: "7.e1", body: body, at: now, signedBy: secrets, isAsymmetric: isAsymmetric)
        }
        #expect(
            try await judge(message([old], isAsymmetric: false, at: Self.now()))
                == expected([true, false], [false, false]))
        #expect(
            try await judge(message([old], isAsymmetric: true, at: Self.now()))
                == expected([true, false], [true, false]))
        // During a rotation both secrets sign.
        #expect(
            try await judge(message([new, old], isAsymmetric: true, at: Self.now()))
                == expected([true, true], [true, true]))
        #expect(
            try await judge(message([new, old], isAsymmetric: false, at: Self.now()))
                == expected([true, true], [false, false]))
        var changed = message([new, old], isAsymmetric: true, at: Self.now())
        changed.body[2] ^= 1
        #expect(try await judge(changed) == expected([false, false], [false, false]))
        changed = message([new, old], isAsymmetric: true, at: Self.now())
        changed.id = "8.e1"
        #expect(try await judge(changed) == expected([false, false], [false, false]))
        // The example of `v1a` leaves the time to the reader.
        let early = message([new, old], isAsymmetric: true, at: Self.now().advanced(by: .seconds(-310)))
        #expect(try await judge(early) == expected([false, false], [true, true]))
        sender.shutdown()
    }

    @Test(.enabled(if: (try? TestProcess.run(["node", "--version"]))?.status == 0, "there is no node"))
    func `the Node example verifies requests, and refuses changed and old ones`() throws {
        let secret = try WebhookSecrets(file: Self.file).secret(of: "abc", generation: 1)
        let other = try WebhookSecrets(file: Self.file).secret(of: "abc", generation: 2)
        let body = Array(#"{"id":"7.e1","detail":"Ä 😀"}"#.utf8)
        let code = try #require(try Self.blocks("js").first)
        func outcome(_ message: WebhookMessage) throws -> String {
            let headers = message.signedHeaders.map { "'\($0.name)': '\($0.value)'" }.joined(separator: ", ")
            let script = """
                \(code)
                try {
                  const body = Buffer.from('\(Data(message.body).base64EncodedString())', 'base64')
                  console.log(event('\(secret.text)', body, { \(headers) }).detail)
                } catch (error) { console.log(error.message) }
                """
            let outcome = try TestProcess.run(["node", "-e", script])
            return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines) + outcome.error
        }
        for secrets in [[secret], [other, secret], [secret, other]] {
            let message = WebhookMessage(
                id: "7.e1", body: body, at: Self.now(), signedBy: secrets, isAsymmetric: true)
            #expect(try outcome(message) == "Ä 😀")
        }
        var changed = WebhookMessage(id: "7.e1", body: body, at: Self.now(), signedBy: [secret])
        changed.body[8] ^= 1
        #expect(try outcome(changed) == "The request has no signature by this secret.")
        let foreign = WebhookMessage(id: "7.e1", body: body, at: Self.now(), signedBy: [other])
        #expect(try outcome(foreign) == "The request has no signature by this secret.")
        for seconds in [-310, 310] {
            let old = Self.now().advanced(by: .seconds(seconds))
            let message = WebhookMessage(id: "7.e1", body: body, at: old, signedBy: [secret])
            #expect(try outcome(message) == "The request is too old.")
        }
    }

    @Test func `the Swift example is that of the page, and verifies requests`() throws {
        let source = try Project.text("Tests/PurchaseServerTests/WebhookVerificationExample.swift")
        #expect(source.hasSuffix(try #require(try Self.blocks("swift").first)))
        let secrets = try WebhookSecrets(file: Self.file)
        let (one, two) = (secrets.secret(of: "abc", generation: 1), secrets.secret(of: "abc", generation: 2))
        let now = Timestamp(milliseconds: 1_700_000_000_000)
        func isAccepted(_ message: WebhookMessage, by secret: WebhookSecret, after seconds: Double = 0) -> Bool {
            isGenuine(
                body: Data(message.body),
                headers: Dictionary(uniqueKeysWithValues: message.signedHeaders.map { ($0.name, $0.value) }),
                secret: secret.text, now: Date(timeIntervalSince1970: 1_700_000_000 + seconds))
        }
        var message = WebhookMessage(
            id: "7.e1", body: Array("{}".utf8), at: now, signedBy: [two, one], isAsymmetric: true)
        #expect(isAccepted(message, by: one) && isAccepted(message, by: two, after: 300))
        #expect(!isAccepted(message, by: one, after: 301) && !isAccepted(message, by: one, after: -301))
        #expect(!isAccepted(message, by: secrets.secret(of: "abc", generation: 3)))
        message.body = Array("[]".utf8)
        #expect(!isAccepted(message, by: one))
    }

    // MARK: - Order

    /// Applies the events of ``FollowedYear`` in order to `Examples/follower.py`, and in random order and with
    /// duplicates to `Examples/receiver.py`, and compares what both have with the tables of the API.
    private static let comparison = """
        import random, sys
        random.seed(int(sys.argv[2]))
        follower, receiver, waiting, old, tables = Follower(), Receiver(), [], [], 0
        for number, line in enumerate(open(sys.argv[1], encoding="utf8")):
            line = json.loads(line)
            for event in line.get("items", []):
                follower.apply(event)
                waiting.append(event)
            if "begin" in line:
                follower, receiver, waiting, old = Follower(), Receiver(), [], []
                for page in line["begin"]:
                    follower.begin(page)
                    receiver.begin(page, line["begin"][0]["eventsCursor"])
            if "table" in line:
                repeated = random.sample(old, min(len(old), 50))
                for event in random.sample(waiting * 2 + repeated, 2 * len(waiting) + len(repeated)):
                    receiver.apply(event)
                old, waiting, tables = old + waiting, [], tables + 1
                follower.given = receiver.given()
                found = {}
                for (customer, name), until in follower.table(line["now"]).items():
                    found.setdefault(customer, {})[name] = None if until == math.inf else until
                for customer in sorted(found.keys() | line["table"].keys()):
                    if found.get(customer) != line["table"].get(customer):
                        sys.exit(f"line {number}, {line['now']}: {customer} has {line['table'].get(customer)}, "
                                 f"and the receiver has {found.get(customer)}")
        print(tables)
        """

    @Test(.takesLong, arguments: Seeds.first(1, soak: 5))
    func `the example of a receiver has the table of the API, whatever the order and the duplicates`(
        seed: UInt64
    ) async throws {
        var year = try await FollowedYear.usual(seed: seed)
        try await year.run()
        let folder = try TemporaryFolder()
        let examples = ["follower", "receiver"].map { "Examples/\($0).py" }
        let program = try (examples.map(Project.text) + [Self.comparison]).joined(separator: "\n")
        try Data(program.utf8).write(to: folder.url.appendingPathComponent("receiver.py"))
        try Data(year.lines.joined(separator: "\n").utf8).write(to: folder.url.appendingPathComponent("year.jsonl"))
        let outcome = try TestProcess.run(
            ["python3", folder.path("receiver.py"), folder.path("year.jsonl"), "\(seed)"])
        #expect(outcome.status == 0, "seed \(seed): \(outcome.error)")
        #expect(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines) == "\(year.tables)")
        #expect(year.tables >= FollowedYear.usualTables)
    }

    @Test func `the example of a receiver raises once a restore has begun an epoch, and begins again behind it`()
        throws
    {
        let code = """
            def event(id, name, **members):
                given = [] if name is None else [{"name": name}]
                return {"id": id, "kind": "purchase.updated", "customer": "anna", "originalTransactionId": "1",
                        "entitlementsAfter": given, **members}

            def outcome(receiver, *events):
                try:
                    for each in events:
                        receiver.apply(each)
                except Restored as error:
                    return f"raised {error}"
                return [each["name"] for given in receiver.given().values() for each in given]

            restored = {"id": "5.b", "kind": "ledger.restored"}
            print(outcome(Receiver(), event("5.a", "lost"), event("4.a", "old"), event("5.a", "lost")))
            print(outcome(Receiver(), event("5.a", "lost"), restored, event("6.b", "new")))
            print(outcome(Receiver(), event("9.a", "lost"), event("6.b", "new"), restored))
            given = [{"originalTransactionId": "1", "entitlements": [{"name": "b"}]}]
            again = Receiver()
            again.begin({"items": [{"ids": ["anna"], "given": given}]}, "6.c")
            print(outcome(again, event("4.a", "old"), restored, event("6.c", "new")))
            print(outcome(again, event("7.c", "newer"), event("5.b", "old"), event("test_1", "x", test=True)))
            print(outcome(again, event("8.d", "other")))
            empty = Receiver()
            empty.begin({"items": []}, "0")
            print(outcome(empty, event("1.a", "first"), event("2.a", "second")))
            """
        let folder = try TemporaryFolder()
        let program = try Project.text("Examples/receiver.py") + "\n" + code
        try Data(program.utf8).write(to: folder.url.appendingPathComponent("receiver.py"))
        let outcome = try TestProcess.run(["python3", folder.path("receiver.py")])
        let expected = [
            "['lost']", "raised 5.b", "raised 6.b", "['b']", "['newer']", "raised 8.d", "['second']",
        ]
        #expect(outcome.output.split(separator: "\n").map(String.init) == expected, "\(outcome.error)")
    }
}
