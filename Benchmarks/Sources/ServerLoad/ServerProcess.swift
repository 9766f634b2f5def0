// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import LedgerSQLite
import Logging
import PurchaseLedger
import PurchaseServer

/// The server in a process of its own, so that it shares no threads with the load generator.
final class ServerProcess {
    let port: Int
    private let process: Process

    /// Starts this program a second time.
    ///
    /// - Parameter receiver: The port that gets all webhooks; `nil` for a server without webhooks.
    init(ledger: String, roots: String, receiver: Int? = nil) throws {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
        process.arguments = [Self.argument, ledger, roots] + (receiver.map { ["\($0)"] } ?? [])
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let port = Int(line.prefix { $0.isNumber }) else { throw LoadFailure("The server did not start") }
        self.port = port
        self.process = process
    }

    /// Ends the process, which closes its ledger.
    func end() {
        process.terminate()
        process.waitUntilExit()
    }

    /// The process's CPU time in seconds, which other load on the machine affects least. Its resolution is a hundredth
    /// of a second; not a number on systems other than Linux.
    var cpuTime: Double {
        let text = try? String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8)
        // Fields 14 and 15 of proc_pid_stat(5), counted after the name, which may hold any character.
        let fields = text?.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return .nan }
        return (user + system) / 100
    }

    static let argument = "--serve"

    /// The main function of the second process.
    static func serve(ledger path: String, roots: String, receiver: Int?) async throws {
        let storage = try SQLiteLedgerStorage(path: path)
        let ledger = Ledger(storage: storage, rules: FilledLedger.rules)
        let roots = try JSONDecoder().decode([[UInt8]].self, from: Data(contentsOf: URL(fileURLWithPath: roots)))
        var logger = Logger(label: "server")
        logger.logLevel = .warning
        var service = LedgerService(ledger: ledger, verifier: try SimulatedStore.verifier(roots))
        let bundleId = SimulatedStore.scope.bundleId
        service.apps = [bundleId: AppConfiguration(AppIdentity(bundleId: bundleId))]
        if let receiver { try await addWebhooks(to: &service, receiver) }
        let server = ServerApplication(ledger: service, requestSeed: 1, now: clock(), logger: logger)
        try await server.run(hostname: "127.0.0.1", port: 0) { _, port in
            FileHandle.standardOutput.write(Data("\(port)\n".utf8))
        }
        try storage.close()
    }

    /// The number of webhooks of a server that has any.
    static let webhooks = 3

    private static func addWebhooks(to service: inout LedgerService, _ receiver: Int) async throws {
        let bundleId = SimulatedStore.scope.bundleId
        guard let loopback = IPNetwork("127.0.0.0/8") else { throw LoadFailure("No network of this machine") }
        let secrets = try WebhookSecrets(file: Array(repeating: 7, count: 32))
        service.webhookNetworks = [loopback]
        service.webhookSecrets = secrets
        for number in 1...webhooks {
            let endpoint = WebhookEndpoint(
                id: "webhook\(number)", of: bundleId, url: "http://127.0.0.1:\(receiver)/",
                createdAt: SimulatedStore.now)
            _ = try await service.ledger.addWebhook(
                endpoint, fingerprint: secrets.fingerprint, at: SimulatedStore.now)
        }
    }

    /// A running clock that starts at the instant at which everything is signed.
    private static func clock() -> @Sendable () -> Timestamp {
        let start = ContinuousClock.now
        return {
            let milliseconds = (ContinuousClock.now - start) / .milliseconds(1)
            return Timestamp(milliseconds: SimulatedStore.now.milliseconds + Int64(milliseconds))
        }
    }
}
