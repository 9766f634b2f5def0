// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import ArgumentParser
import Dispatch
import Listening
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
              quittance serve --config quittance.json --check

            \(ConfigTopic.appStoreOptions)
            """)

    @OptionGroup var serving: ServeOptions

    @Flag(
        help: """
            Read all that the server would read, print faults and hints, open no port, and change nothing. Exit \
            status: 0 without faults, 1 with.
            """)
    var check = false

    func run() async throws {
        if check {
            var examination = Examination(serving)
            return try await examination.check()
        }
        ServerSignals.ignore()
        let configuration = try serving.configuration()
        let composition = Composition(configuration: configuration)
        let logger = composition.logger()
        try serving.appStoreServer.check(configuration) { logger.warning("\($0)") }
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
            .serving, share: share, trustsOtherRoots: serving.trust.trustsOtherRoots, logger,
            warn: { logger.warning("\($0)") }
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

    private func serve(_ composition: Composition, _ service: LedgerService?, _ logger: Logger) async throws {
        let configuration = composition.configuration
        var server = composition.server(service, logger)
        server.configurationDigests = composition.configurationDigests
        server.webhookConnections = allowOpenFiles(
            for: configuration.bounds.connections, webhooks: server.webhookConnections, logger)
        do {
            try await server.run(
                hostname: configuration.hostname, port: configuration.port,
                healthHostname: configuration.healthHostname, healthPort: configuration.healthPort,
                consolePort: configuration.consolePort
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
            let configuration = try serving.configuration()
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
        let (line, text) =
            switch listener {
            case .requests: ("The server listens", welcome(address, configuration))
            case .health:
                ("The server listens for health checks", "Health checks are also answered on \(address).\n")
            case .console:
                ("The server listens for the console", "The console is at \(address), for keys of the role support.\n")
            }
        guard Terminal.isInteractive else { return logger.always("\(line)", metadata: ["address": .string(address)]) }
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
