// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Answers a request: checks the bearer token, finds the route, applies faults, and calls the route's function.

extension SimulatedStore {
    /// Answers a request to the App Store Server API, or to verifyReceipt, which needs no bearer token.
    ///
    /// Without a valid bearer token the status is 401. For a path that the environment does not have, the status is
    /// 404. For a known path with a wrong method, it is 405. These three responses have no body. Other refusals have
    /// Apple's numbered errors.
    ///
    /// - Parameters:
    ///   - environment: The environment whose host was called.
    ///   - wallClock: The wall clock's time. The times in the client's token are compared with it.
    public mutating func respond(
        to request: StoreRequest, in environment: Environment, at wallClock: Timestamp
    ) -> StoreResponse {
        if request.path == Self.verifyReceiptPath { return verifyReceipt(request, in: environment) }
        let authorization = request.headers["authorization"]
        if let refusal = key.refusal(ofAuthorization: authorization, app: world.catalogue.bundleId, at: wallClock) {
            return StoreResponse(status: 401, note: refusal.rawValue)
        }
        let path = request.path.split(separator: "/", omittingEmptySubsequences: false)
        let routes = Route.all.filter { $0.environments.contains(environment) && $0.parameters(of: path) != nil }
        guard !routes.isEmpty else { return StoreResponse(status: 404, note: "There is no path \(request.path)") }
        guard let route = routes.first(where: { $0.method == request.method }) else {
            return StoreResponse(status: 405, note: "\(request.path) has no method \(request.method)")
        }
        return respond(
            by: route,
            StoreCall(
                request: request, environment: environment, parameters: route.parameters(of: path) ?? [],
                wallClock: wallClock))
    }

    private mutating func respond(by route: Route, _ call: StoreCall) -> StoreResponse {
        if let refusal = planned(route.name, call) { return refusal.response }
        let isWithheld = random.decides(faults.timeouts)
        var response: StoreResponse
        do {
            response = try route.answer(&self, call)
            try publish()
        } catch let refusal as StoreRefusal {
            response = refusal.response
        } catch {
            response = StoreRefusal(.generalInternal, "The simulator failed: \(error)").response
        }
        // A timeout after the effect is the worst case: the client must repeat the request, and the request must not
        // take effect twice.
        response.isWithheld = isWithheld
        return response
    }

    /// The error with which the store answers a request because of its ``SimulatedStore/faults``: planned, random, or
    /// for an exhausted rate limit. `nil` for no error.
    private mutating func planned(_ route: StoreRoute, _ call: StoreCall) -> StoreRefusal? {
        if let code = faults.takeFailure(of: route) { return refusal(code, call) }
        if let scale = faults.rateLimitScale,
            let next = calls.count(route, in: call.environment, at: call.wallClock, scale: scale)
        {
            var refusal = StoreRefusal(.rateLimitExceeded)
            refusal.retryAfter = next
            return refusal
        }
        return random.choice(of: [
            (faults.rateLimits, .rateLimitExceeded), (faults.internalErrors, .generalInternal),
            (faults.retryableErrors, .generalInternalRetryable),
        ]).map { refusal($0, call) }
    }

    private func refusal(_ code: APIErrorCode, _ call: StoreCall) -> StoreRefusal {
        var refusal = StoreRefusal(code)
        guard code == .rateLimitExceeded else { return refusal }
        refusal.retryAfter = Timestamp(milliseconds: call.wallClock.milliseconds + faults.retryAfter * 1000)
        return refusal
    }
}

// MARK: - Lookups of several routes

extension SimulatedStore {
    /// The app's Apple ID. Responses about the sandbox lack this id, so it is `nil` there.
    func appAppleId(in environment: Environment) -> Int64? {
        environment == .production ? world.catalogue.appAppleId : nil
    }

    /// The customer to whom an id belongs: the id of a transaction, an original transaction or an app transaction.
    func customer(ofAny id: String, in environment: Environment) throws(StoreRefusal) -> StoreCustomer {
        guard id.isTransactionId else { throw StoreRefusal(.invalidTransactionId) }
        guard let customer = world.customer(ofTransaction: id), customer.environment == environment else {
            throw StoreRefusal(.transactionIdNotFound)
        }
        return customer
    }

    /// The transaction in a request to an endpoint that accepts no app transaction ids.
    func purchase(_ call: StoreCall) throws(StoreRefusal) -> JWSTransactionDecodedPayload {
        let customer = try customer(ofAny: call.id, in: call.environment)
        guard customer.appTransactionId != call.id else { throw StoreRefusal(.appTransactionIdNotSupported) }
        guard let transaction = world.transaction(call.id) else { throw StoreRefusal(.transactionIdNotFound) }
        return transaction
    }

    /// Signs transactions in their present state: each becomes a compact JWS.
    func sign(_ transactions: some Sequence<JWSTransactionDecodedPayload>) throws -> [String] {
        try transactions.map { try signer.sign($0, at: world.now) }
    }
}
