// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The measurement of webhooks: two servers get the same notifications in turns, and one of them sends each event to
/// three endpoints.
struct WebhookPlan {
    var notifications: Int
    var rounds: Int

    private static let connections = 8

    /// The rate of a busy server that is not saturated.
    static let rate = 300

    /// The time without a delivery after which all events count as delivered.
    private static let quiet = Duration.seconds(2)

    func run() async throws -> WebhookResult {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("webhook-load-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        ServerLoad.say("Signing \(notifications) notifications …")
        let store = try SimulatedStore()
        let roots = folder.appendingPathComponent("roots.json")
        try JSONEncoder().encode(store.roots).write(to: roots)
        let signed = try await store.notifications(notifications)
        let receiver = try WebhookReceiver()
        let plain = try ServerProcess(ledger: folder.appendingPathComponent("plain").path, roots: roots.path)
        defer { plain.end() }
        let telling = try ServerProcess(
            ledger: folder.appendingPathComponent("telling").path, roots: roots.path, receiver: receiver.port)
        defer { telling.end() }
        ServerLoad.say("Sending the first purchases of the subscribers …")
        for server in [plain, telling] { _ = try measure(signed.before, server, receiver) }
        return try measure(signed.renewals, plain, telling, receiver)
    }

    private func measure(
        _ renewals: [String], _ plain: ServerProcess, _ telling: ServerProcess, _ receiver: WebhookReceiver
    ) throws -> WebhookResult {
        let size = renewals.count / rounds / 2
        var rest = renewals[...]
        var result = WebhookResult()
        for round in 0..<rounds {
            ServerLoad.say("Round \(round + 1) of \(rounds) …")
            for rate in [Self.rate, nil] {
                let share = Array(rest.prefix(size))
                rest = rest.dropFirst(size)
                // Each server is the first in every other round.
                let servers = round.isMultiple(of: 2) ? [plain, telling] : [telling, plain]
                let before = receiver.count
                let times = try servers.map { try measure(share, $0, receiver, rate: rate) }
                let pair = WebhookResult.Pair(
                    plain: servers[0] === plain ? times[0] : times[1],
                    telling: servers[0] === plain ? times[1] : times[0],
                    deliveries: Double(receiver.count - before) / Double(size))
                if rate == nil { result.saturated.append(pair) } else { result.paced.append(pair) }
            }
        }
        return result
    }

    /// The server's CPU time per notification in microseconds, until the last event is delivered.
    ///
    /// - Parameter rate: The notifications a second; `nil` for as many as the server takes.
    private func measure(
        _ notifications: [String], _ server: ServerProcess, _ receiver: WebhookReceiver, rate: Int? = nil
    ) throws -> Double {
        let requests = notifications.map(HTTPRequest.notification)
        let load = LoadGenerator(server, connections: Self.connections)
        let start = server.cpuTime
        _ = try rate.map { try load.run(requests, rate: $0) } ?? load.run(requests)
        receiver.wait(quietFor: Self.quiet)
        return (server.cpuTime - start) / Double(notifications.count) * 1_000_000
    }
}

/// The measurements, round by round.
struct WebhookResult {
    /// The CPU times per notification in microseconds, and the deliveries per notification.
    struct Pair {
        var plain: Double
        var telling: Double
        var deliveries: Double
    }

    /// At a rate that leaves the machine room.
    var paced: [Pair] = []
    /// As fast as the server answers.
    var saturated: [Pair] = []

    private static let required = 1.15

    /// The table in Markdown. Ratios are taken within a round.
    var table: String {
        let title =
            "| CPU time of a notification | without | \(ServerProcess.webhooks) webhooks | deliveries | ratio |"
            + " rounds | required | reached |"
        let rows = [row("\(WebhookPlan.rate) a second", paced), row("as many as the server takes", saturated)]
        return ([title, "|---|---:|---:|---:|---:|---|---:|---:|"] + rows).joined(separator: "\n")
    }

    private func row(_ title: String, _ pairs: [Pair]) -> String {
        let ratios = pairs.map { $0.telling / $0.plain }
        let ratio = Self.median(ratios)
        let cells = [
            title, String(format: "%.0f µs", Self.median(pairs.map(\.plain))),
            String(format: "%.0f µs", Self.median(pairs.map(\.telling))),
            String(format: "%.2f", Self.median(pairs.map(\.deliveries))), String(format: "%.2f ×", ratio),
            ratios.map { String(format: "%.2f", $0) }.joined(separator: ", "), "≤ \(Self.required) ×",
            ratio <= Self.required ? "yes" : "NO",
        ]
        return "| " + cells.joined(separator: " | ") + " |"
    }

    private static func median(_ values: [Double]) -> Double {
        values.isEmpty ? .nan : values.sorted()[values.count / 2]
    }
}
