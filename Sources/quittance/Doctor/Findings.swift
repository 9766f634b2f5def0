// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurchaseServer

/// The findings of an examination, and the groups that could not be examined.
struct Findings {
    private(set) var found: [(kind: FindingKind, text: String)] = []
    private var unseen: [(group: FindingKind.Group, why: String)] = []

    /// - Parameter text: A sentence without secrets, tokens and documents.
    mutating func add(_ kind: FindingKind, _ text: String) { found.append((kind, Self.safe(text))) }

    mutating func skip(_ groups: FindingKind.Group..., because why: String) {
        unseen += groups.map { ($0, Self.safe(why)) }
    }

    /// Runs `body`, and finds its error.
    mutating func trying<Value>(_ kind: FindingKind, _ body: () throws -> Value) -> Value? {
        do {
            return try body()
        } catch {
            add(kind, "\(error)")
            return nil
        }
    }

    /// An error of a database may name its address.
    private static func safe(_ text: String) -> String {
        String(decoding: GivenSecrets.remove(from: Array(text.utf8)), as: UTF8.self).withoutAPIKeys.printable
    }

    /// Prints the findings of some groups.
    ///
    /// - Throws: Exit status 1 if there is a fault.
    func finish(_ groups: [FindingKind.Group] = FindingKind.Group.allCases, json: Bool = false) throws {
        if json {
            try Terminal.print(json: body)
        } else {
            for group in groups { try printLines(of: group) }
            try Terminal.print("\(counted(count(.fault), "fault")), \(counted(count(.hint), "hint")).")
        }
        if count(.fault) > 0 { throw ExitCode(1) }
    }

    private func count(_ level: FindingKind.Level) -> Int { found.count { $0.kind.level == level } }

    private func printLines(of group: FindingKind.Group) throws {
        let found = found.filter { $0.kind.group == group }
        let unseen = unseen.filter { $0.group == group }.map { "  not looked at: \($0.why)" }
        try Terminal.print(group.rawValue.styled(.bold) + (found.isEmpty && unseen.isEmpty ? ": nothing found" : ""))
        for (kind, text) in found.sorted(by: { $0.kind.level == .fault && $1.kind.level == .hint }) {
            let level = kind.level.rawValue.styled(kind.level == .fault ? .red : .bold)
            try Terminal.print("  \(level) \(kind.rawValue): \(text)\n    \(kind.cure)")
        }
        for line in unseen { try Terminal.print(line) }
    }

    private var body: some Encodable {
        Body(
            faults: count(.fault), hints: count(.hint),
            findings: found.map { kind, text in
                Body.Finding(
                    group: kind.group.rawValue, code: kind.rawValue, level: kind.level.rawValue, found: text,
                    cure: kind.cure)
            },
            notLookedAt: unseen.map { Body.Unseen(group: $0.group.rawValue, why: $0.why) })
    }

    private struct Body: Encodable {
        struct Finding: Encodable { var group, code, level, found, cure: String }
        struct Unseen: Encodable { var group, why: String }

        var faults, hints: Int
        var findings: [Finding]
        var notLookedAt: [Unseen]
    }
}
