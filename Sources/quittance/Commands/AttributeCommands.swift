// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import PurchaseServer

// The subcommands of `quittance customer` that set attributes, and find customers by an attribute.

/// `quittance customer set`.
struct SetAttributes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Set or remove attributes of a customer, such as $email.",
        usage: "quittance customer set <id> <name=value> ... [options]",
        discussion: """
            An empty value removes the attribute. Names have at most 40 characters, A-Z, a-z, 0-9, _ and -; names \
            that begin with $ have a common meaning in SDKs and tools. Values have at most 500 characters. An \
            unknown id makes a new customer. The command prints all attributes. A server may run meanwhile.

              quittance customer set anna '$email=anna@example.com' --config quittance.json
              quittance customer set anna plan= --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @Argument(help: "Your app's id of the customer.")
    var id: String

    @Argument(help: ArgumentHelp("An attribute, and its new value.", valueName: "name=value"))
    var values: [String]

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Option(help: "The app. May be omitted if the configuration has a single app.")
    var bundleId: String?

    func validate() throws {
        _ = try changes
        try TextForm.customerID.require(id, in: "<id>")
    }

    private var changes: [CustomerAttributes.Change] {
        get throws {
            try values.map { text in
                guard let end = text.firstIndex(of: "=") else {
                    throw ValidationError("“\(text.printable)” is not of the form name=value.")
                }
                return CustomerAttributes.Change(String(text[..<end]), String(text[text.index(after: end)...]))
            }
        }
    }

    func run() async throws {
        var composition = try options.composition()
        let app = try composition.configuration.bundleId(bundleId)
        let changes = try changes
        composition = try await composition.takingSimulatorTime(composition.logger())
        try await composition.onLedger(.working) { [composition] storage in
            do {
                let attributes = try await Ledger(storage: storage).setAttributes(
                    changes, of: id, in: app, at: composition.now())
                for line in attributes?.lines ?? [] { try Terminal.print(line) }
            } catch let error as AttributeError {
                throw ValidationError(error.description)
            }
        }
    }
}

/// `quittance customer find`.
struct FindCustomers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find",
        abstract: "Find customers by their e-mail address, the attribute $email.",
        usage: "quittance customer find <email> [options]",
        discussion: """
            The address is compared letter for letter. The command prints a line for each customer, with all ids \
            separated by tabs. It does not change the ledger. A server may run meanwhile.

            Exit status: 0 found; 1 no customer has the address; 2 wrong usage.

              quittance customer find anna@example.com --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @Argument(help: "The e-mail address.")
    var email: String

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Option(help: "The app. May be omitted if the configuration has a single app.")
    var bundleId: String?

    /// The maximum number of customers that are read at a time. An address belongs to few customers.
    private static let limit = 100

    func run() async throws {
        let composition = try options.composition()
        let app = try composition.configuration.bundleId(bundleId)
        try await composition.onLedger(.reading) { storage in
            var isFound = false
            var cursor: ScanCursor?
            repeat {
                let page = try await Ledger(storage: storage).customers(
                    withEmail: email, of: app, after: cursor, limit: Self.limit)
                for customer in page.items {
                    try Terminal.print(customer.ids.map(\.printable).joined(separator: "\t"))
                    isFound = true
                }
                cursor = page.next
            } while cursor != nil
            guard isFound else {
                throw Terminal.failure("No customer of \(app) has the $email “\(email.printable)”.")
            }
        }
    }
}

extension CustomerAttributes {
    /// A line for each attribute: name, value and time.
    var lines: [String] {
        present.map { name, text, updatedAt in "\(name)=\(text.printable)  \(updatedAt.iso8601)" }
    }
}
