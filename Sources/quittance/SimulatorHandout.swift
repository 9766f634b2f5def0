// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import Logging
import PurchaseServer
import SimulatorServer

/// What a server under test needs to know of a simulator, as text for people and as files.
struct SimulatorHandout {
    private let members: [(name: String, value: String)]
    private let roots: SimulatorRoots
    private let key: StoreKey
    private let control: String

    init(_ simulator: Simulator, hostname: String, ports: [SimulatorListener: Int]) {
        func address(_ listener: SimulatorListener) -> String {
            "http://\(ListeningAddress(hostname: hostname, port: ports[listener] ?? 0))"
        }
        roots = simulator.roots
        key = simulator.store.key
        control = address(.control)
        let catalogue = simulator.store.world.catalogue
        members =
            [
                ("production", address(.production)), ("sandbox", address(.sandbox)), ("control", address(.control)),
                ("bundleId", catalogue.bundleId), ("appAppleId", "\(catalogue.appAppleId)"),
                ("issuerId", key.issuer), ("keyId", key.id),
            ] + (simulator.store.sharedSecret.map { [("sharedSecret", $0)] } ?? [])
    }

    /// The addresses, for the log.
    var addresses: Logger.Metadata {
        let addresses = members.filter { $0.value.hasPrefix("http://") }
        return Logger.Metadata(uniqueKeysWithValues: addresses.map { ($0.name, .string($0.value)) })
    }

    /// The lines that the program prints once it listens.
    func welcome(folder: String?, notifies: Bool) -> String {
        let lines = members.map { "  \($0.name.padded(to: 12))\($0.value)" }.joined(separator: "\n")
        let files =
            folder.map { "The roots to trust, the API key and these values are in \($0)." }
                ?? """
                The roots to trust are at \(control)/roots.pem, the API key at \(control)/key.p8. \
                --out FOLDER writes them to files.
                """
        let notifications =
            notifies ? "" : "\nNo notifications are sent: --notify URL names the server that gets them.\n"
        return """
            A simulated App Store, whose clock and customers you command at \(control) with a browser or curl.

            \(lines)

            \(files)
            \(notifications)
            Try:

              curl \(control)/customers -d '{"name": "anna"}'
              curl \(control)/customers/anna/buy -d '{"product": "…"}'     # \(control)/products lists them
              curl \(control)/clock/advance -d '{"days": 31}'

            """
    }

    /// Creates a folder if it does not exist, and removes what another simulator left in it: a script that waits for
    /// the files must not take those.
    static func prepare(_ folder: String) throws {
        let folder = URL(fileURLWithPath: folder, isDirectory: true)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let name = file.lastPathComponent
            guard name == variablesFile || name.hasPrefix("SubscriptionKey_") && name.hasSuffix(".p8") else { continue }
            try FileManager.default.removeItem(at: file)
        }
    }

    private static let variablesFile = "simulator.env"

    /// Writes the files to a folder that is prepared.
    func write(to folder: String) throws {
        let folder = URL(fileURLWithPath: folder, isDirectory: true)
        let keyFile = folder.appendingPathComponent("SubscriptionKey_\(key.id).p8")
        let rootsFile = folder.appendingPathComponent("roots.pem")
        try Data(roots.tokens).write(to: folder.appendingPathComponent("root.cer"))
        try Data(roots.receipts).write(to: folder.appendingPathComponent("receipt-root.cer"))
        try Data(roots.receiptIntermediate).write(to: folder.appendingPathComponent("receipt-intermediate.cer"))
        try Data(roots.pem.utf8).write(to: rootsFile)
        // Nobody else can open the file before the key is in it.
        try Data().write(to: keyFile)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: keyFile.path)
        try Data(key.pem.utf8).write(to: keyFile)
        let all = members + [("keyFile", keyFile.path), ("rootsFile", rootsFile.path)]
        let json = JSONValue.object(all.map { .init($0.name, .string($0.value)) })
        try Data((json.compactText + "\n").utf8).write(to: folder.appendingPathComponent("simulator.json"))
        let variables = all.map { "SIMULATOR_\(Self.variable($0.name))='\(Self.quoted($0.value))'\n" }.joined()
        // The last file: a script that waits for it finds all others.
        try Data(variables.utf8).write(to: folder.appendingPathComponent(Self.variablesFile), options: .atomic)
    }

    private static func variable(_ name: String) -> String {
        name.reduce(into: "") { text, letter in text += letter.isUppercase ? "_\(letter)" : letter.uppercased() }
    }

    /// Text within single quotes of a shell.
    private static func quoted(_ text: String) -> String { text.replacing("'", with: "'\\''") }
}
