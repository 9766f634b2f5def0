// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger

/// The requests of an ``EndpointDelivery``: to the feed, and to the endpoint.
final class EndpointRequests: Sendable {
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
    func read(after cursor: EventCursor) async -> WebhookFeed.Part {
        await parts.feed.part(of: endpoint.bundleId, after: cursor)
    }

    /// The deliveries of the events that the endpoint wants. An event that cannot be written has no body, and
    /// ``attempt(_:)`` finds the reason.
    func deliveries(in page: WebhookPage) -> [DeliveryPlan.Delivery] {
        page.page.events.compactMap { event in
            guard let cursor = event.cursor, endpoint.wants(event) else { return nil }
            var delivery = DeliveryPlan.Delivery(
                cursor, lane: WebhookProgress.lane(of: event), body: page.body(of: event, cursor))
            delivery.customer = page.page.customerId(of: event)
            delivery.deletedIds = page.page.allDeletedIds(of: event) ?? []
            return delivery
        }
    }

    /// The event as the feed has it now; `nil` if it was erased.
    private func body(of event: EventCursor) async throws -> Result<[UInt8], any Error>? {
        let page = try await parts.ledger.webhookEvent(event, of: endpoint.bundleId, at: parts.wall())
        return page.flatMap { page in page.events.first.map { WebhookPage.body(of: $0, in: page) } }
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
        if let refusal = outcome.refusal { parts.failure.log(endpoint.metadata(["error": .string(refusal)])) }
        // A request that ends because the server stops says nothing about the endpoint.
        return Task.isCancelled ? .unread : .answered(outcome)
    }

    private func message(_ event: EventCursor, _ body: [UInt8]) -> WebhookMessage {
        let now = parts.wall()
        return WebhookMessage(
            id: event.rawValue, body: body, at: now,
            signedBy: endpoint.generations(at: now).compactMap { secrets[$0] }, isAsymmetric: endpoint.isAsymmetric)
    }
}
