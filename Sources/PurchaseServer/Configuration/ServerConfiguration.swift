// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import Logging
public import PurchaseLedger

/// What a server is told: by a file, and by the environment, which holds where both say something.
///
/// `docs/configuration.md` explains every setting.
public struct ServerConfiguration: Sendable {
    /// The address to listen on.
    public var hostname = "127.0.0.1"
    /// The port to listen on; 0 takes any free one.
    public var port = 8080
    /// The port to listen on for questions about health alone, with connections of its own.
    public var healthPort: Int?
    /// The address for ``healthPort``; `nil` for ``hostname``.
    public var healthHostname: String?
    /// What clients may take.
    public var bounds = ServerBounds()
    /// Where the ledger is; without one the server only verifies.
    public var database: LedgerLocation?
    /// What `/verifyReceipt` stands for: production or sandbox.
    public var environment = Environment.production
    /// The environments whose documents are taken in.
    public var environments: Set<Environment> = [.production, .sandbox]
    /// Files with root certificates to trust instead of Apple's.
    public var roots: [String] = []
    /// Whether Apple's roots are trusted besides ``roots``.
    public var alsoAppleRoots = false
    /// A folder with, or a file of, the intermediate certificates that old transaction receipts leave out.
    public var intermediates: String?
    public var revocation = Revocation.off
    public var claimPolicy = ClaimPolicy.accountTokenWins
    /// Whether signed documents stay when a customer is deleted.
    public var keepEvidence = false
    /// After how many days events are erased; `nil` for never.
    public var eventRetentionDays: Int?
    public var logLevel = Logger.Level.info
    public var logFormat = LogFormat.text
    /// Which requests the log has a line for.
    public var requestLog = RequestLogPolicy.all
    public var apps: [AppConfiguration] = []

    /// Whether Apple's responders are asked about certificates.
    public enum Revocation: String, CaseIterable, Sendable {
        /// They are not.
        case off
        /// What was revoked is refused.
        case ask
        /// What nobody knows about is refused too.
        case require
    }

    public init() {}
}

// MARK: - Settings

extension ServerConfiguration {
    /// Something that can be told. The name in the environment is that in the file in capitals: `claimPolicy` is
    /// `QUITTANCE_CLAIM_POLICY`.
    package struct Setting: Sendable {
        package var name: String
        /// What it may be, for people.
        package var expected: String
        /// Takes the value in; false where it is none.
        var read: @Sendable (inout ServerConfiguration, String) -> Bool

        package var variable: String {
            "QUITTANCE_"
                + name.reduce(into: "") { text, letter in
                    text += letter.isUppercase ? "_\(letter)" : letter.uppercased()
                }
        }

        /// Reads a text, a number or a word; `parse` gives `nil` where it is none.
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
        Setting("hostname", \.hostname, "an address") { $0.isEmpty ? nil : $0 },
        Setting("port", \.port, "a number from 0 to 65535") { number($0, in: 0...65535) },
        Setting("healthPort", \.healthPort, "a number from 0 to 65535") {
            number($0, in: 0...65535).map(Optional.some)
        },
        Setting("healthHostname", \.healthHostname, "an address") { $0.isEmpty ? nil : .some($0) },
        Setting("maxConnections", \.bounds.connections, "a number from 1 to 100000") { number($0, in: 1...100_000) },
        Setting("maxConnectionsPerPeer", \.bounds.connectionsPerPeer, "a number from 1 to 100000") {
            number($0, in: 1...100_000)
        },
        Setting("trustedProxies", \.bounds.trustedProxies, "an address, a block such as 10.0.0.0/8, or several") {
            text in
            let networks = list(text).map { IPNetwork($0) }
            return networks.isEmpty || networks.contains(nil) ? nil : networks.compactMap(\.self)
        },
        Setting("bodyBytesInFlight", \.bounds.bodyBytesInFlight, "a number of bytes from 16777216 (16 MiB)") {
            // Less would refuse the longest body of one client, which may have a quarter.
            number($0, in: 16 << 20...1 << 40)
        },
        Setting("idleTimeoutSeconds", \.bounds.idleTimeout, seconds) { duration($0) },
        Setting("bodyTimeoutSeconds", \.bounds.bodyTimeout, seconds) { duration($0) },
        Setting("requestTimeoutSeconds", \.bounds.requestTimeout, seconds) { duration($0) },
        Setting("writeTimeoutSeconds", \.bounds.writeTimeout, seconds) { duration($0) },
        Setting("database", \.database, LedgerLocation.expected) { LedgerLocation($0).map(Optional.some) },
        Setting("environment", \.environment, "production or sandbox: Apple signs for no other") {
            environment($0).flatMap { [.production, .sandbox].contains($0) ? $0 : nil }
        },
        Setting("environments", \.environments, "production, sandbox, xcode or localTesting, or several of them") {
            text in
            let known = list(text).map(environment)
            return known.isEmpty || known.contains(nil) ? nil : Set(known.compactMap(\.self))
        },
        Setting("roots", \.roots, "the name of a file, or several") { list($0).isEmpty ? nil : list($0) },
        Setting("alsoAppleRoots", \.alsoAppleRoots, "true or false", { Bool($0) }),
        Setting("intermediates", \.intermediates, "the name of a folder or a file") { $0.isEmpty ? nil : .some($0) },
        Setting("revocation", \.revocation, words(Revocation.self), { Revocation(rawValue: $0) }),
        Setting("claimPolicy", \.claimPolicy, words(ClaimPolicy.self), { ClaimPolicy(rawValue: $0) }),
        Setting("keepEvidence", \.keepEvidence, "true or false", { Bool($0) }),
        Setting("eventRetentionDays", \.eventRetentionDays, "a number of days from 1 to 3650") {
            number($0, in: 1...3650).map(Optional.some)
        },
        Setting("logLevel", \.logLevel, words(Logger.Level.self), { Logger.Level(rawValue: $0) }),
        Setting("logFormat", \.logFormat, words(LogFormat.self), { LogFormat(rawValue: $0) }),
        Setting("requestLog", \.requestLog, "all, errors, off, or a number from 2 to 1000000 for one in so many") {
            RequestLogPolicy($0)
        },
    ]

    private static let seconds = "a number of seconds from 1 to 3600"

    private static func duration(_ text: String) -> Duration? { number(text, in: 1...3600).map { .seconds($0) } }

    private static func number(_ text: String, in range: ClosedRange<Int>) -> Int? {
        Int(text).flatMap { range.contains($0) ? $0 : nil }
    }

    private static func words<Word: CaseIterable & RawRepresentable<String>>(_ type: Word.Type) -> String {
        type.allCases.map(\.rawValue).joined(separator: ", ")
    }

    private static func list(_ text: String) -> [String] {
        text.split(separator: ",").map { String($0.trimming(while: { $0 == " " })) }
    }

    private static func environment(_ name: String) -> Environment? {
        Environment.allCases.first { $0.rawValue.lowercased() == name.lowercased() }
    }
}

extension Substring {
    fileprivate func trimming(while isOutside: (Character) -> Bool) -> Substring {
        let front = drop(while: isOutside)
        return front.lastIndex { !isOutside($0) }.map { front[...$0] } ?? front[front.endIndex...]
    }
}

// MARK: - Reading

extension ServerConfiguration {
    /// Reads what the file and the environment say.
    ///
    /// - Parameters:
    ///   - file: The text of the file; `nil` where there is none.
    ///   - variables: The environment. What begins with `QUITTANCE_` must be a setting.
    /// - Throws: ``ConfigurationError``, which names what is wrong, and its line where it stands in the file.
    public init(file text: [UInt8]?, variables: [String: String]) throws(ConfigurationError) {
        let known = Set(Self.settings.map(\.variable))
        if let name = variables.keys.sorted().first(where: { $0.hasPrefix("QUITTANCE_") && !known.contains($0) }) {
            throw ConfigurationError(
                "\(name): There is no such setting; known are \(known.sorted().joined(separator: ", ")).")
        }
        var file: ConfigurationFile?
        if let text { file = try ConfigurationFile(parsing: text, settings: Self.settings.map(\.name)) }
        for setting in Self.settings {
            guard let value = variables[setting.variable] ?? file?.settings[setting.name],
                !setting.read(&self, value)
            else { continue }
            let message = "Expected \(setting.expected), found “\(value)”."
            guard variables[setting.variable] == nil, let file else {
                throw ConfigurationError("\(setting.variable): \(message)")
            }
            throw file.error(setting.name, message)
        }
        apps = file?.apps ?? []
    }

    /// - Throws: ``ConfigurationError`` if both listeners have one address. A port of 0 takes any free one.
    package func requireTwoAddresses() throws(ConfigurationError) {
        guard port != 0, port == healthPort, hostname == healthHostname ?? hostname else { return }
        throw ConfigurationError("port and healthPort are both \(port) on \(hostname): choose another healthPort.")
    }
}
