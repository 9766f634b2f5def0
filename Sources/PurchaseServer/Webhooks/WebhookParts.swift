// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger

/// The parts that the deliveries of a server share.
package struct WebhookParts: Sendable {
    package var ledger: Ledger
    package var secrets: WebhookSecrets?
    package var sender: WebhookSender
    /// The networks to which requests may go although they are not public.
    package var networks: [IPNetwork]
    let followers: EventFollowers
    package var now: @Sendable () -> Timestamp
    /// Returns the time of the machine even if ``now`` returns a simulator's time, for the signatures.
    package var wall: @Sendable () -> Timestamp
    package var clock: any Clock<Duration>
    /// The time after the newest events were read until the feed is read again. Events that come meanwhile share the
    /// search: a search for each would cost as much as the deliveries.
    package var gathering = Duration.milliseconds(50)
    package var logger: Logger
    /// For failures of the ledger, and refused addresses.
    let failure: ThrottledWarning

    package init(
        _ service: LedgerService, sender: WebhookSender, now: @escaping @Sendable () -> Timestamp,
        wall: @escaping @Sendable () -> Timestamp, clock: any Clock<Duration>, logger: Logger
    ) {
        ledger = service.ledger
        secrets = service.webhookSecrets
        networks = service.webhookNetworks
        followers = service.followers
        self.sender = sender
        self.now = now
        self.wall = wall
        self.clock = clock
        self.logger = logger
        failure = ThrottledWarning("A webhook waits", clock: clock, logger)
    }
}

extension WebhookEndpoint {
    /// The fields of a log line.
    func metadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        more.merging(["webhook": .string(id), "bundleId": .string(bundleId)]) { $1 }
    }
}
