// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import ArgumentParser
import Foundation
import Logging
import PurchaseServer
import SimulatorServer

/// `quittance demo`: runs a simulated App Store, and a server for it.
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Try it: an App Store simulator and a server with a customer, a day in a second.",
        usage: "quittance demo [options]",
        discussion: """
            Starts a simulated App Store and a server that trusts it and has its time, and lets a customer buy a \
            subscription. It prints four requests with their answers, and what to send to renew, refund and fail. \
            Needs no account, no configuration and no file. Ends with Ctrl-C.

              quittance demo
              quittance demo --port 0 --console-port 0 --control-port 0 \\
                  --production-port 0 --sandbox-port 0

            All files are in a temporary folder that is removed at the end. With --out they stay, and the next demo \
            of that folder goes on with its ledger, and revokes the API keys of the demo before it.
            """)

    @Option(help: "The port of the server. As with the other four ports, 0 takes a free port.")
    var port = 8080

    @Option(help: "The port of the server's console, for people who support customers.")
    var consolePort = 8081

    @Option(help: "The port of the simulator's commands and its page.")
    var controlPort = 9000

    @Option(help: "The port of the simulated App Store's production routes.")
    var productionPort = 9001

    @Option(help: "The port of the simulated App Store's sandbox routes.")
    var sandboxPort = 9002

    @Option(help: "Virtual seconds in a second: 0 stands still, 86400 is a day in a second.")
    var speed = 86_400.0

    @Option(
        help: """
            A folder that keeps the ledger, the keys and the configuration; the files are those of simulate --out. \
            Default: a temporary folder.
            """,
        completion: .directory)
    var out: String?

    @Flag(
        name: .customLong("new-keys"),
        help: "Make new keys in the folder of --out. A ledger with documents of the old keys refuses the new keys.")
    var makesNewKeys = false

    private var ports: [(option: String, port: Int)] {
        [
            ("port", port), ("console-port", consolePort), ("control-port", controlPort),
            ("production-port", productionPort), ("sandbox-port", sandboxPort),
        ]
    }

    func validate() throws {
        try Simulate.requireDistinct(ports)
        try Simulate.requireSpeed(speed)
        guard !makesNewKeys || out != nil else { throw ValidationError("--new-keys is for the folder of --out.") }
    }

    func run() async throws {
        // SIGHUP ends a demo, because its terminal is closed.
        ServerSignals.ignore([SIGUSR1, SIGUSR2])
        var logger = Logger(label: "quittance") { _ in
            LineLogHandler(.text, now: SystemClock.now, write: Terminal.printError)
        }
        // The demo's output must stay readable. At a day per second, the notification history is always late, and the
        // server would log warnings about the delay.
        logger.logLevel = .error
        let kept = try out.map { try SimulatorFolder(option: $0) }
        if makesNewKeys, let warning = kept?.ledgerWarning { throw ValidationError("--new-keys: \(warning)") }
        let plan = SimulatorPlan(
            catalogue: .example(bundleId: "com.example.notes", appAppleId: 1_234_567_890), speed: speed)
        let (made, run, keepTime) = try plan.make(
            in: kept, makesNewKeys: makesNewKeys, at: SystemClock.now(), logger)
        var simulator = made
        // However fast the clock, the server learns of each event at its instant.
        simulator.watchers = 1
        let server = SimulatorServer(
            simulator,
            ports: [.control: controlPort, .production: productionPort, .sandbox: sandboxPort],
            wall: SystemClock.now, clock: ContinuousClock(), keepTime: keepTime, logger: logger)
        let folder =
            kept?.path
            ?? FileManager.default.temporaryDirectory.appendingPathComponent("quittance-demo-\(UUID().uuidString)").path
        let isTemporary = kept == nil
        let removeFiles: @Sendable () -> Void = {
            guard isTemporary else { return }
            // After a second signal, the server may still add a file during the removal, so the removal is repeated.
            for _ in 0..<Self.removals where FileManager.default.fileExists(atPath: folder) {
                // If the folder stays nevertheless, it is among the system's temporary files.
                try? FileManager.default.removeItem(atPath: folder)
            }
        }
        defer { removeFiles() }
        let party = DemoParty(
            simulator: simulator, simulatorServer: server,
            // The ledger knows the customers of earlier runs, so each run has a new customer.
            customer: run == 0 ? "anna" : "anna\(run + 1)", folder: folder, isTemporary: isTemporary, port: port,
            consolePort: consolePort, logger: logger, removeFiles: removeFiles)
        do {
            try await party.run()
        } catch let error as SimulatorListeningError {
            throw ValidationError("\(Self.option(of: error.listener)): \(error.message)\(Self.advice)")
        } catch let error as ListeningError {
            let option = error.setting == "consolePort" ? "--console-port" : "--port"
            throw ValidationError("\(option): \(error.message)\(Self.advice)")
        }
        keepTime(await server.host.reachedTime())
    }

    /// The maximum number of attempts to remove the folder. Each attempt can fail because of a new file, and a ledger
    /// has only a few files.
    private static let removals = 10

    private static let advice = " A second demo may run; 0 takes a free port."

    /// The option for the port of a listener.
    private static func option(of listener: SimulatorListener) -> String {
        switch listener {
        case .production: "--production-port"
        case .sandbox: "--sandbox-port"
        case .control: "--control-port"
        }
    }
}
