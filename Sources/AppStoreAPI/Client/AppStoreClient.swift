// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Synchronization

/// A client of Apple's servers for one app: the App Store Server API, Retention Messaging and the Advanced Commerce
/// API.
///
/// A client signs requests, stays within Apple's rate limits, and retries transient failures. The client verifies
/// nothing: signed data in an answer stays untrusted text until an `AppStoreVerifier` has verified it. The client has
/// no clock, no randomness and no sockets of its own.
public final class AppStoreClient: Sendable {
    /// The maximum duration of a call with all its attempts and pauses, if the caller gives none. It covers two
    /// timed-out attempts and the pause between them.
    public static let deadline = Duration.seconds(75)

    /// The timeout for a request and its whole answer. Apple's own client uses the same timeout.
    public static let requestTimeout = Duration.seconds(30)

    /// The maximum number of attempts per call. A refused token allows one more attempt, with a new token. If Apple
    /// names no time for a retry, the pauses add up to 15 seconds at most.
    package static let attempts = 5

    /// The maximum pause before the second attempt, in milliseconds, if Apple names no time for a retry. The maximum
    /// doubles with each attempt.
    package static let firstPause: Int64 = 1000

    /// The duration for which a client remembers that production refuses its token and the sandbox accepts it.
    /// Meanwhile ``find(_:within:)`` asks the sandbox first.
    package static let refusalRetention = Duration.seconds(3600)

    private let transport: any AppStoreTransport
    private let environments: Set<Environment>
    private let bundleId: String
    /// The share of Apple's rate limits to use, in percent.
    package let share: Int
    private let now: @Sendable () -> Timestamp
    private let sleep: @Sendable (Duration) async throws -> Void
    private let state: Mutex<State>

    private struct State {
        var token: BearerToken
        var budget: RequestBudget
        var random: any RandomNumberGenerator & Sendable
        /// The time when production refused a token that the sandbox accepted. `nil` if there was no such refusal, or
        /// if production has ever accepted the key.
        var refusedByProduction: Timestamp?
        var isAcceptedByProduction = false
        /// The number of Apple's answers by environment.
        var answers: [Environment: Int] = [:]
    }

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - bundleId: The app.
    ///   - key: An In-App Purchase key of the app's account.
    ///   - environments: The environments to call: production, sandbox or both. Other environments have no server.
    ///   - share: The share of Apple's rate limits to use, from 1 to 100 percent. Use less than 100 if other programs
    ///     call Apple about the same app.
    ///   - now: Returns the time of the wall clock.
    ///   - sleep: Waits, and throws if the task is cancelled.
    ///   - random: Spreads the pauses before attempts.
    public init(
        bundleId: String, key: InAppPurchaseKey, environments: Set<Environment> = [.production, .sandbox],
        share: Int = 100, transport: any AppStoreTransport, now: @escaping @Sendable () -> Timestamp,
        sleep: @escaping @Sendable (Duration) async throws -> Void, random: any RandomNumberGenerator & Sendable
    ) {
        self.bundleId = bundleId
        self.share = share
        self.environments = environments.intersection([.production, .sandbox])
        self.transport = transport
        self.now = now
        self.sleep = sleep
        state = Mutex(
            State(token: BearerToken(key, for: bundleId), budget: RequestBudget(share: share), random: random))
    }

    /// Replaces the key for all later requests.
    public func replaceKey(by key: InAppPurchaseKey) {
        state.withLock { state in
            state.token = BearerToken(key, for: bundleId)
            state.refusedByProduction = nil
            state.isAcceptedByProduction = false
        }
    }

    /// The number of Apple's usable answers in an environment: successes, and refusals of a single request. Server
    /// errors, and refusals of the key or because of the rate limit, do not count.
    package func answers(in environment: Environment) -> Int { state.withLock { $0.answers[environment, default: 0] } }

    /// The remaining duration until the retry time of an error; `nil` if the error has no retry time.
    package func pause(after error: AppStoreAPIError) -> Duration? {
        error.retryAt.map { max(.zero, now().duration(to: $0)) }
    }

    // MARK: - One environment

    /// Calls an endpoint of one environment.
    ///
    /// - Parameters:
    ///   - environment: Production or sandbox. Any other environment throws `noServer`.
    ///   - limit: The maximum duration with all attempts and pauses. If the rate limit or Apple requires a longer wait,
    ///     the call throws with ``AppStoreAPIError/retryAt``.
    public func send<Answer>(
        _ endpoint: Endpoint<Answer>, to environment: Environment, within limit: Duration = deadline
    ) async throws(AppStoreAPIError) -> Answer {
        try require(endpoint, environment)
        let end = now().advanced(by: limit)
        var attempt = 1
        var hasNewToken = false
        while true {
            do throws(AppStoreAPIError) {
                return try await attempted(endpoint, environment, until: end)
            } catch  where error.isRefusalOfToken && !hasNewToken {
                // Apple refuses a valid token now and then, and any token with a date from a wrong clock. Apple has not
                // carried out the refused request, so a retry is safe.
                hasNewToken = true
            } catch {
                guard attempt < Self.attempts, endpoint.repetition.allows(error) else { throw error }
                try await pause(after: error, attempt, until: end)
                attempt += 1
            }
        }
    }

    private func require<Answer>(
        _ endpoint: Endpoint<Answer>, _ environment: Environment
    ) throws(AppStoreAPIError) {
        guard environments.contains(environment), endpoint.environments.contains(environment) else {
            throw AppStoreAPIError(.noServer, "'\(endpoint.name)' is not asked in \(environment.rawValue).")
        }
        if let fault = endpoint.request.fault {
            throw AppStoreAPIError(.invalidRequest, "'\(endpoint.name)' cannot be sent: \(fault)")
        }
    }

    private func attempted<Answer>(
        _ endpoint: Endpoint<Answer>, _ environment: Environment, until end: Timestamp
    ) async throws(AppStoreAPIError) -> Answer {
        try await waitForTurn(endpoint, environment, until: end)
        let request = try authorized(endpoint)
        let answer = try await answer(to: request, endpoint.name, environment, until: end)
        do throws(AppStoreAPIError) {
            let contents = try endpoint.contents(of: answer, from: environment, at: now())
            noteAcceptance(in: environment)
            state.withLock { $0.answers[environment, default: 0] &+= 1 }
            return contents
        } catch {
            learn(from: error, endpoint, environment)
            throw error.withCauses(causes(of: answer, environment))
        }
    }

    private func waitForTurn<Answer>(
        _ endpoint: Endpoint<Answer>, _ environment: Environment, until end: Timestamp
    ) async throws(AppStoreAPIError) {
        let now = now()
        let turn = state.withLock { state in
            state.budget.take(
                endpoint.ratePerSecond, in: environment, at: now,
                within: max(0, end.milliseconds - now.milliseconds))
        }
        switch turn {
        case .after(0): break
        case .after(let milliseconds): try await wait(milliseconds)
        case .tooLate(let time):
            throw AppStoreAPIError(
                .overBudget, "The rate limit has no room for '\(endpoint.name)' before \(time.iso8601).",
                in: environment, retryAt: time)
        }
    }

    @inline(never)
    private func authorized<Answer>(_ endpoint: Endpoint<Answer>) throws(AppStoreAPIError) -> APIRequest {
        let now = now()
        // The library's error adds no information, and may contain parts of the key.
        guard let token = try? state.withLock({ try $0.token.text(at: now) }) else {
            throw AppStoreAPIError(.credentials, "The key does not sign.")
        }
        var request = endpoint.request
        request.headers["authorization"] = "Bearer \(token)"
        return request
    }

    private func answer(
        to request: APIRequest, _ name: String, _ environment: Environment, until end: Timestamp
    ) async throws(AppStoreAPIError) -> APIAnswer {
        let timeout = min(Self.requestTimeout, now().duration(to: end))
        guard timeout > .zero else {
            throw AppStoreAPIError(.timedOut, "There was no time left for '\(name)'.", in: environment)
        }
        do {
            return try await transport.answer(to: request, in: environment, within: timeout)
        } catch let error as TransportError {
            throw AppStoreAPIError(error, name, environment)
        } catch is CancellationError {
            throw AppStoreAPIError(.cancelled, "'\(name)' was cancelled.", in: environment)
        } catch {
            throw AppStoreAPIError(.unreachable("\(error)"), name, environment)
        }
    }

    /// Apple's answer from production proves that the key is valid there. Later refusals do not change this conclusion.
    private func noteAcceptance(in environment: Environment) {
        guard environment == .production else { return }
        state.withLock { state in
            state.refusedByProduction = nil
            state.isAcceptedByProduction = true
        }
    }

    private func causes(of answer: APIAnswer, _ environment: Environment) -> String {
        CredentialCauses(
            key: state.withLock { $0.token.key }, bundleId: bundleId, environment: environment,
            aheadBy: answer.distance(of: now())
        ).sentences
    }

    /// Applies an error to later requests: the next request gets a new token, or waits for the rate limit.
    private func learn<Answer>(
        from error: AppStoreAPIError, _ endpoint: Endpoint<Answer>, _ environment: Environment
    ) {
        let now = now()
        if error.hasNumber, error.code != .credentials { noteAcceptance(in: environment) }
        state.withLock { state in
            if error.code == .credentials { state.token.discard() }
            if error.code == .refused { state.answers[environment, default: 0] &+= 1 }
            guard error.code == .rateLimited, let time = error.retryAt else { return }
            state.budget.close(endpoint.ratePerSecond, in: environment, until: time, at: now)
        }
    }

    /// Waits before the next attempt, or throws the error if too little time is left.
    private func pause(
        after error: AppStoreAPIError, _ attempt: Int, until end: Timestamp
    ) async throws(AppStoreAPIError) {
        let now = now()
        let longest = Self.firstPause << Int64(attempt - 1)
        let jitter = state.withLock { draw(from: &$0.random, 0...longest) }
        let pause = jitter + max(0, (error.retryAt ?? now).milliseconds - now.milliseconds)
        guard now.milliseconds + pause < end.milliseconds else { throw error }
        try await wait(pause)
    }

    private func wait(_ milliseconds: Int64) async throws(AppStoreAPIError) {
        do {
            try await self.sleep(.milliseconds(milliseconds))
        } catch {
            throw AppStoreAPIError(.cancelled, "The wait was cancelled.")
        }
    }
}

// MARK: - Either environment

/// An answer, and the environment that gave it.
public struct Found<Answer: Sendable>: Sendable {
    /// The answer.
    public var answer: Answer
    /// Production or sandbox.
    public var environment: Environment
}

extension AppStoreClient {
    /// Calls an endpoint in the environment that knows the transaction. The client asks production first. If production
    /// does not know the transaction (4040010 or 4040005), the client asks the sandbox.
    ///
    /// If production refuses the token, the client asks the sandbox too, because production refuses apps that have
    /// never been in the App Store. If the sandbox accepts the token, and production has never accepted the key, the
    /// client asks the sandbox before production for the next hour. If, within this hour, the sandbox does not know a
    /// transaction or refuses the token, the client still asks production. If production refuses the token again, the
    /// error is `credentials`. Do not grant sandbox purchases to customers in production.
    ///
    /// - Parameter limit: The maximum duration in both environments with all attempts and pauses.
    public func find<Answer>(
        _ endpoint: Endpoint<Answer>, within limit: Duration = deadline
    ) async throws(AppStoreAPIError) -> Found<Answer> {
        let end = now().advanced(by: limit)
        let others = environments.intersection(endpoint.environments)
        guard others.count == 2 else {
            return try await found(endpoint, in: others.first ?? .sandbox, until: end)
        }
        return isRefusedByProduction
            ? try await findInSandboxFirst(endpoint, until: end) : try await findInProductionFirst(endpoint, until: end)
    }

    private func found<Answer>(
        _ endpoint: Endpoint<Answer>, in environment: Environment, until end: Timestamp
    ) async throws(AppStoreAPIError) -> Found<Answer> {
        let answer = try await send(endpoint, to: environment, within: max(.zero, now().duration(to: end)))
        return Found(answer: answer, environment: environment)
    }

    private func findInProductionFirst<Answer>(
        _ endpoint: Endpoint<Answer>, until end: Timestamp
    ) async throws(AppStoreAPIError) -> Found<Answer> {
        let refusal: AppStoreAPIError
        do throws(AppStoreAPIError) {
            return try await found(endpoint, in: .production, until: end)
        } catch {
            guard error.isUnknownTransaction || error.code == .credentials else { throw error }
            refusal = error
        }
        do throws(AppStoreAPIError) {
            let found = try await found(endpoint, in: .sandbox, until: end)
            if refusal.code == .credentials { rememberRefusal() }
            return found
        } catch {
            guard refusal.code == .credentials else { throw error }
            if error.code == .refused { rememberRefusal() }
            throw endpoint.error(of: refusal, sandbox: error)
        }
    }

    private func findInSandboxFirst<Answer>(
        _ endpoint: Endpoint<Answer>, until end: Timestamp
    ) async throws(AppStoreAPIError) -> Found<Answer> {
        let refusal: AppStoreAPIError
        do throws(AppStoreAPIError) {
            return try await found(endpoint, in: .sandbox, until: end)
        } catch {
            guard error.isUnknownTransaction || error.code == .credentials else { throw error }
            refusal = error
        }
        do throws(AppStoreAPIError) {
            return try await found(endpoint, in: .production, until: end)
        } catch {
            if error.code == .credentials { throw endpoint.error(of: error, sandbox: refusal) }
            // If production does not know the transaction, the sandbox's error decides: a sandbox that refused the
            // token may still know the transaction.
            throw error.isUnknownTransaction ? refusal : error
        }
    }

    /// Remembers that production refused the token and the sandbox accepted it.
    private func rememberRefusal() {
        let now = now()
        state.withLock { if !$0.isAcceptedByProduction { $0.refusedByProduction = now } }
    }

    private var isRefusedByProduction: Bool {
        let now = now()
        return state.withLock { state in
            guard let refused = state.refusedByProduction else { return false }
            return .zero..<Self.refusalRetention ~= refused.duration(to: now)
        }
    }
}

// MARK: - Small parts

extension Endpoint {
    /// Combines the errors of both environments after production refused the token. If the sandbox refused the token
    /// too, or does not know the transaction, the result is production's error. Otherwise the result is the sandbox's
    /// error.
    fileprivate func error(of production: AppStoreAPIError, sandbox: AppStoreAPIError) -> AppStoreAPIError {
        var error = production
        if sandbox.code == .credentials {
            error.message = "Production and sandbox refused the bearer token of '\(name)'."
            return error
        }
        guard sandbox.isUnknownTransaction else { return sandbox }
        error.message =
            "Production refused the bearer token of '\(name)', and the sandbox does not know the transaction."
        error.isAcceptedBySandbox = true
        return error
    }
}

extension Repetition {
    /// Whether the client may repeat a request that failed with this error.
    fileprivate func allows(_ error: AppStoreAPIError) -> Bool {
        if error.isInvitation { return true }
        switch self {
        case .always: return error.isSilence || error.code == .unavailable || error.code == .contradiction
        case .ifUnanswered: return error.isSilence
        case .onInvitation: return false
        }
    }
}

extension AppStoreAPIError {
    /// The error, with the possible causes if Apple refused the token.
    fileprivate func withCauses(_ causes: @autoclosure () -> String) -> AppStoreAPIError {
        guard code == .credentials else { return self }
        var error = self
        error.causes = causes()
        return error
    }

    fileprivate init(_ error: TransportError, _ name: String, _ environment: Environment) {
        switch error {
        case .timedOut: self.init(.timedOut, "'\(name)' was not answered in time.", in: environment)
        case .unreachable(let why): self.init(.unreachable, "'\(name)' was not answered: \(why)", in: environment)
        case .answerTooLong:
            self.init(
                .malformedAnswer, "The answer to '\(name)' is longer than \(APIAnswer.bodyLimit) bytes.",
                in: environment)
        }
    }
}

private func draw(from generator: inout any RandomNumberGenerator & Sendable, _ range: ClosedRange<Int64>) -> Int64 {
    func draw(_ generator: inout some RandomNumberGenerator) -> Int64 { .random(in: range, using: &generator) }
    return draw(&generator)
}
