// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import LedgerSQLite
import PurchaseLedger
import PurchaseServer

/// `quittance keys`: manages the API keys of a ledger.
struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create, list and revoke the API keys of a ledger.",
        discussion: """
            A client key is for apps: it may submit purchases and read one customer at a time. A server key is for \
            your own servers and may do everything: never put it into an app. Each key is for one app. A running \
            server applies a change within a second.
            """,
        subcommands: [Create.self, List.self, Revoke.self, CustomerToken.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a key. It is shown once: the ledger stores only its hash.",
            discussion: """
                  quittance keys create --name backend --bundle-id com.example.notes --config quittance.json
                  quittance keys create --name ios --role client --bundle-id com.example.notes --config quittance.json
                """)

        @OptionGroup var options: ServerOptions

        @Option(help: "A name for the key, such as the program that uses it.")
        var name: String

        @Option(help: "The role of the key.")
        var role = APIKey.Role.server

        @Option(help: "The app of the key. May be omitted if the configuration has only one.")
        var bundleId: String?

        /// The longest name, in characters: a key fits on one line of the list.
        private static let longestName = 100

        func validate() throws {
            // Control characters could make a key look like another one in the list.
            let isBlank = name.allSatisfy(\.isWhitespace)
            guard !isBlank, name.count <= Self.longestName, name == name.printable else {
                throw ValidationError(
                    "--name takes 1 to \(Self.longestName) characters, not only spaces, and no control characters.")
            }
        }

        func run() async throws {
            var composition = try options.composition()
            let app = try composition.configuration.bundleId(bundleId)
            let storage = try composition.storage()
            let (key, text) = APIKey.make(
                name: name, role: role, bundleId: app, at: composition.now(), using: &composition.random)
            try await Ledger(storage: storage).put(key)
            try storage.close()
            Terminal.printError("Created a \(role) key for \(app). It is not shown again:")
            try Terminal.print(text)
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List all keys, without their secrets.")

        @OptionGroup var options: ServerOptions

        func run() async throws {
            let storage = try options.composition().storageForReading()
            defer { try? storage.close() }
            for key in try await Ledger(storage: storage).apiKeys() {
                let state = key.revokedAt.map { "revoked \($0.iso8601)" } ?? "created \(key.createdAt.iso8601)"
                try Terminal.print("\(key.id)  \(key.role)  \(key.bundleId)  \(key.name)  \(state)")
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a key. A running server refuses it within a second.")

        @OptionGroup var options: ServerOptions

        @Argument(help: "The key's id, as quittance keys list shows it: the part after qt_.")
        var id: String

        func run() async throws {
            let composition = try options.composition()
            let storage = try composition.storage()
            let ledger = Ledger(storage: storage)
            guard var key = try await ledger.apiKey(id) else {
                throw ValidationError("There is no key \(id). quittance keys list shows all keys.")
            }
            key.revokedAt = key.revokedAt ?? composition.now()
            try await ledger.put(key)
            try storage.close()
            try Terminal.print("Revoked \(id).")
        }
    }

    struct CustomerToken: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a customer token for tests, as your backend does.",
            discussion: """
                If an app has customerProof in the configuration, requests with its client keys need a customer token \
                in the header Quittance-Customer-Token. docs/customer-proof.md shows how your backend creates one.

                  quittance keys customer-token --customer anna --config quittance.json
                """)

        @OptionGroup var options: ServerOptions

        @Option(help: "The customer's id in your app.")
        var customer: String

        private static let longest = Int(CustomerProof.longestLifetime.components.seconds / 3600)

        @Option(name: .customLong("expires-in"), help: "The hours until the token expires, 1 to \(longest).")
        var hours = 1

        @Option(help: "The app of the customer. May be omitted if the configuration has only one.")
        var bundleId: String?

        func validate() throws {
            guard (1...Self.longest).contains(hours) else {
                throw ValidationError("--expires-in takes 1 to \(Self.longest) hours.")
            }
            guard (1...ServerBounds.customerID).contains(customer.utf8.count) else {
                throw ValidationError("--customer takes an id of 1 to \(ServerBounds.customerID) bytes.")
            }
        }

        func run() throws {
            let composition = try options.composition()
            let configuration = composition.configuration
            let app = try configuration.bundleId(bundleId)
            let proof = configuration.apps.first { $0.identity.bundleId == app }?.customerProof
            guard let proof else {
                throw ValidationError("The configuration has no customerProof for \(app): see docs/customer-proof.md.")
            }
            let expires = composition.now().advanced(by: .seconds(hours * 3600))
            guard let token = proof.token(for: customer, expires: expires) else {
                throw ValidationError(
                    "The configuration has only the public key of \(app). Tokens need the private key.")
            }
            try Terminal.print(token)
        }
    }
}

extension ServerConfiguration {
    /// The bundle id from the option, or that of the only app in the configuration.
    fileprivate func bundleId(_ named: String?) throws -> String {
        let known = apps.map(\.identity.bundleId)
        guard let app = named ?? (known.count == 1 ? known[0] : nil) else {
            throw ValidationError("Which app? Pass --bundle-id.")
        }
        guard AppConfiguration.isValidBundleId(app) else {
            throw ValidationError("--bundle-id “\(app.printable)”: \(AppConfiguration.bundleIdRule)")
        }
        guard known.isEmpty || known.contains(app) else {
            throw ValidationError("The configuration has no app \(app); it has \(known.joined(separator: ", ")).")
        }
        return app
    }
}
