// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance customer show`.
struct ShowCustomer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a customer's ids, attributes, entitlements, subscriptions, purchases and last documents.",
        usage: "quittance customer show <id> [options]",
        discussion: """
            The id is your app's id of the customer, a transaction id, or the order id in an e-mail of Apple's. \
            No document in the ledger has an order id: the App Store is asked about it, with the app's \
            inAppPurchaseKey. The command does not change the ledger. A server may run meanwhile. Without --bundle-id, \
            it searches all apps of the configuration, and all apps with an API key.

            Exit status: 0 shown; 1 the ledger has no such customer or purchase, or cannot be read; 2 wrong usage.

              quittance customer show anna --config quittance.json
              quittance customer show 410000000000001 --json --config quittance.json
              quittance customer show MV5G8XK2PQ --server https://purchases.example.com

            \(ConfigTopic.appStoreOptions)
            """)

    @Argument(help: "Your app's id of the customer, a transaction id, or an order id.")
    var id: String

    @OptionGroup var target: OperationTarget

    @Flag(help: "List all purchases.")
    var all = false

    func run() async throws {
        let answer = try await OperationCommand<ShowSupport>(target, inAllApps: true).answer(["id": [id]])
        let found = answer["found"]?.array?.compactMap(\.string) ?? []
        if found.count > 1 {
            Terminal.report("“\(id)” names \(found.count) things: \(found.joined(separator: "; ")).".printable)
        }
        for item in answer["items"]?.array ?? [] {
            try Terminal.print(target.json ? item.compactText : SupportCard(item).text(all: all))
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
