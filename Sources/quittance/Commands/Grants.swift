// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance grants`: gives customers entitlements without a purchase.
struct Grants: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Give customers entitlements without a purchase, and end such grants.",
        discussion: """
            A grant is for customers to whom you owe something, for testers, and for promotions. The App Store knows \
            nothing of grants. The commands write to the ledger, whether a server runs on the ledger or not. A running \
            server publishes a grant within a second, and its end within a second of --until.

              quittance grants make anna --entitlement pro \\
                  --until 2027-01-31T00:00:00Z --why "outage of May 3" \\
                  --config quittance.json
              quittance grants list anna --config quittance.json
              quittance grants end anna 5d41402abc4b2a76b971 --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """,
        subcommands: [Make.self, List.self, End.self])

    /// The customer of a command.
    struct CustomerOptions: ParsableArguments {
        @Argument(help: "Your app's id of the customer.")
        var customer: String

        @Option(help: "The app of the customer. May be omitted if the configuration has a single app.")
        var bundleId: String?

        func validate() throws {
            try TextForm.customerID.require(customer, in: "<customer>")
        }
    }

    struct Make: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give a customer an entitlement.",
            usage: """
                quittance grants make <customer> --entitlement <entitlement>
                    --why <why> [options]
                """,
            discussion: """
                Needs --entitlement and --why. Prints the id of the grant. An unknown customer is created. With --id, \
                the same command again makes no second grant.

                Exit status: 0 the customer has the grant; 1 the grant was refused, or the ledger cannot be written; 2 \
                wrong usage.

                  quittance grants make anna --entitlement pro \\
                      --until 2027-01-31T00:00:00Z --why "outage of May 3" \\
                      --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions
        @OptionGroup var who: CustomerOptions

        @Option(help: "The entitlement: a name in the configuration of the app.")
        var entitlement: String

        @Option(help: "The reason for the grant, for people.")
        var why: String

        @Option(
            help: "The end of the grant (ISO 8601). Default: no end.",
            transform: { try Timestamp.option("--until", $0) })
        var until: Timestamp?

        @Option(
            help: "The begin of the grant (ISO 8601), not in the future. Default: now.",
            transform: { try Timestamp.option("--from", $0) })
        var from: Timestamp?

        @Option(help: "Your name, or the name of the person who asked for the grant.")
        var by: String?

        @Option(help: "An id for the grant, unique in the app. Default: an id that the ledger chooses.")
        var id: String?

        @Option(
            help: "The environment of the entitlement: production, sandbox, xcode or localTesting.",
            transform: { try Environment.option($0) })
        var environment = Environment.production

        @Flag(help: "Print only the grant, as a JSON object.")
        var json = false

        private var request: GrantRequest {
            GrantRequest(
                id: id, entitlement: entitlement, environment: environment, from: from, until: until, why: why,
                author: CustomerGrant.Author(name: by))
        }

        func validate() throws {
            if let fault = request.fault { throw ValidationError(fault) }
        }

        func run() async throws {
            let composition = try await options.compositionWithTime()
            let app = try composition.configuration.bundleId(who.bundleId)
            try await composition.onLedger(.working) { storage in
                let service = composition.service(storage, try composition.verifier())
                try requireEntitlement(service.entitlements(of: app), app)
                guard service.verifier.environments.contains(environment) else {
                    throw ValidationError(
                        "--environment \(environment.rawValue): the configuration lacks it in environments.")
                }
                let now = composition.now()
                let outcome = try await service.ledger.make(request, forCustomer: who.customer, of: app, at: now)
                switch outcome {
                case .made(let grant): try show(grant, "Granted", at: now)
                case .known(let grant): try show(grant, "Was granted already", at: now)
                case .refused(let refusal): throw Terminal.failure(refusal.message)
                }
            }
        }

        private func show(_ grant: CustomerGrant, _ verb: String, at now: Timestamp) throws {
            guard !json else { return try Terminal.print(json: GrantBody(grant, at: now)) }
            try Terminal.print(grant.id)
            Terminal.printError("\(verb): \(grant.line)")
        }

        private func requireEntitlement(_ known: Set<String>, _ app: String) throws {
            guard !known.contains(entitlement) else { return }
            let names = known.isEmpty ? "no entitlements" : known.sorted().joined(separator: ", ")
            throw ValidationError(
                "--entitlement “\(entitlement.printable)”: the configuration of \(app) has \(names.printable).")
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the grants of a customer, in the order of their making.",
            usage: "quittance grants list <customer> [options]",
            discussion: """
                Lists all grants that have not ended, and the last \(CustomerGrant.maxEnded) that have.

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions
        @OptionGroup var who: CustomerOptions

        @Flag(help: "Print only a JSON object per grant.")
        var json = false

        func run() async throws {
            let composition = try await options.compositionWithTime()
            let app = try composition.configuration.bundleId(who.bundleId)
            try await composition.onLedger(.reading) { storage in
                let grants = try await Ledger(storage: storage).grants(ofCustomer: who.customer, of: app)
                let now = composition.now()
                if grants.isEmpty { Terminal.printError("“\(who.customer.printable)” has no grants in \(app).") }
                for grant in grants {
                    if json {
                        try Terminal.print(json: GrantBody(grant, at: now))
                    } else {
                        try Terminal.print(grant.line)
                    }
                }
            }
        }
    }

    struct End: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End a grant now.", usage: "quittance grants end <customer> <id> [options]",
            discussion: ConfigTopic.ledgerOptions)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions
        @OptionGroup var who: CustomerOptions

        @Argument(help: "The id of the grant in quittance grants list.")
        var id: String

        @Option(help: "Your name, or the name of the person who asked for the end.")
        var by: String?

        func validate() throws {
            if let fault = CustomerGrant.Author(name: by).fault { throw ValidationError(fault) }
        }

        func run() async throws {
            let composition = try await options.compositionWithTime()
            let app = try composition.configuration.bundleId(who.bundleId)
            try await composition.onLedger(.working) { storage in
                let grant = try await Ledger(storage: storage).endGrant(
                    id, ofCustomer: who.customer, of: app, by: CustomerGrant.Author(name: by), at: composition.now())
                guard let grant else {
                    throw Terminal.failure("The customer has no grant “\(id.printable)”: see quittance grants list.")
                }
                try Terminal.print("Ended: \(grant.line)")
            }
        }
    }
}

extension CustomerGrant {
    /// The line of the grant in a list.
    fileprivate var line: String {
        let end = self.end.map { "ended \($0.date.iso8601)" } ?? until.map { "until \($0.iso8601)" } ?? "no end"
        let authors = [author.name, author.keyId.map { "key \($0)" }].compactMap(\.self).joined(separator: ", ")
        return [id, entitlement, environment.rawValue, "from \(from.iso8601)", end, why, authors]
            .filter { !$0.isEmpty }.joined(separator: "  ").printable
    }
}

extension Timestamp {
    /// Parses the value of an option.
    static func option(_ name: String, _ text: String) throws -> Timestamp {
        try Timestamp(iso8601: text).require(
            as: \.self, else: ValidationError("\(name) takes a time like 2026-01-31T12:00:00Z, not \(text.printable)."))
    }
}
