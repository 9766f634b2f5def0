// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import HummingbirdCore
import Logging
import Synchronization

/// Counts the open connections: in all, which decides whether more are accepted, and of each client, which decides whether one
/// is closed before it costs anything.
final class ConnectionCounter: AvailableConnectionsDelegate {
    private struct State {
        var open = 0
        var clients: [IPAddress: Int] = [:]
    }

    private let bounds: ServerBounds
    private let state = Mutex(State())
    private let fullWarning: ThrottledWarning
    private let clientWarning: ThrottledWarning

    /// - Parameter setting: What bounds the connections, for the log.
    init(
        _ bounds: ServerBounds, setting: String = "maxConnections", clock: any Clock<Duration>, logger: Logger
    ) {
        self.bounds = bounds
        fullWarning = ThrottledWarning(
            "All connections are in use, others wait", [setting: "\(bounds.connections)"], clock: clock, logger)
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

    /// Whether this client may have one connection more, which counts until ``leave(_:)``.
    func enter(_ peer: IPAddress?) -> Bool {
        guard let client = counted(peer) else { return true }
        let isAdmitted = state.withLock { state in
            let count = state.clients[client, default: 0]
            guard count < bounds.connectionsPerPeer else { return false }
            state.clients[client] = count + 1
            return true
        }
        if !isAdmitted { clientWarning.log() }
        return isAdmitted
    }

    func leave(_ peer: IPAddress?) {
        guard let client = counted(peer) else { return }
        state.withLock { state in
            let count = state.clients[client, default: 0] - 1
            state.clients[client] = count > 0 ? count : nil
        }
    }

    private func counted(_ peer: IPAddress?) -> IPAddress? {
        peer.flatMap { bounds.trusts($0) ? nil : $0.client }
    }
}
