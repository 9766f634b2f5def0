// SPDX-License-Identifier: Apache-2.0

/// A host of an address, as the parameters to replace the whole list of hosts.
///
/// libpq's own search for a host has a timeout only in its blocking call. Therefore each host is tried separately.
struct PostgresHost: Sendable {
    private(set) var options: [(name: String, value: String)] = []
    /// The timeout for connecting. It excludes the look-up of the host name, during which libpq blocks on the system.
    private(set) var limit = Duration.seconds(3)

    /// The maximum timeout for a host in seconds, whatever the address says. It equals the default timeout of a
    /// request.
    private static let maxLimit = Int64(10)
}

extension PostgresHost {
    /// - Parameter seconds: The timeout in the address.
    init(_ options: [(String, String)], _ seconds: Int64?) {
        self.options = options.map { (name: $0.0, value: $0.1) }
        // libpq would wait without a limit if the timeout is 0.
        if let seconds { limit = .seconds(seconds > 0 ? min(seconds, Self.maxLimit) : Self.maxLimit) }
    }
}
