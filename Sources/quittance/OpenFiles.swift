// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import PurchaseServer

/// Files that a server opens besides its connections: the ledger, what waits for events, questions to OCSP responders.
private let otherFiles = 200

/// Raises the number of files that this process may open, as far as the system lets it, so that connections do not run out
/// before their bound: many systems begin with 1,024.
func allowOpenFiles(for connections: Int, _ logger: Logger) {
    var limit = rlimit()
    #if canImport(Darwin)
    let files = RLIMIT_NOFILE
    #else
    let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #endif
    let needed = rlim_t(connections + ServerBounds.healthConnections + otherFiles)
    guard getrlimit(files, &limit) == 0, limit.rlim_cur < needed else { return }
    limit.rlim_cur = min(needed, limit.rlim_max)
    guard setrlimit(files, &limit) == 0, limit.rlim_cur == needed else {
        return logger.warning(
            "Fewer files may be opened than maxConnections needs", metadata: ["limit": "\(limit.rlim_max)"])
    }
}
