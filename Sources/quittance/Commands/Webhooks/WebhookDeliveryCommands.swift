// SPDX-License-Identifier: Apache-2.0

// The commands that test, pause, resume and repeat the deliveries to an endpoint.

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance webhooks test`.
struct TestWebhook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Send an example of each kind of event that an endpoint wants, and show the answers.",
        usage: "quittance webhooks test <id> [options]",
        discussion: """
            The examples have a member test, and invented values: your receiver must verify them, and change \
            nothing. Each line has the kind, the status or the failure, and the beginning of the answer.

            Exit status: 0 all answers were 2xx; 1 some were not; 2 wrong usage.

              quittance webhooks test kf12gdi1f9w01 --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup var endpoint: WebhookOptions

    @Flag(help: "Print only a JSON object per example.")
    var json = false

    func run() async throws {
        try await endpoint.onLedger(.reading) { ledger, app, composition in
            guard let found = try await ledger.webhookEndpoint(endpoint.id, of: app) else {
                throw endpoint.unknown(app)
            }
            let secrets = try await composition.webhookSecrets(of: ledger)
                .signing(found, at: SystemClock.now())
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

/// `quittance webhooks pause`.
struct PauseWebhook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Pause the deliveries to an endpoint.", usage: "quittance webhooks pause <id> [options]",
        discussion: """
            The events wait in the ledger. A paused endpoint does not keep events from being erased by \
            eventRetentionDays.

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup var endpoint: WebhookOptions

    func run() async throws { try await endpoint.change("Paused") { _ in { $0.state = .paused } } }
}

/// `quittance webhooks resume`.
struct ResumeWebhook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resume the deliveries to an endpoint, and try failed events at once.",
        usage: "quittance webhooks resume <id> [options]",
        discussion: """
            Deliveries continue with the first event that was not delivered. A server disables an endpoint that \
            answers 410, or after five days without a success. Resuming an active endpoint lets failed events be \
            tried at once.

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup var endpoint: WebhookOptions

    func run() async throws {
        try await endpoint.change("Resumed") { _ in
            let now = SystemClock.now()
            return { $0.resume(at: now) }
        }
    }
}

/// `quittance webhooks replay`.
struct ReplayWebhook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
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

    @OptionGroup var endpoint: WebhookOptions

    @Option(help: ArgumentHelp("All events after this cursor: an event's id.", valueName: "cursor"))
    var after: String?

    @Option(
        help: ArgumentHelp("All events recorded since this time (ISO 8601).", valueName: "time"),
        transform: { try Timestamp.option("--since", $0) })
    var since: Timestamp?

    @Flag(help: "The events that were set aside.")
    var setAside = false

    func validate() throws {
        let count = [after != nil, since != nil, setAside].count(where: \.self)
        guard count == 1 else {
            throw ValidationError(
                "Which events? Pass \(count > 1 ? "only " : "")one of --after, --since and --set-aside.")
        }
    }

    private var replay: WebhookReplay {
        if let after { return .after(EventCursor(rawValue: after)) }
        return since.map { .since($0) } ?? .setAside
    }

    func run() async throws {
        try await endpoint.onLedger { ledger, app, composition in
            // The events have the times of the ledger, which can be a simulator's.
            let now = composition.now()
            if let since, since > now {
                throw ValidationError("--since is in the future: it is \(now.iso8601) now.")
            }
            do {
                let count = try await ledger.replayWebhook(endpoint.id, of: app, replay, at: SystemClock.now())
                guard let count else { throw endpoint.unknown(app) }
                let events = setAside ? counted(count, "event") : "Events"
                try Terminal.print("\(events) will be delivered again.")
            } catch let error as EventCursorError {
                throw Terminal.refusal(of: error, "--after")
            }
        }
    }
}
