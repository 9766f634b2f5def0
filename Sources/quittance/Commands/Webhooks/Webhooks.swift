// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance webhooks`: manages the endpoints that get the events of an app.
struct Webhooks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Add, test and repair the endpoints that get the events of an app.",
        discussion: """
            A running server sends each event to the endpoints of its app, in a signed request (docs/webhooks.md). The \
            commands write to the ledger, whether a server runs on the ledger or not. A running server follows within \
            seconds.

            The signatures need webhookSecretFile in the configuration: a file with a long random text, the same for \
            all servers of the ledger. Make it once:

              (umask 077; openssl rand -base64 48 > webhook-secret)

              quittance webhooks add https://example.com/hooks --config quittance.json
              quittance webhooks test kf12gdi1f9w01 --config quittance.json
              quittance webhooks show kf12gdi1f9w01 --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """,
        subcommands: [
            AddWebhook.self, ChangeWebhook.self, List.self, Show.self, TestWebhook.self, RotateWebhook.self,
            PauseWebhook.self, ResumeWebhook.self, ReplayWebhook.self, Remove.self,
        ])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the endpoints of the ledger: id, URL, state, and which events they get.",
            usage: "quittance webhooks list [options]", discussion: ConfigTopic.ledgerOptions)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions

        @Option(help: "Only endpoints of this app.")
        var bundleId: String?

        @Flag(help: "Print only a JSON object per endpoint.")
        var json = false

        func run() async throws {
            try await options.composition().onLedger(.reading) { storage in
                let endpoints = try await Ledger(storage: storage).webhookEndpoints(of: bundleId)
                if endpoints.isEmpty {
                    let app = bundleId.map { " of \($0.printable)" } ?? ""
                    Terminal.printError("The ledger has no endpoints\(app).")
                }
                for endpoint in endpoints {
                    if json {
                        try Terminal.print(json: WebhookBody(endpoint))
                    } else {
                        try Terminal.print(endpoint.line)
                    }
                }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        /// The number of attempts and of set-aside events in the output. They fit on a screen.
        private static let shown = 10

        static let configuration = CommandConfiguration(
            abstract: "Show an endpoint, the state of its deliveries, and the last attempts.",
            usage: "quittance webhooks show <id> [options]",
            discussion: """
                First comes the endpoint, then the numbers of failed events that wait for their next attempt and that \
                were set aside after the last, then the newest \(shown) set-aside events and the newest \(shown) \
                attempts.

                  quittance webhooks show kf12gdi1f9w01 --config quittance.json
                  quittance webhooks show kf12gdi1f9w01 --secret --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var endpoint: WebhookOptions

        @Flag(help: "Print only the secret and the public key.")
        var secret = false

        @Flag(help: "Print a JSON object, as GET /v1/webhooks/{id} has it, or with --secret GET …/secret.")
        var json = false

        func run() async throws {
            try await endpoint.onLedger(.reading) { ledger, app, composition in
                if secret { return try await showSecret(ledger, app, composition) }
                guard let status = try await WebhookStatus(endpoint.id, of: app, in: ledger) else {
                    throw endpoint.unknown(app)
                }
                guard !json else { return try Terminal.print(json: WebhookBody(status)) }
                try Terminal.print(status.endpoint.line)
                try Terminal.print(status.line)
                for failed in status.setAside.prefix(Self.shown) { try Terminal.print("set aside  \(failed.line)") }
                for attempt in try await ledger.webhookAttempts(of: endpoint.id, of: app, limit: Self.shown) {
                    try Terminal.print("attempt    \(attempt.line)")
                }
            }
        }

        private func showSecret(_ ledger: Ledger, _ app: String, _ composition: Composition) async throws {
            guard let found = try await ledger.webhookEndpoint(endpoint.id, of: app) else {
                throw endpoint.unknown(app)
            }
            let secret = try await composition.webhookSecrets(of: ledger).secret(of: found)
            guard !json else { return try Terminal.print(json: WebhookSecretBody(found, secret)) }
            try WebhookOutput.printSecret(found, secret)
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove an endpoint with its waiting and set-aside events.",
            usage: "quittance webhooks remove <id> [options]",
            discussion: """
                Asks first, unless --yes is passed. An endpoint that is added later has another id and secret.

                  quittance webhooks remove kf12gdi1f9w01 --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var endpoint: WebhookOptions
        @OptionGroup var confirmation: Confirmation

        func run() async throws {
            try await endpoint.onLedger { ledger, app, composition in
                guard let status = try await WebhookStatus(endpoint.id, of: app, in: ledger) else {
                    throw endpoint.unknown(app)
                }
                try await confirmation.require {
                    """
                    Remove \(status.endpoint.url), with \(status.waiting) waiting and \(status.setAsideCount) \
                    set-aside events? It cannot be undone.
                    """
                }
                guard try await ledger.removeWebhook(endpoint.id, of: app, at: SystemClock.now()) else {
                    throw endpoint.unknown(app)
                }
                try Terminal.print("Removed: \(status.endpoint.line)")
            }
        }
    }
}
