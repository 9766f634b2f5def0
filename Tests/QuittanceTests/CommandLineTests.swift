// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import TestData
import TestProcess
import TestWorld
import Testing

/// Tests the program as a process: its output, errors and exit status for given arguments and standard input.
@Suite struct CommandLineTests {
    struct Outcome {
        var status: Int32
        var output: String
        var error: String

        /// Standard output as one JSON document a line.
        var json: [JSONValue] {
            get throws { try output.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) } }
        }
    }

    /// The program, next to the test bundle.
    static let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("quittance")

    static func run(
        _ arguments: [String], input: [UInt8] = [], environment: [String: String] = [:]
    ) throws -> Outcome {
        let outcome = try TestProcess.run(
            [program.path] + arguments, environment: TestProcess.environment.merging(environment) { $1 }, input: input)
        return Outcome(status: outcome.status, output: outcome.output, error: outcome.error)
    }

    /// A new API key.
    static func key(_ options: [String], role: String = "server") throws -> String {
        let outcome = try run(["keys", "create", "--name", "a", "--role", role] + options)
        try #require(outcome.status == 0, "\(outcome)")
        return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private static func path(_ file: String) -> String { TestData.folder.appendingPathComponent(file).path }

    @Test(arguments: [
        [], ["verify"], ["verify", "-"], ["nonsense"], ["verify", "--bundle-id"], ["verify", "-", "--bundle-id", ""],
        ["verify", "-", "--bundle-id", "x", "--at", "now"],
        ["verify", "-", "--bundle-id", "x", "--environment", "moon"],
        ["verify", "-", "--bundle-id", "x", "--device", "x"],
        ["verify", "-", "--bundle-id", "x", "--revocation", "maybe"],
        ["verify", "-", "--bundle-id", "x", "--root", "/nowhere"], ["inspect", "/nowhere"], ["inspect", "a", "b"],
        ["serve", "--port", "70000"], ["serve", "--environment", "xcode"], ["serve", "--port", "x"],
    ])
    func `wrong usage exits with status 2, and its message begins with the name of the program`(
        arguments: [String]
    ) throws {
        let outcome = try Self.run(arguments)
        guard !arguments.isEmpty else { return #expect(outcome.status == 0 && !outcome.output.isEmpty, "\(outcome)") }
        #expect(outcome.status == 2 && outcome.error.hasPrefix("quittance: "), "\(outcome)")
        #expect(!outcome.error.contains("Error: "), "\(outcome.error)")
    }

    @Test(arguments: [["-h"], ["inspect", "-h"], ["verify", "-h"], ["serve", "-h"], ["--help"]])
    func `help goes to standard output`(arguments: [String]) throws {
        let outcome = try Self.run(arguments)
        #expect(outcome.status == 0)
        #expect(outcome.output.contains("USAGE"))
        #expect(outcome.error.isEmpty)
    }

    // Counts keep the arguments short, since each is printed.
    @Test(
        .takesLong,
        arguments: [
            ("", 1), (" \n", 1), ("NOT A RECEIPT", 1), ("{", 1), ("{}x", 1), ("AAAA", 1), ("a.b.c", 1), ("....", 1),
            ("\u{0}", 1), ("[", 1_000_000), (#"{"a":"#, 1_000_000), ("MIAwgDCA", 100_000), ("ＭＩＡ＝", 1),
        ])
    func `text that is not a document is reported as malformed`(part: String, count: Int) throws {
        let text = String(repeating: part, count: count)
        for arguments in [["inspect", "--json"], ["verify", "--json", "--bundle-id", "x"]] {
            let outcome = try Self.run(arguments, input: Array(text.utf8))
            #expect(outcome.status != 0)
            #expect(try outcome.json.last?["code"] == .string("malformed"))
            #expect(!outcome.error.isEmpty)
        }
    }

    private static let many = Seeds.isOptimised ? 2_000_000 : 500_000

    @Test(.takesLong, arguments: [([0], many), ([0x30, 0x80], 1), ([0xff, 0xfe], 1), ([0x30], many)])
    func `bytes that are not a document are reported as malformed`(part: [UInt8], count: Int) throws {
        let bytes = Array(repeatElement(part, count: count).joined())
        let outcome = try Self.run(["verify", "--json", "--bundle-id", "x"], input: bytes)
        #expect(outcome.status != 0)
        #expect(try outcome.json.map { $0["code"] } == [.string("malformed")])
    }

    @Test(arguments: [
        ("{\n \"items\": [\n  {\"id\": 1}\n ]\n}", 1), ("{\n}\n", 1), ("{}\n{}\n", 2), ("[{}]", 1), ("\u{feff}{}", 1),
        ("\n{}\n\n\nnonsense!\n", 2),
    ])
    func `one document may have many lines, and a list has one document per line`(text: String, count: Int) throws {
        let outcome = try Self.run(["inspect", "--json"], input: Array(text.utf8))
        #expect(try outcome.json.count == count)
        #expect(outcome.error.isEmpty || outcome.error.contains("line 5: "))
    }

    @Test func `ten bad lines before good ones get ten answers, and each answer names its line`() throws {
        let lines = (1...10).map { "bad line \($0)!" } + ["", #"{"a":1}"#, "{}", "nonsense!", "{}"]
        let input = Array(lines.joined(separator: "\n").utf8)
        let answers = try Self.run(["inspect", "--json"], input: input)
        #expect(answers.status == 2)
        let named = Array(1...10) + [12, 13, 14, 15]
        #expect(try answers.json.map { $0["line"]?.integer } == named.map(Int64.init))
        #expect(try answers.json.map { $0["code"] == nil } == named.map { $0 > 10 && $0 != 14 })
        let verified = try Self.run(["verify", "--json", "--bundle-id", "x"], input: input)
        #expect(try verified.json.map { $0["line"]?.integer } == named.map(Int64.init))
        #expect(verified.error.split(separator: "\n").map { $0.prefix { $0 != ":" } } == named.map { _ in "quittance" })
        let text = try Self.run(["inspect"], input: input)
        #expect(text.output.components(separatedBy: "line 12: Not verified: ").count == 2)
    }

    @Test(.takesLong) func `answers of many batches have the order of their lines`() throws {
        let count = 3000
        let lines = (1...count).map { #"{"number":\#($0),"filler":"\#(String(repeating: "x", count: $0 % 900))"}"# }
        let input = Array(lines.joined(separator: "\n").utf8)
        #expect(input.count > 4 << 18)
        let verified = try Self.run(["verify", "--json", "--bundle-id", "x"], input: input)
        #expect(try verified.json.map { $0["line"]?.integer } == (1...count).map(Int64.init))
        let inspected = try Self.run(["inspect", "--json"], input: input)
        #expect(try inspected.json.map { $0["payload"]?["number"]?.integer } == (1...count).map(Int64.init))
        #expect(try inspected.json.map { $0["line"]?.integer } == (1...count).map(Int64.init))
    }

    @Test(.takesLong) func `a line that is longer than any document gets one answer`() throws {
        let input = Array("{}\n".utf8) + [UInt8](repeating: UInt8(ascii: "A"), count: 33 << 20) + Array("\n{}".utf8)
        let outcome = try Self.run(["inspect", "--json"], input: input)
        #expect(try outcome.json.map { $0["line"]?.integer } == [1, 2, 3])
        #expect(try outcome.json.map { $0["code"] == nil } == [true, false, true])
        #expect(outcome.error == "quittance: line 2: The line is longer than 32 MiB, more than any document.\n")
    }

    @Test func `a program at the other end of a pipe gets each answer before it sends the next line`() throws {
        let process = try TestProcess(
            [Self.program.path, "verify", "-", "--json", "--bundle-id", "x"], input: .pipe, output: .pipe)
        let (input, output) = (try #require(process.input), try #require(process.output))
        // Until the second line, the first may be a document of its own.
        try input.write(contentsOf: Data("{}\n{}\n".utf8))
        for line in 1...5 {
            var text = ""
            while !text.contains("\"line\":\(line + 1),") {
                text += String(decoding: output.availableData, as: UTF8.self)
            }
            try input.write(contentsOf: Data("{}\n".utf8))
        }
        try input.close()
        #expect(process.wait() == 2)
    }

    @Test(.takesLong, .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/status")))
    func `memory does not grow with the number of lines`() throws {
        let few = try Self.peakMemory(lines: 500)
        let many = try Self.peakMemory(lines: 25_000)
        #expect(many - few < 16 << 20, "\(few) bytes, \(many) bytes")
    }

    /// The most bytes that `verify` has in memory at once, for lines of 1,000 bytes.
    private static func peakMemory(lines: Int) throws -> Int {
        let process = try TestProcess(
            [program.path, "verify", "-", "--json", "--bundle-id", "x"], input: .pipe, output: .pipe)
        let (input, output) = (try #require(process.input), try #require(process.output))
        let isAnswered = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            var end = Data()
            while case let text = output.availableData, !text.isEmpty {
                end = (end + text).suffix(1000)
                if String(decoding: end, as: UTF8.self).contains("\"line\":\(lines),") { isAnswered.signal() }
            }
        }
        let line = Data((#"{"filler":"\#(String(repeating: "x", count: 1000))"}"# + "\n").utf8)
        for _ in 0..<lines { try input.write(contentsOf: line) }
        isAnswered.wait()
        let status = try String(contentsOfFile: "/proc/\(process.id)/status", encoding: .utf8)
        try input.close()
        process.wait()
        let peak = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return try #require(peak?.split(separator: " ").dropFirst().first.flatMap { Int($0) }) * 1024
    }

    @Test func `a pipe can be read like a file, and a directory is an error`() throws {
        #expect(try Self.run(["inspect", "/dev/stdin", "--json"], input: Array("{}".utf8)).status == 0)
        let folder = try Self.run(["inspect", "/tmp"])
        #expect(folder.status == 2)
        #expect(folder.error.contains("directory"))
    }

    @Test(arguments: ["\u{1b}[31mred", "\u{202e}desrever", "\u{2028}"])
    func `a document cannot control the terminal`(text: String) throws {
        let json = JSONValue.object([.init("bundleId", .string(text)), .init(text, .null)])
        let outcome = try Self.run(["inspect"], input: Array(json.compactText.utf8))
        #expect(outcome.status == 0)
        #expect(!outcome.output.unicodeScalars.contains { text.unicodeScalars.first == $0 })
    }

    @Suite(.enabled(if: TestData.isThere, "\(TestData.whyNot)")) struct OnGenuineData {
        @Test func `a verified receipt is shown with its purchases`() throws {
            let file = path("receipts/sandbox-2025-sha256-2-purchases.b64")
            let arguments = ["verify", file, "--bundle-id", "dev.bonzer.weeka.app", "--environment", "sandbox"]
            let text = try run(arguments)
            #expect(text.status == 0)
            #expect(text.error.isEmpty)
            #expect(text.output.hasPrefix("Verified: app receipt\n"))
            #expect(text.output.contains("2000001092134138"))
            #expect(!text.output.contains("\u{1b}"))
            let json = try #require(try run(arguments + ["--json"]).json.first)
            #expect(
                json.members?.map(\.name) == ["verified", "kind", "environment", "bundleId", "signedDate", "payload"])
            #expect(json["verified"] == .bool(true))
            #expect(json["kind"] == .string("receipt"))
            #expect(json["environment"] == .string("Sandbox"))
            #expect(json["signedDate"] == .number("1766774387000"))
            #expect(json["payload"]?["in_app"]?.array?.count == 2)
        }

        @Test func `a receipt for another environment is refused with code and reason`() throws {
            let file = path("receipts/sandbox-2025-sha256-2-purchases.b64")
            let outcome = try run(["verify", file, "--bundle-id", "dev.bonzer.weeka.app", "--json"])
            #expect(outcome.status == 1)
            #expect(
                outcome.error
                    == "quittance: refused, otherEnvironment: The environment is Sandbox, accepted is Production.\n")
            let json = try #require(try outcome.json.first)
            #expect(json.members?.map(\.name) == ["verified", "code", "reason"])
            #expect(json["code"] == .string("otherEnvironment"))
        }

        @Test func `an explanation shows every check in order, and the failed one`() throws {
            let file = path("jws/apple-sandbox-test-notification-2022.jws")
            let arguments = ["verify", file, "--bundle-id", "com.other", "--environment", "sandbox", "--explain"]
            let text = try run(arguments)
            #expect(text.status == 1)
            let marks = text.output.split(separator: "\n").compactMap { line in
                line.split(separator: " ", maxSplits: 2).first.map(String.init)
            }
            #expect(marks.filter { $0 == "✓" }.count == 7)
            #expect(marks.last == "✗")
            #expect(text.output.contains("“Apple Root CA - G3”"))
            #expect(text.output.contains("✗ app          The document is for com.Abilities, accepted is com.other."))

            let json = try #require(try run(arguments + ["--json"]).json.first)
            #expect(json["code"] == .string("otherApp"))
            let checks = try #require(json["checks"]?.array)
            #expect(
                checks.map { $0["check"]?.string }
                    == ["form", "algorithm", "chain", "dates", "dates", "signature", "kind", "app"])
            #expect(checks.map { $0["passed"] } == Array(repeating: .bool(true), count: 7) + [.bool(false)])
            #expect(checks.dropLast().allSatisfy { $0["expected"]?.string != nil && $0["found"]?.string != nil })
        }

        @Test(arguments: ["intermediates", "intermediates/AppleiTunesStoreCA.cer"])
        func `an old transaction receipt is verified with the given intermediates`(place: String) throws {
            let arguments = [
                "verify", path("transaction-receipts/v2-a.b64"), "--bundle-id", "com.d--buzz.gag-plus.ios.001",
                "--environment", "sandbox", "--json",
            ]
            let outcome = try run(arguments + ["--intermediates", path(place)])
            #expect(outcome.status == 0)
            // It says Sandbox, and production is the default.
            let production = arguments.filter { $0 != "--environment" && $0 != "sandbox" }
            let refused = try run(production + ["--intermediates", path(place)])
            #expect(refused.status == 1)
            #expect(try refused.json.first?["code"] == .string("otherEnvironment"))
            let json = try #require(try outcome.json.first)
            #expect(json["kind"] == .string("transactionReceipt"))
            #expect(json["environment"] == .null)
            #expect(json["payload"]?["transaction_id"] == .string("1000000060683708"))
            // Without them the chain is incomplete, and the reason names the option.
            let alone = try run(arguments)
            #expect(alone.status == 1)
            #expect(try alone.json.first?["code"] == .string("untrustedChain"))
            #expect(alone.error.contains("name the intermediates"))
        }

        @Test(arguments: ["/nowhere", "/", "README.md"])
        func `invalid intermediates are wrong usage`(place: String) throws {
            let outcome = try run([
                "verify", path("transaction-receipts/v2-a.b64"), "--bundle-id", "x", "--intermediates",
                place == "README.md" ? path(place) : place,
            ])
            #expect(outcome.status == 2)
            #expect(outcome.error.contains("--intermediates"))
        }

        @Test func `Xcode's receipt is verified only with Xcode's certificate as a root, and only for xcode`() throws {
            let arguments = [
                "verify", path("receipts/xcode-ber.b64"), "--bundle-id", "net.zachariadis.cyclemaps", "--root",
                path("intermediates/StoreKitTestCertificate.cer"), "--environment",
            ]
            #expect(try run(arguments + ["xcode"]).status == 0)
            #expect(try run(arguments + ["sandbox"]).error.contains("otherEnvironment"))
            #expect(try run(Array(arguments.prefix(4)) + ["--environment", "xcode"]).error.contains("untrustedChain"))
        }

        @Test func `renewal info has no bundle id, which the output and exit status 3 say`() throws {
            let arguments = [
                "verify", path("jws/apple-sandbox-renewal-2023.jws"), "--bundle-id", "x", "--environment", "sandbox",
            ]
            let outcome = try run(arguments + ["--json"])
            #expect(outcome.status == 3)
            #expect(outcome.error.isEmpty)
            #expect(try outcome.json.first?["bundleId"] == .null)
            #expect(try outcome.json.first?["verified"] == .bool(true))
            // Of many documents the worst counts: a refusal is worse than an unknown app.
            let transaction = try TestData.bytes("jws/testNotification")
            let renewal = try TestData.bytes("jws/apple-sandbox-renewal-2023.jws")
            let lines = Array([renewal, transaction, renewal].joined(separator: [0x0a]))
            let many = try run(["verify", "--bundle-id", "x", "--environment", "sandbox", "--json"], input: lines)
            #expect(many.status == 1)
            #expect(try many.json.map { $0["line"] } == ["1", "2", "3"].map(JSONValue.number))
            #expect(try run(arguments).output.contains("The document has no bundle id, so none was compared."))
        }

        @Test func `each line with a document gives a result, and the worst result decides the exit status`() throws {
            let receipt = try TestData.bytes("receipts/sandbox-2020-sha1-187-purchases.b64")
            let token = try TestData.bytes("jws/apple-sandbox-renewal-2023.jws")
            let notification =
                #"{"signedPayload":"\#(String(decoding: try TestData.bytes("jws/testNotification"), as: UTF8.self))"}"#
            let request = #"{"receipt-data":"\#(String(decoding: receipt, as: UTF8.self))"}"#
            let lines = [receipt, Array("nonsense!".utf8), token, Array(notification.utf8), [], Array(request.utf8)]
            let outcome = try run(
                ["verify", "--bundle-id", "com.nutcall.alert", "--environment", "sandbox", "--json"],
                input: Array(lines.joined(separator: [0x0a])))
            #expect(outcome.status == 2)
            let answers = try outcome.json
            #expect(answers.map { $0["verified"] } == [true, false, true, false, true].map(JSONValue.bool))
            #expect(answers.map { $0["code"]?.string } == [nil, "malformed", nil, "untrustedChain", nil])
            #expect(outcome.error.contains("line 2: ") && outcome.error.contains("line 4: "))
        }

        @Test(arguments: [64, 76, 1])
        func `base64 may be wrapped in lines`(width: Int) throws {
            let receipt = try TestData.bytes("receipts/sandbox-2025-sha256-2-purchases.b64")
            let wrapped = stride(from: 0, to: receipt.count, by: width).map {
                receipt[$0..<min($0 + width, receipt.count)]
            }
            let outcome = try run(["inspect", "--json"], input: Array(wrapped.joined(separator: [0x0d, 0x0a])))
            #expect(try outcome.json.map { $0["kind"] } == [.string("receipt")])
        }

        @Test(arguments: [
            ("receipts/mac-production-2017-sha1.der", "receipt"), ("receipts/xcode-ber.b64", "receipt"),
            ("transaction-receipts/v2-a.b64", "transactionReceipt"), ("jws/legacyTransaction", "transactionReceipt"),
            ("jws/xcode-signed-transaction", "transaction"), ("jws/xcode-signed-app-transaction", "appTransaction"),
            ("golden/sandbox-2020-9-purchases.answer.json", "VerifyReceiptResponse"),
            ("models/signedTransaction.json", "transaction"),
            ("models/transactionHistoryResponse.json", "HistoryResponse"),
            (
                "models/advancedCommerceSubscriptionModifyPeriodChange.json",
                "AdvancedCommerceSubscriptionModifyPeriodChange"
            ),
        ])
        func `inspect recognises a document by its content`(file: String, kind: String) throws {
            let outcome = try run(["inspect", path(file), "--json"])
            #expect(outcome.status == 0)
            #expect(try outcome.json.map { $0["kind"] } == [.string(kind)])
            #expect(try run(["inspect", path(file)]).status == 0)
        }

        @Test func `a requested check that cannot be made is an error`() throws {
            let outcome = try run([
                "verify", path("jws/apple-sandbox-renewal-2023.jws"), "--bundle-id", "x", "--environment", "sandbox",
                "--device", "956328D9-CC6A-47F4-BE40-6953FB0AB6C7",
            ])
            #expect(outcome.status == 2)
            #expect(outcome.error.contains("--device"))
        }

        @Test func `output that cannot be written is an error`() throws {
            let process = try TestProcess([
                "sh", "-c", "\"$0\" inspect \"$1\" > /dev/full 2>/dev/null", CommandLineTests.program.path,
                path("models/appData.json"),
            ])
            #expect(process.wait() == 2)
        }

        @Test(arguments: [
            ("models/signedTransaction.json", "transaction_id", "signedDate"),
            ("models/signedRenewalInfo.json", "auto_renew_status", "renewalPrice"),
            ("models/appTransaction.json", "receipt_type", "originalPlatform"),
        ])
        func `convert to legacy lists members without a counterpart`(
            file: String, member: String, leftover: String
        ) throws {
            let outcome = try run(["convert", path(file), "--to", "legacy"])
            #expect(outcome.status == 0)
            #expect(try outcome.json.first?[member] != nil)
            #expect(outcome.error.contains("quittance: no counterpart: \(leftover) = "))
        }

        @Test func `a receipt becomes modern and legacy again without loss`() throws {
            let modern = try run(["convert", path("golden/sandbox-2020-9-purchases.b64"), "--to", "modern"])
            #expect(modern.status == 0)
            // The only leftovers are members that verifyReceipt lacks too.
            #expect(modern.error.split(separator: "\n").allSatisfy { $0.contains("(attribute ") })
            #expect(try modern.json.first?["transactions"]?.array?.count == 9)
            let legacy = try run(["convert", "--to", "legacy"], input: Array(modern.output.utf8))
            let receipt = try #require(try legacy.json.first?["receipt"])
            let answer = try JSONValue(parsing: TestData.bytes("golden/sandbox-2020-9-purchases.answer.json"))[
                "receipt"]
            #expect(try legacy.json.first?["latest_receipt_info"] == answer?["in_app"])
            #expect(receipt["receipt_creation_date_pst"] == answer?["receipt_creation_date_pst"])
        }

        @Test(arguments: [
            ("receipts/sandbox-2025-sha256-2-purchases.b64", "legacy"),
            ("jws/apple-sandbox-renewal-2023.jws", "modern"),
            ("models/appData.json", "legacy"), ("models/appData.json", "modern"),
        ])
        func `a document that cannot be converted is an error`(file: String, direction: String) throws {
            let outcome = try run(["convert", path(file), "--to", direction])
            #expect(outcome.status == 2)
            #expect(outcome.output.isEmpty)
            #expect(!outcome.error.isEmpty)
        }

        @Test func `unknown members are marked, and money and dates are readable`() throws {
            let json = """
                {"transactionId":"1","originalTransactionId":"1","signedDate":1698148900000,"price":10990,"currency":"EUR",\
                "commitmentInfo":{"commitmentPrice":-5,"novum":1}}
                """
            let outcome = try run(["inspect"], input: Array(json.utf8))
            #expect(outcome.output.contains("1698148900000  2023-10-24T12:01:40Z"))
            #expect(outcome.output.contains("10990  10.99 EUR"))
            #expect(outcome.output.contains("-5  -0.005 EUR"))
            let marked = outcome.output.split(separator: "\n").filter { $0.contains("(unknown)") }
            #expect(marked.map { $0.contains("novum") } == [true])
        }
    }
}

extension TestStore {
    /// Writes the root certificates into a folder, and returns their paths.
    func writeRoots(to folder: URL) throws -> [String] {
        try signer.authority.roots.enumerated().map { index, root in
            let file = folder.appendingPathComponent("root\(index).der")
            try Data(root).write(to: file)
            return file.path
        }
    }
}
