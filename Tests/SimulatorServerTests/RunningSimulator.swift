// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import SimulatorServer

/// A simulator with its three listeners in this process, and requests to it.
struct RunningSimulator: Sendable {
    static let start = Timestamp(milliseconds: 1_769_850_000_000)
    private static let authority = Result { try StoreAuthority.fixture() }

    let key: StoreKey
    let roots: TrustRoots
    let ports: [SimulatorListener: Int]

    /// Runs a simulator while `body` runs.
    static func run(
        notifying url: String? = nil, faults: Faults = .none, speed: Double = 0, at start: Timestamp = start,
        hostname: String = "127.0.0.1", patience: Duration = .seconds(3600),
        _ body: @Sendable (RunningSimulator) async throws -> Void
    ) async throws {
        let authority = try authority.get()
        let key = try StoreKey(seed: 1)
        let world = World(
            seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: start)
        var store = SimulatedStore(world, WorldSigner(authority), key, faults: faults)
        store.notificationURLs = url.map { [.production: $0, .sandbox: $0] } ?? [:]
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        var server = SimulatorServer(
            Simulator(store, roots: try SimulatorRoots(authority), speed: speed, at: wall()), wall: wall,
            clock: ContinuousClock(), logger: logger)
        server.hostname = hostname
        server.patience = patience
        let roots = try authority.roots.map { try TrustRoots(reading: $0) }
        let (listening, continuation) = AsyncStream<[SimulatorListener: Int]>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [server] in
                defer { continuation.finish() }
                try await server.run { continuation.yield($0) }
            }
            var iterator = listening.makeAsyncIterator()
            guard let ports = await iterator.next() else { return try await group.waitForAll() }
            try await body(RunningSimulator(key: key, roots: roots[0].union(roots[1]), ports: ports))
            group.cancelAll()
        }
    }

    /// Clients make their tokens by the real clock.
    static let wall: @Sendable () -> Timestamp = {
        Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }

    func address(_ listener: SimulatorListener) -> String { "http://127.0.0.1:\(ports[listener] ?? 0)" }

    var verifier: AppStoreVerifier {
        AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example", appAppleId: 7)]), environments: [.production, .sandbox],
            roots: roots)
    }

    /// Sends a command.
    @discardableResult
    func command(_ path: String, _ body: String = "") async throws -> JSONValue {
        let response = try await send(.POST, .control, path, body)
        return try JSONValue(parsing: response.body)
    }

    /// Calls the App Store Server API, with a token.
    func call(
        _ method: HTTPMethod, _ path: String, _ body: String? = nil, in listener: SimulatorListener = .production
    ) async throws -> JSONValue {
        let token = try key.bearerToken(for: "com.example", at: Self.wall())
        let response = try await send(method, listener, path, body, headers: ["Authorization": "Bearer \(token)"])
        return response.body.isEmpty ? .null : try JSONValue(parsing: response.body)
    }

    func send(
        _ method: HTTPMethod, _ listener: SimulatorListener, _ path: String, _ body: String? = nil,
        headers: [String: String] = [:], within timeout: TimeAmount = .hours(1)
    ) async throws -> (status: Int, headers: HTTPHeaders, body: [UInt8]) {
        var request = HTTPClientRequest(url: address(listener) + path)
        request.method = method
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await HTTPClient.shared.execute(request, timeout: timeout)
        let bytes = try await response.body.collect(upTo: 16 << 20)
        return (Int(response.status.code), response.headers, Array(bytes.readableBytesView))
    }

    /// Waits until a value is not `nil`. It fails only by the test's own time limit.
    func eventually<Value>(_ value: () async throws -> Value?) async throws -> Value {
        while true {
            if let found = try await value() { return found }
            try await Task.sleep(for: .milliseconds(5))
        }
    }
}
