// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreTrust
import Foundation
import HTTPTypes
import Hummingbird
public import PurchaseLedger

/// What a server needs to keep a ledger: where it is, and whom it believes.
public struct LedgerService: Sendable {
    public var ledger: Ledger
    /// For the apps and environments that this server is about.
    public var verifier: AppStoreVerifier
    /// What requests to verifyReceipt about auto-renewable subscriptions must send as `password`, by bundle id. An app
    /// without one does not ask for it.
    public var sharedSecrets: [String: String] = [:]
    /// The purchases, by bundle id and original transaction id, whose receipts verifyReceipt answers with 21010.
    public var refusedPurchases: [String: Set<String>] = [:]
    /// What client keys need besides themselves, by bundle id. The client keys of an app without one need nothing more.
    public var customerProofs: [String: CustomerProof] = [:]

    let readiness: Readiness
    let lastNotification = LastNotification()
    private let keys = KnownKeys()

    public init(ledger: Ledger, verifier: AppStoreVerifier, sharedSecrets: [String: String] = [:]) {
        readiness = Readiness(ledger.storage)
        var ledger = ledger
        ledger.storage = WatchedStorage(storage: ledger.storage, readiness: readiness)
        self.ledger = ledger
        self.verifier = verifier
        self.sharedSecrets = sharedSecrets
    }

    /// The service that a configuration describes, about the apps in it.
    ///
    /// - Parameter verifier: With the roots and the revocation policy; apps and environments are those of the configuration.
    public init(
        _ configuration: ServerConfiguration, storage: any LedgerStorage, verifier: AppStoreVerifier
    ) {
        var (verifier, apps) = (verifier, [String: AppConfiguration]())
        for app in configuration.apps { apps[app.identity.bundleId] = app }
        verifier.apps = .only(configuration.apps.map(\.identity))
        verifier.environments = configuration.environments
        let ledger = Ledger(
            storage: storage, catalogues: apps.mapValues(\.catalogue), claimPolicy: configuration.claimPolicy,
            keepsEvidence: configuration.keepEvidence)
        self.init(ledger: ledger, verifier: verifier, sharedSecrets: apps.compactMapValues(\.sharedSecret))
        refusedPurchases = apps.mapValues(\.refusedPurchases)
        customerProofs = apps.compactMapValues(\.customerProof)
    }
}

extension PurchaseServer {
    /// Apple's notifications, which need no key: what they bring is signed.
    func addNotifications(_ service: LedgerService, to router: Router<BasicRequestContext>) {
        let endpoint = NotificationEndpoint(ledger: service.ledger, verifier: service.verifier)
        router.post("/notifications/v2") { request, _ in
            let isNew = try await bodies.withBody(of: request, upTo: NotificationEndpoint.bodyLimit) { body in
                try await endpoint.receive(v2: body, at: now())
            }
            if isNew { service.lastNotification.accepted(at: now()) }
            return Response(json: [UInt8]("{}".utf8))
        }
        router.post("/notifications/v1") { request, _ in
            try await bodies.withBody(of: request, upTo: Limits.notificationV1) { body in
                try await endpoint.receive(v1: body, at: now())
            }
            return Response(json: [UInt8]("{}".utf8))
        }
    }

    /// Our own API.
    func addLedger(_ service: LedgerService, to router: Router<BasicRequestContext>) {
        /// Answers with what `work` finds for whoever holds the key, and 404 where it finds nothing.
        func route(
            _ method: HTTPRequest.Method, _ path: RouterPath, needs role: APIKey.Role, _ what: String,
            _ work: @escaping @Sendable (LedgerEndpoint, Request, BasicRequestContext) async throws -> [UInt8]?
        ) {
            router.on(path, method: method) { request, context in
                let endpoint = try await service.endpoint(for: request, needs: role, at: now())
                // Here and for all routes, so that none can be without.
                if endpoint.role == .client { try service.checkProof(of: context.customerId, in: request, endpoint) }
                guard let answer = try await work(endpoint, request, context) else { throw Refusal.notFound(what) }
                return Response(json: answer)
            }
        }
        route(.get, "/v1/customers/{id}", needs: .client, "The customer") { endpoint, _, context in
            try await endpoint.customer(context.customerId)
        }
        route(.get, "/v1/customers/{id}/entitlements/{name}", needs: .client, "The customer") { endpoint, _, context in
            try await endpoint.entitlement(context.parameter("name"), of: context.customerId)
        }
        route(.post, "/v1/customers/{id}/purchases", needs: .client, "The customer") { endpoint, request, context in
            let id = try context.customerId
            return try await bodies.withBody(of: request, upTo: LedgerEndpoint.bodyLimit) { body in
                // A body may arrive long after its head, and what it says counts from then.
                var endpoint = endpoint
                endpoint.now = now()
                return try await endpoint.submit(body, for: id)
            }
        }
        route(.post, "/v1/customers/{id}/aliases", needs: .server, "The customer") { endpoint, request, context in
            let id = try context.customerId
            return try await bodies.withBody(of: request, upTo: 4096) { body in
                var endpoint = endpoint
                endpoint.now = now()
                return try await endpoint.addAlias(body, to: id)
            }
        }
        route(.delete, "/v1/customers/{id}", needs: .server, "The customer") { endpoint, _, context in
            try await endpoint.delete(context.customerId)
        }
        route(.get, "/v1/subscriptions/{id}", needs: .server, "The subscription") { endpoint, _, context in
            try await endpoint.subscription(context.parameter("id"))
        }
        route(.get, "/v1/transactions/{id}", needs: .server, "The transaction") { endpoint, _, context in
            try await endpoint.transaction(context.parameter("id"))
        }
        route(.get, "/v1/evidence/{id}", needs: .server, "The document") { endpoint, _, context in
            try await endpoint.evidence(context.parameter("id"))
        }
        route(.get, "/v1/events", needs: .server, "The event") { endpoint, request, _ in
            let query = request.uri.queryParameters
            guard let cursor = Int64(query["after"] ?? "0"), cursor >= 0, let limit = Int(query["limit"] ?? "100")
            else {
                throw Refusal.invalid(
                    "after and limit are whole numbers: the cursor of the last page, and at most 500.")
            }
            return try await endpoint.events(after: cursor, limit: limit)
        }
    }
}

extension BasicRequestContext {
    /// A part of the path, without percent encoding (RFC 3986 section 2.1): whether a client encodes an `@` must not matter.
    fileprivate func parameter(_ name: String) throws -> String {
        let encoded = try parameters.require(name)
        guard encoded.utf8.contains(UInt8(ascii: "%")) else { return encoded }
        guard let text = encoded.removingPercentEncoding else {
            throw Refusal.invalid("The path has a % that is followed by something else than two hexadecimal digits.")
        }
        return text
    }

    /// The customer in the path.
    fileprivate var customerId: String {
        get throws {
            let id = try parameter("id")
            guard !id.isEmpty, id.utf8.count <= LedgerEndpoint.customerIdLimit else {
                throw Refusal.invalid("A customer's id has 1 to \(LedgerEndpoint.customerIdLimit) bytes.")
            }
            return id
        }
    }
}

extension LedgerService {
    /// What the holder of a request's key may ask, about the app of that key.
    fileprivate func endpoint(
        for request: Request, needs role: APIKey.Role, at now: Timestamp
    ) async throws -> LedgerEndpoint {
        let key = try await key(of: request, at: now)
        guard key.role == .server || role == .client else { throw Refusal.notServer }
        let name = request.uri.queryParameters["environment"].map(String.init) ?? Environment.production.rawValue
        let environment = Environment.allCases.first { $0.rawValue.lowercased() == name.lowercased() }
        guard let environment else {
            throw Refusal.invalid("environment is production, sandbox, xcode or localTesting.")
        }
        let scope = LedgerScope(bundleId: key.bundleId, environment: environment)
        var verifier = verifier
        verifier.apps = verifier.apps.only(key.bundleId)
        // Otherwise a sandbox document would move to a customer whose answer, about production, does not show it.
        verifier.environments.formIntersection([environment])
        return LedgerEndpoint(ledger: ledger, verifier: verifier, scope: scope, role: key.role, now: now)
    }

    /// Accepts what a client key asks only with proof of the customer, if the app asks for it.
    fileprivate func checkProof(of customer: String, in request: Request, _ endpoint: LedgerEndpoint) throws {
        let bundleId = endpoint.scope.bundleId
        try customerProofs[bundleId]?.check(
            HTTPField.Name(Refusal.tokenHeader).flatMap { request.headers[$0] }, for: customer, of: bundleId,
            at: endpoint.now)
    }

    private func key(of request: Request, at now: Timestamp) async throws -> APIKey {
        let header = request.headers[.authorization] ?? ""
        guard header.lowercased().hasPrefix("bearer "), let (id, secret) = APIKey.parts(of: header.dropFirst(7)),
            let key = try await keys.key(id, in: ledger.storage, at: now), key.admits(secret)
        else { throw Refusal.noKey }
        RequestNotes.add { $0.key = key.id }
        return key
    }
}

extension AcceptedApps {
    /// Of these only the app with this bundle id.
    fileprivate func only(_ bundleId: String) -> AcceptedApps {
        switch self {
        case .any: .only([AppIdentity(bundleId: bundleId)])
        case .only(let apps): .only(apps.filter { $0.bundleId == bundleId })
        }
    }
}
