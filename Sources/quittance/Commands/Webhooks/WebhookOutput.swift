// SPDX-License-Identifier: Apache-2.0

// Endpoints and their deliveries as lines of text.

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// Prints endpoints.
enum WebhookOutput {
    /// Prints an endpoint with its new secret.
    static func show(_ endpoint: WebhookEndpoint, _ secret: WebhookSecret, json: Bool) throws {
        guard !json else { return try Terminal.print(json: WebhookBody(endpoint, secret: secret)) }
        try Terminal.print("id          \(endpoint.id)")
        try printSecret(endpoint, secret)
    }

    static func printSecret(_ endpoint: WebhookEndpoint, _ secret: WebhookSecret) throws {
        try Terminal.print("secret      \(secret.text)")
        if endpoint.isAsymmetric { try Terminal.print("public key  \(secret.publicKey)") }
    }
}

extension WebhookEndpoint {
    /// The line of the endpoint in a list.
    var line: String {
        let state =
            if case .disabled(let reason, let date) = state {
                "disabled \(date.iso8601): \(reason)"
            } else {
                state.word
            }
        let parts = [
            id, bundleId, url, kinds?.sorted().joined(separator: ",") ?? "all kinds",
            environment?.rawValue ?? "all environments", isOrdered ? "ordered" : nil, isAsymmetric ? "asymmetric" : nil,
            wantsBackfilled ? nil : "without backfills", state,
        ]
        return parts.compactMap(\.self).joined(separator: "  ").printable
    }
}

extension WebhookStatus {
    /// The state of the deliveries.
    var line: String {
        let delivered = progress?.deliveredAt.map { "last delivery \($0.iso8601)" } ?? "nothing delivered yet"
        let failing = progress?.failingSince.map { "failing since \($0.iso8601)" }
        let cursor = oldestCursor.map { "at cursor \($0.rawValue)" }
        return ["\(waiting) waiting", "\(setAsideCount) set aside", delivered, failing, cursor]
            .compactMap(\.self).joined(separator: ", ").printable
    }
}

extension FailedDelivery {
    var line: String { "\(failedAt.iso8601)  \(event.rawValue)  \(reason)".printable }
}

extension WebhookAttempt {
    var line: String {
        let result = failure ?? status.map { "\($0)" } ?? ""
        return "\(at.iso8601)  \(event.rawValue)  \(milliseconds) ms  \(result)  \(answer.shortened)".printable
    }
}

extension WebhookTest.Answer {
    var line: String {
        let result = outcome.refusal ?? outcome.failure ?? outcome.status.map { "\($0)" } ?? ""
        return "\(example.kind.rawValue)  \(outcome.milliseconds) ms  \(result)  \(outcome.answer.shortened)".printable
    }
}
