// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
package import AppStoreTrust
import Crypto
import Listening
public import Logging
public import PurchaseLedger

/// The configuration of a server, from a file and from environment variables. A variable overrides the same setting in
/// the file.
///
/// `docs/configuration.md` explains every setting.
public struct ServerConfiguration: Sendable {
    /// The address to listen on.
    public var hostname = "127.0.0.1"
    /// The port to listen on; 0 takes any free port.
    public var port = 8080
    /// A second port for health checks only, with a separate limit on connections; `nil` for none.
    public var healthPort: Int?
    /// The address for ``healthPort``; ``hostname`` if `nil`.
    public var healthHostname: String?
    /// A port for the console, on ``hostname``; `nil` for none.
    public var consolePort: Int?
    /// The bounds on the connections, the memory and the time that clients may use.
    public var bounds = ServerBounds()
    /// The location of the ledger. Without a ledger, the server only verifies receipts.
    public var database: LedgerLocation?
    /// The environment of `/verifyReceipt`: production or sandbox.
    public var environment = Environment.production
    /// The environments whose documents the ledger records.
    public var environments: Set<Environment> = [.production, .sandbox]
    /// Paths of files with root certificates to trust instead of Apple's.
    public var roots: [String] = []
    /// Whether to trust Apple's roots as well as ``roots``.
    public var alsoAppleRoots = false
    /// The address of an App Store simulator's control port, such as `http://127.0.0.1:9000`. The server uses the
    /// simulator's time. Only a server that trusts the simulator's roots and no others may use this setting.
    public var simulatorClock: String?
    /// The address of the App Store Server API for production instead of Apple's, such as a simulator's
    /// `http://127.0.0.1:9001`.
    public var appStoreServer: String?
    /// The address of the App Store Server API for the sandbox instead of Apple's.
    public var sandboxAppStoreServer: String?
    /// The number of servers that ask the App Store about the same apps, for example on one database, 1 to 100. Apple's
    /// rate limits are divided equally among them.
    public var servers = 1
    /// The path of a folder or a file with intermediate certificates. Old transaction receipts omit these certificates.
    public var intermediates: String?
    /// Whether to check signers' certificates for revocation.
    public var revocation = Revocation.off
    /// The rule for claims to purchases of other customers.
    public var claimPolicy = ClaimPolicy.accountTokenWins
    /// Whether the ledger keeps the signed documents of deleted customers.
    public var keepEvidence = false
    /// The path of the journal of erasures. If `nil`, the journal of a ledger in a file is beside it, at the file's
    /// path followed by `-erasures`, and a ledger in a database has no journal.
    public var erasureJournal: String?
    /// The age in days at which events are erased, 1 to 3650; `nil` keeps all events.
    public var eventRetentionDays: Int?
    /// The age in days at which entries of the audit list are erased, 1 to 3650.
    public var auditRetentionDays = 730
    /// The path of the file from which the secrets of all webhooks are derived; `nil` delivers no webhooks.
    public var webhookSecretFile: String?
    /// The networks in which webhooks may reach addresses that are otherwise forbidden, also without TLS.
    public var webhookNetworks: [IPNetwork] = []
    /// The lowest level that the log includes.
    public var logLevel = Logger.Level.info
    /// The format of log lines.
    public var logFormat = LogFormat.text
    /// The requests that the log includes.
    public var requestLog = RequestLogPolicy.all
    /// The apps whose documents the ledger records.
    public var apps: [AppConfiguration] = []
    /// The names by which the operator gave settings: in the file, as a variable or as an option. Settings that were
    /// not given are missing.
    private var givenNames: [String: String] = [:]
    /// The lines of the settings that the file gave.
    private var givenLines: [String: Int] = [:]
    /// The texts of the given settings and of the apps, as given, which may have secrets.
    @Hidden private var givenTexts: [String: String] = [:]
    /// The path of the file, for errors; `nil` if there is no file.
    package var file: String?
    /// The variables that Kubernetes made for services, in order. The server does not treat these variables as
    /// settings.
    public private(set) var passedOver: [String] = []

    /// Whether to ask Apple's OCSP responders for the status of certificates.
    public enum Revocation: String, CaseIterable, Sendable {
        /// The server does not ask.
        case off
        /// The server refuses revoked certificates.
        case ask
        /// The server also refuses certificates whose status is unknown.
        case require
    }

    /// Creates a configuration with the default of each setting.
    public init() {}
}

// MARK: - Settings

extension ServerConfiguration {
    /// A setting of the file or the environment. The variable for `claimPolicy` is `QUITTANCE_CLAIM_POLICY`.
    package struct Setting: Sendable {
        package var name: String
        /// The allowed values, for error texts.
        package var expected: String
        /// Sets the value. Returns false if the text is not allowed.
        var read: @Sendable (inout ServerConfiguration, String) -> Bool

        /// The reason why a text is not allowed: a sentence. The sentence omits a text that may contain a password.
        func fault(_ text: String) -> String {
            do throws(LedgerLocation.Fault) {
                if name == "database" { _ = try LedgerLocation.parse(text) }
            } catch {
                return error.description
            }
            return "Expected \(expected)" + (text.mayHavePassword ? "." : ", found “\(text)”.")
        }

        package var variable: String { "QUITTANCE_\(name.asVariable)" }

        /// - Parameter parse: Returns `nil` if the text is not allowed.
        init<Value>(
            _ name: String, _ path: any WritableKeyPath<ServerConfiguration, Value> & Sendable, _ expected: String,
            _ parse: @escaping @Sendable (String) -> Value?
        ) {
            self.name = name
            self.expected = expected
            read = { configuration, text in
                guard let value = parse(text) else { return false }
                configuration[keyPath: path] = value
                return true
            }
        }
    }

    package static let settings = [
        Setting("hostname", \.hostname, expectedHostname) { isHostname($0) ? $0 : nil },
        Setting("port", \.port, "a number from 0 to 65535") { number($0, in: 0...65535) },
        Setting("healthPort", \.healthPort, "a number from 0 to 65535") {
            number($0, in: 0...65535).map(Optional.some)
        },
        Setting("healthHostname", \.healthHostname, expectedHostname) { isHostname($0) ? .some($0) : nil },
        Setting("consolePort", \.consolePort, "a number from 0 to 65535") {
            number($0, in: 0...65535).map(Optional.some)
        },
        Setting("maxConnections", \.bounds.connections, "a number from 1 to 100000") { number($0, in: 1...100_000) },
        Setting("maxConnectionsPerPeer", \.bounds.connectionsPerPeer, "a number from 1 to 100000") {
            number($0, in: 1...100_000)
        },
        Setting("maxFollowers", \.bounds.followers, "a number from 0 to 100000") { number($0, in: 0...100_000) },
        Setting("trustedProxies", \.bounds.trustedProxies, expectedNetworks) { networks($0) },
        Setting("bodyBytesInFlight", \.bounds.bodyBytesInFlight, "a number of bytes of at least 16777216 (16 MiB)") {
            // A client may use a quarter of the bytes: with fewer bytes, the longest body would always be refused.
            number($0, in: 16 << 20...1 << 40)
        },
        Setting("idleTimeoutSeconds", \.bounds.idleTimeout, seconds) { duration($0) },
        Setting("bodyTimeoutSeconds", \.bounds.bodyTimeout, seconds) { duration($0) },
        Setting("requestTimeoutSeconds", \.bounds.requestTimeout, seconds) { duration($0) },
        Setting("writeTimeoutSeconds", \.bounds.writeTimeout, seconds) { duration($0) },
        Setting("database", \.database, LedgerLocation.expected) { LedgerLocation($0).map(Optional.some) },
        Setting("environment", \.environment, "production or sandbox: Apple signs for no other") {
            Environment(named: $0).flatMap { [.production, .sandbox].contains($0) ? $0 : nil }
        },
        Setting("environments", \.environments, "one or more of production, sandbox, xcode and localTesting") {
            text in
            let known = list(text).map(Environment.init(named:))
            return known.isEmpty || known.contains(nil) ? nil : Set(known.compactMap(\.self))
        },
        Setting("roots", \.roots, "one or more paths of files") { list($0).isEmpty ? nil : list($0) },
        Setting("alsoAppleRoots", \.alsoAppleRoots, "true or false", { Bool($0) }),
        Setting("simulatorClock", \.simulatorClock, simulatorAddress) { text in
            isSimulatorAddress(text) ? .some(text) : nil
        },
        Setting("appStoreServer", \.appStoreServer, serverAddress) { isServerAddress($0) ? .some($0) : nil },
        Setting("sandboxAppStoreServer", \.sandboxAppStoreServer, serverAddress) {
            isServerAddress($0) ? .some($0) : nil
        },
        Setting("servers", \.servers, "a number from 1 to 100") { number($0, in: 1...100) },
        Setting("intermediates", \.intermediates, "the path of a folder or a file") { $0.isEmpty ? nil : .some($0) },
        Setting("revocation", \.revocation, Revocation.list, { Revocation(rawValue: $0) }),
        Setting("claimPolicy", \.claimPolicy, ClaimPolicy.list, { ClaimPolicy(rawValue: $0) }),
        Setting("keepEvidence", \.keepEvidence, "true or false", { Bool($0) }),
        Setting("erasureJournal", \.erasureJournal, "the path of a file") { $0.isEmpty ? nil : .some($0) },
        Setting("eventRetentionDays", \.eventRetentionDays, "a number of days from 1 to 3650") {
            number($0, in: 1...3650).map(Optional.some)
        },
        Setting("auditRetentionDays", \.auditRetentionDays, "a number of days from 1 to 3650") {
            number($0, in: 1...3650)
        },
        Setting("webhookSecretFile", \.webhookSecretFile, "the path of a file") { $0.isEmpty ? nil : .some($0) },
        Setting("webhookNetworks", \.webhookNetworks, expectedNetworks) { networks($0) },
        Setting("logLevel", \.logLevel, Logger.Level.list, { Logger.Level(rawValue: $0) }),
        Setting("logFormat", \.logFormat, LogFormat.list, { LogFormat(rawValue: $0) }),
        Setting("requestLog", \.requestLog, "all, errors, off, or a number n from 2 to 1000000 for one request in n") {
            RequestLogPolicy($0)
        },
    ]

    /// The allowed forms of an address to listen on.
    package static let expectedHostname = "an address or a name, an IPv6 address without brackets, such as ::1"

    package static func isHostname(_ text: String) -> Bool { !text.isEmpty && !text.contains { "[]".contains($0) } }

    private static let seconds = "a number of seconds from 1 to 3600"

    private static func duration(_ text: String) -> Duration? { number(text, in: 1...3600).map { .seconds($0) } }

    private static let expectedNetworks = "one or more addresses, or blocks such as 10.0.0.0/8"

    private static func networks(_ text: String) -> [IPNetwork]? {
        let networks = list(text).map { IPNetwork($0) }
        return networks.isEmpty || networks.contains(nil) ? nil : networks.compactMap(\.self)
    }

    private static func number(_ text: String, in range: ClosedRange<Int>) -> Int? {
        Int(text).flatMap { range.contains($0) ? $0 : nil }
    }

    /// The values between commas. A comma or backslash after a backslash belongs to a value, such as a file's name.
    private static func list(_ text: String) -> [String] {
        var values: [String] = []
        var value = ""
        var rest = text[...]
        while let character = rest.popFirst() {
            if character == "\\", let next = rest.first, next == "," || next == "\\" {
                value.append(rest.removeFirst())
            } else if character == "," {
                values.append(value)
                value = ""
            } else {
                value.append(character)
            }
        }
        return (values + [value]).map { String($0.trimming(while: { $0 == " " })) }.filter { !$0.isEmpty }
    }

    /// The allowed forms of the address of an App Store Server API.
    private static let serverAddress = "https:// or http:// with a host, such as http://127.0.0.1:9001, and no path"

    private static func isServerAddress(_ text: String) -> Bool {
        let match = text.wholeMatch(of: /https?:\/\/([A-Za-z0-9.\-]+|\[[0-9A-Fa-f:]+\])(:([0-9]{1,5}))?/)
        return match.map { (1...65_535).contains($0.3.flatMap { Int($0) } ?? 443) } ?? false
    }

    /// The allowed form of a simulator's address.
    package static let simulatorAddress = "http://, a host and a port, such as http://127.0.0.1:9000"

    package static func isSimulatorAddress(_ text: String) -> Bool {
        guard let match = text.wholeMatch(of: /http:\/\/([A-Za-z0-9.\-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})/) else {
            return false
        }
        return (1...65_535).contains(Int(match.2) ?? 0)
    }
}

extension Environment {
    /// The environment with Apple's name, case-insensitive; `nil` if no environment has this name.
    package init?(named name: String) {
        let match = Self.allCases.first { $0.rawValue.lowercased() == name.lowercased() }
        guard let match else { return nil }
        self = match
    }
}

extension CaseIterable where Self: RawRepresentable<String> {
    /// All words, for error texts.
    package static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}

extension String {
    /// A name of a setting, such as `claimPolicy`, as a part of a variable's name: `CLAIM_POLICY`.
    package var asVariable: String {
        reduce(into: "") { text, letter in text += letter.isUppercase ? "_\(letter)" : letter.uppercased() }
    }
}

extension StringProtocol where SubSequence == Substring {
    /// The text without the leading and trailing characters that meet a condition.
    func trimming(while isOutside: (Character) -> Bool) -> Substring {
        let front = drop(while: isOutside)
        return front.lastIndex { !isOutside($0) }.map { front[...$0] } ?? front[front.endIndex...]
    }
}

// MARK: - Reading

extension ServerConfiguration {
    /// The variable of commands such as `quittance watch`. No setting has this name.
    package static let keyVariable = "QUITTANCE_KEY"

    /// Reads a file and the environment.
    ///
    /// - Parameters:
    ///   - text: The text of the file; `nil` if there is no file.
    ///   - variables: The environment variables. Each variable whose name begins with `QUITTANCE_` must be a setting,
    ///     unless Kubernetes made the variable for a service.
    /// - Throws: ``ConfigurationError``, which names the invalid setting, and its line if the setting is in the file.
    public init(file text: [UInt8]?, variables: [String: String]) throws(ConfigurationError) {
        let known = Set(Self.settings.map(\.variable))
        let variables = passingOver(variables)
        if let name = variables.keys.sorted().first(where: {
            $0.hasPrefix("QUITTANCE_") && !known.contains($0) && $0 != Self.keyVariable
        }) {
            throw ConfigurationError(
                "\(name): Unknown setting. The known settings are \(known.sorted().joined(separator: ", ")).")
        }
        var file: ConfigurationFile?
        if let text { file = try ConfigurationFile(parsing: text, settings: Self.settings.map(\.name)) }
        for setting in Self.settings {
            guard let value = variables[setting.variable] ?? file?.settings[setting.name] else { continue }
            givenNames[setting.name] = variables[setting.variable] == nil ? setting.name : setting.variable
            givenLines[setting.name] = variables[setting.variable] == nil ? file?.line(of: setting.name) : nil
            givenTexts[setting.name] = value
            guard !setting.read(&self, value) else { continue }
            let message = setting.fault(value)
            guard variables[setting.variable] == nil, let file else {
                throw ConfigurationError("\(setting.variable): \(message)")
            }
            throw file.error(setting.name, message)
        }
        apps = file?.apps ?? []
        givenTexts["apps"] = file?.appsText
    }

    /// Checks that requests to the App Store use TLS, or stay on this machine. An attacker who reads a bearer token on
    /// the network can ask the App Store about all customers. An attacker who changes an answer can withhold its
    /// content.
    ///
    /// - Throws: ``ConfigurationError``, which names the setting.
    package func requireSecureAppStoreServers() throws(ConfigurationError) {
        for (name, address) in [
            ("appStoreServer", appStoreServer), ("sandboxAppStoreServer", sandboxAppStoreServer),
        ] {
            guard let address, !Self.isSecure(address) else { continue }
            throw ConfigurationError(
                """
                \(reference(to: name)): \(address) is neither https nor this machine: other machines on the way read \
                the bearer tokens. Use https://, or pass --insecure in a network of your own.
                """)
        }
    }

    /// This server's share of Apple's rate limits, in percent.
    package var shareOfServer: Int { 100 / max(1, servers) }

    /// Whether an address has TLS, or leads to this machine.
    private static func isSecure(_ address: String) -> Bool {
        guard let match = address.wholeMatch(of: /http:\/\/(.+?)(:[0-9]+)?/) else { return true }
        let host = match.1.drop { $0 == "[" }.prefix { $0 != "]" }.lowercased()
        guard let ip = IPAddress(host) else { return host == "localhost" }
        return IPNetwork.loopback.contains { $0.contains(ip) }
    }

    /// Warnings about key files whose names contain a different key id than the configured one.
    package var keyWarnings: [String] { apps.compactMap { $0.inAppPurchaseKey?.nameWarning } }

    /// Checks that a server with a simulator's roots trusts no other roots. Documents of a simulator must not count
    /// beside Apple's. Only such a server may take the simulator's time, because a wrong time could make expired
    /// certificates and subscriptions valid.
    ///
    /// - Parameter trusted: The roots from ``roots``, with Apple's roots if the server also trusts them.
    /// - Throws: ``ConfigurationError`` if the server trusts a simulator's root beside other roots, or if
    ///   ``simulatorClock`` is set for a server without a simulator's roots.
    package func requireSimulatorAlone(_ trusted: TrustRoots) throws(ConfigurationError) {
        let (some, all) = trusted.simulated
        guard some == all else {
            throw ConfigurationError(
                """
                \(reference(to: "roots")): The roots of an App Store simulator stand alone. Leave out Apple's \
                (alsoAppleRoots) and others.
                """)
        }
        guard simulatorClock != nil, !all else { return }
        throw ConfigurationError(
            """
            \(reference(to: "simulatorClock")): Only a server that trusts a simulator's roots takes its time. Set \
            roots to GET /roots.pem of the simulator's control port.
            """)
    }

    /// The environment variables without those that Kubernetes made for services. The names of the removed variables
    /// are stored in ``passedOver``.
    private mutating func passingOver(_ variables: [String: String]) -> [String: String] {
        let settings = variables.filter { !KubernetesVariable.matches($0.key, $0.value) }
        passedOver = variables.keys.filter { settings[$0] == nil }.sorted()
        return settings
    }

    /// The name by which the operator gave a setting; the name in the file if the setting was not given.
    package func givenName(_ setting: String) -> String { givenNames[setting] ?? setting }

    /// The name from ``givenName(_:)``, after the file and the line if the setting is in the file.
    package func reference(to setting: String) -> String {
        let name = givenName(setting)
        return givenLines[setting].map { "\(file ?? "") line \($0): \(name)" } ?? name
    }

    /// Sets the value of a command's option. An option overrides the file and the environment.
    ///
    /// - Parameter text: The value as the file has it; `nil` for the description of `value`.
    package mutating func set<Value>(
        _ path: WritableKeyPath<ServerConfiguration, Value>, to value: Value, _ setting: String, by option: String,
        text: String? = nil
    ) {
        self[keyPath: path] = value
        givenTexts[setting] = text ?? "\(value)"
        givenNames[setting] = option
        givenLines[setting] = nil
    }

    /// The settings of addresses, which an answer proves, and of the log, which decides no answer.
    private static let undigested: Set = [
        "hostname", "port", "healthHostname", "healthPort", "consolePort", "logLevel", "logFormat", "requestLog",
    ]

    /// A text for each given setting that differs for different values. Without the key, nobody can guess a value by
    /// it, or see that two settings have the same.
    package func digests(key: [UInt8]) -> [String: String] {
        var texts = givenTexts.filter { !Self.undigested.contains($0.key) }
        texts["apps"] = ([texts["apps"] ?? ""] + apps.map(\.identity.bundleId)).joined(separator: "\n")
        return Dictionary(
            uniqueKeysWithValues: texts.map { name, text in
                let text = Array("quittance configuration\n\(name)=\(text)".utf8)
                let code = HMAC<SHA256>.authenticationCode(for: text, using: SymmetricKey(data: key))
                return (name, code.prefix(16).hexadecimal)
            })
    }

    /// - Throws: ``ConfigurationError`` if two listeners have the same address. Two ports 0 are no conflict, because
    ///   each stands for any free port.
    package func requireDifferentAddresses() throws(ConfigurationError) {
        let listeners = [
            ("port", hostname, port), ("healthPort", healthHostname ?? hostname, healthPort),
            ("consolePort", hostname, consolePort),
        ].compactMap { name, hostname, port in
            port.map { (name: name, address: ListeningAddress(hostname: hostname, port: $0)) }
        }
        for (index, later) in listeners.enumerated() where later.address.port != 0 {
            let same = listeners[..<index].first { "\($0.address)" == "\(later.address)" }
            guard let name = same.map({ givenName($0.name) }) else { continue }
            let other = givenName(later.name)
            throw ConfigurationError("\(name) and \(other) are both \(later.address): choose a different \(other).")
        }
    }
}
