// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// The nodes that took no write when they were tried last.
final class NodeHealth: Sendable {
    private let state = Mutex<String?>(nil)

    /// A sentence about them; `nil` if there are none.
    var concern: String? { state.withLock { $0 } }

    /// Notes how a trial of all nodes ended.
    func note(failed: [String], of count: Int) {
        let names = failed.sorted().joined(separator: ", ")
        let concern = """
            \(failed.count) of \(count) nodes of the database take no writes, so what lives there is answered 503: \
            \(names).
            """
        state.withLock { $0 = failed.isEmpty ? nil : concern }
    }
}
