// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
import Foundation
public import PurchaseLedger
public import PurchaseServer

/// The options of all commands that use a ledger or its configuration. ``ConfigTopic`` explains these options. The help
/// of each command hides the group, so that the help shows only the command's own options.
struct ServerOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The configuration file (JSON), with settings, apps and products.", valueName: "file"),
        completion: .file(extensions: ["json"]))
    var config: String?

    // Declared as text and parsed by `validate`, because the parser's own error would repeat the value, which may
    // contain a password.
    @Option(
        help: ArgumentHelp(
            """
            The ledger: sqlite:PATH, a file that quittance serve creates if it does not exist; or postgresql://…, a \
            database for any number of servers. Behind a pooler that does not keep prepared statements, with \
            ?prepared_statements=false. The tables are in the schema quittance, or in the schema NAME with ?schema=NAME.
            """, valueName: "ledger"),
        completion: .file())
    var database: String?

    @Option(
        name: .customLong("root"),
        help: ArgumentHelp(
            "A root certificate (PEM or DER) to trust instead of Apple's, for tests. May be repeated.",
            valueName: "file"),
        completion: .file())
    var roots: [String] = []

    /// The variables of the environment. A test within its process has others, which are no settings.
    @TaskLocal static var variables = ProcessInfo.processInfo.environment

    func validate() throws {
        if let database { _ = try Self.location(database, "--database") }
    }

    /// Parses the location of a ledger.
    static func location(_ text: String, _ option: String) throws -> LedgerLocation {
        try asUsage("\(option): ") { try LedgerLocation.parse(text) }
    }

    /// The configuration from the file and the environment, overridden by these options.
    func configuration() throws -> ServerConfiguration {
        let text = try config.map { file in try asUsage("--config \(file): ") { try Input.read(file) } }
        var configuration: ServerConfiguration
        do {
            configuration = try ServerConfiguration(file: text, variables: Self.variables)
            configuration.file = config
        } catch {
            throw ValidationError(error.line == nil ? error.message : "\(config ?? "") \(error)")
        }
        if let database {
            let location = try Self.location(database, "--database")
            configuration.set(\.database, to: location, "database", by: "--database", text: database)
        }
        if !roots.isEmpty {
            configuration.set(\.roots, to: roots, "roots", by: "--root", text: roots.joined(separator: ","))
        }
        return configuration
    }

    /// The composition of the program from this configuration.
    func composition() throws -> Composition { Composition(configuration: try configuration()) }

    /// The composition, with the time of a simulator if the configuration names a simulator.
    func compositionWithTime() async throws -> Composition {
        let composition = try composition()
        return try await composition.takingSimulatorTime(composition.logger())
    }
}

/// The option of commands that record documents.
struct TrustOptions: ParsableArguments {
    @Flag(
        name: .customLong("trust-other-roots"),
        help: """
            Use a ledger with documents of roots that are not trusted now: their purchases count. Pass the option \
            once, after roots were replaced.
            """)
    var trustsOtherRoots = false
}

/// The option of commands that call the App Store.
struct AppStoreServerOptions: ParsableArguments {
    @Flag(
        help: """
            Ask an appStoreServer or sandboxAppStoreServer over http, although it is not on this machine: for a \
            simulator in a network of your own. Machines on the way can read the bearer tokens.
            """)
    var insecure = false

    /// - Parameter warn: Called if this option allows an insecure address. By default, the warning goes to standard
    ///   error.
    /// - Throws: `ValidationError` if an address is insecure, and this option is not set.
    func check(
        _ configuration: ServerConfiguration, warn: (String) -> Void = { Terminal.report($0) }
    ) throws {
        do {
            try configuration.requireSecureAppStoreServers()
        } catch {
            guard insecure else { throw ValidationError(error.message) }
            warn("The App Store is asked over http (--insecure): others on the way read the bearer tokens")
        }
    }
}

// The cases of these enumerations are option values.
extension APIKey.Role: ExpressibleByArgument {}
extension ServerConfiguration.Revocation: ExpressibleByArgument {}
