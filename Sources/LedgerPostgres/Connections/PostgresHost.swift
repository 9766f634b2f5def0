// SPDX-License-Identifier: Apache-2.0

/// One of the hosts of an address, as the parameters that take the place of the whole list.
///
/// libpq's own search for a host has a deadline only in the call that blocks. Therefore each host is tried by itself.
struct PostgresHost: Sendable {
    private(set) var options: [(name: String, value: String)] = []
    /// How long connecting may take, apart from the look-up of the host's name, in which libpq waits for the system.
    private(set) var limit = Duration.seconds(3)

    /// The longest time for one host, whatever the address says. No request waits longer for its answer either.
    private static let longestLimit = Int64(10)
}

extension PostgresSettings {
    /// The hosts in an order of this server's own, so that servers spread over them; in that of the address if it says so.
    ///
    /// - Throws: `PostgresFailure.settings`.
    func hosts(using random: inout some RandomNumberGenerator) throws(PostgresFailure) -> [PostgresHost] {
        let hosts = try hosts()
        return keepsHostOrder ? hosts : hosts.shuffled(using: &random)
    }

    /// The hosts in the order of the address. One without parameters if there is only one, or if only libpq knows them.
    func hosts() throws(PostgresFailure) -> [PostgresHost] {
        let (given, environment) = (try PostgresConnection.parameters(of: address), PostgresConnection.defaults)
        func list(_ name: String) -> [String] {
            guard let text = given[name] ?? environment[name], !text.isEmpty else { return [] }
            return text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let seconds = (given["connect_timeout"] ?? environment["connect_timeout"]).flatMap { Int64($0) }
        let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"))
        let count = max(names.count, addresses.count)
        let isListed =
            given["service"] == nil && environment["service"] == nil && !names.contains("") && !addresses.contains("")
            && [0, count].contains(names.count) && [0, count].contains(addresses.count)
            && [0, 1, count].contains(ports.count)
        guard count > 1, isListed else { return [PostgresHost([], seconds)] }
        return (0..<count).map { place in
            let port = ports.count > 1 ? ports[place] : ports.first ?? ""
            var options = [("port", port.isEmpty ? environment["port"] ?? "5432" : port)]
            if !names.isEmpty { options.append(("host", names[place])) }
            if !addresses.isEmpty { options.append(("hostaddr", addresses[place])) }
            return PostgresHost(options, seconds)
        }
    }
}

extension PostgresHost {
    /// - Parameter seconds: What the address says.
    fileprivate init(_ options: [(String, String)], _ seconds: Int64?) {
        self.options = options.map { (name: $0.0, value: $0.1) }
        // libpq waits without an end if it is 0.
        if let seconds { limit = .seconds(seconds > 0 ? min(seconds, Self.longestLimit) : Self.longestLimit) }
    }
}
