// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// The options that configure a server, for `quittance serve` and for `quittance doctor`, which examines the same.
struct ServeOptions: ParsableArguments {
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
        if configuration.database == nil, configuration.consolePort != nil {
            throw ValidationError("The console shows a ledger: pass --database sqlite:PATH.")
        }
        if configuration.database == nil, configuration.simulatorClock != nil {
            throw ValidationError("A simulator's clock is for a ledger: pass --database sqlite:PATH.")
        }
    }

    /// The configuration from the file and the environment, overridden by the options of this command.
    func configuration() throws -> ServerConfiguration {
        var configuration = try options.configuration()
        if let port { configuration.set(\.port, to: port, "port", by: "--port") }
        if let hostname { configuration.set(\.hostname, to: hostname, "hostname", by: "--hostname") }
        if let environment {
            configuration.set(\.environment, to: environment, "environment", by: "--environment")
        }
        if let simulatorClock {
            configuration.set(\.simulatorClock, to: simulatorClock, "simulatorClock", by: "--simulator-clock")
        }
        for id in bundleIds where !configuration.apps.contains(where: { $0.identity.bundleId == id }) {
            configuration.apps.append(AppConfiguration(AppIdentity(bundleId: id)))
        }
        try asUsage { try configuration.requireDifferentAddresses() }
        try Self.requireLedgerAndApps(configuration)
        return configuration
    }
}
