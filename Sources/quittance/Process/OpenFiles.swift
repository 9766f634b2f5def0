// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import PurchaseServer

/// The number of files that a server may open in addition to its connections: the ledger, the kernel's queues of I/O
/// events, connections to OCSP responders.
private let otherFiles = 200

/// Raises this process's limit of open files, as far as the system allows. Otherwise file descriptors would run out
/// before the maximum number of connections is reached, because the default of many systems is 1,024.
func allowOpenFiles(for connections: Int, _ logger: Logger) {
    var limit = rlimit()
    #if canImport(Darwin)
    let files = RLIMIT_NOFILE
    #else
    let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #endif
    let further = 2 * ServerBounds.refusedConnections
    let needed = rlim_t(connections + ServerBounds.healthConnections + further + otherFiles)
    guard getrlimit(files, &limit) == 0, limit.rlim_cur < needed else { return }
    limit.rlim_cur = min(needed, limit.rlim_max)
    guard setrlimit(files, &limit) == 0, limit.rlim_cur == needed else {
        return logger.warning(
            "The system allows fewer open files than maxConnections needs", metadata: ["limit": "\(limit.rlim_max)"])
    }
}
