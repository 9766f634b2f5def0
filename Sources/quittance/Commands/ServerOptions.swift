// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import PurchaseServer

/// Where the configuration and the ledger are: for all commands that have to do with one.
struct ServerOptions: ParsableArguments {
    @Option(
        help: """
            The file with the configuration (JSON): settings, apps and their products. A setting comes from the environment, \
            as QUITTANCE_PORT, else from the file; the few that are options too come from the option first.
            """,
        completion: .file(extensions: ["json"]))
    var config: String?

    @Option(
        help: "Where the ledger is: sqlite:PATH. quittance serve makes the file if there is none.",
        completion: .file(),
        transform: { text in
            guard let location = LedgerLocation(text) else {
                throw ValidationError("--database takes sqlite:PATH, such as sqlite:quittance.sqlite.")
            }
            return location
        })
    var database: LedgerLocation?

    @Option(
        name: .customLong("root"),
        help: "A root certificate to trust instead of Apple's, PEM or DER: for tests. May be given more than once.",
        completion: .file())
    var roots: [String] = []

    /// What file, environment and these options say.
    func configuration() throws -> ServerConfiguration {
        let text: [UInt8]?
        do {
            text = try config.map { try Input.read($0) }
        } catch {
            throw ValidationError("--config \(config ?? ""): \(error)")
        }
        var configuration: ServerConfiguration
        do {
            configuration = try ServerConfiguration(file: text, variables: ProcessInfo.processInfo.environment)
        } catch {
            throw ValidationError(error.line == nil ? error.message : "\(config ?? "") \(error)")
        }
        if let database { configuration.database = database }
        if !roots.isEmpty { configuration.roots = roots }
        return configuration
    }

    /// The program that they describe.
    func composition() throws -> Composition { Composition(try configuration()) }
}
