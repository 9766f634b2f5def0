// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel

/// Connects a client of the App Store to a simulated store in the same process, without sockets.
public actor SimulatedTransport: AppStoreTransport {
    /// The App Store. ``update(_:)`` changes it.
    public private(set) var store: SimulatedStore
    private let wall: @Sendable () -> Timestamp

    /// Creates a transport to a store.
    ///
    /// - Parameter wall: Returns the time of the client's wall clock. The client must use the same clock for its
    ///   tokens.
    public init(_ store: SimulatedStore, wall: @escaping @Sendable () -> Timestamp) {
        self.store = store
        self.wall = wall
    }

    /// Changes or reads the store between two requests.
    public func update<Result: Sendable>(
        _ body: @Sendable (inout SimulatedStore) throws -> Result
    ) rethrows -> Result {
        try body(&store)
    }

    /// Answers a request. If the store withholds the response, so that the client would time out, throws the timeout
    /// error without a wait.
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
