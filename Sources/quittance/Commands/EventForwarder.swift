// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseServer

/// Sends the events of a feed to a developer's program as webhooks, in order.
struct EventForwarder {
    private let sender: WebhookSender
    private let url: WebhookURL
    private let secret: WebhookSecret
    private let clock: any Clock<Duration>

    /// The pauses after failed attempts: the first steps of a server's deliveries. The third step, half an hour, is
    /// longer than a developer waits.
    private static let steps: [Duration] = [.seconds(5), .seconds(300)]

    /// All addresses: whoever runs the program names the URL, and may reach any address in any other way too.
    private static let networks = ["0.0.0.0/0", "::/0"].compactMap { IPNetwork($0) }

    /// The status by which a receiver refuses all further requests (Standard Webhooks).
    private static let gone = 410

    /// - Parameter secret: The secret as text; `nil` for a random secret.
    /// - Throws: `ValidationError` if the URL or the secret is invalid.
    init(to url: String, secret text: String?, clock: any Clock<Duration>) throws {
        self.url = try asUsage("--forward: ") { try WebhookURL(url, allowing: Self.networks) }
        if let text {
            guard let secret = WebhookSecret(text: text) else {
                throw ValidationError(
                    "--secret takes whsec_ and the base64 of \(WebhookSecret.lengths.lowerBound) to "
                        + "\(WebhookSecret.lengths.upperBound) bytes.")
            }
            self.secret = secret
        } else {
            var random = SystemRandomNumberGenerator()
            secret = WebhookSecret(key: (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) })
            Terminal.report("The requests are signed with \(secret.text)")
        }
        self.clock = clock
        sender = WebhookSender(networks: Self.networks, clock: clock)
    }

    /// Sends an event until the receiver accepts it, or the last attempt has failed.
    ///
    /// - Parameter report: Prints the outcome of an attempt: a phrase.
    /// - Throws: Exit status 1 if the receiver answers 410.
    func send(_ event: JSONValue, report: (String) throws -> Void) async throws {
        guard let id = event["id"]?.string else { return }
        let body = Array(event.compactText.utf8)
        for step in 0...Self.steps.count {
            let message = WebhookMessage(id: id, body: body, at: SystemClock.now(), signedBy: [secret])
            let outcome = await sender.send(message, to: url, of: "forward")
            let time = "\(outcome.milliseconds) ms"
            guard let failure = outcome.refusal ?? outcome.failure else {
                try report("\(outcome.status ?? 0)  \(time)")
                return
            }
            guard outcome.status != Self.gone else {
                try report("410  \(time)")
                throw Terminal.failure("The receiver wants no more events (410).")
            }
            guard step < Self.steps.count else {
                try report("\(failure.printable)  \(time)  given up")
                return
            }
            let pause = max(Self.steps[step], outcome.retryAfter ?? .zero)
            try report("\(failure.printable)  \(time)  again in \(pause.components.seconds) s")
            try await clock.sleep(for: pause)
        }
    }
}
