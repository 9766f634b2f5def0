// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A simulated App Store from its clients' view: the store answers the App Store Server API and notifies the app's
/// server.
///
/// The store is a value without sockets. A server passes requests to the store, sends its responses, and sends the
/// notifications from ``takeDeliveries(in:)``. All responses and notifications are signed at the virtual time of
/// ``world``. Bearer tokens, pagination tokens and rate limits use the time of the wall clock, because clients make
/// requests by their own real clocks.
public struct SimulatedStore: Sendable {
    /// Customers, purchases and the clock. Call ``publish()`` after changes.
    public var world: World
    /// Signs responses and notifications.
    public var signer: WorldSigner
    /// The key with which clients sign their requests.
    public package(set) var key: StoreKey
    /// The URLs for notifications, by environment. Without a URL, the App Store neither sends nor keeps notifications.
    public var notificationURLs: [Environment: String] = [:]
    /// The format of notifications, by environment; version 2 by default. Test notifications always have version 2.
    public var notificationVersions: [Environment: NotificationVersion] = [:]
    /// The app's shared secret. verifyReceipt requires the secret for receipts with subscriptions, and version 1
    /// notifications contain it. If the secret is `nil`, any password passes.
    @Hidden public var sharedSecret: String? = nil
    /// The faults of the store.
    public var faults: Faults
    /// Notifications, with the attempts to send them.
    public package(set) var outbox = Outbox()
    /// Transactions that the app or its server has finished.
    public var finished: Set<String> { world.finished }
    /// The messages by which the app wants to keep customers who are about to cancel, by environment.
    var retention: [Environment: RetentionMessages] = [:]
    /// The responses to successful extensions of a subscription. A repeated request gets the same response, without a
    /// second extension.
    var extensions: [ExtensionRequest: ExtendRenewalDateResponse] = [:]
    /// The number of the world's occurrences (events) whose notifications are already in ``outbox``.
    var published: Int
    /// Decides at random which requests and notifications are faulty.
    var random: SeededRandom
    /// The calls in the present hour of the wall clock.
    var calls = CallBudgets()

    /// Creates a store. It sends no notifications about the events that the world already contains.
    ///
    /// - Parameter seed: Determines which requests and notifications are faulty.
    public init(_ world: World, _ signer: WorldSigner, _ key: StoreKey, faults: Faults = .none, seed: UInt64 = 0) {
        self.world = world
        self.signer = signer
        self.key = key
        self.faults = faults
        published = world.occurrenceCount
        random = SeededRandom(seed: seed)
    }
}

/// An extension request, identified by the subscription and by the app server's request identifier.
struct ExtensionRequest: Hashable, Sendable {
    var originalTransactionId: String
    var requestIdentifier: String
}
