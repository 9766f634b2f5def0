// SPDX-License-Identifier: Apache-2.0

// The JSON of webhooks.

import AppStoreModel
package import PurchaseLedger

/// The JSON of an endpoint, which gets the events of the app.
package struct WebhookBody: Encodable, Sendable {
    /// The id of the endpoint.
    var id: String
    /// The address of the requests.
    var url: String
    /// The kinds of the delivered events, in order; `null` for all kinds.
    @Nullable var kinds: [String]?
    /// The environment of the delivered events: `Production`, `Sandbox`, `Xcode` or `LocalTesting`; `null` for all.
    @Nullable var environment: String?
    /// Whether a failed event holds back the later events of its customer.
    var ordered: Bool
    /// Whether each request also has an Ed25519 signature (`v1a`).
    var asymmetric: Bool
    /// Whether events about payments from a backfill are delivered.
    var backfilled: Bool
    /// `active`, `paused` or `disabled`.
    var state: String
    /// The reason why the server disabled the endpoint; only if it did.
    var disabledReason: String?
    /// The time at which the server disabled the endpoint, in milliseconds since 1970; only if it did.
    var disabledAt: Timestamp?
    /// The time at which the endpoint was added, in milliseconds since 1970.
    var createdAt: Timestamp
    /// The time of the last rotation of the secret, in milliseconds since 1970; `null` before the first. For 24 hours
    /// after it, the previous secret signs too.
    @Nullable var rotatedAt: Timestamp?
    /// True, in the answer to a resume, if events of more than 30 days ago are to be delivered: the ids that were
    /// deleted or taken off then are gone, so the receiver must begin again.
    var idsGone: Bool?
    /// The secret of the signatures `v1`; only in the answers to a new endpoint and to a rotation.
    var secret: String?
    /// The public key of the signatures `v1a`; beside `secret`, and only if `asymmetric` is true.
    var publicKey: String?
    /// The state of the deliveries; only in the answers about a single endpoint, and to a replay.
    var deliveries: WebhookDeliveriesBody?

    /// - Parameter secret: The newest secret, for an answer that shows it.
    package init(_ endpoint: WebhookEndpoint, secret: WebhookSecret? = nil) {
        id = endpoint.id
        url = endpoint.url
        kinds = endpoint.kinds?.sorted()
        environment = endpoint.environment?.rawValue
        ordered = endpoint.isOrdered
        asymmetric = endpoint.isAsymmetric
        backfilled = endpoint.wantsBackfilled
        state = endpoint.state.word
        createdAt = endpoint.createdAt
        rotatedAt = endpoint.rotatedAt
        if case .disabled(let reason, let date) = endpoint.state {
            disabledReason = reason
            disabledAt = date
        }
        guard let secret else { return }
        self.secret = secret.text
        if endpoint.isAsymmetric { publicKey = secret.publicKey }
    }

    package init(_ status: WebhookStatus, secret: WebhookSecret? = nil) {
        self.init(status.endpoint, secret: secret)
        deliveries = WebhookDeliveriesBody(status)
    }
}

extension WebhookEndpoint.State {
    /// The name of the state.
    package var word: String {
        switch self {
        case .active: "active"
        case .paused: "paused"
        case .disabled: "disabled"
        }
    }
}

/// The JSON of the state of an endpoint's deliveries.
package struct WebhookDeliveriesBody: Encodable, Sendable {
    /// The number of failed events that wait for their next attempt.
    var waiting: Int
    /// The number of events that were set aside after their last attempt. The newest 10,000 are kept.
    var setAsideCount: Int
    /// The newest 100 events that were set aside, the newest first.
    var setAside: [SetAsideEventBody]
    /// The time of the last delivery, in milliseconds since 1970; `null` before the first.
    @Nullable var deliveredAt: Timestamp?
    /// The time of the first failed attempt since the last delivery, in milliseconds since 1970; `null` if none has
    /// failed since.
    @Nullable var failingSince: Timestamp?
    /// The cursor up to which all events were delivered, were set aside or wait; `null` if it cannot be read.
    @Nullable var cursor: String?

    init(_ status: WebhookStatus) {
        waiting = status.waiting
        setAsideCount = status.setAsideCount
        setAside = status.setAside.map(SetAsideEventBody.init)
        deliveredAt = status.progress?.deliveredAt
        failingSince = status.progress?.failingSince
        cursor = status.oldestCursor?.rawValue
    }
}

/// The JSON of an event that was set aside.
struct SetAsideEventBody: Encodable, Sendable {
    /// The id of the event.
    var event: String
    /// The time of the last attempt, in milliseconds since 1970.
    var failedAt: Timestamp
    /// The reason for the failure of the last attempt.
    var reason: String

    init(_ failed: FailedDelivery) {
        event = failed.event.rawValue
        failedAt = failed.failedAt
        reason = failed.reason
    }
}

/// The JSON of the endpoints of an app.
package struct WebhookListBody: Encodable, Sendable {
    /// The endpoints, in the order of their making.
    var items: [WebhookBody]
}

/// The JSON of an endpoint's secret.
package struct WebhookSecretBody: Encodable, Sendable {
    /// The secret of the signatures `v1`.
    var secret: String
    /// The public key of the signatures `v1a`; only if the endpoint gets them.
    var publicKey: String?

    package init(_ endpoint: WebhookEndpoint, _ secret: WebhookSecret) {
        self.secret = secret.text
        publicKey = endpoint.isAsymmetric ? secret.publicKey : nil
    }
}

/// The JSON of the answer to the removal of an endpoint.
struct WebhookRemovalBody: Encodable, Sendable {
    /// Always true.
    var removed: Bool = true
}

/// The JSON of the newest attempts to deliver events to an endpoint.
package struct WebhookAttemptListBody: Encodable, Sendable {
    /// The attempts, the newest first.
    var items: [WebhookAttemptBody]

    init(_ attempts: [WebhookAttempt]) { items = attempts.map(WebhookAttemptBody.init) }
}

/// The JSON of an attempt to deliver an event.
package struct WebhookAttemptBody: Encodable, Sendable {
    /// The id of the event.
    var event: String
    /// The time of the request, in milliseconds since 1970.
    var at: Timestamp
    /// The time until the answer or the failure, in milliseconds.
    var milliseconds: Int
    /// The HTTP status of the answer; `null` if there was no answer.
    @Nullable var status: Int?
    /// The reason for a failure; absent after a success.
    var failure: String?
    /// The first 1,024 bytes of the answer's body.
    var answer: String

    package init(_ attempt: WebhookAttempt) {
        event = attempt.event.rawValue
        at = attempt.at
        milliseconds = attempt.milliseconds
        status = attempt.status
        failure = attempt.failure
        answer = attempt.answer
    }
}

/// The JSON of the answers to the examples of a test.
struct WebhookTestBody: Encodable, Sendable {
    /// An answer for each kind of event that the endpoint wants.
    var items: [WebhookTestAnswerBody]

    init(_ answers: [WebhookTest.Answer]) { items = answers.map(WebhookTestAnswerBody.init) }
}

/// The JSON of the answer to an example.
package struct WebhookTestAnswerBody: Encodable, Sendable {
    /// The kind of the example.
    var kind: String
    /// The id of the message (`webhook-id`).
    var id: String
    /// The time until the answer or the failure, in milliseconds.
    var milliseconds: Int
    /// The HTTP status of the answer; `null` if there was no answer.
    @Nullable var status: Int?
    /// The reason for a failure; absent after a success.
    var failure: String?
    /// The first 1,024 bytes of the answer's body.
    var answer: String

    package init(_ answer: WebhookTest.Answer) {
        kind = answer.example.kind.rawValue
        id = answer.example.id
        milliseconds = answer.outcome.milliseconds
        status = answer.outcome.status
        failure = answer.outcome.failure
        self.answer = answer.outcome.answer
    }
}
