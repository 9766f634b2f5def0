// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
package import PurchaseLedger
import ServiceLifecycle
import Synchronization

/// Delivers events to the webhook endpoints of a ledger.
///
/// The service leases the job of each active endpoint, so that of all servers one delivers to it, and runs an
/// ``EndpointDelivery`` until the endpoint is changed, its lease is lost, or the server stops.
package struct WebhookService: Service {
    /// The time between two looks at the endpoints. Changes by this server's own routes are seen at once.
    private static let interval = Duration.seconds(5)

    /// The time for the answers to requests when the server stops. The listeners close after it.
    static let grace = Duration.seconds(2)

    private let parts: WebhookParts
    private let watch: WebhookWatch
    private let interval: Duration
    private let grace: Duration
    private let failure: ThrottledWarning
    /// The apps of the server. Endpoints of other apps wait for a server that has them.
    private let apps: Set<String>
    /// The fingerprint of the secret file; `nil` without a file.
    private let fingerprint: String?

    /// - Parameters:
    ///   - interval: The time between two looks at the endpoints.
    ///   - grace: The time for the answers to requests when the server stops.
    package init(
        _ parts: WebhookParts, of service: LedgerService, interval: Duration = interval, grace: Duration = grace
    ) {
        self.parts = parts
        watch = service.webhooks
        apps = Set(service.apps.keys)
        fingerprint = service.webhookSecrets?.fingerprint
        self.interval = interval
        self.grace = grace
        failure = ThrottledWarning(
            level: .error, "The webhooks could not be looked at", clock: parts.clock, parts.logger)
    }

    package func run() async throws {
        let changes = watch.changes()
        let running = RunningDeliveries()
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                group.addTask { while await parts.clock.pause(for: interval) { watch.noteChange() } }
                watch.noteChange()
                for await _ in changes { await failure.attempt { try await look(running) } }
            }
        }
        await running.end(within: grace, parts.clock)
        parts.sender.shutdown()
    }

    /// Begins and ends deliveries, according to the endpoints in the ledger.
    private func look(_ running: RunningDeliveries) async throws {
        let (active, concerns) = try await parts.ledger.servedWebhooks(of: apps, fingerprint, parts.networks)
        watch.show(concerns.map { $0.sentence + ($0.endpoint?.advice ?? "") })
        running.keep(active)
        for endpoint in active where !running.has(endpoint) {
            await failure.attempt(about: endpoint.metadata()) { try await begin(endpoint, running) }
        }
    }

    /// Begins the deliveries to an endpoint, unless another server has its lease.
    private func begin(_ endpoint: WebhookEndpoint, _ running: RunningDeliveries) async throws {
        let wall = parts.wall()
        let job = try await parts.ledger.leaseWebhook(
            endpoint.id, of: endpoint.bundleId, until: wall.advanced(by: EndpointDelivery.lease), at: wall)
        guard let job else { return }
        running.begin(endpoint) { [parts] end in
            await withTaskExecutorPreference(parts.sender.executor) {
                await EndpointDelivery.run(endpoint, job, parts, until: end)
            }
            parts.sender.forget(endpoint.id)
        } then: { [watch] in
            watch.noteChange()
        }
    }
}

extension Ledger {
    /// The active endpoints that a server serves, and why others get nothing, as sentences for the operator; without
    /// an endpoint, none gets anything.
    ///
    /// - Parameters:
    ///   - apps: The apps of the server. Endpoints of other apps wait for a server that has them.
    ///   - fingerprint: The fingerprint of the server's secret file; `nil` without a file.
    ///   - networks: The networks to which requests may go although they are not public.
    package func servedWebhooks(
        of apps: Set<String>, _ fingerprint: String?, _ networks: [IPNetwork]
    ) async throws -> (served: [WebhookEndpoint], concerns: [(endpoint: WebhookEndpoint?, sentence: String)]) {
        let endpoints = try await webhookEndpoints().filter { apps.contains($0.bundleId) }
        var active = endpoints.filter { $0.state == .active }
        var concerns: [(endpoint: WebhookEndpoint?, sentence: String)] = []
        if !active.isEmpty, let fault = try await webhookSecretFault(fingerprint) {
            concerns = [(nil, fault)]
            active = []
        }
        concerns += endpoints.compactMap { endpoint in endpoint.concern.map { (endpoint, $0) } }
        for endpoint in active {
            guard let fault = EndpointRequests.fault(of: endpoint, networks) else { continue }
            let sentence = "The webhook \(endpoint.id) of \(endpoint.bundleId) is not served: \(fault)"
            concerns.append((endpoint, sentence))
            active.removeAll { $0 == endpoint }
        }
        return (active, concerns)
    }

    /// The reason why a server must not sign for the ledger's endpoints; `nil` if it may.
    private func webhookSecretFault(_ fingerprint: String?) async throws -> String? {
        guard let fingerprint else {
            return """
                The ledger has webhooks, and this server delivers none: set webhookSecretFile to the file that all \
                servers of the ledger share.
                """
        }
        guard let known = try await webhookFingerprint(), known != fingerprint else { return nil }
        return """
            webhookSecretFile is not the file with which the ledger's webhooks were made, so this server delivers \
            none: receivers would take its signatures for forged.
            """
    }
}

/// The running deliveries of a server.
private final class RunningDeliveries: Sendable {
    private struct Running {
        var endpoint: WebhookEndpoint
        var task: Task<Void, Never>
        /// Ends the deliveries after the answers to the events that are being sent.
        var end: AsyncStream<Never>.Continuation
    }

    private let running = Mutex<[String: Running]>([:])

    func has(_ endpoint: WebhookEndpoint) -> Bool { running.withLock { $0[endpoint.id] != nil } }

    /// Begins a delivery.
    ///
    /// - Parameters:
    ///   - body: Delivers until the given stream ends.
    ///   - then: Called when another delivery to the endpoint can begin.
    func begin(
        _ endpoint: WebhookEndpoint, _ body: @escaping @Sendable (_ end: AsyncStream<Never>) async -> Void,
        then: @escaping @Sendable () -> Void
    ) {
        let (stream, end) = AsyncStream.makeStream(of: Never.self)
        running.withLock { running in
            let task = Task {
                await body(stream)
                self.running.withLock { $0[endpoint.id] = nil }
                then()
            }
            running[endpoint.id] = Running(endpoint: endpoint, task: task, end: end)
        }
    }

    /// Lets the deliveries to all endpoints end that are not exactly among some endpoints. Does not wait for their
    /// ends, which would delay other endpoints.
    func keep(_ endpoints: [WebhookEndpoint]) {
        let wanted = Set(endpoints)
        let ended = running.withLock { $0.values.filter { !wanted.contains($0.endpoint) } }
        for each in ended { each.end.finish() }
    }

    /// Ends all deliveries. Waits a moment for the answers to events that are being sent, and stores them, so that
    /// these events do not come again.
    func end(within time: Duration, _ clock: any Clock<Duration>) async {
        keep([])
        let tasks = running.withLock { $0.values.map(\.task) }
        await withDiscardingTaskGroup { group in
            group.addTask {
                await clock.pause(for: time)
                for task in tasks { task.cancel() }
            }
            for task in tasks { await task.value }
            group.cancelAll()
        }
    }
}

extension WebhookEndpoint {
    /// A sentence for the operator, if the server itself has stopped the deliveries.
    fileprivate var concern: String? {
        guard case .disabled(let reason, let time) = state else { return nil }
        return "The webhook \(id) of \(bundleId) was disabled at \(time.iso8601): \(reason)"
    }

    /// What ends the concern.
    fileprivate var advice: String {
        guard case .disabled = state else { return "" }
        return " When the receiver works again: quittance webhooks resume \(id)."
    }
}
