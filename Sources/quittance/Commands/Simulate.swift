// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreSimulator
public import ArgumentParser
import Foundation
import Logging
import PurchaseLedger
import PurchaseServer
import SimulatorServer
import Synchronization

/// `quittance simulate`: runs a simulated App Store.
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run an App Store simulator: sell, renew, refund, and see what your server does.",
        usage: "quittance simulate [options]",
        discussion: """
            Three ports on this machine: the App Store's production routes (App Store Server API and verifyReceipt), \
            its sandbox routes, and control. Open the control port in a browser, or command it with curl; GET \
            /commands lists all commands.

              quittance simulate --out simulator \\
                  --notify http://127.0.0.1:8080/notifications/v2 \\
                  --sandbox-notify http://127.0.0.1:8080/notifications/v2
              curl -d '{"name":"anna"}' localhost:9000/customers
              curl -d '{"product":"com.example.notes.pro.monthly"}' \\
                  localhost:9000/customers/anna/buy
              curl -d '{"days":31}' localhost:9000/clock/advance

            In the server under test, set the App Store Server API's address to the production or sandbox port, and \
            trust the simulator's roots instead of Apple's: GET /roots.pem, or the files in the folder of --out. \
            A server that trusts Apple's roots refuses the simulator's documents. With --seed, the simulator uses \
            keys that Quittance publishes, so that all people can sign with the same keys.

            The network is unkind, as a real network is: notifications are late, lost, doubled and out of order, and \
            the API sometimes fails. --kind turns the faults off; POST /faults sets the faults.
            """)

    @Option(help: "The port of the App Store's production routes; 0 takes any free port.")
    var port = 9001

    @Option(name: .customLong("sandbox-port"), help: "The port of the sandbox's routes.")
    var sandboxPort = 9002

    @Option(name: .customLong("control-port"), help: "The port of commands and the page.")
    var controlPort = 9000

    @Option(help: "The address to listen on. Anyone who reaches the control port commands the simulator.")
    var host = "127.0.0.1"

    @Option(help: "Determines all identifiers and the API key. Default: different in every run.")
    var seed: UInt64?

    @Option(
        help: "The products: a .storekit file of Xcode. Default: two subscriptions, coins and a lifetime purchase.",
        completion: .file(extensions: ["storekit"]))
    var products: String?

    @Option(name: .customLong("bundle-id"), help: "The app.")
    var bundleId = "com.example.notes"

    @Option(name: .customLong("app-apple-id"), help: "The app's Apple ID, if the .storekit file has no Apple ID.")
    var appAppleId: Int64 = 1_234_567_890

    @Option(help: "Your server's URL for production notifications. Without a URL, none are sent.")
    var notify: String?

    @Option(name: .customLong("sandbox-notify"), help: "Your server's URL for sandbox notifications.")
    var sandboxNotify: String?

    @Option(
        name: .customLong("notify-version"),
        help: "The format of production notifications: 2, or 1 for the deprecated, unsigned format.")
    var notifyVersion = NotificationVersion.two

    @Option(name: .customLong("sandbox-notify-version"), help: "The format of sandbox notifications.")
    var sandboxNotifyVersion = NotificationVersion.two

    @Option(
        name: .customLong("shared-secret"),
        help: """
            The app's shared secret: verifyReceipt demands it as password for receipts with subscriptions, and version \
            1 notifications have it. Without a secret, any password passes.
            """)
    var sharedSecret: String?

    @Option(help: "Virtual seconds in a second: 0 stands still, 86400 is a day in a second.")
    var speed = 1.0

    @Option(
        help: """
            The first virtual time in ISO 8601, such as 2026-01-01T00:00:00Z. Default: now. The clock stops when the \
            certificates end: with --seed they are valid from 2020 to 2039, else some twenty years.
            """,
        transform: { text in
            guard let date = Timestamp(iso8601: text) else {
                throw ValidationError("--start takes an ISO 8601 time such as 2026-01-01T00:00:00Z.")
            }
            guard date < TurnableClock.latestEnd else {
                throw ValidationError("--start takes a time before \(TurnableClock.latestEnd.iso8601).")
            }
            return date
        })
    var start: Timestamp?

    @Flag(help: "No faults: every notification arrives once, in order, and every request is answered.")
    var kind = false

    @Option(
        help: """
            A folder for the roots, the API key (.p8), and simulator.json and simulator.env with all that a server \
            under test needs; for a Quittance server quittance.json. A missing folder is created. The next run uses \
            the same keys. Without --out, the simulator writes no files.
            """,
        completion: .directory)
    var out: String?

    @Flag(
        name: .customLong("new-keys"),
        help: "Make new keys in the folder of --out. A ledger with documents of the old keys refuses the new keys.")
    var makesNewKeys = false

    func validate() throws {
        guard ServerConfiguration.isHostname(host) else {
            throw ValidationError("--host takes \(ServerConfiguration.expectedHostname).")
        }
        try Self.requireDistinct([("port", port), ("sandbox-port", sandboxPort), ("control-port", controlPort)])
        try Self.requireSpeed(speed)
        for (name, url) in [("notify", notify), ("sandbox-notify", sandboxNotify)] {
            guard let url, !SimulatedStore.isNotificationURL(url) else { continue }
            throw ValidationError("--\(name) takes a URL such as http://127.0.0.1:8080/notifications/v2.")
        }
        try TextForm.bundleID.require(bundleId, in: "--bundle-id")
        guard appAppleId > 0 else { throw ValidationError("--app-apple-id takes a number above 0.") }
        guard !makesNewKeys || out != nil && seed == nil else {
            throw ValidationError("--new-keys is for the folder of --out, without --seed.")
        }
        guard sharedSecret != "" else { throw ValidationError("--shared-secret is empty: pass a secret, or omit it.") }
    }

    /// Checks that the ports of the options are valid and distinct. Several may be 0, because each 0 becomes a
    /// different free port.
    static func requireDistinct(_ ports: [(option: String, port: Int)]) throws {
        if let wrong = ports.first(where: { !(0...65_535).contains($0.port) }) {
            throw ValidationError("--\(wrong.option) takes a number from 0 to 65535.")
        }
        var options: [Int: String] = [:]
        for (option, port) in ports where port != 0 {
            if let other = options.updateValue(option, forKey: port) {
                throw ValidationError("--\(other) and --\(option) are both \(port): choose different ports.")
            }
        }
    }

    static func requireSpeed(_ speed: Double) throws {
        guard (0...TurnableClock.topSpeed).contains(speed) else {
            throw ValidationError(
                "--speed takes a number from 0 to \(Int(TurnableClock.topSpeed)), a year in a second.")
        }
    }

    func run() async throws {
        ServerSignals.ignore()
        let format = try Self.logFormat()
        var logger = Logger(label: "quittance") { _ in
            LineLogHandler(format, now: SystemClock.now, write: Terminal.printError)
        }
        logger.logLevel = .info
        let folder = try out.map { try SimulatorFolder(option: $0) }
        if makesNewKeys, let warning = folder?.ledgerWarning { logger.warning("\(warning)") }
        let (simulator, _, keepTime) = try plan().make(
            in: folder, makesNewKeys: makesNewKeys, at: SystemClock.now(), logger)
        var server = SimulatorServer(
            simulator, ports: [.production: port, .sandbox: sandboxPort, .control: controlPort],
            wall: SystemClock.now, clock: ContinuousClock(), keepTime: keepTime, logger: logger)
        server.hostname = host
        do {
            try await run(server, simulator, logger)
        } catch let error as SimulatorListeningError {
            throw ValidationError("\(Self.option(of: error)): \(error.message)")
        }
        keepTime(await server.host.reachedTime())
    }

    /// The format of the log, from the same variable as the server's format.
    private static func logFormat() throws -> LogFormat {
        guard let text = ProcessInfo.processInfo.environment["QUITTANCE_LOG_FORMAT"] else { return .text }
        guard let format = LogFormat(rawValue: text) else {
            throw ValidationError("QUITTANCE_LOG_FORMAT takes text or json.")
        }
        return format
    }

    /// The option with the unusable port or address.
    private static func option(of error: SimulatorListeningError) -> String {
        if error.isAboutHostname { return "--host" }
        return switch error.listener {
        case .production: "--port"
        case .sandbox: "--sandbox-port"
        case .control: "--control-port"
        }
    }

    private func run(_ server: SimulatorServer, _ simulator: Simulator, _ logger: Logger) async throws {
        let isIncomplete = Mutex(false)
        try await server.run { ports in
            ServerSignals.handle { logger.notice("SIGHUP is ignored: a simulator has nothing to read again") }
            let handout = SimulatorHandout(simulator, hostname: host, ports: ports)
            do {
                if let out { try handout.write(to: out) }
            } catch {
                // A script would wait for the files in vain, so the simulator shuts down as if it had received a
                // signal.
                Terminal.printError("quittance: Cannot write to \((out ?? "").printable): \(error)")
                isIncomplete.withLock { $0 = true }
                kill(getpid(), SIGTERM)
                return
            }
            guard Terminal.isInteractive else {
                return logger.always("The simulated App Store listens", metadata: handout.logged)
            }
            // The simulator runs even if standard output cannot be written.
            try? Terminal.print(handout.welcome(folder: out, notifies: notify != nil || sandboxNotify != nil))
        }
        if isIncomplete.withLock(\.self) { throw ExitCode(2) }
    }

    private func plan() throws -> SimulatorPlan {
        SimulatorPlan(
            catalogue: try catalogue(), seed: seed, start: start, speed: speed, faults: kind ? .none : .unkind,
            configure: configure)
    }

    private func configure(_ store: inout SimulatedStore) {
        store.notificationURLs[.production] = notify
        store.notificationURLs[.sandbox] = sandboxNotify
        store.notificationVersions = [.production: notifyVersion, .sandbox: sandboxNotifyVersion]
        store.sharedSecret = sharedSecret
    }

    private func catalogue() throws -> StoreCatalogue {
        guard let products else { return .example(bundleId: bundleId, appAppleId: appAppleId) }
        do {
            return try StoreCatalogue(
                storeKitFile: try Input.read(products), bundleId: bundleId, appAppleId: appAppleId)
        } catch {
            throw ValidationError("--products \(products): \(error)")
        }
    }
}

// The cases are option values.
extension NotificationVersion: ExpressibleByArgument {}
