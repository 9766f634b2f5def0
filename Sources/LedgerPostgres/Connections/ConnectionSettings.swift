// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Dispatch

/// The address of a database, and the options of its connections.
public struct PostgresSettings: Sendable {
    /// A connection string of libpq in either form: `postgresql://…`, optionally with several hosts, or `host=…
    /// dbname=…`.
    @Hidden public private(set) var address: String
    /// The maximum number of open connections. They are divided among threads, one for each core. Eight connections
    /// suffice to record a few thousand notifications per second.
    public var connections = 8
    /// Whether statements are prepared. Set to false for poolers without support for prepared statements, such as
    /// PgBouncer before 1.21 or without `max_prepared_statements`.
    public var preparesStatements = true
    /// Whether waiting commits, and waiting loads of records, are sent in batches. The loads of a batch share
    /// statements, and the commits of a batch share a transaction. On Citus there are no batches, whatever the setting.
    public var sharesStatements = true
    /// The schema of the ledger's tables: lower-case letters, digits and underscores. `nil` means `quittance`.
    public var schema: String?
    /// The timeout of a request to the database. The default is longer than a request normally takes, and shorter than
    /// the time for which a client of the server waits. By default, the statements and lock waits of a batch have much
    /// shorter timeouts of their own. Setting this property raises them all to nine tenths of the new timeout, so a
    /// single slow statement can delay all other requests. Therefore only a program that has the database to itself,
    /// such as the command that copies a ledger, should set the property.
    public var requestLimit: Duration {
        get { limits.request }
        set { limits = PostgresLimits(request: newValue) }
    }

    /// The timeouts of requests.
    var limits = PostgresLimits()

    /// Whether to try the hosts in the order of the address. If false, each server shuffles the hosts.
    public var keepsHostOrder = false
    /// Whether reading events, and the last numbers, first gives numbers to events that wait for them, and waits for
    /// the standbys to have the events. If false, the storage writes nothing that nobody asked for.
    public var numbersEvents = true
    /// An error message if a parameter of this library has an invalid value.
    private var misunderstood: String?

    /// - Parameter address: A connection string of libpq. A URI may also have three parameters that this library
    ///   handles itself. `prepared_statements` is `true` or `false`. `load_balance_hosts` is `random` (the default) or
    ///   `disable`; libpq knows it only from version 16 on. `schema` is the name of a schema.
    public init(_ address: String) {
        self.address = address
        preparesStatements = take("prepared_statements", ["true": true, "false": false]) ?? true
        keepsHostOrder = take("load_balance_hosts", ["disable": true, "random": false]) ?? false
        schema = take("schema")
    }

    /// Removes a parameter of this library from the URI, and returns the parameter's value. libpq knows some of these
    /// parameters only in newer versions, or not at all, and would refuse the URI.
    private mutating func take(_ name: String, _ values: [String: Bool]) -> Bool? {
        guard let text = take(name) else { return nil }
        if values[text] == nil { misunderstood = "\(name) takes \(values.keys.sorted().joined(separator: " or "))" }
        return values[text]
    }

    private mutating func take(_ name: String) -> String? {
        guard address.hasPrefix("postgres"), let start = address.firstIndex(of: "?") else { return nil }
        let all = address[start...].dropFirst().split(separator: "&", omittingEmptySubsequences: false)
        let left = all.filter { !$0.hasPrefix("\(name)=") }
        guard left.count < all.count, let text = all.last(where: { $0.hasPrefix("\(name)=") }) else { return nil }
        address = address[..<start] + (left.isEmpty ? "" : "?" + left.joined(separator: "&"))
        return String(text.dropFirst(name.count + 1))
    }
}

extension PostgresSettings {
    /// The name and the hosts of the database, for messages. Contains neither the user nor a secret.
    public var displayName: String {
        // The text only completes messages about other errors, so an unparseable address is no error here.
        guard let given = try? PostgresConnection.parameters(of: address) else { return "a PostgreSQL database" }
        let environment = PostgresConnection.defaults
        let name = given["dbname"] ?? environment["dbname"]
        let host = given["host"] ?? given["hostaddr"] ?? environment["host"] ?? environment["hostaddr"]
        return "the PostgreSQL database" + (name.map { " \($0)" } ?? "") + (host.map { " at \($0)" } ?? "")
    }
}

extension PostgresSettings {
    /// Defaults, which the connection string may override. With the system's timeouts, a vanished host would be noticed
    /// only after hours.
    private static let defaults = [
        ("connect_timeout", "3"), ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("keepalives_count", "3"),
        ("tcp_user_timeout", "10000"), ("fallback_application_name", "quittance"),
    ]

    /// The parameters to pass to libpq.
    ///
    /// - Throws: `PostgresFailure.settings` if the string is invalid, or if it permits an unverified connection to a
    ///   remote host.
    func options() throws(PostgresFailure) -> [(name: String, value: String)] {
        if let fault = AddressSecrets.fault(in: address) { throw .settings(fault) }
        if let misunderstood { throw .settings(misunderstood) }
        guard schema.map(LedgerSchema.isName) ?? true else {
            throw .settings("schema takes a name of lower-case letters, digits and underscores")
        }
        let given = try PostgresConnection.parameters(of: address)
        let environment = PostgresConnection.defaults
        var options = Self.defaults + [("dbname", address), ("client_encoding", "UTF8")]
        guard !Self.isLocal(given, environment) else { return options }
        guard ["verify-full", nil].contains(given["sslmode"]) else {
            throw .settings("sslmode must be verify-full, since the database is not on this machine")
        }
        options.append(("sslmode", "verify-full"))
        return options
    }

    /// Whether all hosts are on this machine: its sockets, or its loopback addresses.
    private static func isLocal(_ given: [String: String], _ environment: [String: String]) -> Bool {
        // A service names a set of parameters in a file that only libpq reads, perhaps with a remote host.
        guard given["service"] == nil, environment["service"] == nil else { return false }
        let hosts = ["hostaddr", "host"].compactMap { given[$0] ?? environment[$0] }
        return hosts.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }.allSatisfy { host in
            host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") || host == "localhost" || host == "::1"
                || host.hasPrefix("127.") && host.allSatisfy { $0.isNumber || $0 == "." }
        }
    }
}

// MARK: - A database that is away

extension PostgresSettings {
    /// Whether at least one host of the address does not answer, or does not accept connections yet because it is
    /// starting. False if every host answers, even with a refusal, and also if the settings are invalid or unsafe.
    public func isAway(clock: ContinuousClock) async -> Bool {
        // Connecting blocks, for example while the system looks up a name, and so needs its own thread.
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "LedgerPostgres.question").async {
                // Only invalid or unsafe settings throw an error here, and the next connection reports them.
                continuation.resume(returning: (try? isAwayNow(clock)) ?? false)
            }
        }
    }

    private func isAwayNow(_ clock: ContinuousClock) throws -> Bool {
        let options = try options()
        return try hosts().contains { host in
            do throws(PostgresFailure) {
                _ = try PostgresConnection(options, to: host, usesNames: false, clock: clock)
                return false
            } catch {
                if case .untrusted = error { return false }
                return PostgresConnection.isAway(options, host)
            }
        }
    }
}

// MARK: - Messages

extension PostgresSettings {
    /// The passwords and other secrets to remove from messages.
    ///
    /// - Throws: `PostgresFailure.settings`.
    func secrets() throws(PostgresFailure) -> AddressSecrets {
        AddressSecrets(try PostgresConnection.parameters(of: address), PostgresConnection.defaults)
    }

    /// The advice for an operator whose database could not prove its identity: a sentence about the certificates that
    /// the proof needs.
    ///
    /// - Throws: `PostgresFailure.settings`.
    func neededProof() throws(PostgresFailure) -> String {
        let given = try PostgresConnection.parameters(of: address)
        let environment = PostgresConnection.defaults
        let names = given["host"] ?? environment["host"] ?? given["hostaddr"] ?? environment["hostaddr"] ?? ""
        let file = given["sslrootcert"] ?? environment["sslrootcert"] ?? "~/.postgresql/root.crt"
        return """
            The database must have a certificate for the name \(names.replacing(",", with: " or ")), as its \
            subjectAltName, and the certificate of the authority that signed it must be in \(file) (sslrootcert=FILE \
            names a different file)
            """
    }
}

// MARK: - Hosts

extension PostgresSettings {
    /// The hosts in random order, so that servers spread over them; in the order of the address if ``keepsHostOrder``
    /// is set.
    ///
    /// - Throws: `PostgresFailure.settings`.
    func hosts(using random: inout some RandomNumberGenerator) throws(PostgresFailure) -> [PostgresHost] {
        let hosts = try hosts()
        return keepsHostOrder ? hosts : hosts.shuffled(using: &random)
    }

    /// The hosts in the order of the address. If there is a single host, or if only libpq can interpret the list, the
    /// result is a single entry without parameters, which leaves the choice to libpq.
    func hosts() throws(PostgresFailure) -> [PostgresHost] {
        let given = try PostgresConnection.parameters(of: address)
        let environment = PostgresConnection.defaults
        func list(_ name: String) -> [String] {
            guard let text = given[name] ?? environment[name], !text.isEmpty else { return [] }
            return text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let seconds = (given["connect_timeout"] ?? environment["connect_timeout"]).flatMap { Int64($0) }
        let names = list("host")
        let addresses = list("hostaddr")
        let ports = list("port")
        let count = max(names.count, addresses.count)
        let isListed =
            given["service"] == nil && environment["service"] == nil && !names.contains("") && !addresses.contains("")
            && [0, count].contains(names.count) && [0, count].contains(addresses.count)
            && [0, 1, count].contains(ports.count)
        guard count > 1, isListed else { return [PostgresHost([], seconds)] }
        return (0..<count).map { index in
            let port = ports.count > 1 ? ports[index] : ports.first ?? ""
            var options = [("port", port.isEmpty ? environment["port"] ?? "5432" : port)]
            if !names.isEmpty { options.append(("host", names[index])) }
            if !addresses.isEmpty { options.append(("hostaddr", addresses[index])) }
            return PostgresHost(options, seconds)
        }
    }
}
