// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurchaseServer

// The groups of the commands that operations have.

/// The commands of the operations whose command begins with a word.
private func commands(_ group: String) -> [any ParsableCommand.Type] {
    func command<Name: NamedOperation>(_: Name.Type) -> any ParsableCommand.Type { OperationCommand<Name>.self }
    return Operation.all.filter { $0.operation.command.hasPrefix("\(group) ") }.map { command($0) }
}

/// `quittance customer`: information about a customer, and corrections, for support staff.
struct CustomerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "customer",
        abstract: "Show, find, describe, correct and delete customers.",
        subcommands: [ShowCustomer.self, FindCustomers.self] + commands("customer"))
}

/// `quittance purchases`: shows, submits and denies purchases.
struct PurchasesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purchases", abstract: "Show, submit and deny purchases.", subcommands: commands("purchases"))
}

/// `quittance grants`: gives customers entitlements without a purchase.
struct Grants: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Give customers entitlements without a purchase, and end such grants.",
        discussion: """
            A grant is for customers to whom you owe something, for testers, and for promotions. The App Store knows \
            nothing of grants. A running server publishes a grant within a second, and its end within a second of \
            --until.
            """,
        subcommands: commands("grants"))
}

/// `quittance app-store`: lets the App Store look up or change customers' purchases.
struct AppStoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "app-store",
        abstract: "Ask the App Store, extend subscriptions, and set accounts.",
        discussion: """
            Each command prints a JSON document. All but consumption and consume ask the App Store with the app's \
            inAppPurchaseKey. Commands with --record record the signed documents in the answer only with this option, \
            all others always. A server may run on the ledger meanwhile.

            Exit status: 0 done; 1 refused or not answered, with code and reason on standard error; 2 wrong usage.
            """,
        subcommands: commands("app-store"))
}

/// `quittance webhooks`: manages the endpoints that get the events of an app.
struct Webhooks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Add, test and repair the endpoints that get the events of an app.",
        discussion: """
            A running server sends each event to the endpoints of its app, in a signed request (docs/webhooks.md), and \
            follows a change within seconds.

            The signatures need webhookSecretFile in the configuration: a file with a long random text, the same for \
            all servers of the ledger. Make it once:

              (umask 077; openssl rand -base64 48 > webhook-secret)
            """,
        subcommands: commands("webhooks"))
}
