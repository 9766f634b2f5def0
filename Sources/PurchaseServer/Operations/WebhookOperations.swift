// SPDX-License-Identifier: Apache-2.0

// The endpoints that get the events of an app.

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Logging
import PurchaseLedger

/// The maximum length of a body in bytes: the longest URL and all kinds, with every character escaped.
private let bodyLimit = 32 << 10

private let path = "/v1/webhooks/{id}"
private let endpointID = Field("id", in: .path, "the id of an endpoint", option: "id")
private let unknown = "The endpoint"
/// The errors of operations with a secret.
private let secretErrors: Set<ErrorCode> = [.noWebhookSecrets, .otherWebhookSecrets]

private let kinds = Field(
    "kinds", "only events of these kinds", .words(LedgerEvent.Kind.allCases.map(\.rawValue)), isNullable: true,
    option: "kind", standard: "all")
private let onlyEnvironment = Field(
    "environment", "only events of this environment", .word(Environment.words), isNullable: true,
    standard: "all")
private let ordered = Field(
    "ordered", "whether a failed event holds back the later events of its customer", .flag, standard: "false")
private let asymmetric = Field(
    "asymmetric", "whether to sign also with an Ed25519 key (v1a), which a receiver verifies without a secret", .flag,
    standard: "false")
private let backfilled = Field(
    "backfilled", "whether to deliver the payments in a backfill of the past too", .flag, standard: "true")
private let settings = [kinds, onlyEnvironment, ordered, asymmetric, backfilled]

private func urlField(isRequired: Bool) -> Field {
    Field(
        "url",
        """
        the URL of the receiver: https, or http if the setting webhookNetworks has its address. A name is looked up at \
        each delivery
        """,
        .text(.webhookURL),
        isRequired: isRequired, isArgument: isRequired)
}

private let line = lines(
    "id", "url", "kinds", "environment", "ordered", "asymmetric", "no-backfilled", "state", "disabledAt",
    "disabledReason", "rotatedAt", "secret", "publicKey")

/// The endpoint and, beneath it, the state of its deliveries.
private let status: @Sendable (JSONValue) -> String = { answer in
    guard let deliveries = answer["deliveries"] else { return line(answer) }
    let state = lines("waiting", "setAsideCount", "deliveredAt", "failingSince", "cursor:")(deliveries)
    let setAside = (deliveries["setAside"]?.array ?? []).prefix(10).map {
        "set aside  " + lines("failedAt", "event", "reason")($0)
    }
    return ([line(answer), state] + setAside).joined(separator: "\n")
}

package enum AddWebhook: NamedOperation {
    private static let url = urlField(isRequired: true)
    private static let from = Field(
        "from", "the cursor after which the deliveries begin: an event's id",
        standard: "the newest event")

    package static let operation = Operation(
        .post, "/v1/webhooks", "adds an endpoint that gets the app's events", command: "webhooks add",
        notes: """
            The first delivered event is the next event of the app, unless --from names an earlier one.

              quittance webhooks add https://example.com/hooks --config quittance.json
              quittance webhooks add https://example.com/hooks --ordered \\
                  --kind subscription.started,purchase.made \\
                  --environment production --config quittance.json
            """,
        [url] + settings + [from], upTo: bodyLimit, statuses: [.created],
        errors: secretErrors.union([.webhookURLRefused, .tooManyWebhooks, .invalidCursor, .cursorExpired]), text: line
    ) { request in
        let service = request.service
        // The first endpoint of a ledger may have any file, so `addWebhook` compares the files.
        guard let secrets = service.webhookSecrets else { throw Refusal.noWebhookSecrets }
        var endpoint = WebhookEndpoint(
            id: request.server.webhookIDs.next(), of: request.scope.bundleId,
            url: try request.checked(request.text(url)).text, createdAt: request.wall)
        try request.changes(url)(&endpoint)
        let cursor = (request[from]?.string).map(EventCursor.init(rawValue:))
        do {
            switch try await request.ledger.addWebhook(
                endpoint, fingerprint: secrets.fingerprint, from: cursor, at: request.wall)
            {
            case .done: break
            case .tooMany: throw Refusal.tooManyWebhooks
            case .otherSecretFile: throw Refusal.otherWebhookSecrets
            }
        } catch let error as EventCursorError {
            throw Refusal(error, in: "from", advice: "send the id of an event, or omit “from”")
        }
        service.webhooks.noteChange()
        return try Answer(WebhookBody(endpoint, secret: secrets.secret(of: endpoint)), .created)
    }
}

package enum ListWebhooks: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/webhooks", "returns the endpoints of the app", command: "webhooks list", roles: .readers, [],
        text: line
    ) { request in
        let endpoints = try await request.ledger.webhookEndpoints(of: request.scope.bundleId)
        return try Answer(WebhookListBody(items: endpoints.map { WebhookBody($0) }))
    }
}

package enum ShowWebhook: NamedOperation {
    package static let operation = Operation(
        .get, path, "returns an endpoint and the state of its deliveries", command: "webhooks show",
        notes: """
            After the endpoint come the numbers of failed events that wait for their next attempt and that were set \
            aside after the last, and the newest ten set-aside events.

              quittance webhooks show kf12gdi1f9w01 --config quittance.json
            """,
        roles: .readers, [endpointID], unknown: unknown, text: status
    ) { try await Answer($0.webhook()) }
}

package enum ChangeWebhook: NamedOperation {
    private static let url = urlField(isRequired: false)

    package static let operation = Operation(
        .patch, path, "changes an endpoint", command: "webhooks change",
        notes: """
            Settings without an option stay as they are. The endpoint keeps its secret, and goes on with the first \
            event that was not delivered.

              quittance webhooks change kf12gdi1f9w01 --url https://example.com/hooks \\
                  --kind all --no-ordered --config quittance.json
            """,
        [endpointID, url] + settings.map { $0.with(standard: "the present value") }, upTo: bodyLimit, unknown: unknown,
        errors: [.webhookURLRefused], text: line
    ) { request in
        guard ([url] + settings).contains(where: { request[$0] != nil }) else {
            throw Refusal.invalid("Pass at least one setting, such as “url”.")
        }
        return try Answer(await request.change(request.changes(url)).map { WebhookBody($0) })
    }
}

package enum RemoveWebhook: NamedOperation {
    package static let operation = Operation(
        .delete, path, "removes an endpoint with its waiting events", command: "webhooks remove",
        notes: """
            An endpoint that is added later has another id and secret.

              quittance webhooks remove kf12gdi1f9w01 --config quittance.json
            """,
        [endpointID], unknown: unknown, text: { _ in "Removed." },
        question: { request in
            guard let status = try await request.webhook() else { throw Refusal.notFound(unknown) }
            return """
                Remove \(status.url), with \(status.deliveries?.waiting ?? 0) waiting and \
                \(status.deliveries?.setAsideCount ?? 0) set-aside events? It cannot be undone.
                """
        }
    ) { request in
        let isRemoved = try await request.ledger.removeWebhook(
            request.text(endpointID), of: request.scope.bundleId, at: request.wall)
        request.service.webhooks.noteChange()
        return try isRemoved ? Answer(WebhookRemovalBody()) : nil
    }
}

package enum GetWebhookSecret: NamedOperation {
    package static let operation = Operation(
        .get, path + "/secret", "returns the secret of an endpoint", command: "webhooks secret", [endpointID],
        unknown: unknown, errors: secretErrors, text: lines("secret", "publicKey")
    ) { request -> Answer<WebhookSecretBody>? in
        guard let endpoint = try await request.endpoint() else { return nil }
        return try await Answer(WebhookSecretBody(endpoint, request.secrets().secret(of: endpoint)))
    }
}

package enum ListWebhookAttempts: NamedOperation {
    private static let limit = Field(
        "limit", in: .query, "the most attempts in the answer", .number(1...Int64(WebhookAttempt.kept)),
        standard: "100")

    package static let operation = Operation(
        .get, path + "/attempts", "returns the newest attempts to deliver events", command: "webhooks attempts",
        roles: .readers, [endpointID, limit], unknown: unknown,
        text: lines("at", "event", "milliseconds", "status", "failure", "answer")
    ) { request -> Answer<WebhookAttemptListBody>? in
        guard let endpoint = try await request.endpoint() else { return nil }
        let attempts = try await request.ledger.webhookAttempts(
            of: endpoint.id, of: endpoint.bundleId, limit: request.number(limit))
        return try Answer(WebhookAttemptListBody(attempts))
    }
}

// MARK: - Actions

package enum RotateWebhook: NamedOperation {
    package static let operation = Operation(
        .post, path + "/rotate", "gives an endpoint a new secret", command: "webhooks rotate",
        notes: """
            Within five seconds requests are signed with it. For 24 hours the previous secret signs too: set the new \
            secret in your receiver meanwhile. A second rotation within this time ends the oldest secret at once.
            """,
        [endpointID], unknown: unknown, errors: secretErrors, text: line
    ) { request -> Answer<WebhookBody>? in
        guard try await request.endpoint() != nil else { return nil }
        let secrets = try await request.secrets()
        let now = request.wall
        return try Answer(
            await request.change { $0.rotate(at: now) }.map { WebhookBody($0, secret: secrets.secret(of: $0)) })
    }
}

package enum PauseWebhook: NamedOperation {
    package static let operation = Operation(
        .post, path + "/pause", "pauses the deliveries to an endpoint", command: "webhooks pause",
        notes: """
            The events wait in the ledger. A paused endpoint does not keep events from being erased by \
            eventRetentionDays.
            """,
        [endpointID], unknown: unknown, text: line
    ) { try Answer(await $0.change { $0.state = .paused }.map { WebhookBody($0) }) }
}

package enum ResumeWebhook: NamedOperation {
    package static let operation = Operation(
        .post, path + "/resume", "resumes the deliveries to an endpoint, and tries failed events at once",
        command: "webhooks resume",
        notes: """
            Deliveries continue with the first event that was not delivered. A server disables an endpoint that \
            answers 410, or after five days without a success.
            """,
        [endpointID], unknown: unknown, text: text
    ) { request -> Answer<WebhookBody>? in
        let wall = request.wall
        guard let endpoint = try await request.change({ $0.resume(at: wall) }) else { return nil }
        var body = WebhookBody(endpoint)
        body.idsGone = try await request.ledger.webhookLacksIds(endpoint, at: request.now, wall: wall) ? true : nil
        return try Answer(body)
    }

    private static let text: @Sendable (JSONValue) -> String = { endpoint in
        guard endpoint["idsGone"] != nil else { return line(endpoint) }
        return line(endpoint) + """

            Events of more than 30 days ago follow, and the ids deleted or taken off then are gone: begin again.
            """
    }
}

package enum TestWebhook: NamedOperation {
    package static let operation = Operation(
        .post, path + "/test", "sends an example of each kind of event that the endpoint wants",
        command: "webhooks test",
        notes: """
            The examples have a member test, and invented values: your receiver must verify them, and change nothing. \
            Each line has the kind, the status or the failure, and the beginning of the answer.

              quittance webhooks test kf12gdi1f9w01 --config quittance.json
            """,
        [endpointID], changes: false, unknown: unknown, errors: secretErrors.union([.webhookURLRefused]),
        text: lines("kind", "milliseconds", "status", "failure", "answer"),
        isFailure: { $0["items"]?.array?.contains { $0["failure"] != nil } == true }
    ) { request -> Answer<WebhookTestBody>? in
        guard let endpoint = try await request.endpoint() else { return nil }
        let server = request.server
        let secrets = try await request.secrets()
        let url = try request.checked(endpoint.url)
        let sender = WebhookSender(networks: server.service.webhookNetworks, clock: server.clock)
        let test = try WebhookTest(
            of: endpoint, at: url, signedBy: secrets.signing(endpoint, at: request.wall), by: sender,
            ids: server.webhookIDs, now: server.wall)
        let answers = await test.run(clock: server.clock)
        sender.shutdown()
        for refusal in Set(answers.compactMap(\.outcome.refusal)) {
            let metadata = endpoint.metadata(["error": .string(refusal)])
            server.logger.warning("The test of a webhook was refused", metadata: metadata)
        }
        return try Answer(WebhookTestBody(answers))
    }
}

package enum ReplayWebhook: NamedOperation {
    private static let after = Field("after", "all events after this cursor: an event's id")
    private static let since = Field("since", "all events recorded since this time", .time, isPast: true)
    private static let setAside = Field("setAside", "the events that were set aside", .flag)

    package static let operation = Operation(
        .post, path + "/replay", "delivers events to an endpoint again", command: "webhooks replay",
        notes: """
            The events keep their ids, so your receiver can ignore those that it has. Pass one of --after, --since and \
            --set-aside.

              quittance webhooks replay kf12gdi1f9w01 --set-aside \\
                  --config quittance.json
              quittance webhooks replay kf12gdi1f9w01 \\
                  --since 2026-05-03 --config quittance.json
            """,
        [endpointID, after, since, setAside], upTo: bodyLimit, unknown: unknown,
        errors: [.invalidCursor, .cursorExpired], text: status
    ) { request -> Answer<WebhookBody>? in
        let replay = try replay(request)
        // The events have the times of the ledger, which can be a simulator's.
        if case .since(let time) = replay, time > request.now { throw Refusal.invalid("“since” is in the future.") }
        do {
            let count = try await request.ledger.replayWebhook(
                request.text(endpointID), of: request.scope.bundleId, replay, at: request.wall)
            guard count != nil else { return nil }
        } catch let error as EventCursorError {
            throw Refusal(error, advice: "send the id of an event")
        }
        request.service.webhooks.noteChange()
        return try await Answer(request.webhook())
    }

    @inline(never)
    private static func replay(_ request: AuthenticatedRequest) throws(Refusal) -> WebhookReplay {
        let after = (request[after]?.string).map { WebhookReplay.after(EventCursor(rawValue: $0)) }
        let since = request.time(since).map { WebhookReplay.since($0) }
        let setAside = request[setAside]?.bool == true ? WebhookReplay.setAside : nil
        let given = [Self.after, Self.since, Self.setAside].filter { request[$0] != nil }
        guard given.count == 1, let replay = after ?? since ?? setAside else {
            throw .invalid("Exactly one of “after”, “since” and “setAside” is needed, and “setAside” must be true.")
        }
        return replay
    }
}

// MARK: - Parts

extension AuthenticatedRequest {
    fileprivate func endpoint() async throws -> WebhookEndpoint? {
        try await ledger.webhookEndpoint(text(endpointID), of: scope.bundleId)
    }

    fileprivate func webhook() async throws -> WebhookBody? {
        try await WebhookStatus(text(endpointID), of: scope.bundleId, in: ledger).map { WebhookBody($0) }
    }

    /// - Returns: The changed endpoint; `nil` if the app has no such endpoint.
    fileprivate func change(
        _ change: @escaping @Sendable (inout WebhookEndpoint) -> Void
    ) async throws -> WebhookEndpoint? {
        let changed = try await ledger.changeWebhook(
            text(endpointID), of: scope.bundleId, at: wall, change)
        service.webhooks.noteChange()
        return changed
    }

    /// The secrets of the server's file.
    ///
    /// - Throws: ``Refusal`` if the server has no file, or a different file from the servers before.
    fileprivate func secrets() async throws -> WebhookSecrets {
        guard let secrets = service.webhookSecrets else { throw Refusal.noWebhookSecrets }
        let known = try await ledger.webhookFingerprint()
        guard known ?? secrets.fingerprint == secrets.fingerprint else { throw Refusal.otherWebhookSecrets }
        return secrets
    }

    fileprivate func checked(_ url: String) throws(Refusal) -> WebhookURL {
        do throws(WebhookURLError) {
            return try WebhookURL(url, allowing: service.webhookNetworks)
        } catch {
            throw Refusal(.webhookURLRefused, error.description)
        }
    }

    /// The change of the settings that the request names. The others stay as they are.
    @inline(never)
    fileprivate func changes(_ url: Field) throws(Refusal) -> @Sendable (inout WebhookEndpoint) -> Void {
        let url = try self[url]?.string.map { (text) throws(Refusal) in try checked(text).text }
        let kinds = self[kinds].map { $0.array.map { Set($0.compactMap(\.string)) } }
        let environment = self[onlyEnvironment].map { $0.string.flatMap(Environment.init(named:)) }
        let ordered = self[ordered]?.bool
        let asymmetric = self[asymmetric]?.bool
        let backfilled = self[backfilled]?.bool
        if let environment = environment ?? nil, !service.verifier.environments.contains(environment) {
            throw .unrecorded(environment)
        }
        return { endpoint in
            if let url { endpoint.url = url }
            if let kinds { endpoint.kinds = kinds }
            if let environment { endpoint.environment = environment }
            if let ordered { endpoint.isOrdered = ordered }
            if let asymmetric { endpoint.isAsymmetric = asymmetric }
            if let backfilled { endpoint.wantsBackfilled = backfilled }
        }
    }
}

extension Refusal {
    fileprivate static let noWebhookSecrets = Refusal(
        .noWebhookSecrets, "The server has no secret file for webhooks: set webhookSecretFile in its configuration.")
    fileprivate static let otherWebhookSecrets = Refusal(.otherWebhookSecrets, WebhookSecrets.otherFile)
    fileprivate static let tooManyWebhooks = Refusal(
        .tooManyWebhooks, "The app has \(WebhookEndpoint.maxCount) endpoints, the most. Remove one first.")
}
