// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import PurchaseServer

/// The number of files that a server may open in addition to its connections: the ledger, the kernel's queues of I/O
/// events, connections to OCSP responders.
private let otherFiles = 200

/// The number of connections to the endpoints of webhooks with too few files: enough to deliver.
private let minWebhooks = 16

/// Raises this process's limit of open files, as far as the system allows. Otherwise file descriptors would run out
/// before the maximum number of connections is reached, because the default of many systems is 1,024.
///
/// - Parameter webhooks: The maximum number of connections to the endpoints of webhooks.
/// - Returns: The number of connections to the endpoints of webhooks for which there are files.
func allowOpenFiles(for connections: Int, webhooks: Int, _ logger: Logger) -> Int {
    var limit = rlimit()
    #if canImport(Darwin)
    let files = RLIMIT_NOFILE
    #else
    let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #endif
    let further = 2 * ServerBounds.refusedConnections
    let needed = rlim_t(connections + ServerBounds.healthConnections + further + otherFiles + webhooks)
    guard getrlimit(files, &limit) == 0, limit.rlim_cur < needed else { return webhooks }
    limit.rlim_cur = min(needed, limit.rlim_max)
    guard setrlimit(files, &limit) == 0, limit.rlim_cur == needed else {
        logger.warning(
            "The system allows fewer open files than maxConnections and webhooks need",
            metadata: ["limit": "\(limit.rlim_max)", "needed": "\(needed)"])
        let missing = Int(clamping: needed - min(needed, limit.rlim_max))
        return max(minWebhooks, webhooks - missing)
    }
    return webhooks
}
