// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import LedgerSQLite
import PurchaseLedger
import PurchaseServer

struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make, list and revoke the API keys of a ledger.",
        discussion: """
            A client key may submit purchases and read one customer at a time: for apps. A server key may do all: for your own \
            servers, never in an app. Each is for one app. A running server knows of a change within a second.
            """,
        subcommands: [Create.self, List.self, Revoke.self, CustomerToken.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a key. It is shown once: only its hash is kept.",
            discussion: """
                  quittance keys create --name backend --bundle-id com.example.notes --config quittance.json
                  quittance keys create --name ios --role client --bundle-id com.example.notes --config quittance.json
                """)

        @OptionGroup var options: ServerOptions

        @Option(help: "What you call it, such as the name of what uses it.")
        var name: String

        @Option(
            help: "What it may do: client or server (the default).",
            transform: { text in
                guard let role = APIKey.Role(rawValue: text) else {
                    throw ValidationError("--role takes client or server, not \(text).")
                }
                return role
            })
        var role = APIKey.Role.server

        @Option(help: "The app it is for. Not needed if the configuration has only one.")
        var bundleId: String?

        /// The longest name, in characters: a line of a list has room for it.
        private static let longestName = 100

        func validate() throws {
            // What cannot be printed could be taken for another key in the list.
            let isBlank = name.allSatisfy(\.isWhitespace)
            guard !isBlank, name.count <= Self.longestName, name == name.printable else {
                throw ValidationError(
                    "--name takes 1 to \(Self.longestName) characters, not only spaces, without line breaks and "
                        + "other control characters.")
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
            Terminal.printError("A \(role) key for \(app). It is not shown again:")
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
                let state = key.revokedAt.map { "revoked \($0.iso8601)" } ?? "made \(key.createdAt.iso8601)"
                try Terminal.print("\(key.id)  \(key.role)  \(key.bundleId)  \(key.name)  \(state)")
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a key: from now on it opens nothing.")

        @OptionGroup var options: ServerOptions

        @Argument(help: "The key's id, as listed: the part after qt_.")
        var id: String

        func run() async throws {
            let composition = try options.composition()
            let storage = try composition.storage()
            let ledger = Ledger(storage: storage)
            guard var key = try await ledger.apiKey(id) else {
                throw ValidationError("There is no key \(id): quittance keys list shows them.")
            }
            key.revokedAt = key.revokedAt ?? composition.now()
            try await ledger.put(key)
            try storage.close()
            try Terminal.print("Revoked \(id).")
        }
    }

    struct CustomerToken: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a token that proves a customer to the server, as your backend does: to try it out.",
            discussion: """
                An app with customerProof in the configuration needs it beside a client key, as the header \
                Quittance-Customer-Token. docs/customer-proof.md shows how your backend makes one.

                  quittance keys customer-token --customer anna --config quittance.json
                """)

        @OptionGroup var options: ServerOptions

        @Option(help: "The customer's id, as your app has it.")
        var customer: String

        private static let longest = Int(CustomerProof.longestLifetime.components.seconds / 3600)

        @Option(name: .customLong("expires-in"), help: "After how many hours it expires, 1 to \(longest).")
        var hours = 1

        @Option(help: "The app it is for. Not needed if the configuration has only one.")
        var bundleId: String?

        func validate() throws {
            guard (1...Self.longest).contains(hours) else {
                throw ValidationError("--expires-in takes 1 to \(Self.longest) hours.")
            }
            guard (1...CustomerProof.subjectLimit).contains(customer.utf8.count) else {
                throw ValidationError("--customer takes an id of 1 to \(CustomerProof.subjectLimit) bytes.")
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
                    "The configuration has only the public key of \(app): the private key makes tokens.")
            }
            try Terminal.print(token)
        }
    }
}

extension ServerConfiguration {
    /// The app that a command is about: the one that was named, or the only one.
    fileprivate func bundleId(_ named: String?) throws -> String {
        let known = apps.map(\.identity.bundleId)
        guard let app = named ?? (known.count == 1 ? known[0] : nil) else {
            throw ValidationError("Which app is it for? Name it with --bundle-id.")
        }
        guard AppConfiguration.canBeBundleId(app) else {
            throw ValidationError("--bundle-id “\(app.printable)”: \(AppConfiguration.bundleIdRule)")
        }
        guard known.isEmpty || known.contains(app) else {
            throw ValidationError("The configuration has no app \(app); it has \(known.joined(separator: ", ")).")
        }
        return app
    }
}
