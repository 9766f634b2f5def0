// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
package import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// Sends events to endpoints.
///
/// Each endpoint has its own connections, so that a slow receiver holds no connection of another endpoint. They go
/// only to a checked address. If the name of a receiver has another address later, the endpoint gets new connections.
package final class WebhookSender: Sendable {
    private let networks: [IPNetwork]
    private let resolver: any AddressResolver
    private let clock: any Clock<Duration>
    private let limit: Duration
    private let idle: Duration
    private let maxConnections: Int
    /// The event loop of all connections.
    private let loop: any EventLoop
    /// Runs tasks on the event loop of all connections. For tasks that send much: no thread wakes another then.
    package let executor: any TaskExecutor
    /// The requirements for TLS, or the error of the roots.
    private let tls: Result<NIOSSLContext, any Error>
    private let state = Mutex(State())

    private struct State {
        var endpoints: [String: Endpoint] = [:]
        var isShutDown = false
    }

    /// The state of an endpoint.
    private struct Endpoint {
        var url: WebhookURL
        var target: WebhookTarget?
        /// The time since the addresses were checked; `nil` if they must be checked before the next request.
        var age: (@Sendable () -> Duration)?
        /// Whether the last connection to the target's address failed.
        var hasFailed = false
        /// The check of the addresses, while it runs. All requests wait for the same check.
        var check: Task<WebhookTarget, any Error>?
    }

    /// The event loop of all webhooks of a process. It has a thread of its own, so that deliveries never delay requests
    /// to the server.
    private static let ownLoop: any EventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()

    /// The maximum number of connections of all endpoints together, of which each has an equal share. A receiver that
    /// never answers holds its connections for the time of a request, and each connection takes an open file.
    package static let maxConnections = 256

    /// The maximum number of requests that an endpoint may have at a time, if all endpoints are to have as many.
    package var share: Int { max(1, maxConnections / max(1, state.withLock { $0.endpoints.count })) }

    /// The time for a request in all: resolving the name, connecting, and the whole answer. Standard Webhooks asks for
    /// 15 to 30 seconds.
    package static let limit = Duration.seconds(20)

    /// The age at which a name is resolved again. A receiver that moves is found after this time.
    private static let maxAge = Duration.seconds(30)

    /// - Parameters:
    ///   - networks: Networks in which addresses are permitted that are otherwise forbidden, and without TLS.
    ///   - clock: Measures the time of requests, and the age of addresses.
    ///   - limit: The time for a request in all.
    ///   - idle: The time for which a connection without requests is kept. Node.js closes such connections after 5
    ///     seconds, and a request on a connection that the receiver is just closing would fail.
    ///   - roots: The trusted root certificates as PEM; `nil` trusts those of the operating system.
    ///   - maxConnections: The maximum number of connections of all endpoints together.
    ///   - loop: The event loop of all connections; `nil` for a loop that all senders share.
    package init(
        networks: [IPNetwork], resolver: any AddressResolver = SystemResolver(), clock: any Clock<Duration>,
        limit: Duration = WebhookSender.limit, idle: Duration = .seconds(4), roots: String? = nil,
        maxConnections: Int = WebhookSender.maxConnections, on loop: (any EventLoop)? = nil
    ) {
        self.maxConnections = maxConnections
        self.networks = networks
        self.resolver = resolver
        self.clock = clock
        self.limit = limit
        self.idle = idle
        self.loop = loop ?? Self.ownLoop
        executor = EventLoopTasks(self.loop)
        tls = Result { try Self.tls(roots: roots) }
    }

    /// Sends a message to an endpoint.
    ///
    /// - Parameters:
    ///   - url: The address of the endpoint.
    ///   - endpoint: The id of the endpoint.
    /// - Returns: The outcome. If the task was cancelled, the outcome is a failure.
    package func send(_ message: WebhookMessage, to url: WebhookURL, of endpoint: String) async -> WebhookOutcome {
        let time = clock.stopwatch()
        var tried: Set<IPAddress> = []
        while true {
            let target: WebhookTarget
            do {
                target = try await self.target(of: url, for: endpoint)
            } catch {
                let isCancelled = error is CancellationError
                return WebhookOutcome(
                    failure: isCancelled ? "cancelled" : nil, refusal: isCancelled ? nil : "\(error)",
                    milliseconds: time().wholeMilliseconds)
            }
            let rest = max(.zero, limit - time())
            let answer = await target.connections.answer(to: target.request(message), within: TimeAmount(rest))
            if answer.status == nil, let failure = answer.failure, !Task.isCancelled {
                noteFailure(of: target, for: endpoint)
                tried.insert(target.address)
                // For example, `localhost` often has an IPv6 address on which no program listens.
                let hasOther = !target.others.isSubset(of: tried) && tried.count < Self.maxAddresses
                if hasOther, case .noConnection = failure, time() < limit { continue }
            }
            return WebhookOutcome(answer, at: message.timestamp, milliseconds: time().wholeMilliseconds, limit: limit)
        }
    }

    /// The maximum number of addresses that a single request tries. Names rarely have more.
    private static let maxAddresses = 4

    /// Forgets an endpoint and closes its connections, after the answers to its requests.
    package func forget(_ endpoint: String) {
        let old = state.withLock { $0.endpoints.removeValue(forKey: endpoint) }
        old?.check?.cancel()
        old?.target?.connections.close()
    }

    /// Closes all connections. Requests that are not answered yet fail, and so do all later requests.
    package func shutdown() {
        let all = state.withLock { state in
            state.isShutDown = true
            defer { state.endpoints = [:] }
            return Array(state.endpoints.values)
        }
        for endpoint in all {
            endpoint.check?.cancel()
            endpoint.target?.connections.shutdown()
        }
    }

    private static func tls(roots: String?) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        if let roots { configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(roots.utf8))) }
        return try NIOSSLContext(configuration: configuration)
    }
}

// MARK: - Addresses

extension WebhookSender {
    /// The target of requests to an endpoint, with an address that was checked in the last seconds.
    private func target(of url: WebhookURL, for endpoint: String) async throws -> WebhookTarget {
        // A new endpoint must not use the target of a different URL.
        let check = try state.withLock { state throws(CancellationError) -> Result<WebhookTarget, Checking> in
            guard !state.isShutDown else { throw CancellationError() }
            var entry = state.endpoints[endpoint] ?? Endpoint(url: url)
            if entry.url != url {
                entry.check?.cancel()
                entry.target?.connections.close()
                entry = Endpoint(url: url)
            }
            if let target = entry.target, let age = entry.age, age() < Self.maxAge { return .success(target) }
            let check = entry.check ?? Task { try await self.check(url, for: endpoint) }
            entry.check = check
            state.endpoints[endpoint] = entry
            return .failure(Checking(task: check))
        }
        switch check {
        case .success(let target): return target
        case .failure(let checking):
            // All requests to an endpoint belong to the same delivery, and are cancelled together.
            return try await withTaskCancellationHandler {
                try await checking.task.value
            } onCancel: {
                checking.task.cancel()
            }
        }
    }

    /// A check that a request waits for.
    private struct Checking: Error {
        var task: Task<WebhookTarget, any Error>
    }

    /// Resolves the host, checks all addresses, and chooses the target.
    private func check(_ url: WebhookURL, for endpoint: String) async throws -> WebhookTarget {
        do {
            let addresses = try await addresses(of: url.host)
            return try choose(from: addresses, for: url, of: endpoint)
        } catch {
            state.withLock { state in
                guard state.endpoints[endpoint]?.url == url else { return }
                state.endpoints[endpoint]?.check = nil
                state.endpoints[endpoint]?.age = nil
            }
            throw error
        }
    }

    private func addresses(of host: String) async throws -> [IPAddress] {
        if let address = IPAddress(host) { return [address] }
        let limit = limit
        return try await withThrowingTaskGroup(of: [IPAddress].self) { [resolver, clock] group in
            group.addTask { try await resolver.addresses(of: host) }
            group.addTask {
                try await clock.sleep(for: limit)
                throw ResolverError("the name \(host) was not resolved within \(limit.inSeconds)")
            }
            defer { group.cancelAll() }
            return try await group.next() ?? []
        }
    }

    /// Checks addresses, and chooses the target: the last one, if its address is still among them and its
    /// connections succeed. Hosts of many servers have some of their addresses in each answer, in another order.
    private func choose(
        from addresses: [IPAddress], for url: WebhookURL, of endpoint: String
    ) throws -> WebhookTarget {
        // A name with a single forbidden address is suspicious altogether: an attacker may want to see which address
        // is chosen.
        for address in addresses where !networks.permitWebhook(to: address, isSecure: url.isSecure) {
            throw ResolverError(
                url.isSecure || address.isForbidden
                    ? "the address \(address.text) is forbidden" : "http to the address \(address.text) is forbidden")
        }
        guard !addresses.isEmpty else { throw ResolverError("the name \(url.host) has no address") }
        return try state.withLock { state in
            guard !state.isShutDown, !Task.isCancelled, var entry = state.endpoints[endpoint], entry.url == url else {
                throw CancellationError()
            }
            let target: WebhookTarget
            if let last = entry.target, addresses.contains(last.address), !entry.hasFailed || addresses.count == 1 {
                target = last
            } else {
                // After a failed connection the next address of the list.
                let last = entry.hasFailed ? entry.target.flatMap { addresses.firstIndex(of: $0.address) } : nil
                let address = addresses[last.map { ($0 + 1) % addresses.count } ?? 0]
                target = WebhookTarget(url, address, of: addresses, try connections(to: address, of: url))
                entry.target?.connections.close()
            }
            entry.target = target
            entry.age = clock.stopwatch()
            entry.hasFailed = false
            entry.check = nil
            state.endpoints[endpoint] = entry
            return target
        }
    }

    private func connections(to address: IPAddress, of url: WebhookURL) throws -> WebhookConnections {
        let tls = try url.isSecure ? tls.get() : nil
        return try WebhookConnections(
            to: address.text, port: url.port,
            // The name of a host that is an address must be `nil`: the certificate is checked for the address itself.
            tls: tls.map { .init(context: $0, name: IPAddress(url.host) == nil ? url.host : nil) },
            connectTimeout: TimeAmount(limit), idle: TimeAmount(idle), on: loop)
    }

    /// Makes the next request check the addresses anew, and choose a different one if there is another.
    private func noteFailure(of target: WebhookTarget, for endpoint: String) {
        state.withLock { state in
            guard let current = state.endpoints[endpoint]?.target, current === target else { return }
            state.endpoints[endpoint]?.hasFailed = true
            state.endpoints[endpoint]?.age = nil
        }
    }
}

/// The host of an endpoint at a checked address.
private final class WebhookTarget: Sendable {
    let address: IPAddress
    /// The other addresses of the host.
    let others: Set<IPAddress>
    let connections: WebhookConnections
    /// The beginning of each request (RFC 9112 section 3), without the fields of its message.
    private let head: ByteBuffer

    init(_ url: WebhookURL, _ address: IPAddress, of addresses: [IPAddress], _ connections: WebhookConnections) {
        self.address = address
        others = Set(addresses).subtracting([address])
        self.connections = connections
        head = ByteBuffer(
            string: """
                POST \(url.target) HTTP/1.1\r
                host: \(url.hostField)\r
                content-type: application/json\r
                user-agent: quittance\r

                """)
    }

    /// The bytes of a request. No part of them can have a line break: a ``WebhookURL`` has none, ids are those of
    /// events, and signatures are base64.
    func request(_ message: WebhookMessage) -> ByteBuffer {
        var bytes = head
        bytes.reserveCapacity(minimumWritableBytes: message.body.count + 512)
        for (name, value) in message.signedHeaders { bytes.writeString("\(name): \(value)\r\n") }
        bytes.writeString("content-length: \(message.body.count)\r\n\r\n")
        bytes.writeBytes(message.body)
        return bytes
    }
}

/// Runs tasks on an event loop.
private final class EventLoopTasks: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) {
        self.loop = loop
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

extension WebhookURL {
    /// The value of the field `Host`: without the port if it is the default of the scheme.
    fileprivate var hostField: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }
}

extension Duration {
    fileprivate var wholeMilliseconds: Int { Int(self / .milliseconds(1)) }
}
