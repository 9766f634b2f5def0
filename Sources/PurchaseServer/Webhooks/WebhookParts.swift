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
    let feed: WebhookFeed
    /// Returns the time of the machine even if the ledger has a simulator's time, of which a second can be a day:
    /// receivers live by real clocks, so signatures, attempts, leases and rotations have real times, and so has the end
    /// of the ids in events.
    package var wall: @Sendable () -> Timestamp
    package var clock: any Clock<Duration>
    package var logger: Logger
    /// For failures of the ledger, and refused addresses.
    let failure: ThrottledWarning

    /// - Parameter gathering: The time after the newest events were read until the feed is read again.
    package init(
        _ service: LedgerService, sender: WebhookSender, gathering: Duration = .milliseconds(50),
        wall: @escaping @Sendable () -> Timestamp, clock: any Clock<Duration>, logger: Logger
    ) {
        ledger = service.ledger
        secrets = service.webhookSecrets
        networks = service.webhookNetworks
        self.sender = sender
        self.wall = wall
        self.clock = clock
        self.logger = logger
        failure = ThrottledWarning("A webhook waits", clock: clock, logger)
        feed = WebhookFeed(service.followers, gathering: gathering, now: wall, clock: clock, failure)
    }
}

extension WebhookEndpoint {
    /// The fields of a log line.
    func metadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        more.merging(["webhook": .string(id), "bundleId": .string(bundleId)]) { $1 }
    }
}
