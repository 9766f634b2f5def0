// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import HummingbirdCore
import Logging
import Synchronization

/// Counts the open connections. The total decides whether the server accepts more; the count of a client decides
/// whether a new connection of that client is closed at once.
final class ConnectionCounter: AvailableConnectionsDelegate {
    private struct State {
        var open = 0
        var clients: [IPAddress: Int] = [:]
    }

    private let bounds: ServerBounds
    private let state = Mutex(State())
    private let fullWarning: ThrottledWarning
    private let clientWarning: ThrottledWarning

    /// - Parameter setting: The name of the setting that bounds the connections, for the log.
    init(
        _ bounds: ServerBounds, setting: String = "maxConnections", clock: any Clock<Duration>, logger: Logger
    ) {
        self.bounds = bounds
        fullWarning = ThrottledWarning(
            "All connections are in use: new ones wait", [setting: "\(bounds.connections)"], clock: clock, logger)
        clientWarning = ThrottledWarning(
            "Connections were closed: their client has too many",
            ["maxConnectionsPerPeer": "\(bounds.connectionsPerPeer)"], clock: clock, logger)
    }

    func connectionOpened() { state.withLock { $0.open += 1 } }
    func connectionClosed() { state.withLock { $0.open -= 1 } }

    func isAcceptingNewConnections() -> Bool {
        let isFree = state.withLock { $0.open < bounds.connections }
        if !isFree { fullWarning.log() }
        return isFree
    }

    /// Counts a connection until ``leave(_:)``.
    ///
    /// - Returns: False if its client has too many connections; this one is then not counted.
    func enter(_ peer: IPAddress?) -> Bool {
        guard let client = countedClient(peer) else { return true }
        let isAdmitted = state.withLock { state in
            let count = state.clients[client, default: 0]
            guard count < bounds.connectionsPerPeer else { return false }
            state.clients[client] = count + 1
            return true
        }
        if !isAdmitted { clientWarning.log() }
        return isAdmitted
    }

    /// Stops counting a connection that ``enter(_:)`` counted.
    func leave(_ peer: IPAddress?) {
        guard let client = countedClient(peer) else { return }
        state.withLock { state in
            let count = state.clients[client, default: 0] - 1
            state.clients[client] = count > 0 ? count : nil
        }
    }

    /// The client that a connection counts for; `nil` for a trusted proxy's connection.
    private func countedClient(_ peer: IPAddress?) -> IPAddress? {
        peer.flatMap { bounds.trusts($0) ? nil : $0.client }
    }
}
