// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// The findings of an examination, and the groups that could not be examined.
struct Findings {
    private(set) var found: [(kind: FindingKind, level: FindingKind.Level, text: String, cure: String)] = []
    private(set) var unseen: [(group: FindingKind.Group, why: String)] = []
    /// What stands for `[…]` in a cure: the options that all commands on a ledger take.
    var options = ""
    /// What stands for `[url]`: the address of Apple's notifications.
    var url = "https://HOST/notifications/v2"

    /// - Parameter text: A sentence without secrets, tokens and documents.
    mutating func add(_ kind: FindingKind, _ text: String, cure: String? = nil, _ level: FindingKind.Level? = nil) {
        let cure = (cure ?? kind.cure).replacing(" […]", with: options).replacing("[url]", with: url)
        found.append((kind, level ?? kind.level, Self.safe(text), Self.safe(cure)))
    }

    /// Adds what was found about an app and environment. If production has the same, it is a finding about the app.
    mutating func add(_ kind: FindingKind, about scope: LedgerScope, _ text: String, cure: String? = nil) {
        let other = Self.safe("\(scope.bundleId) (Production): \(text)")
        guard let index = found.firstIndex(where: { $0.kind == kind && $0.text == other }) else {
            return add(kind, "\(scope.name): \(text)", cure: cure)
        }
        found[index].text = Self.safe("\(scope.bundleId): \(text)")
    }

    /// Removes the server's concern if another group found a fault, of which the concern speaks.
    mutating func dropRepeated() {
        guard found.contains(where: { $0.level == .fault && $0.kind.group != .server }) else { return }
        found.removeAll { $0.kind == .serverConcern }
    }

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

    private func count(_ level: FindingKind.Level) -> Int { found.count { $0.level == level } }

    private func printLines(of group: FindingKind.Group) throws {
        let found = found.filter { $0.kind.group == group }
        let unseen = unseen.filter { $0.group == group }.map { "  not looked at: \($0.why)" }
        try Terminal.print(group.rawValue.styled(.bold) + (found.isEmpty && unseen.isEmpty ? ": nothing found" : ""))
        for (kind, level, text, cure) in found.sorted(by: { $0.level == .fault && $1.level == .hint }) {
            let level = level.rawValue.styled(level == .fault ? .red : .bold)
            try Terminal.print("  \(level) \(kind.rawValue): \(text)\n    \(cure)")
        }
        for line in unseen { try Terminal.print(line) }
    }

    private var body: some Encodable {
        Body(
            faults: count(.fault), hints: count(.hint),
            findings: found.map { kind, level, text, cure in
                Body.Finding(
                    group: kind.group.rawValue, code: kind.rawValue, level: level.rawValue, found: text, cure: cure)
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
