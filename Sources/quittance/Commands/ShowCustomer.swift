// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer
import Reconciliation

/// `quittance customer show`.
struct ShowCustomer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a customer's ids, attributes, entitlements, subscriptions, purchases and last documents.",
        usage: "quittance customer show <id> [options]",
        discussion: """
            The id is your app's id of the customer, a transaction id, or the order id in an e-mail of Apple's. \
            No document in the ledger has an order id: the App Store is asked about it, with the app's \
            inAppPurchaseKey. The command does not change the ledger. A server may run meanwhile.

            Exit status: 0 shown; 1 the ledger has no such customer or purchase, or cannot be read; 2 wrong usage.

              quittance customer show anna --config quittance.json
              quittance customer show 410000000000001 --json --config quittance.json
              quittance customer show MV5G8XK2PQ --config quittance.json

            For --config, --database, --root and --insecure see quittance help config.
            """)

    @Argument(help: "Your app's id of the customer, a transaction id, or an order id.")
    var id: String

    @OptionGroup(visibility: .inTopic) var options: ServerOptions
    @OptionGroup(visibility: .inTopic) var appStoreServer: AppStoreServerOptions

    @Option(help: "Only this app. Default: the apps of the configuration, and the apps with an API key.")
    var bundleId: String?

    @Flag(help: "List all purchases.")
    var all = false

    @Flag(help: "Print only a JSON object per customer.")
    var json = false

    /// The number of listed documents: enough for the last weeks of a subscription with a billing problem.
    private static let documents = 10

    func validate() throws { try TextForm.customerID.require(id, in: "<id>") }

    func run() async throws {
        var composition = try options.composition()
        let app = try bundleId.map { try composition.configuration.bundleId($0) }
        composition = try await composition.takingSimulatorTime(composition.logger())
        try await composition.onLedger(.reading) { [composition] storage in
            let service = composition.service(storage, try composition.verifier())
            let configured = composition.configuration.apps.map(\.identity.bundleId)
            let apps =
                if let app { [app] } else { Set(configured + (try await service.ledger.apps())).sorted() }
            let search = SupportSearch(service: service, apps: apps, now: composition.now())
            var found = try await search.found(by: id)
            var rest = ""
            if found.isEmpty, HistoryQuestion.isOrderId(id) {
                let reconcilers = try reconcilers(search.service, composition)
                found = try await search.found(byOrder: id, reconcilers)
                rest = reconcilers.isEmpty ? Self.withoutKey : " The App Store knows no such order."
            }
            guard !found.isEmpty else { throw unknown(in: apps, rest) }
            if found.count > 1 {
                let things = found.map(\.sentence).joined(separator: "; ")
                Terminal.report("“\(id.printable)” names \(found.count) things: \(things).")
            }
            for card in try await search.cards(of: found) { try await show(card, search) }
        }
    }

    private func show(_ card: SupportCard, _ search: SupportSearch) async throws {
        let documents = try await search.service.ledger.newestDocuments(about: card.chains, limit: Self.documents)
        let counted = search.service.countedEnvironments(for: card.ids, of: card.bundleId)
        guard json else { return try Terminal.print(card.text(counted, documents, at: search.now, all: all)) }
        let body = SupportBody(
            id, card.answers, of: card.bundleId, counted: counted, card.attributes, documents: documents,
            at: search.now)
        try Terminal.print(json: body)
    }

    /// The reconcilers of production, to look up order ids at the App Store.
    private func reconcilers(
        _ service: LedgerService, _ composition: Composition
    ) throws -> [LedgerScope: Reconciler] {
        try appStoreServer.check(composition.configuration)
        var service = service
        service.signing = try composition.signing()
        return composition.reconcilers(service).all.filter { $0.key.environment == .production }
    }

    private static let withoutKey =
        " If it is an order id, only the App Store knows it: add inAppPurchaseKey to the app."

    private func unknown(in apps: [String], _ rest: String) -> ExitCode {
        let searched = apps.isEmpty ? "the ledger, which is empty" : apps.map(\.printable).joined(separator: ", ")
        let name = id.printable.withoutAPIKeys
        return Terminal.failure("“\(name)” names no customer and no purchase in \(searched).\(rest)")
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
            separated by tabs.

            Exit status: 0 found; 1 no customer has the address; 2 wrong usage.

              quittance customer find anna@example.com --config quittance.json

            \(ConfigTopic.appStoreOptions)
            """)

    @Argument(help: "The e-mail address.")
    var email: String

    @OptionGroup var target: OperationTarget

    func validate() throws { try TextForm.attributeValue.require(email, in: "<email>") }

    func run() async throws {
        let list = OperationCommand<ListCustomers>(target)
        var isFound = false
        var cursor: String?
        repeat {
            let page = try await list.answer(["email": [email], "after": cursor.map { [$0] } ?? []])
            for customer in page["items"]?.array ?? [] {
                isFound = true
                let ids = customer["ids"]?.array?.compactMap(\.string) ?? []
                try Terminal.print(target.json ? customer.compactText : ids.map(\.printable).joined(separator: "\t"))
            }
            cursor = page["nextCursor"]?.string
        } while cursor != nil
        guard isFound else { throw Terminal.failure("No customer has the $email “\(email.printable)”.") }
    }
}
