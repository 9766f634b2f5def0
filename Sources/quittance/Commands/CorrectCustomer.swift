// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// The options of all commands that correct a ledger.
struct CorrectionOptions: ParsableArguments {
    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Option(help: "The reason. Events keep it for ever, so name no person.")
    var reason: String

    @Option(help: "The app. May be omitted if the configuration has a single app.")
    var bundleId: String?

    @Option(
        help: "The environment: production, sandbox, xcode or localTesting.",
        transform: { try Environment.option($0, allowed: Environment.allCases) })
    var environment = Environment.production

    func validate() throws {
        try TextForm.reason.require(reason, in: "--reason")
    }

    /// Lets `body` correct the ledger.
    ///
    /// - Throws: Exit status 1 if the ledger cannot be written; errors of `body`.
    func correct(
        _ body: (Ledger, LedgerScope, Correction, Timestamp) async throws -> Void
    ) async throws {
        var composition = try options.composition()
        let scope = LedgerScope(
            bundleId: try composition.configuration.bundleId(bundleId), environment: environment)
        guard let correction = Correction(by: Correction.operatorName, reason: reason) else { return }
        composition = try await composition.takingSimulatorTime(composition.logger())
        try await composition.onLedger(.working) { [composition] storage in
            let ledger = composition.service(storage, try composition.verifier()).ledger
            try await body(ledger, scope, correction, composition.now())
        }
    }

    /// Lets `change` correct the purchase with a transaction, and prints the result.
    func correctPurchase(
        _ id: String,
        _ change: (Ledger, TransactionKey, Correction, Timestamp) async throws -> CorrectedPurchase?
    ) async throws {
        try await correct { ledger, scope, correction, now in
            guard let purchase = try await change(ledger, TransactionKey(id, in: scope), correction, now) else {
                throw Terminal.failure(
                    "“\(id.printable.withoutAPIKeys)” names no purchase of \(scope.bundleId) in "
                        + "\(environment.optionName).")
            }
            try Terminal.print(purchase.line)
        }
    }
}

extension CorrectedPurchase {
    /// The purchase, its owners and its denial, for people.
    fileprivate var line: String {
        let names = owners.map(\.id).joined(separator: ", ")
        let denial = denial.map { "denied since \($0.at.iso8601)" } ?? "not denied"
        return "\(key.originalTransactionId)  owners: \(names.isEmpty ? "none" : names)  \(denial)".printable
    }
}

/// `quittance customer move`: makes customers the owners of a purchase.
struct MoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Make customers the only owners of a purchase, whatever the claim policy.",
        usage: "quittance customer move <purchase> --to <to> --reason <reason> [options]",
        discussion: """
            An unknown customer is created. No document changes the owners afterwards. A later claim does if the \
            claimPolicy accepts it. A server may run meanwhile.

              quittance customer move 410000000000001 --to anna \\
                  --reason 'bought for a second account' --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @Argument(help: ArgumentHelp("Any transaction id of the purchase.", valueName: "purchase"))
    var transactionId: String

    @Option(help: "Your app's id of the new owner. May be repeated, up to \(Ledger.maxOwners) times.")
    var to: [String]

    @OptionGroup var correction: CorrectionOptions

    func validate() throws {
        guard (1...Ledger.maxOwners).contains(to.count) else {
            throw ValidationError("--to takes an id, up to \(Ledger.maxOwners) times.")
        }
        for id in to { try TextForm.customerID.require(id, in: "--to") }
    }

    func run() async throws {
        try await correction.correctPurchase(transactionId) { try await $0.move($1, to: to, $2, at: $3) }
    }
}

/// `quittance customer unlink`: takes an id off a customer.
struct UnlinkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlink",
        abstract: "Take an added id off a customer.",
        usage: "quittance customer unlink <id> --alias <id> --reason <reason> [options]",
        discussion: """
            The customer keeps its purchases. The first id cannot be taken off, because events name the customer \
            by it. A server may run meanwhile.

              quittance customer unlink anna --alias an.old@example.com \\
                  --reason 'the address belongs to a stranger' --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @Argument(help: ArgumentHelp("Any id of the customer.", valueName: "id"))
    var customer: String

    @Option(help: ArgumentHelp("The id to take off.", valueName: "id"))
    var alias: String

    @OptionGroup var correction: CorrectionOptions

    func run() async throws {
        try await correction.correct { ledger, scope, correction, now in
            let outcome = try await ledger.removeAlias(alias, from: customer, in: scope, correction, at: now)
            guard outcome == .removed else { throw Terminal.failure(outcome.message) }
            try Terminal.print(outcome.message)
        }
    }
}

/// `quittance customer unmerge`: undoes a merge.
struct UnmergeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmerge",
        abstract: "Undo a merge of two customers.",
        usage: "quittance customer unmerge <customer> --reason <reason> [options]",
        discussion: """
            The merged customer exists again, with the ids and purchases that it brought along, except those that \
            the other customer has lost since. Grants, attributes, consents, and purchases since the merge stay \
            with the other customer. A merge with more than 500 purchases cannot be undone. A server may run \
            meanwhile.

              quittance customer unmerge bert --reason 'not the same person' \\
                  --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @Argument(help: "An id that the merged customer had.")
    var customer: String

    @OptionGroup var correction: CorrectionOptions

    func run() async throws {
        try await correction.correct { ledger, scope, correction, now in
            let outcome = try await ledger.undoMerge(of: customer, in: scope, correction, at: now)
            guard case .undone = outcome else { throw Terminal.failure(outcome.message) }
            try Terminal.print(outcome.message.printable)
        }
    }
}
