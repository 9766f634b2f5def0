// SPDX-License-Identifier: Apache-2.0

// The commands that add an endpoint and change its settings.

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance webhooks add`.
struct AddWebhook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Add an endpoint, and print its secret.",
        usage: "quittance webhooks add <url> [options]",
        discussion: """
            The first delivered event is the next event of the app, unless --from names an earlier one. The output \
            has the id, the secret for your receiver, and with --asymmetric the public key.

            Exit status: 0 the endpoint was added; 1 the ledger refused it; 2 wrong usage, such as a URL that is \
            not allowed.

              quittance webhooks add https://example.com/hooks --config quittance.json
              quittance webhooks add https://example.com/hooks --ordered \\
                  --kind subscription.started,purchase.made \\
                  --environment production --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Argument(help: "The URL of the receiver: https. The setting webhookNetworks allows http.")
    var url: String

    @Option(
        help: "Deliver only events of these kinds, separated by commas.",
        transform: { try LedgerEvent.Kind.option($0) })
    var kind: Set<String>?

    @Option(
        help: "Deliver only events of this environment: production, sandbox, xcode or localTesting.",
        transform: { try Environment.option($0) })
    var environment: Environment?

    @Flag(help: "Hold back the later events of a customer while one of them fails.")
    var ordered = false

    @Flag(help: "Also sign with an Ed25519 key (v1a), which a receiver verifies without a secret.")
    var asymmetric = false

    @Flag(inversion: .prefixedNo, help: "Deliver the payments in a backfill of the past too.")
    var backfilled = true

    @Option(help: "Begin after this cursor: an event's id.")
    var from: String?

    @Option(help: "The app of the endpoint. May be omitted if the configuration has a single app.")
    var bundleId: String?

    @Flag(help: "Print the endpoint and its secret as a JSON object.")
    var json = false

    func run() async throws {
        var composition = try await options.compositionWithTime()
        let app = try composition.configuration.bundleId(bundleId)
        let secrets = try composition.requiredWebhookSecrets()
        if let environment { try composition.require(environment) }
        let endpoint = WebhookEndpoint(
            id: WebhookIDs(seed: composition.random.next()).next(), of: app,
            url: try composition.webhookURL(url).text, kinds: kind, environment: environment,
            isOrdered: ordered, isAsymmetric: asymmetric, wantsBackfilled: backfilled, createdAt: SystemClock.now())
        try await composition.onLedger(.working) { storage in
            try await add(endpoint, secrets, to: Ledger(storage: storage))
        }
    }

    private func add(_ endpoint: WebhookEndpoint, _ secrets: WebhookSecrets, to ledger: Ledger) async throws {
        do {
            let cursor = from.map(EventCursor.init(rawValue:))
            switch try await ledger.addWebhook(
                endpoint, fingerprint: secrets.fingerprint, from: cursor, at: endpoint.createdAt)
            {
            case .done: try WebhookOutput.show(endpoint, secrets.secret(of: endpoint), json: json)
            case .tooMany:
                throw Terminal.failure(
                    "\(endpoint.bundleId) has \(WebhookEndpoint.maxCount) endpoints, the most: remove one first.")
            case .otherSecretFile: throw Composition.otherWebhookSecrets
            }
        } catch let error as EventCursorError {
            throw Terminal.refusal(of: error, "--from")
        }
    }
}

/// `quittance webhooks change`.
struct ChangeWebhook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "change",
        abstract: "Change the settings of an endpoint.",
        usage: "quittance webhooks change <id> [options]",
        discussion: """
            Settings without an option stay as they are. The endpoint keeps its secret, and goes on with the first \
            event that was not delivered.

              quittance webhooks change kf12gdi1f9w01 --url https://example.com/hooks \\
                  --kind all --no-ordered --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup var endpoint: WebhookOptions

    @Option(help: "The new URL of the receiver: https. The setting webhookNetworks allows http.")
    var url: String?

    @Option(help: "Deliver only events of these kinds, separated by commas, or all.")
    var kind: String?

    @Option(help: "Deliver only events of this environment: production, sandbox, xcode or localTesting, or all.")
    var environment: String?

    @Flag(
        inversion: .prefixedNo, exclusivity: .exclusive,
        help: "Hold back the later events of a customer while one of them fails.")
    var ordered: Bool?

    @Flag(inversion: .prefixedNo, exclusivity: .exclusive, help: "Also sign with an Ed25519 key (v1a).")
    var asymmetric: Bool?

    @Flag(
        inversion: .prefixedNo, exclusivity: .exclusive,
        help: "Deliver the payments in a backfill of the past too.")
    var backfilled: Bool?

    /// The word for no restriction.
    private static let all = "all"

    /// The new kinds; `nil` for the present ones.
    private var kinds: Set<String>?? {
        get throws { try kind.map { try $0 == Self.all ? nil : LedgerEvent.Kind.option($0) } }
    }

    /// The new environment; `nil` for the present one.
    private var newEnvironment: Environment?? {
        get throws { try environment.map { try $0 == Self.all ? nil : Environment.option($0) } }
    }

    func validate() throws {
        let hasFlag = ordered != nil || asymmetric != nil || backfilled != nil
        guard try hasFlag || url != nil || kinds != nil || newEnvironment != nil else {
            throw ValidationError(
                "Which setting? Pass --url, --kind, --environment, --ordered, --no-ordered, --asymmetric, "
                    + "--no-asymmetric, --backfilled or --no-backfilled.")
        }
    }

    func run() async throws {
        try await endpoint.change("Changed") { try settings($0) }
    }

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private func settings(_ composition: Composition) throws -> @Sendable (inout WebhookEndpoint) -> Void {
        let url = try url.map { try composition.webhookURL($0).text }
        let kinds = try kinds
        let environment = try newEnvironment
        if let new = environment ?? nil { try composition.require(new) }
        return { [ordered, asymmetric, backfilled] endpoint in
            if let url { endpoint.url = url }
            if let kinds { endpoint.kinds = kinds }
            if let environment { endpoint.environment = environment }
            if let ordered { endpoint.isOrdered = ordered }
            if let asymmetric { endpoint.isAsymmetric = asymmetric }
            if let backfilled { endpoint.wantsBackfilled = backfilled }
        }
    }
}

/// `quittance webhooks rotate`.
struct RotateWebhook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Give an endpoint a new secret, and print it.",
        usage: "quittance webhooks rotate <id> [options]",
        discussion: """
            Within five seconds requests are signed with it. For 24 hours the previous secret signs too: set the new \
            secret in your receiver meanwhile. A second rotation within this time ends the oldest secret at once.

              quittance webhooks rotate kf12gdi1f9w01 --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup var endpoint: WebhookOptions

    @Flag(help: "Print the endpoint and its secret as a JSON object.")
    var json = false

    func run() async throws {
        try await endpoint.onLedger { ledger, app, composition in
            let secrets = try await composition.webhookSecrets(of: ledger)
            let now = SystemClock.now()
            let changed = try await ledger.changeWebhook(endpoint.id, of: app, at: now) { $0.rotate(at: now) }
            guard let changed else { throw endpoint.unknown(app) }
            try WebhookOutput.show(changed, secrets.secret(of: changed), json: json)
        }
    }
}
