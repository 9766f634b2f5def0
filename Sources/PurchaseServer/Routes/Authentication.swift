// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import PurchaseLedger
import Reconciliation

/// Authenticates requests to the routes under `/v1`: by API key, and for client keys also by customer token if the app
/// requires one.
struct Authentication: Sendable {
    let service: LedgerService
    let bodies: BodyIntake
    let now: @Sendable () -> Timestamp
    /// Returns the time of the machine, even if ``now`` returns a simulator's. Customer tokens are checked against the
    /// machine's time, because backends date their tokens by real clocks.
    let wall: @Sendable () -> Timestamp
    /// Warnings, by bundle id, for the apps whose `sandboxAccess` is `none`. A warning is logged if an answer omits
    /// sandbox entitlements, which App Review may need.
    let leftOut: [String: ThrottledWarning]
    /// Notices, by bundle id, for the apps with a rule about the version in which a customer bought the app. A notice
    /// is logged if an answer has such a purchase of the sandbox, which has no true version.
    let sandboxVersions: [String: ThrottledWarning]

    /// Gives ids to new endpoints, and to examples.
    let webhookIDs: WebhookIDs
    /// Gives ids to the entries of the audit list.
    let auditIDs: WebhookIDs
    let bounds: ServerBounds
    let clock: any Clock<Duration>
    let logger: Logger

    /// Checks the key, the path, the query and the customer token of a request.
    func admit(
        _ request: Request, _ context: BasicRequestContext, _ roles: Roles, _ fields: [Field]
    ) async throws -> AuthenticatedRequest {
        let now = now()
        let key = try await key(of: request)
        guard let role = key.role.known else { throw Refusal.unknownRole }
        guard roles.contains(role) else { throw Refusal.otherRole(roles) }
        let values = try FieldValues(fields, path: { try context.parameters.require($0) }, query: request.uri.query)
        let admitted = AuthenticatedRequest(
            authentication: self, request: request, values: values, role: role, key: key, apps: [key.bundleId],
            now: now)
        // Without a customer in the path there is nothing to prove.
        if Roles.apps.contains(role), fields.contains(.customer) { try admitted.requireProof() }
        return admitted
    }

    /// A request of the operator, whose command needs no key.
    func request(of apps: [String], _ values: FieldValues) -> AuthenticatedRequest {
        let head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/")
        return AuthenticatedRequest(
            authentication: self, request: Request(head: head, body: RequestBody(buffer: ByteBuffer())), values: values,
            role: .server, key: nil, apps: apps, now: now())
    }

    private func key(of request: Request, within age: Duration = APIKeyCache.lifetime) async throws -> APIKey {
        guard let header = request.headers[.authorization] else { throw Refusal.noKey }
        // One or more spaces separate the scheme from the key (RFC 9110 section 11.4).
        let now = wall()
        guard header.prefix(7).lowercased() == "bearer ",
            let (id, secret) = APIKey.parts(of: header.dropFirst(7).drop { $0 == " " }),
            let key = try await service.keys.key(id, in: service.ledger, at: now, within: age),
            key.admits(secret, at: now)
        else { throw Refusal.invalidKey }
        RequestNotes.add { $0.key = key.id }
        guard service.verifier.apps.contain(key.bundleId) else { throw Refusal.keyOfUnknownApp }
        return key
    }

    /// Throws ``Refusal`` once the key of a waiting request is revoked or expires. Looks twice in the lifetime of a
    /// cached key, so that the wait ends as soon as a new request would be refused. Returns if the task is cancelled.
    fileprivate func requireKey(of request: Request) async throws {
        let age = APIKeyCache.lifetime / 2
        while await clock.pause(for: age) {
            do { _ = try await key(of: request, within: age) } catch  where Task.isCancelled { return }
        }
    }
}

/// An authenticated request. ``scope`` is for operations with a single environment.
package struct AuthenticatedRequest: Sendable {
    fileprivate let authentication: Authentication
    fileprivate let request: Request
    fileprivate var values: FieldValues
    /// The body, for operations that read it themselves.
    private(set) var body: JSONValue?
    /// The role of the key.
    let role: APIKey.Role
    /// The key; `nil` for a command of the operator.
    let key: APIKey?
    var isOperator: Bool { key == nil }
    /// The environments of the request.
    let environment: RequestedEnvironment
    /// The app of the key; for a command of the operator possibly several or none.
    let apps: [String]
    /// The time at which the head of the request arrived or, while a body is handled, the whole body.
    private(set) var now: Timestamp
    /// Makes the entry for the audit list; `nil` for an operation without entries.
    private var entry: (@Sendable (AuthenticatedRequest) -> AuditEntry)?

    fileprivate init(
        authentication: Authentication, request: Request, values: FieldValues, role: APIKey.Role, key: APIKey?,
        apps: [String], now: Timestamp
    ) {
        self.authentication = authentication
        self.request = request
        self.values = values
        self.role = role
        self.key = key
        self.apps = apps
        self.now = now
        // All declarations of the field read the same values.
        environment = RequestedEnvironment(values[.environments]?.string)
    }

    /// The first app.
    fileprivate var bundleId: String { apps.first ?? "" }

    // MARK: - Input

    subscript(field: Field) -> JSONValue? { values[field] }

    /// The text of a required field.
    func text(_ field: Field) -> String { self[field]?.string ?? "" }

    /// The number of a field that is required or has a standard.
    func number(_ field: Field) -> Int { self[field]?.integer.map(Int.init) ?? field.standard.flatMap { Int($0) } ?? 0 }

    func time(_ field: Field) -> Timestamp? { self[field]?.integer.map(Timestamp.init) }

    /// The word of Apple's vocabulary.
    func word<Word: RawRepresentable<String> & CaseIterable & Sendable>(_ field: Field, _: Word.Type) -> Open<Word>? {
        [String](Word.allCases.map(\.rawValue)).word(self[field]?.string).flatMap(Word.init).map { Open($0) }
    }

    /// The request with its body.
    ///
    /// - Parameters:
    ///   - fields: `nil` for an operation that reads the body itself.
    ///   - hint: What the refusal of a body that is no JSON object says besides.
    @inline(never)
    func adding(
        _ bytes: [UInt8], _ fields: [Field]?, isOpen: Bool, _ hint: (([UInt8]) -> String?)?
    ) throws -> AuthenticatedRequest {
        // A command has the values already.
        guard !isOperator else { return self }
        var request = self
        let body = bytes.isEmpty ? .object([]) : JSONValue(readable: bytes)
        if body?.members == nil, let hint = hint?(bytes) {
            throw FieldFault("The body", " is not a JSON object. \(hint)")
        }
        if let fields { try request.values.add(body, fields, isOpen: isOpen) } else { request.body = body }
        return request
    }

    /// The request without its body, whose memory is reserved no longer.
    var head: AuthenticatedRequest {
        var request = self
        request.values.removeBody()
        return request
    }

    /// The name of the request's author in the ledger.
    var author: String { key?.id ?? Correction.operatorName }

    var service: LedgerService { authentication.service }

    /// The time of the machine, by which webhooks are delivered.
    var wall: Timestamp { authentication.wall() }

    var server: Authentication { authentication }

    /// The ledger, with an entry for the audit list if the operation has one.
    var ledger: Ledger {
        var ledger = authentication.service.ledger
        ledger.audit = entry?(self)
        return ledger
    }

    /// The request, whose changes are on the audit list.
    func noted(as entry: @escaping @Sendable (AuthenticatedRequest) -> AuditEntry) -> AuthenticatedRequest {
        var request = self
        request.entry = entry
        return request
    }

    /// Whether ``now`` is known to be correct, as irreversible actions require.
    var isTimeConfirmed: Bool { authentication.service.clockJudge?.isConfirmed ?? true }

    /// The catalogue of the app.
    var catalogue: Catalogue { ledger.rules.catalogue(scope) }

    /// Asks the App Store about a customer's stale subscriptions, if the app has an In-App Purchase key. A subscription
    /// is stale if its period is over and the ledger knows neither a renewal nor the end.
    ///
    /// - Parameter holdings: The holdings of the customer in each environment that counts.
    /// - Returns: Whether the customer should be read again.
    func refresh(_ holdings: [(environment: AppStoreModel.Environment, holdings: Holdings)]) async -> Bool {
        await authentication.service.reconcilers?.refresh(holdings, of: bundleId) ?? false
    }

    /// The reconciler, which asks the App Store, for the app of the key in the request's environment.
    ///
    /// - Throws: ``Refusal`` if the app has no In-App Purchase key, or if the server sends no requests to the App Store
    ///   for the environment.
    func reconciler() throws(Refusal) -> Reconciler {
        guard let reconcilers = authentication.service.reconcilers, reconcilers.knows(scope.bundleId) else {
            throw .noSigningKey
        }
        guard var reconciler = reconcilers.all[scope] else {
            throw .invalid("“environment”: The server does not ask the App Store about \(scope.environment.rawValue).")
        }
        reconciler.ledger.audit = ledger.audit
        return reconciler
    }

    /// A verifier for documents of the key's app only, in the environments of the request. If a request names no
    /// environment, the verifier accepts all configured environments, because the document names its own environment.
    var verifier: AppStoreVerifier {
        let verifier = authentication.service.verifier
        switch environment {
        case .unnamed: return verifier.only(bundleId, in: verifier.environments)
        case .any: return verifier.only(bundleId, in: RequestedEnvironment.appStore)
        case .one(let environment): return verifier.only(bundleId, in: [environment])
        }
    }

    /// Waits for a result as long as the request's key is valid.
    func wait<Result: Sendable>(
        for result: @Sendable @escaping () async throws -> Result
    ) async throws -> Result {
        guard !isOperator else { return try await result() }
        return try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask { try await result() }
            group.addTask {
                try await authentication.requireKey(of: request)
                return nil
            }
            defer { group.cancelAll() }
            for try await case let result? in group { return result }
            throw CancellationError()
        }
    }

    /// Reads the body, then handles the request as of the time at which the whole body arrived.
    func withBody<Result: Sendable>(
        upTo limit: Int, _ handle: @Sendable (AuthenticatedRequest, [UInt8]) async throws -> Result
    ) async throws -> Result {
        try await authentication.bodies.withBody(of: request, upTo: limit) { body in
            var complete = self
            complete.now = authentication.now()
            return try await handle(complete, body)
        }
    }

    /// Makes an answer from rows of the ledger, within the bounds on memory; see
    /// ``BodyIntake/withAnswer(of:to:after:isAnswer:_:)``.
    ///
    /// - Parameter query: The records that the answer needs.
    func withAnswer<Body>(
        from query: LedgerQuery, _ make: @Sendable () async throws -> Answer<Body>?
    ) async throws -> Answer<Body>? {
        try await withAnswer(of: try await ledger.statementCount(query), make)
    }

    /// Makes an answer from a known number of rows of the ledger, see ``withAnswer(from:_:)``.
    func withAnswer<Body>(
        of rows: Int, _ make: @Sendable () async throws -> Answer<Body>?
    ) async throws -> Answer<Body>? {
        try await authentication.bodies.withAnswer(of: rows, to: request, make)
    }

    /// The customer id in the path.
    var customerId: String { text(.customer) }

    /// Checks the customer token of a request with a client key, if the app requires one.
    fileprivate func requireProof() throws {
        let customer = customerId
        try authentication.service.apps[bundleId]?.customerProof?.check(
            HTTPField.Name(Refusal.tokenHeader).flatMap { request.headers[$0] }, for: customer, of: bundleId,
            at: authentication.wall())
    }
}

// MARK: - Environments

extension AuthenticatedRequest {
    /// The app of the key in the environment of the request; production if the request does not name a single
    /// environment.
    var scope: LedgerScope {
        let named = if case .one(let named) = environment { named } else { AppStoreModel.Environment.production }
        return LedgerScope(bundleId: bundleId, environment: named)
    }

    /// The rule for the environments that count in the answer.
    var environmentRule: EnvironmentRule { authentication.service.environmentRule(environment, of: bundleId) }

    /// The app of the key in each environment to search for an id, in order. If the request names no environment, the
    /// sandbox is included only if it counts for every customer.
    var scopes: [LedgerScope] {
        environmentRule.counted(for: []).map { LedgerScope(bundleId: bundleId, environment: $0) }
    }

    /// Logs a warning if an answer omits entitlements of the sandbox.
    ///
    /// - Parameter environments: The environments with entitlements that do not count; `nil` for none.
    func noteLeftOut(_ environments: [String]?) {
        guard environments?.contains(AppStoreModel.Environment.sandbox.rawValue) == true else { return }
        authentication.leftOut[bundleId]?.log()
    }

    /// Logs a notice if an answer has a purchase of the app in the sandbox, and a rule reads its version.
    func note(_ app: AppPurchaseBody?) {
        guard app?.environment == AppStoreModel.Environment.sandbox.rawValue else { return }
        authentication.sandboxVersions[bundleId]?.log()
    }

    /// Adds an answer's notices to the board for the operator.
    func note(_ notices: [Notice: Int]) {
        if !notices.isEmpty { authentication.service.board.note(notices) }
    }

    /// Checks that the server records documents of the environment that the request names.
    func requireRecorded() throws(Refusal) {
        guard case .one(let environment) = environment, verifier.environments.isEmpty else { return }
        throw .unrecorded(environment)
    }

    /// Explains the refusal of a document whose environment the configuration accepts, but the request excludes. The
    /// mistake is the client's, so the operator gets no warning in the log.
    func explained(_ refusal: Refusal) -> Refusal {
        guard let found = refusal.environment.flatMap(AppStoreModel.Environment.init(rawValue:)),
            authentication.service.verifier.environments.contains(found)
        else { return refusal }
        var explained = refusal
        explained.cause = nil
        explained.cure = "Omit the parameter environment: the document names its environment."
        return explained
    }

    /// Checks that the app's configuration has an entitlement: in a product, in a rule for the app's own purchase, or
    /// in the list of entitlements. Otherwise a misspelt name would look like an entitlement that the customer does not
    /// have.
    func requireEntitlement(_ name: String) throws(Refusal) {
        let known = authentication.service.entitlements(of: bundleId)
        guard !known.hasExactly(name) else { return }
        throw .unknownEntitlement(known: Roles.readers.contains(role) ? known : nil)
    }
}
