// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import ArgumentParser
import Foundation
import LedgerSQLite
import PurchaseLedger
import PurchaseServer
import TestData
import Testing

@testable import quittance

/// A command of an operation, which answers a test without printing.
private protocol AnsweringCommand {
    /// The status of the answer, of which the text for people was made too.
    func status() async throws -> Int
}

extension OperationCommand: AnsweringCommand {
    fileprivate func status() async throws -> Int {
        let answer = try await reply(words)
        guard answer.status < 300 else { return answer.status }
        let json = try JSONValue(parsing: answer.bytes)
        guard Name.operation.isAnswer(json, status: answer.status) else { return 500 }
        _ = (Name.operation.text?(json), Name.operation.remark?(json), Name.operation.isFailure(json))
        return answer.status
    }
}

/// Command lines made from the declarations of the operations, in this process.
@Suite(.timeLimit(.minutes(60))) struct MadeUpCommandTests {
    private static let operations = Operation.all.map { $0.operation }
        .filter { !$0.command.isEmpty && $0.command != "events" }

    private static let texts = [
        "", "1", "anna", "annna", "pro", "gold", "30d", "2026-01-31", "-1", "--", "-x", "all", "x=y", "=", "production",
        "moon", "\u{0}", "\u{202e}", "😀", "2000000000000", "9223372036854775807", "99999999999d", "grant.made,moon",
        String(repeating: "x", count: 3000),
    ]

    private static func word(_ field: Field, using random: inout SeededRandom) -> String {
        guard Int.random(in: 0...3, using: &random) > 0 else { return texts.randomElement(using: &random) ?? "" }
        return switch field.form {
        case .time: "30d"
        case .number(let range): "\(range.upperBound)"
        case .word(let words), .words(let words): words[0]
        case .object: "plan=gold"
        case .text(.webhookURL): "https://example.com/"
        default: ["anna", "pro", "1"].randomElement(using: &random) ?? ""
        }
    }

    private static func line(using random: inout SeededRandom) -> [String] {
        guard let operation = operations.randomElement(using: &random) else { return [] }
        var words = operation.command.split(separator: " ").map(String.init)
        for field in operation.fields {
            // A field that is made up would be printed.
            let count = field.isRequired ? [1, 1, 1, 1, 1, 1, 1, 0, 2] : [0, 0, 0, 1, 1, 2]
            for _ in 0..<(field.isMadeUp ? 1 : count.randomElement(using: &random) ?? 0) {
                let value = word(field, using: &random)
                let flag = (Bool.random(using: &random) ? "--no-" : "--") + field.option
                words += field.isArgument ? [value] : field.form == .flag ? [flag] : ["--\(field.option)", value]
            }
        }
        if Int.random(in: 0...9, using: &random) == 0 {
            words.append(["--moon", "x", "--json"].randomElement(using: &random) ?? "")
        }
        // Nobody answers a question.
        return words + (operation.isConfirmed ? ["--yes"] : [])
    }

    @Test(arguments: Seeds.first(10))
    func `a made-up command line is done, refused, or wrong usage`(seed: UInt64) async throws {
        let folder = try TemporaryFolder()
        try SQLiteLedgerStorage(path: folder.path()).close()
        let app = #"{"bundleId": "com.example", "entitlements": ["pro"]}"#
        let configuration = try folder.write(
            #"{"database": "sqlite:\#(folder.path())", "logLevel": "critical", "apps": [\#(app)]}"#,
            to: "quittance.json")
        var random = SeededRandom(seed: seed)
        var counts: [Int: Int] = [:]
        for _ in 0..<(Seeds.isOptimised ? 1000 : 100) {
            let line = Self.line(using: &random)
            do {
                let status = try await ServerOptions.$variables.withValue([:]) {
                    let command = try Quittance.parseAsRoot(line + ["--config", configuration.path])
                    return try await (command as? any AnsweringCommand)?.status() ?? 500
                }
                #expect(status < 500, "\(line)")
                counts[status, default: 0] += 1
            } catch let exit as ExitCode {
                #expect((1...2).contains(exit.rawValue), "\(line)")
            } catch {
                // The program prints the message, and ends with status 2.
                #expect(!Quittance.message(for: error).isEmpty, "\(line)")
            }
        }
        let done = counts.reduce(0) { $0 + ($1.key < 300 ? $1.value : 0) }
        #expect(done > (Seeds.isOptimised ? 30 : 1), "\(counts)")
    }
}
