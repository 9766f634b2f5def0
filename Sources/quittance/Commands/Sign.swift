// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
import PurchaseLedger
import PurchaseServer

/// `quittance sign`: signs values that an app passes to StoreKit.
struct Sign: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sign offers and Advanced Commerce requests with an app's In-App Purchase key.",
        discussion: """
            Prints a JSON document, without any connection to Apple: {"compactJWS": …} for the parameter compactJWS \
            of StoreKit, or, for version 1 of a promotional offer, all values that StoreKit takes.

            The key is that of the app in the configuration (inAppPurchaseKey), or --key-file, --key-id and \
            --issuer-id. Other users of the machine must have no access to its file.

            Exit status: 0 signed; 1 refused, with code and reason on standard error; 2 unreadable input or wrong usage.
            """,
        subcommands: [PromotionalOfferCommand.self, IntroductoryOfferCommand.self, AdvancedCommerceCommand.self])

    /// The common options of all signatures.
    struct Options: ParsableArguments {
        @OptionGroup(visibility: .inTopic) var server: ServerOptions

        @Option(help: "The app. May be omitted if the configuration has a single app.")
        var bundleId: String?

        @Option(
            help: "The .p8 file from App Store Connect, instead of the configured file.", completion: .file())
        var keyFile: String?

        @Option(help: "The id of the key in --key-file.")
        var keyId: String?

        @Option(help: "The issuer id of the key in --key-file.")
        var issuerId: String?

        @Option(help: "A UUID that was never used before, in lower case. Default: a random UUID.")
        var nonce: String?

        @Option(
            help: "The time of the signature (ISO 8601). Default: now.",
            transform: Timestamp.option)
        var at: Timestamp?

        func validate() throws {
            let given = [keyFile, keyId, issuerId].count { $0 != nil }
            guard given == 0 || given == 3 else {
                throw ValidationError("--key-file, --key-id and --issuer-id belong together.")
            }
            if let keyId, !InAppPurchaseKey.isID(keyId) {
                throw ValidationError("--key-id takes \(InAppPurchaseKey.idRule).")
            }
            if let issuerId, UUID(uuidString: issuerId) == nil { throw ValidationError("--issuer-id takes a UUID.") }
        }

        /// Prints the result of `sign` as JSON.
        ///
        /// - Throws: Exit status 1 if the signer refuses; `ValidationError` if there is no readable key.
        func print(
            _ sign: (StoreKitSigner, _ nonce: String, _ now: Timestamp) throws -> SignatureBody
        ) throws {
            let signer = try signer()
            do {
                let body = try sign(signer, nonce ?? Composition.nonce(), at ?? SystemClock.now())
                try Terminal.print(json: body)
            } catch let error as SigningError {
                throw Terminal.failure("refused, \(error.code.rawValue): \(error.description.printable)")
            }
        }

        private func signer() throws -> StoreKitSigner {
            let configuration = try server.configuration()
            let app = try configuration.bundleId(bundleId)
            var file = configuration.apps.first { $0.identity.bundleId == app }?.inAppPurchaseKey
            if let keyFile, let keyId, let issuerId {
                file = InAppPurchaseKeyFile(file: keyFile, keyId: keyId, issuerId: issuerId)
            }
            guard let file else {
                throw ValidationError(
                    "Which key? Pass --key-file, --key-id and --issuer-id, or add inAppPurchaseKey to \(app).")
            }
            if let warning = file.nameWarning { Terminal.report(warning) }
            return StoreKitSigner(key: try asUsage("The key ", file.read), bundleId: app)
        }
    }

    struct PromotionalOfferCommand: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "promotional-offer",
            abstract: "Sign a promotional offer.",
            usage: """
                quittance sign promotional-offer --product-id <product-id>
                    --offer-identifier <offer-identifier> [options]
                """,
            discussion: """
                  quittance sign promotional-offer --product-id com.example.notes.pro \\
                      --offer-identifier stay3 --transaction-id 2000000123456789 \\
                      --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var options: Options

        @Option(help: "The product of the subscription.")
        var productId: String

        @Option(help: "The offer's identifier in App Store Connect.")
        var offerIdentifier: String

        @Option(name: .customLong("signature-version"), help: "2, a JWS, or 1, the original form.")
        var version: Int64 = 2

        @Option(help: "Any transaction of the customer, for whom alone the offer then is. Version 2.")
        var transactionId: String?

        @Option(help: "The account that the app passes with the purchase, signed in lower case. Version 1.")
        var appAccountToken: String?

        func validate() throws {
            try TextForm.catalogueName.require(productId, in: "--product-id")
            try TextForm.catalogueName.require(offerIdentifier, in: "--offer-identifier")
            guard [1, 2].contains(version) else { throw ValidationError("--signature-version takes 1 or 2.") }
            _ = try asUsage { try request() }
        }

        private func request() throws -> PromotionalOfferRequest {
            try PromotionalOfferRequest(
                PromotionalOffer(productId: productId, offerIdentifier: offerIdentifier),
                transactionId: transactionId, appAccountToken: appAccountToken, version: version)
        }

        func run() throws {
            let request = try request()
            try options.print { try request.signed(by: $0, nonce: $1, at: $2) }
        }
    }

    struct IntroductoryOfferCommand: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "introductory-offer",
            abstract: "Sign whether a customer may have a subscription's introductory offer.",
            usage: """
                quittance sign introductory-offer --product-id <product-id>
                    --transaction-id <transaction-id> (--allow | --no-allow) [options]
                """,
            discussion: """
                  quittance sign introductory-offer --product-id com.example.notes.pro \\
                      --transaction-id 2000000123456789 --allow --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var options: Options

        @Option(help: "The product of the subscription.")
        var productId: String

        @Option(help: "Any transaction of the customer, or its appTransactionId.")
        var transactionId: String

        @Flag(inversion: .prefixedNo, exclusivity: .exclusive, help: "Whether the customer may have the offer.")
        var allow: Bool

        func validate() throws { try TextForm.catalogueName.require(productId, in: "--product-id") }

        func run() throws {
            try options.print { signer, nonce, now in
                .jws(
                    try signer.introductoryOffer(
                        of: productId, isAllowed: allow, transactionId: transactionId, nonce: nonce, at: now))
            }
        }
    }

    struct AdvancedCommerceCommand: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "advanced-commerce",
            abstract: "Sign a request of the Advanced Commerce API that the app sends.",
            usage: "quittance sign advanced-commerce [<file>] [options]",
            discussion: """
                Reads the request as JSON, with its operation, such as CREATE_SUBSCRIPTION, and checks it against \
                Apple's rules.

                  quittance sign advanced-commerce request.json --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var options: Options

        @Argument(help: "The file with the request; omit it or pass - for standard input.")
        var file: String?

        func run() throws {
            let json: JSONValue
            do {
                json = try JSONValue(parsing: try Input.read(file))
            } catch let error as JSONError {
                throw ValidationError("The request is not JSON: \(error).")
            }
            try options.print { signer, nonce, now in
                .jws(try signer.advancedCommerce(AdvancedCommerceInAppRequest(json), nonce: nonce, at: now))
            }
        }
    }
}
