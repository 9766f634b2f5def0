// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Hummingbird
import Logging
import PurchaseLedger

/// The routes by which a backend manages the webhooks of its app.
struct WebhookRoutes: Sendable {
    let authentication: Authentication
    /// Gives ids to new endpoints and to examples.
    let ids: WebhookIDs
    let clock: any Clock<Duration>
    let logger: Logger

    /// The maximum length of a body in bytes: the longest URL and all kinds, with every character escaped.
    private static let bodyLimit = 32 << 10

    private static let settings = ["url", "kinds", "environment", "ordered", "asymmetric", "backfilled"]
    private static let new = APIBody(settings + ["from"], ["url": .webhookURL], upTo: bodyLimit)
    private static let changes = APIBody(settings, ["url": .webhookURL], upTo: bodyLimit)
    private static let replay = APIBody(["after", "since", "setAside"], upTo: bodyLimit)

    private static let endpoint = APIParameter("id", "the id of an endpoint")
    private static let unknown = "The endpoint"
    /// The errors of routes with a secret.
    private static let secretErrors: Set<ErrorCode> = [.noWebhookSecrets, .otherWebhookSecrets]

    var routes: [APIRoute] { collection + single + [attempts] + actions }

    private var collection: [APIRoute] {
        [
            authentication.route(
                .post, "/v1/webhooks", "adds an endpoint that gets the app's events", role: .server, parameters: [],
                body: Self.new, statuses: [.created],
                errors: Self.secretErrors.union([
                    .webhookURLRefused, .tooManyWebhooks, .invalidCursor, .cursorExpired,
                ])
            ) { request in try await request.withBody { try await add($1, $0) } },
            authentication.route(
                .get, "/v1/webhooks", "returns the endpoints of the app", role: .server, parameters: []
            ) { request in
                let endpoints = try await request.ledger.webhookEndpoints(of: request.scope.bundleId)
                return try Answer(WebhookListBody(items: endpoints.map { WebhookBody($0) }))
            },
        ]
    }

    private var single: [APIRoute] {
        let path = "/v1/webhooks/{id}"
        return [
            authentication.route(
                .get, path, "returns an endpoint and the state of its deliveries", role: .server,
                parameters: [Self.endpoint], unknown: Self.unknown
            ) { try await Answer(status($0)) },
            authentication.route(
                .patch, path, "changes an endpoint", role: .server, parameters: [Self.endpoint], body: Self.changes,
                unknown: Self.unknown, errors: [.webhookURLRefused]
            ) { request in try await request.withBody { try await Answer(change($1, $0)) } },
            authentication.route(
                .delete, path, "removes an endpoint with its waiting events", role: .server,
                parameters: [Self.endpoint], unknown: Self.unknown
            ) { try await Answer(remove($0)) },
            authentication.route(
                .get, path + "/secret", "returns the secret of an endpoint", role: .server,
                parameters: [Self.endpoint], unknown: Self.unknown, errors: Self.secretErrors
            ) { try await Answer(secret($0)) },
        ]
    }

    private var attempts: APIRoute {
        authentication.route(
            .get, "/v1/webhooks/{id}/attempts", "returns the newest attempts to deliver events", role: .server,
            parameters: [
                Self.endpoint,
                .init("limit", "the most attempts in the answer, from 1 to \(WebhookAttempt.kept); 100 without it"),
            ], unknown: Self.unknown
        ) { try await Answer(attempts($0)) }
    }

    private var actions: [APIRoute] {
        let path = "/v1/webhooks/{id}"
        return [
            authentication.route(
                .post, path + "/rotate", "gives an endpoint a new secret", role: .server, parameters: [Self.endpoint],
                unknown: Self.unknown, errors: Self.secretErrors
            ) { try await Answer(rotate($0)) },
            authentication.route(
                .post, path + "/pause", "pauses the deliveries to an endpoint", role: .server,
                parameters: [Self.endpoint], unknown: Self.unknown
            ) { try await Answer(pause($0)) },
            authentication.route(
                .post, path + "/resume", "resumes the deliveries to an endpoint, and tries failed events at once",
                role: .server, parameters: [Self.endpoint], unknown: Self.unknown
            ) { try await Answer(resume($0)) },
            authentication.route(
                .post, path + "/test", "sends an example of each kind of event that the endpoint wants", role: .server,
                parameters: [Self.endpoint], unknown: Self.unknown,
                errors: Self.secretErrors.union([.webhookURLRefused])
            ) { try await Answer(test($0)) },
            authentication.route(
                .post, path + "/replay", "delivers events to an endpoint again", role: .server,
                parameters: [Self.endpoint], body: Self.replay, unknown: Self.unknown,
                errors: [.invalidCursor, .cursorExpired]
            ) { request in try await request.withBody { try await Answer(replay($1, $0)) } },
        ]
    }

    // MARK: - Endpoints

    private func add(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> Answer<WebhookBody> {
        let members = try BodyMembers(parsing: body, known: Self.new)
        let settings = try settings(members)
        guard let url = settings.url else { throw Refusal.invalid("url is missing.") }
        // The first endpoint of a ledger may have any file, so `addWebhook` compares the files.
        guard let secrets = service.webhookSecrets else { throw Refusal.noWebhookSecrets }
        var endpoint = WebhookEndpoint(
            id: ids.next(), of: request.scope.bundleId, url: url, createdAt: now)
        settings.apply(to: &endpoint)
        let cursor = try members.text("from").map(EventCursor.init(rawValue:))
        do {
            switch try await request.ledger.addWebhook(
                endpoint, fingerprint: secrets.fingerprint, from: cursor, at: now)
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

    private func status(_ request: AuthenticatedRequest) async throws -> WebhookBody? {
        try await WebhookStatus(request.parameter("id"), of: request.scope.bundleId, in: request.ledger)
            .map { WebhookBody($0) }
    }

    private func change(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> WebhookBody? {
        let members = try BodyMembers(parsing: body, known: Self.changes)
        guard members.json.members?.isEmpty == false else {
            throw Refusal.invalid("The body has no members, so nothing would change.")
        }
        let settings = try settings(members)
        return try await change(request) { settings.apply(to: &$0) }.map { WebhookBody($0) }
    }

    private func remove(_ request: AuthenticatedRequest) async throws -> WebhookRemovalBody? {
        let isRemoved = try await request.ledger.removeWebhook(
            request.parameter("id"), of: request.scope.bundleId, at: now)
        service.webhooks.noteChange()
        return isRemoved ? WebhookRemovalBody() : nil
    }

    private func secret(_ request: AuthenticatedRequest) async throws -> WebhookSecretBody? {
        guard let endpoint = try await endpoint(request) else { return nil }
        return try await WebhookSecretBody(endpoint, secrets(request).secret(of: endpoint))
    }

    private func attempts(_ request: AuthenticatedRequest) async throws -> WebhookAttemptListBody? {
        let limit = try request.query.number("limit", in: 1...WebhookAttempt.kept) ?? 100
        guard let endpoint = try await endpoint(request) else { return nil }
        return WebhookAttemptListBody(
            try await request.ledger.webhookAttempts(of: endpoint.id, of: endpoint.bundleId, limit: limit))
    }

    // MARK: - Actions

    private func rotate(_ request: AuthenticatedRequest) async throws -> WebhookBody? {
        guard try await endpoint(request) != nil else { return nil }
        let secrets = try await secrets(request)
        return try await change(request) { [now] in $0.rotate(at: now) }.map {
            WebhookBody($0, secret: secrets.secret(of: $0))
        }
    }

    private func pause(_ request: AuthenticatedRequest) async throws -> WebhookBody? {
        try await change(request) { $0.state = .paused }.map { WebhookBody($0) }
    }

    private func resume(_ request: AuthenticatedRequest) async throws -> WebhookBody? {
        guard let endpoint = try await change(request, { [now] in $0.resume(at: now) }) else { return nil }
        var body = WebhookBody(endpoint)
        body.idsGone = try await request.ledger.webhookLacksIds(endpoint, at: request.now, wall: now) ? true : nil
        return body
    }

    private func test(_ request: AuthenticatedRequest) async throws -> WebhookTestBody? {
        guard let endpoint = try await endpoint(request) else { return nil }
        let secrets = try await secrets(request)
        let url = try checked(endpoint.url)
        let sender = WebhookSender(networks: service.webhookNetworks, clock: clock)
        let test = try WebhookTest(
            of: endpoint, at: url, signedBy: secrets.signing(endpoint, at: now), by: sender, ids: ids,
            now: authentication.wall)
        let answers = await test.run(clock: clock)
        sender.shutdown()
        for refusal in Set(answers.compactMap(\.outcome.refusal)) {
            let metadata = endpoint.metadata(["error": .string(refusal)])
            logger.warning("The test of a webhook was refused", metadata: metadata)
        }
        return WebhookTestBody(answers)
    }

    private func replay(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> WebhookBody? {
        let replay = try WebhookReplay(BodyMembers(parsing: body, known: Self.replay))
        let id = try request.parameter("id")
        // The events have the times of the ledger, which can be a simulator's.
        if case .since(let time) = replay, time > request.now { throw Refusal.invalid("since is in the future.") }
        do {
            guard
                try await request.ledger.replayWebhook(id, of: request.scope.bundleId, replay, at: now) != nil
            else { return nil }
        } catch let error as EventCursorError {
            throw Refusal(error, advice: "send the id of an event")
        }
        service.webhooks.noteChange()
        return try await status(request)
    }

    // MARK: - Parts

    private var service: LedgerService { authentication.service }

    /// The time of the machine, by which webhooks are delivered.
    private var now: Timestamp { authentication.wall() }

    private func endpoint(_ request: AuthenticatedRequest) async throws -> WebhookEndpoint? {
        try await request.ledger.webhookEndpoint(request.parameter("id"), of: request.scope.bundleId)
    }

    /// - Returns: The changed endpoint; `nil` if the app has no such endpoint.
    private func change(
        _ request: AuthenticatedRequest, _ change: @escaping @Sendable (inout WebhookEndpoint) -> Void
    ) async throws -> WebhookEndpoint? {
        let endpoint = try await request.ledger.changeWebhook(
            request.parameter("id"), of: request.scope.bundleId, at: now, change)
        service.webhooks.noteChange()
        return endpoint
    }

    /// The secrets of the server's file.
    ///
    /// - Throws: ``Refusal`` if the server has no file, or a different file from the servers before.
    private func secrets(_ request: AuthenticatedRequest) async throws -> WebhookSecrets {
        guard let secrets = service.webhookSecrets else { throw Refusal.noWebhookSecrets }
        let known = try await request.ledger.webhookFingerprint()
        guard known ?? secrets.fingerprint == secrets.fingerprint else { throw Refusal.otherWebhookSecrets }
        return secrets
    }

    private func checked(_ url: String) throws(Refusal) -> WebhookURL {
        do throws(WebhookURLError) {
            return try WebhookURL(url, allowing: service.webhookNetworks)
        } catch {
            throw Refusal(.webhookURLRefused, error.description)
        }
    }

    private func settings(_ members: BodyMembers) throws(Refusal) -> WebhookSettings {
        var settings = WebhookSettings()
        if let url = try members.text("url") { settings.url = try checked(url).text }
        if let kinds = members.json["kinds"] {
            settings.hasKinds = true
            settings.kinds = try Self.kinds(kinds)
        }
        if let environment = members.json["environment"] {
            settings.hasEnvironment = true
            settings.environment = try self.environment(environment)
        }
        settings.isOrdered = try members.flag("ordered")
        settings.isAsymmetric = try members.flag("asymmetric")
        settings.wantsBackfilled = try members.flag("backfilled")
        return settings
    }

    private static func kinds(_ value: JSONValue) throws(Refusal) -> Set<String>? {
        guard value != .null else { return nil }
        let names = value.array?.map(\.string) ?? []
        let kinds = Set(names.compactMap(\.self))
        guard !names.isEmpty, kinds.count == names.count else {
            throw .invalid("kinds is neither null nor a list of kinds of events, each once.")
        }
        if let unknown = LedgerEvent.Kind.unknownName(in: kinds) {
            throw .invalid("kinds has an unknown kind of event: “\(unknown.prefix(40))”.")
        }
        return kinds
    }

    private func environment(_ value: JSONValue) throws(Refusal) -> AppStoreModel.Environment? {
        guard value != .null else { return nil }
        guard let environment = value.string.flatMap(AppStoreModel.Environment.init(named:)) else {
            throw .invalid("environment must be null, production, sandbox, xcode or localTesting.")
        }
        guard service.verifier.environments.contains(environment) else {
            throw .invalid(
                "The server records nothing of \(environment.rawValue): its configuration lacks it in environments.")
        }
        return environment
    }
}

/// The settings of an endpoint in a body. Settings that the body does not name are unchanged.
private struct WebhookSettings: Sendable {
    /// In its normal form.
    var url: String?
    var hasKinds = false
    var kinds: Set<String>?
    var hasEnvironment = false
    var environment: AppStoreModel.Environment?
    var isOrdered: Bool?
    var isAsymmetric: Bool?
    var wantsBackfilled: Bool?

    func apply(to endpoint: inout WebhookEndpoint) {
        if let url { endpoint.url = url }
        if hasKinds { endpoint.kinds = kinds }
        if hasEnvironment { endpoint.environment = environment }
        if let isOrdered { endpoint.isOrdered = isOrdered }
        if let isAsymmetric { endpoint.isAsymmetric = isAsymmetric }
        if let wantsBackfilled { endpoint.wantsBackfilled = wantsBackfilled }
    }
}

extension WebhookReplay {
    fileprivate init(_ members: BodyMembers) throws(Refusal) {
        let form = #"The body is not {"after": CURSOR}, {"since": MILLISECONDS} or {"setAside": true}."#
        guard members.json.members?.count == 1 else { throw .invalid(form) }
        if let cursor = try members.text("after") {
            self = .after(EventCursor(rawValue: cursor))
        } else if let time = try members.time("since") {
            self = .since(time)
        } else if try members.flag("setAside") == true {
            self = .setAside
        } else {
            throw .invalid(form)
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
