// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A simulated App Store as its clients see it: it answers the App Store Server API and notifies the app's server.
///
/// It is a value without sockets: a server hands it requests, sends its answers, and sends the notifications that
/// ``takeDeliveries(in:)`` returns. The time of all answers and notifications is the world's. Bearer tokens, pagination
/// tokens and rate limits go by the wall clock, since clients make requests by theirs.
public struct SimulatedStore: Sendable {
    /// Customers, purchases and the clock. Call ``publish()`` after changes.
    public var world: World
    /// Signs answers and notifications.
    public var signer: WorldSigner
    /// The key that signs requests.
    public package(set) var key: StoreKey
    /// Where notifications go, by environment. Without a URL the App Store sends none and keeps none.
    public var notificationURLs: [Environment: String] = [:]
    /// The format that the URL of an environment is registered for; version 2 if none is given. Test notifications are
    /// always version 2.
    public var notificationVersions: [Environment: NotificationVersion] = [:]
    /// The app's shared secret: verifyReceipt demands it for receipts with subscriptions, and version 1 notifications
    /// have it. If it is `nil`, any password passes.
    public var sharedSecret: String?
    /// How the store misbehaves.
    public var faults: Faults
    /// Notifications, with the attempts to send them.
    public package(set) var outbox = Outbox()
    /// Transactions that the app, or its server, finished.
    public var finished: Set<String> { world.finished }
    /// Messages that keep customers who are about to cancel, by environment.
    var retention: [Environment: RetentionMessages] = [:]
    /// The answers to extensions of one subscription that succeeded, so that a repeated request extends it once.
    var extensions: [ExtensionRequest: ExtendRenewalDateResponse] = [:]
    /// How many of the world's occurrences have been published.
    var published: Int
    /// Decides about faults.
    var random: SeededRandom
    /// The calls of the present hour of the wall clock.
    var calls = CallBudgets()

    /// Creates a store. What happened in the world before is not published.
    ///
    /// - Parameter seed: Determines which requests and notifications meet a fault.
    public init(_ world: World, _ signer: WorldSigner, _ key: StoreKey, faults: Faults = .none, seed: UInt64 = 0) {
        self.world = world
        self.signer = signer
        self.key = key
        self.faults = faults
        published = world.occurrenceCount
        random = SeededRandom(seed: seed)
    }
}

/// An extension of a subscription, by the identifier that the app's server gives it.
struct ExtensionRequest: Hashable, Sendable {
    var originalTransactionId: String
    var requestIdentifier: String
}
