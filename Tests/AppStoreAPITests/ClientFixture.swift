// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import Synchronization
import TestData

/// A clock that moves only if a client waits for it.
final class ClientClock: Sendable {
    static let start = Timestamp(milliseconds: 1_900_000_000_000)
    private let time = Mutex(start)

    var now: Timestamp {
        get { time.withLock { $0 } }
        set { time.withLock { $0 = newValue } }
    }

    func advance(_ milliseconds: Int64) {
        time.withLock { $0.milliseconds += milliseconds }
    }

    /// Milliseconds since the start.
    var elapsed: Int64 { now.milliseconds - Self.start.milliseconds }
}

/// A transport that plays what a test wrote, and keeps all requests. The last step repeats.
final class ScriptedTransport: AppStoreTransport {
    enum Step: Sendable {
        case answer(Int, String = "{}", headers: [String: String] = ["content-type": "application/json"])
        case fails(TransportError)
        /// Answers nothing until the time is over.
        case silent
        case cancelled
        case failsOtherwise

        static func code(_ code: APIErrorCode) -> Step {
            .answer(Int(code.rawValue / 10_000), #"{"errorCode":\#(code.rawValue),"errorMessage":"x"}"#)
        }
    }

    struct Call: Sendable {
        var request: APIRequest
        var environment: Environment
        var timeout: Duration
    }

    private struct Other: Error {}
    private let clock: ClientClock
    private let state: Mutex<(steps: [Environment: [Step]], calls: [Call])>

    init(_ clock: ClientClock, production: [Step] = [], sandbox: [Step] = []) {
        self.clock = clock
        state = Mutex(([.production: production, .sandbox: sandbox], []))
    }

    var calls: [Call] { state.withLock { $0.calls } }

    func play(_ steps: [Step], in environment: Environment) {
        state.withLock { $0.steps[environment] = steps }
    }

    private func next(_ call: Call) -> Step? {
        state.withLock { state in
            state.calls.append(call)
            guard let steps = state.steps[call.environment], let first = steps.first else { return nil }
            if steps.count > 1 { state.steps[call.environment]?.removeFirst() }
            return first
        }
    }

    func answer(
        to request: APIRequest, in environment: Environment, within timeout: Duration
    ) async throws -> APIAnswer {
        switch next(Call(request: request, environment: environment, timeout: timeout)) {
        case .answer(let status, let body, let headers):
            return APIAnswer(status: status, headers: headers, body: Array(body.utf8))
        case .fails(let error): throw error
        case .silent:
            clock.advance(timeout.components.seconds * 1000)
            throw TransportError.timedOut
        case .cancelled: throw CancellationError()
        case .failsOtherwise, nil: throw Other()
        }
    }
}

/// A client with a virtual clock and randomness of a seed.
struct ClientFixture: Sendable {
    static let key = Result { try key(of: StoreKey(seed: 1)) }

    let clock = ClientClock()
    let transport: ScriptedTransport
    let client: AppStoreClient

    init(
        production: [ScriptedTransport.Step] = [], sandbox: [ScriptedTransport.Step] = [],
        environments: Set<Environment> = [.production, .sandbox]
    ) throws {
        transport = ScriptedTransport(clock, production: production, sandbox: sandbox)
        client = Self.client(over: transport, clock, try Self.key.get(), environments)
    }

    static func key(of key: StoreKey) throws -> InAppPurchaseKey {
        try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem)
    }

    static func client(
        over transport: any AppStoreTransport, _ clock: ClientClock, _ key: InAppPurchaseKey,
        _ environments: Set<Environment> = [.production, .sandbox]
    ) -> AppStoreClient {
        AppStoreClient(
            bundleId: "com.example", key: key, environments: environments, transport: transport,
            now: { clock.now }, sleep: { clock.advance($0.components.seconds * 1000 + $0.milliseconds) },
            random: SeededRandom(seed: 1))
    }
}

extension Duration {
    /// The milliseconds beside the whole seconds.
    fileprivate var milliseconds: Int64 { components.attoseconds / 1_000_000_000_000_000 }
}
