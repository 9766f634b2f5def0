// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
import LedgerSQLite
import PurchaseLedger
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

    @Option(help: "Where the ledger is: sqlite:PATH. The file is made where there is none.", completion: .file())
    var database: String?

    @Option(
        name: .customLong("root"),
        help: "A root certificate to trust instead of Apple's, PEM or DER: for tests. May be given more than once.",
        completion: .file())
    var roots: [String] = []

    func validate() throws {
        guard database?.hasPrefix("sqlite:") ?? true else {
            throw ValidationError("--database takes sqlite:PATH, such as sqlite:quittance.sqlite.")
        }
    }

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
}

extension ServerConfiguration {
    /// Opens the ledger.
    ///
    /// - Parameter mayMake: Whether one is made where there is none.
    /// - Throws: Exit status 1 if it cannot be opened.
    func storage(mayMake: Bool) throws -> SQLiteLedgerStorage {
        try open(mayMake ? ledger() : existingLedger()) { try SQLiteLedgerStorage(path: $0, createIfMissing: mayMake) }
    }

    /// Opens the ledger so that nothing in its file changes.
    ///
    /// - Throws: Exit status 1 if it cannot be opened.
    func storageForReading() throws -> SQLiteLedgerStorage {
        try open(existingLedger()) { try SQLiteLedgerStorage(reading: $0) }
    }

    private func open(_ path: String, _ body: (String) throws -> SQLiteLedgerStorage) throws -> SQLiteLedgerStorage {
        do {
            return try body(path)
        } catch {
            Terminal.complain("quittance: The ledger at \(path) cannot be opened: \(error)")
            throw ExitCode(1)
        }
    }

    /// The path of a ledger that is there.
    func existingLedger() throws -> String {
        let path = try ledger()
        guard FileManager.default.fileExists(atPath: path) else {
            throw ValidationError("There is no ledger at \(path). quittance serve makes one.")
        }
        return path
    }

    private func ledger() throws -> String {
        guard database != nil else {
            throw ValidationError("Which ledger? Name it with --database sqlite:PATH or in the configuration.")
        }
        return databasePath
    }

    /// The file of the ledger.
    var databasePath: String { String((database ?? "").dropFirst("sqlite:".count)) }

    /// A verifier with the roots that are configured, for whatever app.
    func verifier(checkingRevocation: Bool = true) throws -> AppStoreVerifier {
        var verifier = AppStoreVerifier(
            apps: .any, environments: Set(Environment.allCases),
            roots: try TrustRoots(at: roots, besidesApple: alsoAppleRoots))
        if let intermediates { verifier.intermediates = try Intermediates(at: intermediates) }
        if checkingRevocation, revocation != .off {
            let checker = RevocationChecker(transport: HTTPOCSPTransport())
            verifier.revocation = .checked(by: checker, acceptsUnknown: revocation == .ask)
        }
        return verifier
    }
}

extension TrustRoots {
    /// Those in the files, or Apple's where none is named.
    init(at paths: [String], besidesApple: Bool) throws {
        var trusted: TrustRoots? = besidesApple || paths.isEmpty ? .apple : nil
        for path in paths {
            let root: TrustRoots
            do {
                root = try TrustRoots(reading: Input.read(path))
            } catch {
                throw ValidationError("--root \(path): \((error as? VerificationError)?.message ?? "\(error)")")
            }
            trusted = trusted?.union(root) ?? root
        }
        self = trusted ?? .apple
    }
}
