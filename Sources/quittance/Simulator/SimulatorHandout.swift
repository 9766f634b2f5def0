// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import Listening
import Logging
import PurchaseServer
import SimulatorServer

/// The addresses, ids and keys that a server under test needs to use a simulator, as text for people and as files.
struct SimulatorHandout {
    private let members: [(name: String, value: String)]
    private let roots: SimulatorRoots
    private let store: SimulatedStore
    private let addresses: (control: String, production: String, sandbox: String)
    /// The port of a Quittance server; `nil` if unknown.
    var serverPort: Int?
    private var key: StoreKey { store.key }

    init(_ simulator: Simulator, hostname: String, ports: [SimulatorListener: Int]) {
        func address(_ listener: SimulatorListener) -> String {
            "http://\(ListeningAddress(hostname: hostname, port: ports[listener] ?? 0))"
        }
        roots = simulator.roots
        store = simulator.store
        addresses = (address(.control), address(.production), address(.sandbox))
        serverPort = store.notificationURLs[.production].flatMap(Self.serverPort)
        let catalogue = simulator.store.world.catalogue
        members =
            [
                ("production", addresses.production), ("sandbox", addresses.sandbox), ("control", addresses.control),
                ("bundleId", catalogue.bundleId), ("appAppleId", "\(catalogue.appAppleId)"),
                ("issuerId", store.key.issuer), ("keyId", store.key.id),
            ] + (store.sharedSecret.map { [("sharedSecret", $0)] } ?? [])
    }

    /// The port of a Quittance server on this machine, from the URL of its notifications.
    private static func serverPort(_ url: String) -> Int? {
        guard let url = URL(string: url), ["127.0.0.1", "localhost", "::1", "[::1]"].contains(url.host()),
            url.path().hasPrefix("/notifications/v")
        else { return nil }
        return url.port ?? 80
    }

    /// The addresses, for the log.
    var logged: Logger.Metadata {
        [
            "production": .string(addresses.production), "sandbox": .string(addresses.sandbox),
            "control": .string(addresses.control),
        ]
    }

    /// The lines that the program prints once it listens.
    func welcome(folder: String?, notifies: Bool) -> String {
        let folder = folder?.printable
        let control = addresses.control
        let lines = members.map { "  \($0.name.padded(to: 12))\($0.value)" }.joined(separator: "\n")
        let files =
            folder.map {
                """
                Roots, API key and these values are in \($0). A Quittance server with them:

                  \(Terminal.program) serve --config \($0)/\(SimulatorFolder.configurationFile)
                """
            }
                ?? """
                The roots to trust are at \(control)/roots.pem, the API key at \(control)/key.p8. \
                --out FOLDER writes them to files.
                """
        let notifications =
            notifies ? "" : "\nNo notifications are sent: --notify URL names the server that gets them.\n"
        return """
            A simulated App Store. Command it at \(control) (browser or curl).

            \(lines)

            \(files)
            \(notifications)
            Try:

              curl \(control)/customers -d '{"name": "anna"}'
              curl \(control)/products
              curl \(control)/customers/anna/buy -d '{"product": "…"}'
              curl \(control)/clock/advance -d '{"days": 31}'

            """
    }

    /// Removes the file that the previous run wrote last. A script that waits for this file must not use the files of
    /// the previous run.
    ///
    /// - Throws: ``SimulatorFolderError`` if a file cannot be removed, or if the folder is not a simulator's.
    static func prepare(_ folder: SimulatorFolder) throws(SimulatorFolderError) {
        let kept = folder
        let folder = URL(fileURLWithPath: kept.path, isDirectory: true)
        let isSimulators = kept.has(SimulatorFolder.keysFile) || values(in: folder) != nil
        if !isSimulators, let other = certificateFiles.first(where: kept.has) {
            throw SimulatorFolderError("The folder has \(other), not made by a simulator: name a different folder.")
        }
        _ = try configuration(in: folder)
        do {
            let file = folder.appendingPathComponent(variablesFile)
            if FileManager.default.fileExists(atPath: file.path) { try FileManager.default.removeItem(at: file) }
        } catch {
            throw SimulatorFolderError("This folder cannot be written: \(error.localizedDescription)")
        }
    }

    private static let variablesFile = "simulator.env"
    private static let valuesFile = "simulator.json"
    private static let webhookSecretFile = "webhook-secret"

    /// A text of 48 random bytes, as docs/webhooks.md makes one with openssl.
    private static func newSecret() -> String {
        var random = SystemRandomNumberGenerator()
        return Data((0..<48).map { _ in UInt8.random(in: .min ... .max, using: &random) }).base64EncodedString() + "\n"
    }

    /// The file of the previous run's API key. Its name is derived from the key id among the values that the run wrote.
    /// A search for names of this form would also find the files of Apple's keys, which must not be touched.
    private static func lastKeyFile(in folder: URL) -> URL? {
        guard let id = values(in: folder)?["keyId"]?.string, !id.contains("/") else { return nil }
        return folder.appendingPathComponent("SubscriptionKey_\(id).p8")
    }

    private static let certificateFiles = [
        "root.cer", "receipt-root.cer", "receipt-intermediate.cer", SimulatorFolder.rootsFile,
    ]

    /// The values that a simulator wrote to the folder; `nil` if none did.
    private static func values(in folder: URL) -> JSONValue? {
        // An unreadable file is not from a simulator.
        let values = try? JSONValue(parsing: Input.read(folder.appendingPathComponent(valuesFile).path))
        return values?["control"] == nil ? nil : values
    }

    private static func configuration(in folder: URL) throws(SimulatorFolderError) -> JSONValue? {
        let file = folder.appendingPathComponent(SimulatorFolder.configurationFile)
        guard FileManager.default.fileExists(atPath: file.path) else { return nil }
        let text: [UInt8]
        do {
            text = try Input.read(file.path)
        } catch {
            throw SimulatorFolderError("\(error)")
        }
        return try SimulatedConfiguration.read(text)
    }

    /// Writes the files to a prepared folder.
    func write(to folder: String) throws {
        let folder = URL(fileURLWithPath: folder, isDirectory: true)
        let keyFile = folder.appendingPathComponent("SubscriptionKey_\(key.id).p8")
        let rootsFile = folder.appendingPathComponent(SimulatorFolder.rootsFile)
        if let last = Self.lastKeyFile(in: folder), last != keyFile {
            // The old key opens nothing any more, and its file may be missing.
            try? FileManager.default.removeItem(at: last)
        }
        let certificates = [roots.tokens, roots.receipts, roots.receiptIntermediate, Array(roots.pem.utf8)]
        for (name, bytes) in zip(Self.certificateFiles, certificates) {
            try Data(bytes).write(to: folder.appendingPathComponent(name), options: .atomic)
        }
        try SimulatorFolder.write(key.pem, to: keyFile)
        let all = members + [("keyFile", keyFile.path), ("rootsFile", rootsFile.path)]
        let json = JSONValue.object(all.map { .init($0.name, .string($0.value)) })
        try SimulatorFolder.write(json.compactText + "\n", to: folder.appendingPathComponent(Self.valuesFile))
        let secretFile = folder.appendingPathComponent(Self.webhookSecretFile)
        // Receivers know the secrets that a server derived from the file in an earlier run.
        if !FileManager.default.fileExists(atPath: secretFile.path) {
            try SimulatorFolder.write(Self.newSecret(), to: secretFile)
        }
        let configuration = SimulatedConfiguration(
            ledger: folder.appendingPathComponent(SimulatorFolder.ledgerFile).path, roots: rootsFile.path,
            keyFile: keyFile.path, webhookSecretFile: secretFile.path,
            addresses: addresses, store: store, port: serverPort)
        let document = configuration.updating(try Self.configuration(in: folder))
        try SimulatorFolder.write(
            document.indentedText + "\n", to: folder.appendingPathComponent(SimulatorFolder.configurationFile))
        let variables = all.map { "SIMULATOR_\($0.name.asVariable)='\(Self.quoted($0.value))'\n" }.joined()
        // This is the last file, so a script that waits for it finds all other files.
        try SimulatorFolder.write(variables, to: folder.appendingPathComponent(Self.variablesFile))
    }

    /// The text, escaped for single quotes of a shell.
    private static func quoted(_ text: String) -> String { text.replacing("'", with: "'\\''") }
}
