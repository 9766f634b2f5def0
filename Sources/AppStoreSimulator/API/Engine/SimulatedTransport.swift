// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel

/// Lets a client of the App Store ask a simulated one in the same process, without sockets.
public actor SimulatedTransport: AppStoreTransport {
    /// The App Store. Change it with ``update(_:)``.
    public private(set) var store: SimulatedStore
    private let wall: @Sendable () -> Timestamp

    /// - Parameter wall: Returns the time of the client's wall clock, by which it makes its tokens.
    public init(_ store: SimulatedStore, wall: @escaping @Sendable () -> Timestamp) {
        self.store = store
        self.wall = wall
    }

    /// Changes the store, or asks it for something, between two requests.
    public func update<Result: Sendable>(
        _ body: @Sendable (inout SimulatedStore) throws -> Result
    ) rethrows -> Result {
        try body(&store)
    }

    /// Answers a request. One that is to run into the client's time limit throws at once.
    public func answer(
        to request: APIRequest, in environment: Environment, within timeout: Duration
    ) async throws -> APIAnswer {
        let answer = store.respond(
            to: StoreRequest(request.method, request.target, headers: request.headers, body: request.body),
            in: environment, at: wall())
        guard !answer.isWithheld else { throw TransportError.timedOut }
        return APIAnswer(status: answer.status, headers: answer.headers, body: answer.body)
    }
}
