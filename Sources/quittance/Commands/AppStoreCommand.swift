// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
import PurchaseLedger
import PurchaseServer
import Reconciliation

/// `quittance app-store`: lets the App Store look up or change customers' purchases.
struct AppStoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "app-store",
        abstract: "Look up orders and refunds, extend subscriptions, and set accounts, at the App Store.",
        discussion: """
            Each command asks the App Store with the app's inAppPurchaseKey, records the signed documents in the \
            answer, and prints a JSON document. A server may run on the ledger meanwhile.

            Exit status: 0 done; 1 refused or not answered, with code and reason on standard error; 2 wrong usage.
            """,
        subcommands: [
            Order.self, Refunds.self, Extend.self, ExtendAll.self, ExtensionStatus.self, SetAppAccountToken.self,
        ])

    /// The common options of these commands.
    struct Options: ParsableArguments {
        @OptionGroup(visibility: .inTopic) var server: ServerOptions
        @OptionGroup(visibility: .inTopic) var trust: TrustOptions
        @OptionGroup(visibility: .inTopic) var appStoreServer: AppStoreServerOptions

        @Option(help: "The app. May be omitted if the configuration has a single app.")
        var bundleId: String?

        @Option(
            help: "production (the default) or sandbox.",
            transform: { try Environment.option($0, allowed: [.production, .sandbox]) })
        var environment: Environment?

        /// The maximum duration of a request, short because a person waits for the answer.
        static let limit = Duration.seconds(30)

        /// Prints the result of `ask` as JSON.
        ///
        /// - Throws: Exit status 1 if the App Store or the ledger refuses, or `ask` returns `nil`; `ValidationError` if
        ///   the app has no key, or the environment is not configured.
        func print(
            _ what: String, _ ask: (Reconciler) async throws -> (some Encodable)?
        ) async throws {
            let composition = try server.composition()
            try appStoreServer.check(composition.configuration)
            let scope = LedgerScope(
                bundleId: try composition.configuration.bundleId(bundleId), environment: environment ?? .production)
            try await composition.run(
                .working, trustsOtherRoots: trust.trustsOtherRoots, composition.logger()
            ) { service, _ in
                guard let reconciler = service.reconcilers?.all[scope] else {
                    throw ValidationError(
                        "The configuration has no inAppPurchaseKey for \(scope.bundleId), or not this environment.")
                }
                do {
                    guard let answer = try await ask(reconciler) else { throw Unknown(what: what) }
                    try Terminal.print(json: answer)
                } catch let error
                    where error is AppStoreAPIError || error is LedgerStorageError || error is Unknown
                    || error is VerificationError || error is UnfinishedRefunds
                {
                    throw Terminal.failure("\(error)".printable + unasked(error))
                }
            }
        }

        /// For the error of an unknown transaction, a hint: the App Store was asked in one environment only. Empty for
        /// any other error.
        private func unasked(_ error: any Error) -> String {
            guard (error as? AppStoreAPIError)?.isUnknownTransaction == true else { return "" }
            return environment == .sandbox
                ? " The sandbox does not know it; production was not asked: pass --environment production."
                : " Production does not know it; the sandbox was not asked: pass --environment sandbox."
        }
    }

    /// Checks a transaction id before any request.
    private static func requireTransactionId(_ text: String) throws {
        _ = try asUsage("“\(text.printable)”: ") { try HistoryQuestion(transactionId: text) }
    }

    /// Checks a UUID before any request.
    private static func requireUUID(_ text: String, _ name: String) throws {
        guard UUID(uuidString: text) != nil else {
            throw ValidationError("\(name) “\(text.printable)” is no UUID, such as \(Composition.nonce()).")
        }
    }

    /// The App Store does not know the requested object.
    private struct Unknown: Error, CustomStringConvertible {
        let what: String
        var description: String { "The App Store does not know this \(what)." }
    }

    struct Order: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Look up the transactions of the order id in a customer's e-mail. Production only.",
            usage: "quittance app-store order <order-id> [options]",
            discussion: """
                  quittance app-store order MV5G8XK2PQ --config quittance.json

                \(ConfigTopic.appStoreOptions)
                """)

        @Argument(help: "The order id.")
        var orderId: String

        @OptionGroup var options: Options

        func validate() throws {
            _ = try asUsage("“\(orderId.printable)”: ") { try HistoryQuestion(orderId: orderId) }
        }

        func run() async throws {
            try await options.print("order id") { reconciler -> FoundTransactionsBody? in
                guard let found = try await reconciler.lookUpOrder(orderId, within: Options.limit) else { return nil }
                return try await FoundTransactionsBody(found, in: reconciler)
            }
        }
    }

    struct Refunds: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read all refunds of the customer of a transaction.",
            usage: "quittance app-store refunds <transaction-id> [options]",
            discussion: """
                  quittance app-store refunds 410000000000001 --config quittance.json

                \(ConfigTopic.appStoreOptions)
                """)

        @Argument(help: "Any transaction id of the customer.")
        var transactionId: String

        @OptionGroup var options: Options

        func validate() throws { try requireTransactionId(transactionId) }

        func run() async throws {
            try await options.print("transaction") { reconciler -> FoundTransactionsBody? in
                let found = try await reconciler.refunds(of: transactionId, within: Options.limit)
                return try await FoundTransactionsBody(found, in: reconciler)
            }
        }
    }

    /// The options of an extension.
    struct Extension: ParsableArguments {
        @Option(help: "1 to 90.")
        var days: Int

        @Option(help: "0 undeclared, 1 customer satisfaction, 2 other, 3 service issue or outage.")
        var reason: Int

        @Option(
            help: """
                A UUID for this request. Pass the same UUID again only to repeat the request, as after a \
                failure. Default: a random UUID. Standard error has the UUID.
                """)
        var requestIdentifier: String?

        func validate() throws {
            guard (1...90).contains(days) else { throw ValidationError("--days takes a number from 1 to 90.") }
            guard (0...3).contains(reason) else { throw ValidationError("--reason takes a number from 0 to 3.") }
            if let requestIdentifier { try requireUUID(requestIdentifier, "--request-identifier") }
        }

        /// The request identifier, printed before the request is sent.
        func identifier() -> String {
            let identifier = requestIdentifier ?? Composition.nonce()
            Terminal.printError("To repeat this request: --request-identifier \(identifier.printable)")
            return identifier
        }

        /// The reason in Apple's form.
        var code: Open<ExtendReasonCode> { Open(rawValue: reason) }
    }

    struct Extend: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Extend the renewal date of a subscription. It cannot be undone.",
            usage: """
                quittance app-store extend <transaction-id> --days <days>
                    --reason <reason> [options]
                """,
            discussion: """
                  quittance app-store extend 410000000000001 --days 7 --reason 3 \\
                      --config quittance.json

                \(ConfigTopic.appStoreOptions)
                """)

        @Argument(help: "Any transaction id of the subscription that the ledger knows, or its originalTransactionId.")
        var transactionId: String

        @OptionGroup var request: Extension
        @OptionGroup var options: Options

        func validate() throws { try requireTransactionId(transactionId) }

        func run() async throws {
            try await options.print("subscription") { reconciler -> ExtendRenewalDateResponse? in
                let body = ExtendRenewalDateRequest(
                    extendByDays: request.days, extendReasonCode: request.code,
                    requestIdentifier: request.identifier())
                return try await reconciler.extend(body, of: transactionId, within: Options.limit)
            }
        }
    }

    struct ExtendAll: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Extend the renewal dates of all active subscribers of a product. It cannot be undone.",
            usage: """
                quittance app-store extend-all <product-id> --days <days>
                    --reason <reason> [options]
                """,
            discussion: """
                It says how many active subscriptions of the product the ledger has, and asks. It takes hours or days; \
                quittance app-store extension-status shows how far it is.

                  quittance app-store extend-all com.example.notes.pro --days 2 --reason 3 \\
                      --config quittance.json

                \(ConfigTopic.appStoreOptions)
                """)

        @Argument(help: "The product.")
        var productId: String

        @OptionGroup var request: Extension

        @Option(
            name: .customLong("storefront"), help: "A storefront's country, such as DEU. May be repeated. Default: all."
        )
        var storefronts: [String] = []

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var options: Options

        func run() async throws {
            try await options.print("product") { reconciler -> MassExtendRenewalDateResponse? in
                try await confirmation.require { try await question(reconciler) }
                var body = MassExtendRenewalDateRequest(
                    extendByDays: request.days, extendReasonCode: request.code,
                    requestIdentifier: request.identifier(), productId: productId)
                body.storefrontCountryCodes = storefronts.isEmpty ? nil : storefronts
                return try await reconciler.extendAll(body, within: Options.limit)
            }
        }

        private func question(_ reconciler: Reconciler) async throws -> String {
            let scope = reconciler.scope
            let count = try await reconciler.ledger.activeSubscriptions(of: productId, in: scope, at: reconciler.now())
            let places = storefronts.isEmpty ? "" : " in \(storefronts.joined(separator: ", "))"
            return """
                The ledger has \(counted(count, "active subscription")) of \(productId) in all storefronts of \
                \(scope.environment.rawValue). Extend all that the App Store has\(places) by \
                \(counted(request.days, "day"))? It cannot be undone.
                """
        }
    }

    struct ExtensionStatus: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say how far an extension for all subscribers is.",
            usage: """
                quittance app-store extension-status <product-id>
                    <request-identifier> [options]
                """,
            discussion: ConfigTopic.appStoreOptions)

        @Argument(help: "The product.")
        var productId: String

        @Argument(help: "The request identifier of the extension.")
        var requestIdentifier: String

        @OptionGroup var options: Options

        func validate() throws { try requireUUID(requestIdentifier, "The request identifier") }

        func run() async throws {
            try await options.print("extension") { reconciler -> MassExtendRenewalDateStatusResponse? in
                try await reconciler.extensionStatus(
                    of: productId, requestIdentifier: requestIdentifier, within: Options.limit)
            }
        }
    }

    struct SetAppAccountToken: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set the appAccountToken of a purchase, such as of one made outside the app.",
            usage: """
                quittance app-store set-app-account-token <transaction-id>
                    <app-account-token> [options]
                """,
            discussion: ConfigTopic.appStoreOptions)

        @Argument(help: "Any transaction id of the purchase that the ledger knows, or its originalTransactionId.")
        var transactionId: String

        @Argument(help: "The account: a UUID.")
        var appAccountToken: String

        @OptionGroup var options: Options

        func validate() throws {
            try requireTransactionId(transactionId)
            try requireUUID(appAccountToken, "The account")
        }

        func run() async throws {
            try await options.print("purchase") { reconciler -> AppAccountTokenBody? in
                let originalTransactionId = try await reconciler.setAppAccountToken(
                    appAccountToken, of: transactionId, within: Options.limit)
                return AppAccountTokenBody(
                    originalTransactionId: originalTransactionId, appAccountToken: appAccountToken)
            }
        }
    }
}
