// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance keys`: manages the API keys of a ledger.
struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create, list and revoke the API keys of a ledger.",
        discussion: """
            A client key is for apps: the key may submit purchases and read a single customer at a time. A read key is \
            for a person who looks at anything but secrets, and a support key also for helping customers. A server key \
            is for your own servers and allows all requests. Never put any but a client key into an app. Each key is \
            for a single app. A running server applies a change within a second.
            """,
        subcommands: [Create.self, List.self, Revoke.self, CustomerToken.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a key. It is shown once: the ledger stores only its hash.",
            usage: "quittance keys create --name <name> --role <role> [options]",
            discussion: """
                The key goes to standard output, and is valid if the exit status is 0.

                  quittance keys create --name backend --role server --config quittance.json
                  quittance keys create --name ms-support --role support --expires 30d \\
                      --config quittance.json
                  quittance keys create --name ios --role client \\
                      --bundle-id com.example.notes --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions

        @Option(help: "A name for the key, such as the program that uses it.")
        var name: String

        @Option(help: "The role of the key: client for apps, read or support for people, server for backends.")
        var role: APIKey.Role

        @Option(help: "The end of the key: \(Field.expires.explanation(isOption: true)). Default: none.")
        var expires: String?

        @Option(help: "The app of the key. May be omitted if the configuration has a single app.")
        var bundleId: String?

        @OptionGroup var author: ChangeAuthor

        func validate() throws {
            try TextForm.author.require(name, in: "--name")
            guard APIKey.parts(of: name) == nil else {
                throw ValidationError("--name takes a name that all may see, not an API key.")
            }
            _ = try end()
        }

        /// By the machine's clock, as servers check keys.
        private func end() throws -> Timestamp? {
            let now = SystemClock.now()
            let values = try asUsage { try FieldValues([.expires], at: now) { _ in [expires].compactMap(\.self) } }
            let end = values[.expires]?.integer.map { Timestamp(milliseconds: $0) }
            guard end.map({ $0 > now }) ?? true else { throw ValidationError("--expires is in the past.") }
            return end
        }

        func run() async throws {
            var composition = try options.composition()
            let app = try composition.configuration.bundleId(bundleId)
            let (key, text) = try APIKey.make(
                name: name, role: role, bundleId: app, at: composition.now(), expiring: end(),
                using: &composition.random)
            let isAnyApp = composition.configuration.apps.isEmpty
            try await composition.withStorage(.working) { storage in
                if isAnyApp, try await !storage.hasServed(app) {
                    Terminal.report(
                        "No server with this ledger has had the app \(app) yet. Until then, the key gives no access.")
                }
                // The key is printed first, so that the ledger has no key that was never shown.
                try Terminal.print(text)
                try await store(key, in: storage)
                Terminal.printError("Created a \(role) key for \(app). It is not shown again.")
            }
        }

        private func store(_ key: APIKey, in storage: any LedgerStorage) async throws {
            do {
                try await Ledger(storage: storage).put(key, as: "createKey", author, at: key.createdAt)
            } catch let error as LedgerStorageError {
                let outcome =
                    error.code == .unavailable
                    ? "It is not known whether the key was stored: if “quittance keys list” shows it, revoke it"
                    : "The key was not stored, and is not valid"
                throw Terminal.failure("\(outcome): \(error)")
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List all keys, without their secrets.", usage: "quittance keys list [options]",
            discussion: ConfigTopic.ledgerOptions)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions

        func run() async throws {
            try await options.composition().onLedger(.reading) { storage in
                let keys = try await Ledger(storage: storage).apiKeys()
                for key in keys.items {
                    let state = key.revokedAt.map { "revoked \($0.iso8601)" } ?? "created \(key.createdAt.iso8601)"
                    let end = key.expiresAt.map { "  expires \($0.iso8601)" } ?? ""
                    try Terminal.print("\(key.shown)  \(state)\(end)")
                }
                for fault in keys.damage { Terminal.report(fault.printable) }
                if !keys.damage.isEmpty { throw ExitCode(1) }
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a key. A running server refuses it within a second.",
            usage: "quittance keys revoke (<key> | --id <id>) [options]",
            discussion: """
                Pass the whole key, or - to read the key from standard input: the history of your shell then does not \
                contain the key. If you do not have the key, pass the id that quittance keys list shows.

                  quittance keys revoke - --config quittance.json
                  quittance keys revoke --id 5tnvindf --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions

        // An array, so that `validate` can refuse a second key. The parser's own error about a further argument would
        // print the key.
        @Argument(help: ArgumentHelp("The whole key, or - for standard input. It is not printed.", valueName: "key"))
        var keys: [String] = []

        @Option(help: "The id of the key in quittance keys list, instead of the key.")
        var id: String?

        @OptionGroup var author: ChangeAuthor

        func validate() throws {
            guard keys.count + (id == nil ? 0 : 1) == 1 else {
                throw ValidationError("Pass either a whole key, or --id with the id in quittance keys list.")
            }
        }

        func run() async throws {
            let composition = try options.composition()
            let (id, secret) = try requested()
            let now = composition.now()
            try await composition.onLedger(.working) {
                try await revoke(id, secret, in: Ledger(storage: $0), at: now)
            }
        }

        private func revoke(
            _ id: String, _ secret: String?, in ledger: Ledger, at now: Timestamp
        ) async throws {
            // No message repeats the argument, because the argument may be a secret or most of a secret.
            guard var key = try await ledger.apiKey(id), secret.map(key.has) ?? true else {
                throw ValidationError("The ledger has no such key. quittance keys list shows all keys.")
            }
            if let date = key.revokedAt {
                return try Terminal.print("Was revoked already, \(date.iso8601): \(key.shown)")
            }
            key.revokedAt = now
            try await ledger.put(key, as: "revokeKey", author, at: now)
            try Terminal.print("Revoked: \(key.shown)")
        }

        /// The id of the key, and its secret unless only the id was passed.
        private func requested() throws -> (id: String, secret: String?) {
            if let id { return (id, nil) }
            let text = keys == ["-"] ? readLine() : keys.first
            guard let (id, secret) = APIKey.parts(of: text ?? "") else {
                throw ValidationError(
                    "This is not a whole key, qt_ with 53 more characters. To revoke a key by its id, pass --id.")
            }
            return (id, secret)
        }
    }

    struct CustomerToken: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a customer token for tests, as your backend does.",
            usage: "quittance keys customer-token --customer <customer> [options]",
            discussion: """
                If an app has customerProof in the configuration, requests with its client keys need a customer token \
                in the header Quittance-Customer-Token. docs/customer-proof.md shows how your backend creates the token.

                  quittance keys customer-token --customer anna --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions

        @Option(help: "The customer's id in your app.")
        var customer: String

        private static let maxHours = Int(CustomerProof.maxLifetime.components.seconds / 3600)

        @Option(name: .customLong("expires-in"), help: "The hours until the token expires, 1 to \(maxHours).")
        var hours = 1

        @Option(help: "The app of the customer. May be omitted if the configuration has a single app.")
        var bundleId: String?

        func validate() throws {
            guard (1...Self.maxHours).contains(hours) else {
                throw ValidationError("--expires-in takes 1 to \(Self.maxHours) hours.")
            }
            try TextForm.customerID.require(customer, in: "--customer")
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

/// Who asks for a change and why, as in the operations of the API.
struct ChangeAuthor: ParsableArguments {
    @Option(help: ArgumentHelp(Field.by.sentence))
    var by: String?

    @Option(help: ArgumentHelp(Field.auditReason.sentence))
    var reason: String?

    func validate() throws {
        if let by { try TextForm.author.require(by, in: "--by") }
        if let reason { try TextForm.reason.require(reason, in: "--reason") }
    }
}

extension APIKey {
    /// The key's line in the list, made printable because other programs may have written the names.
    fileprivate var shown: String {
        "\(id.printable)  \(role.rawValue.printable)  \(bundleId.printable)  \(name.printable)"
    }
}

extension Ledger {
    /// Stores a key, with an entry on the audit list.
    fileprivate func put(
        _ key: APIKey, as operation: String, _ author: ChangeAuthor, at now: Timestamp
    ) async throws {
        var ledger = self
        ledger.audit = AuditEntry(operation, of: key.bundleId, at: now, wall: SystemClock.now(), unique: key.id)
        ledger.audit?.content.by = author.by ?? Correction.operatorName
        ledger.audit?.content.reason = author.reason
        ledger.audit?.content.subject = key.id
        try await ledger.put(key)
    }
}

extension LedgerStorage {
    /// Whether the app was ever configured in a server with this ledger. A server stores, for each of its apps, a
    /// digest of the configured products, to detect changes of them.
    fileprivate func hasServed(_ bundleId: String) async throws -> Bool {
        let key = CatalogueDigest.key(bundleId)
        return try await load(LedgerQuery([.record(key)])).records[key] != nil
    }
}

extension ServerConfiguration {
    /// The bundle id of the option, or of the only app in the configuration.
    func bundleId(_ named: String?) throws -> String {
        let known = apps.map(\.identity.bundleId)
        guard let app = named ?? (known.count == 1 ? known[0] : nil) else {
            throw ValidationError("Which app? Pass --bundle-id, or --config with one app. Some commands take --server.")
        }
        try TextForm.bundleID.require(app, in: "--bundle-id")
        guard known.isEmpty || known.contains(app) else {
            throw ValidationError("The configuration has no app \(app); it has \(known.joined(separator: ", ")).")
        }
        return app
    }
}
