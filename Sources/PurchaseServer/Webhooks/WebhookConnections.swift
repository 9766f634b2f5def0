// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix
import NIOSSL

/// The connections to a checked address of an endpoint.
///
/// All connections, and so all steps of a request, are on the same event loop: no thread wakes another between a
/// request and its answer.
///
/// No connection goes to any other address: no redirect is followed, no proxy used and no name resolved. A certificate
/// is checked for the host all the same.
final class WebhookConnections: Sendable {
    /// The requirements for TLS.
    struct TLS: Sendable {
        var context: NIOSSLContext
        /// The name for which the certificate is checked; `nil` to check it for the address.
        var name: String?
    }

    private struct Pool {
        /// All connections.
        var open: [ObjectIdentifier: WebhookConnection] = [:]
        /// The connections without an exchange, in the order in which their last exchanges ended.
        var idle: [Idle] = []
        /// Whether a connection is kept after its exchange.
        var isKeeping = true
        var isShutDown = false
        var isSweepPlanned = false
    }

    private struct Idle {
        var connection: WebhookConnection
        /// The end of the last exchange.
        var since: NIODeadline
    }

    private let loop: any EventLoop
    private let address: SocketAddress
    private let tls: TLS?
    private let connectTimeout: TimeAmount
    private let pool: NIOLoopBoundBox<Pool>

    private let idle: TimeAmount

    /// - Parameters:
    ///   - address: The text of an IP address.
    ///   - tls: `nil` for connections without TLS.
    ///   - connectTimeout: The longest time for connecting.
    ///   - idle: The time for which a connection without requests is kept.
    /// - Throws: An error if the address cannot be read.
    init(
        to address: String, port: Int, tls: TLS?, connectTimeout: TimeAmount, idle: TimeAmount, on loop: any EventLoop
    ) throws {
        self.address = try SocketAddress(ipAddress: address, port: port)
        self.tls = tls
        self.connectTimeout = connectTimeout
        self.idle = idle
        self.loop = loop
        pool = .makeBoxSendingValue(Pool(), eventLoop: loop)
    }

    /// Sends a request, and reads the answer.
    ///
    /// - Parameter limit: The time for everything: a connection, the request and the whole answer.
    func answer(to request: ByteBuffer, within limit: TimeAmount) async -> WebhookExchange.Answer {
        let end = loop.now + limit
        let first = WebhookExchange(request, on: loop)
        let answer = await first.answer(within: limit) { self.connect(first) }
        // Receivers close connections when they like, also at the moment of a request. A receiver that did read the
        // request gets it twice, as after every lost answer.
        guard case .stale = answer.failure else { return answer }
        let second = WebhookExchange(request, on: loop)
        return await second.answer(within: max(.zero, end - loop.now)) { self.connect(second, reusing: false) }
    }

    /// Closes each connection as soon as it has no exchange. Further exchanges are possible.
    func close() {
        loop.execute {
            self.pool.value.isKeeping = false
            for idle in self.pool.value.idle { idle.connection.close() }
        }
    }

    /// Closes all connections. Exchanges that have not ended fail, and so do all later exchanges.
    func shutdown() {
        loop.execute {
            self.pool.value.isShutDown = true
            for connection in self.pool.value.open.values { connection.close() }
        }
    }
}

// MARK: - On the event loop

extension WebhookConnections {
    /// Lets an exchange begin on a connection that is idle, or on a new connection.
    private func connect(_ exchange: WebhookExchange, reusing reuses: Bool = true) {
        guard !pool.value.isShutDown else { return exchange.end(.cancelled) }
        if reuses, let idle = takeIdle() { return idle.begin(exchange) }
        bootstrap.connect(to: address).assumeIsolated().whenComplete { result in
            do {
                let channel = try result.get()
                self.take(try channel.pipeline.syncOperations.handler(type: WebhookConnection.self), for: exchange)
            } catch {
                exchange.end(.noConnection(error))
            }
        }
    }

    private var bootstrap: ClientBootstrap {
        ClientBootstrap(group: loop).connectTimeout(connectTimeout).channelInitializer { [tls] channel in
            channel.eventLoop.makeCompletedFuture {
                let handler = try tls.map { try NIOSSLClientHandler(context: $0.context, serverHostname: $0.name) }
                let events = WebhookConnection.Events(isIdle: { self.keep($0) }, isClosed: { self.forget($0) })
                try WebhookConnection.add(to: channel.pipeline.syncOperations, tls: handler, events)
            }
        }
    }

    private func take(_ connection: WebhookConnection, for exchange: WebhookExchange) {
        // The receiver may have reset the connection in the moment of connecting.
        guard connection.isOpen else { return exchange.end(.closed) }
        pool.value.open[ObjectIdentifier(connection)] = connection
        guard !pool.value.isShutDown else {
            exchange.end(.cancelled)
            return connection.close()
        }
        if exchange.isOver { keep(connection) } else { connection.begin(exchange) }
    }

    /// The connection that was used last, unless it has been idle for too long.
    private func takeIdle() -> WebhookConnection? {
        guard let last = pool.value.idle.popLast() else { return nil }
        if loop.now < last.since + idle { return last.connection }
        last.connection.close()
        return takeIdle()
    }

    /// Keeps a connection for the next exchange.
    private func keep(_ connection: WebhookConnection) {
        guard pool.value.isKeeping, !pool.value.isShutDown else { return connection.close() }
        pool.value.idle.append(Idle(connection: connection, since: loop.now))
        planSweep()
    }

    /// Forgets a connection that is closed or about to be.
    private func forget(_ connection: WebhookConnection) {
        pool.value.open[ObjectIdentifier(connection)] = nil
        pool.value.idle.removeAll { $0.connection === connection }
    }

    /// Closes the connections that have been idle for too long, as long as there are idle connections.
    private func planSweep() {
        guard !pool.value.isSweepPlanned else { return }
        pool.value.isSweepPlanned = true
        loop.scheduleTask(in: idle) {
            self.pool.value.isSweepPlanned = false
            let end = self.loop.now - self.idle
            for idle in self.pool.value.idle where idle.since <= end { idle.connection.close() }
            if !self.pool.value.idle.isEmpty { self.planSweep() }
        }
    }
}
