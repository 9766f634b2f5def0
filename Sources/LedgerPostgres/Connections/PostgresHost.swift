// SPDX-License-Identifier: Apache-2.0

/// One of the hosts of an address, as the parameters that take the place of the whole list.
///
/// libpq's own search for a host has a deadline only in the call that blocks. Therefore each host is tried by itself.
struct PostgresHost: Sendable {
    private(set) var options: [(name: String, value: String)] = []
    /// How long connecting may take, apart from the look-up of the host's name, in which libpq waits for the system.
    private(set) var limit = Duration.seconds(3)

    /// The longest time for one host, whatever the address says. No request waits longer for its answer either.
    private static let maxLimit = Int64(10)
}

extension PostgresHost {
    /// - Parameter seconds: What the address says.
    init(_ options: [(String, String)], _ seconds: Int64?) {
        self.options = options.map { (name: $0.0, value: $0.1) }
        // libpq waits without an end if it is 0.
        if let seconds { limit = .seconds(seconds > 0 ? min(seconds, Self.maxLimit) : Self.maxLimit) }
    }
}
