// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import LedgerSQLite
import Logging
import PurchaseServer

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the server: verifyReceipt, Apple's notifications, and who owns what.",
        discussion: """
            POST /verifyReceipt             Apple's request, answer and status codes, for --environment
            POST /sandbox/verifyReceipt     the same for sandbox receipts
            GET  /health/live               200 while the server runs
            GET  /health/ready              200 while the ledger can be written

            With a ledger (--database) and an app (--bundle-id, or apps in the configuration) also:

            POST /notifications/v2, /v1     Apple's server notifications, 200 once they are durable
            POST /v1/customers/ID/purchases what a customer presents: {"document": …}, with an API key
            GET  /v1/customers/ID           entitlements, subscriptions and purchases
            GET  /v1/events                 what changed

            As with Apple's endpoint, verifyReceipt answers any app's receipt: compare bundle_id in the answer. Sandbox purchases \
            are kept apart from production's. SIGTERM lets running requests finish, then ends the server.

              quittance serve
              quittance serve --database sqlite:quittance.sqlite --bundle-id com.example.notes
              quittance serve --config quittance.json
            """)

    @OptionGroup var options: ServerOptions

    @Option(help: "The port to listen on; 0 takes any free one. Default: 8080.")
    var port: Int?

    @Option(help: "The address to listen on. Default: 127.0.0.1.")
    var hostname: String?

    @Option(
        help: """
            What /verifyReceipt stands for: production (the default) or sandbox. It answers 21007 or 21008 to the other's \
            receipts.
            """,
        transform: Environment.option)
    var environment: Environment?

    @Option(
        name: .customLong("bundle-id"),
        help:
            "An app whose purchases the ledger takes in, besides those in the configuration. May be given more than once."
    )
    var bundleIds: [String] = []

    func validate() throws {
        guard [nil, .production, .sandbox].contains(environment) else {
            throw ValidationError("--environment takes production or sandbox: Apple signs for no other.")
        }
        guard (0...65535).contains(port ?? 0) else { throw ValidationError("--port takes a number from 0 to 65535.") }
        if let wrong = bundleIds.first(where: { !AppConfiguration.canBeBundleId($0) }) {
            throw ValidationError("--bundle-id “\(wrong.printable)”: \(AppConfiguration.bundleIdRule)")
        }
    }

    func run() async throws {
        let configuration = try resolvedConfiguration()
        let composition = Composition(configuration)
        let logger = composition.logger()
        guard configuration.database != nil else {
            guard configuration.apps.isEmpty else {
                throw ValidationError(
                    "Where to keep the purchases of these apps? Name a ledger: --database sqlite:PATH.")
            }
            guard configuration.roots.isEmpty else {
                throw ValidationError("Other roots are for a ledger: name one with --database sqlite:PATH.")
            }
            return try await serve(composition, nil, logger)
        }
        guard !configuration.apps.isEmpty else {
            throw ValidationError(
                "A ledger is about apps: name them with --bundle-id, or in the configuration under apps.")
        }
        let verifier = try composition.verifier()
        let storage = try composition.storage(createIfMissing: true)
        let service = composition.service(storage, verifier)
        if !configuration.roots.isEmpty {
            logger.warning("Trusts other roots than Apple's", metadata: ["roots": "\(configuration.roots)"])
        }
        // However it ends, the log is brought into the file.
        do {
            try await serve(composition, service, logger)
        } catch {
            try? storage.close()
            throw error
        }
        try storage.close()
    }

    /// What file and environment say, and these options.
    private func resolvedConfiguration() throws -> ServerConfiguration {
        var configuration = try options.configuration()
        if let port { configuration.port = port }
        if let hostname { configuration.hostname = hostname }
        if let environment { configuration.environment = environment }
        for id in bundleIds where !configuration.apps.contains(where: { $0.identity.bundleId == id }) {
            configuration.apps.append(AppConfiguration(AppIdentity(bundleId: id)))
        }
        do {
            try configuration.requireTwoAddresses()
        } catch {
            throw ValidationError(error.message)
        }
        return configuration
    }

    private func serve(_ composition: Composition, _ service: LedgerService?, _ logger: Logger) async throws {
        let configuration = composition.configuration
        let server = composition.server(service, logger)
        allowOpenFiles(for: configuration.bounds.connections, logger)
        try await server.run(
            hostname: configuration.hostname, port: configuration.port,
            healthHostname: configuration.healthHostname, healthPort: configuration.healthPort
        ) { listener, port in
            // Serving goes on if nothing can be printed.
            switch listener {
            case .requests:
                let address = "http://\(configuration.hostname):\(port)"
                try? Terminal.print(welcome(address, configuration))
            case .health:
                let hostname = configuration.healthHostname ?? configuration.hostname
                try? Terminal.print("Health is also answered on http://\(hostname):\(port)/health/live.\n")
            }
        }
    }

    private func welcome(_ address: String, _ configuration: ServerConfiguration) -> String {
        let first = """
            Quittance listens on \(address). A first request, with something that is no receipt:

              curl -s \(address)/verifyReceipt -d '{"receipt-data": "bm90IGEgcmVjZWlwdA=="}'

            """
        guard let database = configuration.database else { return first }
        let apps = configuration.apps.map(\.identity.bundleId)
        return first + """

            The ledger is \(database), about \(apps.joined(separator: ", ")). Its API needs a key, made in \
            another terminal:

              quittance keys create --name try --bundle-id \(apps[0]) --database \(database)
              curl -s \(address)/v1/events -H 'Authorization: Bearer qt_…'

            """
    }
}
