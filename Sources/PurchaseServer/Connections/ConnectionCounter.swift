// SPDX-License-Identifier: Apache-2.0

package import Logging
import Synchronization

/// Counts the open connections of a listener, in total and for each client.
///
/// Each connection takes one of a fixed number of slots. If all slots are taken, a new connection gets the slot of the
/// connection that has waited longest for the head of a request, and that connection is closed. Otherwise an attacker
/// who keeps opening silent connections could lock out all clients.
package final class ConnectionCounter: Sendable {
    private struct State {
        /// The slots, by the number of the connection.
        var slots: [Int: Slot] = [:]
        var clients: [IPAddress: Int] = [:]
        /// The number of connections that found no slot and are now receiving a refusal.
        var refused = 0
        /// The number that was given last. Connections, and their waits for a head, share one sequence of numbers.
        var last = 0

        mutating func next() -> Int {
            last += 1
            return last
        }
    }

    private struct Slot {
        /// The number of the wait for a head; `nil` while the server handles a request.
        var wait: Int?
        var close: @Sendable () -> Void
    }

    /// The decision about a new connection.
    package enum Admission {
        /// The connection has a slot, until ``leave(_:of:)`` with this number, or until a newer connection gets the
        /// slot.
        case admitted(number: Int)
        /// Requests occupy all slots. The connection receives a refusal, until ``leaveRefused()``, unless too many
        /// other connections are receiving a refusal.
        case full(isTold: Bool)
        /// The client has too many connections.
        case tooMany
    }

    private let bounds: ServerBounds
    private let state = Mutex(State())
    private let replacedWarning: ThrottledWarning
    private let fullWarning: ThrottledWarning
    private let clientWarning: ThrottledWarning

    /// - Parameter setting: The name of the setting that bounds the connections, for the log.
    package init(
        _ bounds: ServerBounds, setting: String = "maxConnections", clock: any Clock<Duration>, logger: Logger
    ) {
        self.bounds = bounds
        let limit: Logger.Metadata = [setting: "\(bounds.connections)"]
        replacedWarning = ThrottledWarning(
            "All connections are in use: those that wait for a request are closed for new ones", limit, clock: clock,
            logger)
        fullWarning = ThrottledWarning(
            "All connections are in use, and none waits for a request: new ones are refused", limit, clock: clock,
            logger)
        clientWarning = ThrottledWarning(
            "Connections were closed: their client has too many",
            ["maxConnectionsPerPeer": "\(bounds.connectionsPerPeer)"], clock: clock, logger)
    }

    /// Gives a new connection a slot. The connection then waits for a head.
    ///
    /// - Parameter close: Closes the connection. Called at most once, if a newer connection gets its slot.
    package func enter(_ peer: IPAddress?, close: @escaping @Sendable () -> Void) -> Admission {
        let client = countedClient(peer)
        let (admission, replaced) = state.withLock { state -> (Admission, Slot?) in
            if let client, state.clients[client, default: 0] >= bounds.connectionsPerPeer { return (.tooMany, nil) }
            var replaced: Slot?
            if state.slots.count >= bounds.connections {
                let longest = state.slots.filter { $0.value.wait != nil }
                    .min { $0.value.wait ?? 0 < $1.value.wait ?? 0 }
                guard let longest else {
                    let isTold = state.refused < ServerBounds.refusedConnections
                    if isTold { state.refused += 1 }
                    return (.full(isTold: isTold), nil)
                }
                replaced = state.slots.removeValue(forKey: longest.key)
            }
            if let client { state.clients[client, default: 0] += 1 }
            let number = state.next()
            state.slots[number] = Slot(wait: number, close: close)
            return (.admitted(number: number), replaced)
        }
        switch admission {
        case .admitted: if replaced != nil { replacedWarning.log() }
        case .full: fullWarning.log()
        case .tooMany: clientWarning.log()
        }
        replaced?.close()
        return admission
    }

    /// Notes that a connection waits for a head from now on.
    package func beginWait(_ number: Int) {
        state.withLock { state in
            guard state.slots[number] != nil else { return }
            let wait = state.next()
            state.slots[number]?.wait = wait
        }
    }

    /// Notes that a connection has received a head.
    ///
    /// - Returns: False if a newer connection got the slot. This connection is then being closed.
    package func endWait(_ number: Int) -> Bool {
        state.withLock { state in
            guard state.slots[number] != nil else { return false }
            state.slots[number]?.wait = nil
            return true
        }
    }

    /// Stops counting an admitted connection.
    package func leave(_ number: Int, of peer: IPAddress?) {
        state.withLock { state in
            state.slots[number] = nil
            guard let client = countedClient(peer) else { return }
            let count = state.clients[client, default: 0] - 1
            state.clients[client] = count > 0 ? count : nil
        }
    }

    /// Stops counting a connection that received a refusal because all slots were taken.
    package func leaveRefused() { state.withLock { $0.refused -= 1 } }

    /// The client of a connection, for the bound per client; `nil` for a trusted proxy's connection.
    private func countedClient(_ peer: IPAddress?) -> IPAddress? {
        peer.flatMap { bounds.trusts($0) ? nil : $0.client }
    }
}
