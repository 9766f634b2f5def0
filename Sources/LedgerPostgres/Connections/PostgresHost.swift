// SPDX-License-Identifier: Apache-2.0

/// A host of the database's address, as libpq parameters. They replace the address's whole list of hosts.
///
/// libpq can try a list of hosts itself, but it applies its timeout for each host only if it connects in a single
/// blocking call. Here libpq connects step by step, so this library tries each host separately, with a timeout of its
/// own.
struct PostgresHost: Sendable {
    private(set) var options: [(name: String, value: String)] = []
    /// The timeout for connecting. It cannot interrupt the look-up of the host name, during which libpq blocks until
    /// the system answers.
    private(set) var limit = Duration.seconds(3)

    /// The maximum timeout for a host in seconds, whatever the address says. It equals the default timeout of a
    /// request.
    private static let maxLimit = Int64(10)
}

extension PostgresHost {
    /// - Parameter seconds: The timeout in the address.
    init(_ options: [(String, String)], _ seconds: Int64?) {
        self.options = options.map { (name: $0.0, value: $0.1) }
        // For libpq a timeout of 0 means no timeout. Here it means the maximum.
        if let seconds { limit = .seconds(seconds > 0 ? min(seconds, Self.maxLimit) : Self.maxLimit) }
    }
}
