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
            Add.self, List.self, Show.self, Test.self, Rotate.self, Pause.self, Resume.self, Replay.self, Remove.self,
        ])

    /// An endpoint of an app.
    struct EndpointOptions: ParsableArguments {
        @OptionGroup(visibility: .inTopic) var options: ServerOptions

        @Argument(help: "The id of the endpoint in quittance webhooks list.")
        var id: String

        @Option(help: "The app of the endpoint. May be omitted if the configuration has a single app.")
        var bundleId: String?

        /// Lets `body` use the ledger.
        func onLedger(
            _ use: LedgerUse = .working,
            _ body: (_ ledger: Ledger, _ app: String, _ composition: Composition) async throws -> Void
        ) async throws {
            let composition = try await options.compositionWithTime()
            let app = try composition.configuration.bundleId(bundleId)
            try await composition.onLedger(use) { try await body(Ledger(storage: $0), app, composition) }
        }

        /// The failure if the app has no endpoint with the id.
        func unknown(_ app: String) -> ExitCode {
            Terminal.failure("\(app) has no endpoint “\(id.printable.shortened)”: see quittance webhooks list.")
        }

        /// Changes the endpoint, and prints its line.
        func change(
            _ verb: String, _ change: @escaping @Sendable (inout WebhookEndpoint, _ now: Timestamp) -> Void
        ) async throws {
            try await onLedger { ledger, app, composition in
                let now = composition.now()
                let changed = try await ledger.changeWebhook(id, of: app, at: now) { change(&$0, now) }
                guard let endpoint = changed else { throw unknown(app) }
                try Terminal.print("\(verb): \(endpoint.line)")
            }
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
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

        @Option(help: "Deliver only events of these kinds, separated by commas.")
        var kind: String?

        @Option(
            help: "Deliver only events of this environment: production, sandbox, xcode or localTesting.",
            transform: { try Environment.option($0) })
        var environment: Environment?

        @Flag(help: "Hold back the later events of a customer while one of them fails.")
        var ordered = false

        @Flag(help: "Also sign with an Ed25519 key (v1a), which a receiver verifies without a secret.")
        var asymmetric = false

        @Option(help: "Begin after this cursor: an event's id.")
        var from: String?

        @Option(help: "The app of the endpoint. May be omitted if the configuration has a single app.")
        var bundleId: String?

        @Flag(help: "Print the endpoint and its secret as a JSON object.")
        var json = false

        private var kinds: Set<String>? {
            kind.map { Set($0.split(separator: ",", omittingEmptySubsequences: false).map(String.init)) }
        }

        func validate() throws {
            guard let kinds, let unknown = LedgerEvent.Kind.unknownName(in: kinds) else { return }
            throw ValidationError("--kind has an unknown kind of event: “\(unknown.printable.shortened)”.")
        }

        func run() async throws {
            var composition = try await options.compositionWithTime()
            let app = try composition.configuration.bundleId(bundleId)
            let secrets = try composition.requiredWebhookSecrets()
            if let environment, !composition.configuration.environments.contains(environment) {
                throw ValidationError(
                    "--environment \(environment.rawValue): the configuration lacks it in environments.")
            }
            let endpoint = WebhookEndpoint(
                id: WebhookIDs(seed: composition.random.next()).next(), of: app,
                url: try composition.webhookURL(url).text, kinds: kinds, environment: environment,
                isOrdered: ordered, isAsymmetric: asymmetric, createdAt: composition.now())
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
                case .done: try Webhooks.show(endpoint, secrets.secret(of: endpoint), json: json)
                case .tooMany:
                    throw Terminal.failure(
                        "\(endpoint.bundleId) has \(WebhookEndpoint.maxCount) endpoints, the most: remove one first.")
                case .otherSecretFile: throw Composition.otherWebhookSecrets
                }
            } catch let error as EventCursorError {
                throw Webhooks.refusal(of: error, "--from")
            }
        }
    }

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
                for endpoint in try await Ledger(storage: storage).webhookEndpoints(of: bundleId) {
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

        @OptionGroup var endpoint: EndpointOptions

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
            try Webhooks.printSecret(found, secret)
        }
    }

    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send an example of each kind of event that an endpoint wants, and show the answers.",
            usage: "quittance webhooks test <id> [options]",
            discussion: """
                The examples have a member test, and invented values: your receiver must verify them, and change \
                nothing. Each line has the kind, the status or the failure, and the beginning of the answer.

                Exit status: 0 all answers were 2xx; 1 some were not; 2 wrong usage.

                  quittance webhooks test kf12gdi1f9w01 --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var endpoint: EndpointOptions

        @Flag(help: "Print only a JSON object per example.")
        var json = false

        func run() async throws {
            try await endpoint.onLedger(.reading) { ledger, app, composition in
                guard let found = try await ledger.webhookEndpoint(endpoint.id, of: app) else {
                    throw endpoint.unknown(app)
                }
                let secrets = try await composition.webhookSecrets(of: ledger)
                    .signing(found, at: composition.now())
                let answers = try await test(found, secrets, composition)
                for answer in answers {
                    if json {
                        try Terminal.print(json: WebhookTestAnswerBody(answer))
                    } else {
                        try Terminal.print(answer.line)
                    }
                }
                let failed = answers.count { $0.outcome.failure != nil }
                if failed > 0 { throw Terminal.failure("\(failed) of \(counted(answers.count, "example")) failed.") }
            }
        }

        private func test(
            _ endpoint: WebhookEndpoint, _ secrets: [WebhookSecret], _ composition: Composition
        ) async throws -> [WebhookTest.Answer] {
            let url = try composition.webhookURL(endpoint.url)
            var random = composition.random
            let sender = WebhookSender(networks: composition.configuration.webhookNetworks, clock: composition.clock)
            let test = try WebhookTest(
                of: endpoint, at: url, signedBy: secrets, by: sender, ids: WebhookIDs(seed: random.next()),
                now: SystemClock.now)
            let answers = await test.run(clock: composition.clock)
            sender.shutdown()
            return answers
        }
    }

    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give an endpoint a new secret, and print it.",
            usage: "quittance webhooks rotate <id> [options]",
            discussion: """
                For 24 hours the previous secret signs too: set the new secret in your receiver meanwhile. A second \
                rotation within this time ends the oldest secret at once.

                  quittance webhooks rotate kf12gdi1f9w01 --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var endpoint: EndpointOptions

        @Flag(help: "Print the endpoint and its secret as a JSON object.")
        var json = false

        func run() async throws {
            try await endpoint.onLedger { ledger, app, composition in
                let secrets = try await composition.webhookSecrets(of: ledger)
                let now = composition.now()
                let changed = try await ledger.changeWebhook(endpoint.id, of: app, at: now) { $0.rotate(at: now) }
                guard let changed else { throw endpoint.unknown(app) }
                try Webhooks.show(changed, secrets.secret(of: changed), json: json)
            }
        }
    }

    struct Pause: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Pause the deliveries to an endpoint.", usage: "quittance webhooks pause <id> [options]",
            discussion: """
                The events wait in the ledger. A paused endpoint does not keep events from being erased by \
                eventRetentionDays.

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var endpoint: EndpointOptions

        func run() async throws { try await endpoint.change("Paused") { endpoint, _ in endpoint.state = .paused } }
    }

    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Resume the deliveries to an endpoint, and try failed events at once.",
            usage: "quittance webhooks resume <id> [options]",
            discussion: """
                Deliveries continue with the first event that was not delivered. A server disables an endpoint that \
                answers 410, or after five days without a success. Resuming an active endpoint lets failed events be \
                tried at once.

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var endpoint: EndpointOptions

        func run() async throws { try await endpoint.change("Resumed") { $0.resume(at: $1) } }
    }

    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Deliver events to an endpoint again.",
            usage: """
                quittance webhooks replay <id> (--after <cursor> | --since <time> |
                    --set-aside) [options]
                """,
            discussion: """
                The events keep their ids, so your receiver can ignore those that it has.

                  quittance webhooks replay kf12gdi1f9w01 --set-aside \\
                      --config quittance.json
                  quittance webhooks replay kf12gdi1f9w01 \\
                      --since 2026-05-03T00:00:00Z --config quittance.json

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup var endpoint: EndpointOptions

        @Option(help: ArgumentHelp("All events after this cursor: an event's id.", valueName: "cursor"))
        var after: String?

        @Option(
            help: ArgumentHelp("All events recorded since this time (ISO 8601).", valueName: "time"),
            transform: { try Timestamp.option("--since", $0) })
        var since: Timestamp?

        @Flag(help: "The events that were set aside.")
        var setAside = false

        func validate() throws {
            guard [after != nil, since != nil, setAside].count(where: \.self) == 1 else {
                throw ValidationError("Which events? Pass one of --after, --since and --set-aside.")
            }
        }

        private var replay: WebhookReplay {
            if let after { return .after(EventCursor(rawValue: after)) }
            return since.map { .since($0) } ?? .setAside
        }

        func run() async throws {
            try await endpoint.onLedger { ledger, app, composition in
                do {
                    let count = try await ledger.replayWebhook(
                        endpoint.id, of: app, replay, at: composition.now())
                    guard let count else { throw endpoint.unknown(app) }
                    let events = setAside ? counted(count, "event") : "Events"
                    try Terminal.print("\(events) will be delivered again.")
                } catch let error as EventCursorError {
                    throw Webhooks.refusal(of: error, "--after")
                }
            }
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

        @OptionGroup var endpoint: EndpointOptions
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
                guard try await ledger.removeWebhook(endpoint.id, of: app, at: composition.now()) else {
                    throw endpoint.unknown(app)
                }
                try Terminal.print("Removed: \(status.endpoint.line)")
            }
        }
    }
}

extension Webhooks {
    /// Prints an endpoint with its new secret.
    fileprivate static func show(_ endpoint: WebhookEndpoint, _ secret: WebhookSecret, json: Bool) throws {
        guard !json else { return try Terminal.print(json: WebhookBody(endpoint, secret: secret)) }
        try Terminal.print("id          \(endpoint.id)")
        try printSecret(endpoint, secret)
    }

    fileprivate static func printSecret(_ endpoint: WebhookEndpoint, _ secret: WebhookSecret) throws {
        try Terminal.print("secret      \(secret.text)")
        if endpoint.isAsymmetric { try Terminal.print("public key  \(secret.publicKey)") }
    }

    /// The failure for a cursor without events after it.
    fileprivate static func refusal(of error: EventCursorError, _ option: String) -> any Error {
        switch error {
        case .invalid: ValidationError("\(option) takes the id of an event of the app.")
        case .expired(let oldest), .lost(let oldest):
            Terminal.failure(
                "The ledger no longer has the events after this cursor. The oldest begin after \(oldest.rawValue).")
        }
    }
}

extension Composition {
    /// The failure if the secret file is not the file of the ledger.
    static var otherWebhookSecrets: ExitCode {
        Terminal.failure(
            "The secrets of the ledger's endpoints were made with a different file from webhookSecretFile. All servers "
                + "of the ledger need the same file.")
    }

    /// The secrets of the file in the configuration.
    ///
    /// - Throws: `ValidationError` if the configuration has no file, or the file cannot be used.
    func requiredWebhookSecrets() throws -> WebhookSecrets {
        guard let secrets = try webhookSecrets() else {
            throw ValidationError(
                "The configuration has no webhookSecretFile, which the signatures need: see quittance webhooks -h.")
        }
        return secrets
    }

    /// The secrets of the file in the configuration, which must be the file of the ledger's endpoints.
    func webhookSecrets(of ledger: Ledger) async throws -> WebhookSecrets {
        let secrets = try requiredWebhookSecrets()
        let known = try await ledger.webhookFingerprint()
        guard known ?? secrets.fingerprint == secrets.fingerprint else { throw Self.otherWebhookSecrets }
        return secrets
    }

    /// The checked URL of an endpoint.
    func webhookURL(_ text: String) throws -> WebhookURL {
        do {
            return try WebhookURL(text, allowing: configuration.webhookNetworks)
        } catch {
            throw ValidationError(error.description)
        }
    }
}

// MARK: - Lines

extension WebhookEndpoint {
    /// The line of the endpoint in a list.
    fileprivate var line: String {
        let state =
            if case .disabled(let reason, let date) = state {
                "disabled \(date.iso8601): \(reason)"
            } else {
                state.word
            }
        let parts = [
            id, bundleId, url, kinds?.sorted().joined(separator: ",") ?? "all kinds",
            environment?.rawValue ?? "all environments", isOrdered ? "ordered" : nil, isAsymmetric ? "asymmetric" : nil,
            state,
        ]
        return parts.compactMap(\.self).joined(separator: "  ").printable
    }
}

extension WebhookStatus {
    /// The state of the deliveries.
    fileprivate var line: String {
        let delivered = progress?.deliveredAt.map { "last delivery \($0.iso8601)" } ?? "nothing delivered yet"
        let failing = progress?.failingSince.map { "failing since \($0.iso8601)" }
        let cursor = oldestCursor.map { "at cursor \($0.rawValue)" }
        return ["\(waiting) waiting", "\(setAsideCount) set aside", delivered, failing, cursor]
            .compactMap(\.self).joined(separator: ", ").printable
    }
}

extension FailedDelivery {
    fileprivate var line: String { "\(failedAt.iso8601)  \(event.rawValue)  \(reason)".printable }
}

extension WebhookAttempt {
    fileprivate var line: String {
        let result = failure ?? status.map { "\($0)" } ?? ""
        return "\(at.iso8601)  \(event.rawValue)  \(milliseconds) ms  \(result)  \(answer.shortened)".printable
    }
}

extension WebhookTest.Answer {
    fileprivate var line: String {
        let result = outcome.failure ?? outcome.status.map { "\($0)" } ?? ""
        return "\(example.kind.rawValue)  \(outcome.milliseconds) ms  \(result)  \(outcome.answer.shortened)".printable
    }
}
