// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import PurchaseLedger

/// A test of an endpoint: sends an example of each wanted kind of event. The endpoint may be paused, and the ledger
/// stays as it is.
package struct WebhookTest: Sendable {
    /// The answer to an example.
    package struct Answer: Sendable {
        package let example: WebhookExample
        package let outcome: WebhookOutcome
    }

    /// The number of examples sent at a time: few, for small receivers.
    private static let width = 4

    /// The time after which no further example is sent: a third of the default `requestTimeout`. The last answer then
    /// arrives in time for the answer to the request, even if the receiver uses all of its own time.
    private static let limit = Duration.seconds(20)

    private let examples: [(example: WebhookExample, body: [UInt8])]
    private let send: @Sendable (_ id: String, _ body: [UInt8]) async -> WebhookOutcome

    /// - Parameters:
    ///   - secrets: The secrets that sign at present, see ``WebhookSecrets/signing(_:at:)``.
    ///   - now: Returns the time of the machine, which dates the messages.
    package init(
        of endpoint: WebhookEndpoint, at url: WebhookURL, signedBy secrets: [WebhookSecret], by sender: WebhookSender,
        ids: WebhookIDs, now: @escaping @Sendable () -> Timestamp
    ) throws {
        let date = now()
        examples = try WebhookExample.kinds(for: endpoint).map { kind in
            let example = WebhookExample(kind, id: ids.next(), for: endpoint, at: date)
            return (example, try example.body)
        }
        send = { id, body in
            let message = WebhookMessage(
                id: id, body: body, at: now(), signedBy: secrets, isAsymmetric: endpoint.isAsymmetric)
            return await sender.send(message, to: url, of: endpoint.id)
        }
    }

    /// Sends the examples.
    ///
    /// - Returns: The answers, in the order of the kinds.
    package func run(clock: any Clock<Duration>) async -> [Answer] {
        let elapsed = clock.stopwatch()
        var outcomes: [String: WebhookOutcome] = [:]
        await withTaskGroup(of: (id: String, outcome: WebhookOutcome).self) { group in
            for (index, message) in examples.enumerated() {
                if index >= Self.width, let ended = await group.next() { outcomes[ended.id] = ended.outcome }
                guard elapsed() < Self.limit else { break }
                group.addTask { [send] in
                    let id = message.example.id
                    return (id, await send(id, message.body))
                }
            }
            for await ended in group { outcomes[ended.id] = ended.outcome }
        }
        return examples.map { Answer(example: $0.example, outcome: outcomes[$0.example.id] ?? .unsent) }
    }
}

extension WebhookOutcome {
    fileprivate static let unsent = WebhookOutcome(
        failure: "not sent, because the answers before took too long", milliseconds: 0)
}

extension WebhookSecrets {
    /// The secrets of an endpoint at an instant, the newest first. Each of them signs.
    package func signing(_ endpoint: WebhookEndpoint, at now: Timestamp) -> [WebhookSecret] {
        endpoint.generations(at: now).map { secret(of: endpoint.id, generation: $0) }
    }

    /// The newest secret of an endpoint.
    package func secret(of endpoint: WebhookEndpoint) -> WebhookSecret {
        secret(of: endpoint.id, generation: endpoint.generation)
    }
}
