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
        subcommands: [Create.self, List.self, Revoke.self])

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

        @Option(help: "The app it is for. Not needed where the configuration has one only.")
        var bundleId: String?

        func run() async throws {
            let configuration = try options.configuration()
            let apps = configuration.apps.map(\.identity.bundleId)
            guard let app = bundleId ?? (apps.count == 1 ? apps[0] : nil) else {
                throw ValidationError("Which app is it for? Name it with --bundle-id.")
            }
            guard apps.isEmpty || apps.contains(app) else {
                throw ValidationError("The configuration has no app \(app); it has \(apps.joined(separator: ", ")).")
            }
            let storage = try configuration.storage(mayMake: false)
            var random = SystemRandomNumberGenerator()
            let (key, text) = APIKey.make(name: name, role: role, bundleId: app, at: Clock.now(), using: &random)
            try await storage.write { try $0.put(key) }
            try storage.close()
            Terminal.complain("A \(role) key for \(app). It is not shown again:")
            try Terminal.print(text)
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List all keys, without their secrets.")

        @OptionGroup var options: ServerOptions

        func run() async throws {
            let storage = try options.configuration().storage(mayMake: false)
            for key in try await storage.read({ try $0.apiKeys() }) {
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
            let storage = try options.configuration().storage(mayMake: false)
            let isKnown = try await storage.write { [id] writer in
                guard var key = try writer.apiKey(id) else { return false }
                key.revokedAt = key.revokedAt ?? Clock.now()
                try writer.put(key)
                return true
            }
            try storage.close()
            guard isKnown else { throw ValidationError("There is no key \(id): quittance keys list shows them.") }
            try Terminal.print("Revoked \(id).")
        }
    }
}
