// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import ArgumentParser
import Dispatch
import Logging
import PurchaseLedger
import PurchaseServer

/// `quittance serve`: runs the server.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the server: verifyReceipt, Apple's notifications, and your customers' purchases.",
        usage: "quittance serve [options]",
        discussion: """
              POST /verifyReceipt             as Apple's, for --environment
              POST /sandbox/verifyReceipt     the same for sandbox receipts
              GET  /health/live               200 while the server runs
              GET  /health/ready              200 while the ledger can be written

            With a ledger (--database) and an app (--bundle-id, or apps in the configuration) also:

              POST /notifications/v2, /v1     Apple's notifications; 200 once on disk
              POST /v1/customers/ID/purchases submits a purchase, with an API key
              GET  /v1/customers/ID           what a customer may use and has bought
              GET  /v1/events                 changes, page by page

            As with Apple's endpoint, verifyReceipt answers the receipts of any app: compare bundle_id in the \
            response. Sandbox and production purchases are kept apart. On SIGTERM or SIGINT the server finishes \
            running requests, then exits; a second signal ends the server at once. On SIGHUP the server reads the \
            apps' In-App Purchase keys again; to change other settings, restart the server.

              quittance serve
              quittance serve --database sqlite:quittance.sqlite \\
                  --bundle-id com.example.notes
              quittance serve --database postgresql:///ledger --bundle-id com.example.notes
              quittance serve --config quittance.json

            \(ConfigTopic.appStoreOptions)
            """)

    @OptionGroup(visibility: .inTopic) var options: ServerOptions
    @OptionGroup(visibility: .inTopic) var trust: TrustOptions
    @OptionGroup(visibility: .inTopic) var appStoreServer: AppStoreServerOptions

    @Option(help: "The port to listen on; 0 takes any free port. Default: 8080.")
    var port: Int?

    @Option(help: "The address to listen on. Default: 127.0.0.1.")
    var hostname: String?

    @Option(
        help: """
            The environment of /verifyReceipt: production (the default) or sandbox. For receipts of the other \
            environment the status is 21007 or 21008.
            """,
        transform: { try Environment.option($0, allowed: [.production, .sandbox]) })
    var environment: Environment?

    @Option(
        name: .customLong("bundle-id"),
        help: "An app whose purchases the ledger records, in addition to the configured apps. May be repeated."
    )
    var bundleIds: [String] = []

    @Option(
        name: .customLong("simulator-clock"),
        help: """
            The control port of an App Store simulator whose time the server takes, such as http://127.0.0.1:9000. \
            Only with --root of that simulator: a server that trusts Apple's roots refuses it.
            """,
        transform: { text in
            guard ServerConfiguration.isSimulatorAddress(text) else {
                throw ValidationError("--simulator-clock takes \(ServerConfiguration.simulatorAddress).")
            }
            return text
        })
    var simulatorClock: String?

    func validate() throws {
        if let hostname, !ServerConfiguration.isHostname(hostname) {
            throw ValidationError("--hostname takes \(ServerConfiguration.expectedHostname).")
        }
        guard (0...65535).contains(port ?? 0) else { throw ValidationError("--port takes a number from 0 to 65535.") }
        for bundleId in bundleIds { try TextForm.bundleID.require(bundleId, in: "--bundle-id") }
    }

    func run() async throws {
        ServerSignals.ignore()
        let configuration = try resolvedConfiguration()
        try Self.requireLedgerAndApps(configuration)
        let composition = Composition(configuration: configuration)
        let logger = composition.logger()
        try appStoreServer.check(configuration) { logger.warning("\($0)") }
        logger.info("Quittance starts", metadata: ["version": "\(ProgramVersion.text)"])
        if !configuration.passedOver.isEmpty {
            logger.warning(
                """
                Variables of a Kubernetes service are no settings: set enableServiceLinks to false, or rename the \
                service
                """,
                metadata: ["passedOver": "\(configuration.passedOver.joined(separator: " "))"])
        }
        guard configuration.database != nil else {
            logger.notice("No ledger: verifyReceipt is answered, and nothing is recorded")
            return try await serve(composition, nil, logger)
        }
        if !configuration.roots.isEmpty {
            logger.warning("The server trusts other roots than Apple's", metadata: ["roots": "\(configuration.roots)"])
        }
        try Self.warn(ofSimulatedRoots: composition.verifier().roots, logger)
        let share = configuration.shareOfServer
        try await composition.run(
            .serving, share: share, trustsOtherRoots: trust.trustsOtherRoots, logger, warn: { logger.warning("\($0)") }
        ) { service, composition in
            try await serve(composition, service, logger)
        }
    }

    /// Warns if the server trusts a simulator's signatures.
    private static func warn(ofSimulatedRoots roots: TrustRoots, _ logger: Logger) throws {
        guard roots.simulated.some else { return }
        let committed = try StoreAuthority.fixture().roots.map { try TrustRoots(reading: $0) }
        if committed.allSatisfy({ roots.isDisjoint(with: $0) }) {
            logger.warning("The server accepts purchases that an App Store simulator invents: for tests only")
        } else {
            logger.critical(
                """
                ANYBODY CAN SIGN PURCHASES FOR THIS SERVER: it trusts the roots of seeded simulators, whose keys are \
                published with Quittance. For tests on one machine only
                """)
        }
    }

    /// Checks that a configuration with apps, other roots or a simulator's clock has a ledger, and that a configuration
    /// with a ledger has apps.
    private static func requireLedgerAndApps(_ configuration: ServerConfiguration) throws {
        let error: String? =
            switch (configuration.database == nil, configuration.apps.isEmpty, configuration.roots.isEmpty) {
            case (true, false, _): "The apps need a ledger for their purchases: pass --database sqlite:PATH."
            case (true, true, false): "Other roots need a ledger: pass --database sqlite:PATH."
            case (false, true, _): "A ledger needs an app: pass --bundle-id, or add apps to the configuration."
            case (true, true, true), (false, false, _): nil
            }
        if let error { throw ValidationError(error) }
        if configuration.database == nil, configuration.simulatorClock != nil {
            throw ValidationError("A simulator's clock is for a ledger: pass --database sqlite:PATH.")
        }
    }

    /// The configuration from the file and the environment, overridden by the options of this command.
    private func resolvedConfiguration() throws -> ServerConfiguration {
        var configuration = try options.configuration()
        if let port { configuration.set(\.port, to: port, "port", by: "--port") }
        if let hostname { configuration.set(\.hostname, to: hostname, "hostname", by: "--hostname") }
        if let environment { configuration.environment = environment }
        if let simulatorClock {
            configuration.set(\.simulatorClock, to: simulatorClock, "simulatorClock", by: "--simulator-clock")
        }
        for id in bundleIds where !configuration.apps.contains(where: { $0.identity.bundleId == id }) {
            configuration.apps.append(AppConfiguration(AppIdentity(bundleId: id)))
        }
        try asUsage { try configuration.requireTwoAddresses() }
        return configuration
    }

    private func serve(_ composition: Composition, _ service: LedgerService?, _ logger: Logger) async throws {
        let configuration = composition.configuration
        var server = composition.server(service, logger)
        server.webhookConnections = allowOpenFiles(
            for: configuration.bounds.connections, webhooks: server.webhookConnections, logger)
        do {
            try await server.run(
                hostname: configuration.hostname, port: configuration.port,
                healthHostname: configuration.healthHostname, healthPort: configuration.healthPort
            ) { listener, port in
                if listener == .requests { ServerSignals.handle { reloadKeys(of: service, logger) } }
                announce(listener, port: port, configuration, logger)
            }
            logger.notice("The server has ended: all requests are answered")
        } catch let error as ListeningError {
            // Status 1 lets a service manager restart the server: the port may be free later, or the address available.
            throw Terminal.failure("\(configuration.reference(to: error.setting)): \(error.message)")
        }
    }

    /// Reads the apps' keys again, and the settings that locate them, because a new key has a new id. If the reload
    /// fails, all keys stay as they are. No other setting is reloaded.
    private func reloadKeys(of service: LedgerService?, _ logger: Logger) {
        do {
            let configuration = try resolvedConfiguration()
            let keys = try AppSigning.keys(of: configuration.apps)
            for warning in configuration.keyWarnings { logger.warning("\(warning)") }
            service?.signing?.replaceKeys(keys)
            service?.reconcilers?.replaceKeys(keys)
            let ids = keys.values.map(\.id).sorted().joined(separator: " ")
            logger.notice("The In-App Purchase keys were read again", metadata: ["keyIds": .string(ids)])
        } catch {
            logger.error(
                "The In-App Purchase keys were not read again, and stay as they were",
                metadata: ["reason": .string("\(error)")])
        }
    }

    /// Announces the address of a listener. A person at a terminal gets the address with an example request. Otherwise
    /// the address goes to the log, so that all output has the log's format.
    private func announce(
        _ listener: ServerApplication.Listener, port: Int, _ configuration: ServerConfiguration, _ logger: Logger
    ) {
        let isHealth = listener == .health
        let hostname = isHealth ? configuration.healthHostname ?? configuration.hostname : configuration.hostname
        let address = "http://\(ListeningAddress(hostname: hostname, port: port))\(isHealth ? "/health/live" : "")"
        guard Terminal.isInteractive else {
            return logger.always(
                isHealth ? "The server listens for health checks" : "The server listens",
                metadata: ["address": .string(address)])
        }
        let text = isHealth ? "Health checks are also answered on \(address).\n" : welcome(address, configuration)
        // The server runs even if standard output cannot be written.
        try? Terminal.print(text)
    }

    private func welcome(_ address: String, _ configuration: ServerConfiguration) -> String {
        let first = """
            Quittance listens on \(address). A first request, without a receipt:

              curl -s \(address)/verifyReceipt -d '{"receipt-data": "bm8="}'

            """
        guard let database = configuration.database else { return first }
        let apps = configuration.apps.map(\.identity.bundleId)
        return first + """

            The ledger is \(database),
            for \(apps.joined(separator: ", ")). Its API needs a key. In another terminal:

              \(Terminal.program) keys create --name try --role server \\
                --bundle-id \(apps[0]) --database \(database)
              curl -s \(address)/v1/events -H 'Authorization: Bearer qt_…'

            """
    }
}
