// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurchaseLedger

/// `quittance purchases`: denies purchases, and allows them again.
struct PurchasesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purchases",
        abstract: "Deny a purchase, or allow it again.",
        subcommands: [Deny.self, Allow.self])

    struct Deny: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Deny a purchase: it grants nothing, whatever the App Store signs.",
            usage: "quittance purchases deny <transaction-id> --reason <reason> [options]",
            discussion: """
                The effect is that of refusedPurchases in the configuration, without a restart of the server. \
                Rebuilds, erasures and copies keep the denial. A server may run meanwhile.

                  quittance purchases deny 410000000000001 --reason 'chargeback' \\
                      --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @Argument(help: "Any transaction id of the purchase.")
        var transactionId: String

        @OptionGroup var correction: CorrectionOptions

        func run() async throws {
            try await correction.correctPurchase(transactionId) { try await $0.deny($1, $2, at: $3) }
        }
    }

    struct Allow: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End the denial of a purchase.",
            usage: "quittance purchases allow <transaction-id> --reason <reason> [options]",
            discussion: """
                A purchase in refusedPurchases of the configuration stays refused. A server may run meanwhile.

                  quittance purchases allow 410000000000001 --reason 'the bank paid' \\
                      --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @Argument(help: "Any transaction id of the purchase.")
        var transactionId: String

        @OptionGroup var correction: CorrectionOptions

        func run() async throws {
            try await correction.correctPurchase(transactionId) { try await $0.allow($1, $2, at: $3) }
        }
    }
}
