// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger

/// The requests of an ``EndpointDelivery``: to the feed, and to the endpoint.
struct EndpointRequests: Sendable {
    /// A part of the feed after a cursor.
    enum FeedPart: Sendable {
        case page(EventPage)
        /// There are no events after the cursor any more, but after another one.
        case gap(oldest: EventCursor)
        /// The feed could not be read.
        case none
    }

    /// The longest wait for events in a request to the feed.
    private static let maxWait = Duration.seconds(30)

    /// The pause after the feed could not be read.
    private static let pause = Duration.seconds(1)

    /// The most events read at once.
    static let pageLimit = 100

    private let endpoint: WebhookEndpoint
    private let parts: WebhookParts
    private let url: WebhookURL
    private let secrets: [Int: WebhookSecret]

    /// - Returns: `nil` if this server has no secret, or refuses the endpoint's address.
    init?(_ endpoint: WebhookEndpoint, _ parts: WebhookParts) {
        guard let secrets = parts.secrets, case .success(let url) = Self.url(of: endpoint, parts.networks) else {
            return nil
        }
        self.endpoint = endpoint
        self.parts = parts
        self.url = url
        let generations = endpoint.generation > 1 ? [endpoint.generation, endpoint.generation - 1] : [1]
        self.secrets = Dictionary(
            uniqueKeysWithValues: generations.map { ($0, secrets.secret(of: endpoint.id, generation: $0)) })
    }

    /// The reason why an endpoint's address is refused, as a sentence; `nil` if it is permitted. The address may have
    /// been added by a server with other networks.
    static func fault(of endpoint: WebhookEndpoint, _ networks: [IPNetwork]) -> String? {
        guard case .failure(let error) = url(of: endpoint, networks) else { return nil }
        return "\(error)"
    }

    private static func url(
        of endpoint: WebhookEndpoint, _ networks: [IPNetwork]
    ) -> Result<WebhookURL, WebhookURLError> {
        do {
            return .success(try WebhookURL(endpoint.url, allowing: networks))
        } catch {
            return .failure(error)
        }
    }
}

// MARK: - The feed

extension EndpointRequests {
    /// Reads the feed after a cursor. At its end, waits for events.
    ///
    /// - Parameter pause: The time to wait before.
    func read(after cursor: EventCursor, in pause: Duration) async -> FeedPart {
        if pause > .zero { await parts.clock.pause(for: pause) }
        do {
            let page = try await parts.followers.page(
                of: endpoint.bundleId, after: cursor, within: Self.maxWait, limit: nil, clock: parts.clock,
                search: { [parts, endpoint] in
                    try await parts.ledger.events(
                        of: endpoint.bundleId, after: $0, limit: Self.pageLimit, at: parts.now())
                }, { $0 })
            return page.map { .page($0) } ?? .none
        } catch let error as EventCursorError {
            return .gap(oldest: error.oldest ?? EventCursor(0))
        } catch {
            if !(error is CancellationError) { parts.failure.log(endpoint.metadata(["error": "\(error)"])) }
            await parts.clock.pause(for: Self.pause)
            return .none
        }
    }

    /// The deliveries of the events that the endpoint wants. An event that cannot be written has no body, and
    /// ``attempt(_:)`` finds the reason.
    func deliveries(in page: EventPage) -> [DeliveryPlan.Delivery] {
        page.events.compactMap { event in
            guard let cursor = event.cursor, endpoint.wants(event) else { return nil }
            // The attempt reads the event again, and reports the error.
            let body = try? Self.body(of: event, in: page).get()
            return DeliveryPlan.Delivery(cursor, lane: WebhookProgress.lane(of: event), body: body)
        }
    }

    /// The event as the feed has it. No event has caused an error so far.
    @inline(never)
    private static func body(of event: LedgerEvent, in page: EventPage) -> Result<[UInt8], any Error> {
        Result { try JSONWriter.bytes(encoding: EventBody(event, in: page)) }
    }

    /// The event as the feed has it now; `nil` if it was erased.
    private func body(of event: EventCursor) async throws -> Result<[UInt8], any Error>? {
        let page = try await parts.ledger.webhookEvent(event, of: endpoint.bundleId, at: parts.now())
        return page.flatMap { page in page.events.first.map { Self.body(of: $0, in: page) } }
    }
}

// MARK: - The endpoint

extension EndpointRequests {
    /// Sends an event. If the delivery has no body, reads the event first.
    func attempt(_ delivery: DeliveryPlan.Delivery) async -> DeliveryPlan.Outcome {
        if let body = delivery.body { return await send(delivery.event, body) }
        do {
            switch try await body(of: delivery.event) {
            case nil: return .erased
            case .failure: return .unwritable
            case .success(let body): return await send(delivery.event, body)
            }
        } catch {
            if !(error is CancellationError) { parts.failure.log(endpoint.metadata(["error": "\(error)"])) }
            return .unread
        }
    }

    private func send(_ event: EventCursor, _ body: [UInt8]) async -> DeliveryPlan.Outcome {
        let outcome = await parts.sender.send(message(event, body), to: url, of: endpoint.id)
        // A request that ends because the server stops says nothing about the endpoint.
        return Task.isCancelled ? .unread : .answered(outcome)
    }

    private func message(_ event: EventCursor, _ body: [UInt8]) -> WebhookMessage {
        // The time of the machine, even if the server takes a simulator's time: receivers compare it with their own.
        WebhookMessage(
            id: event.rawValue, body: body, at: parts.wall(),
            signedBy: endpoint.generations(at: parts.now()).compactMap { secrets[$0] },
            isAsymmetric: endpoint.isAsymmetric)
    }
}
