// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
#if PostgreSQL
import LedgerPostgres
#endif
import LedgerSQLite
import Logging
import PurchaseLedger
import PurchaseServer

/// Builds the ledger, the verifier and the server that a configuration describes. It passes them the machine's clocks,
/// randomness and network, which no other code accesses directly.
struct Composition {
    let configuration: ServerConfiguration
    /// The simulator whose time the server takes; `nil` for the machine's.
    var simulatorClock: SimulatorClock?
    var now: @Sendable () -> Timestamp { simulatorClock?.now ?? SystemClock.now }
    let clock = ContinuousClock()
    var random = SystemRandomNumberGenerator()

    init(_ configuration: ServerConfiguration) {
        self.configuration = configuration
    }
}

// MARK: - The ledger

extension Composition {
    /// Opens the ledger of a server: creates it if it does not exist, and brings an older one up to date.
    ///
    /// - Parameter logger: Logs that the server waits for a database that is away; `nil` to fail instead.
    /// - Throws: Exit status 1 if the ledger cannot be opened.
    func storageForServing(waiting logger: Logger? = nil) async throws -> any LedgerStorage {
        if case .postgresql(let uri) = configuration.database { return try await database(uri, waiting: logger) }
        let path = try ledgerFile()
        return try opening(path) { try SQLiteLedgerStorage(path: path, isServed: true) }
    }

    /// Opens an existing ledger. Warns if other users of the machine may read its file.
    ///
    /// - Parameters:
    ///   - isReadOnly: Whether nothing will be written.
    ///   - warns: False if the ledger is opened once more later.
    func openStorage(isReadOnly: Bool = false, warns: Bool = true) async throws -> any LedgerStorage {
        if case .postgresql(let uri) = configuration.database { return try await database(uri, upgrades: false) }
        let storage = try isReadOnly ? storageForReading() : storage()
        if warns { try warnOfExposure() }
        return storage
    }

    /// Warns if other users of the machine may read the ledger's file. Call it once that is known to be a ledger.
    func warnOfExposure() throws {
        guard let warning = SQLiteLedgerStorage.exposure(of: try ledgerFile()) else { return }
        Terminal.printError("quittance: \(warning)")
    }

    /// Opens the ledger to copy it, so that no server uses its file meanwhile.
    func storageToCopyFrom() async throws -> any LedgerStorage {
        if case .postgresql(let uri) = configuration.database {
            return try await database(uri, upgrades: false, copies: true)
        }
        let path = try existingLedger()
        let storage = try opening(path) {
            try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false, isServed: true)
        }
        try warnOfExposure()
        return storage
    }

    /// Opens the ledger into which another one is copied: the only way to open half a copy.
    func storageToCopyInto() async throws -> any LedgerStorage {
        if case .postgresql(let uri) = configuration.database {
            return try await database(uri, copies: true, continuesCopy: true)
        }
        let path = try ledgerFile()
        return try opening(path) { try SQLiteLedgerStorage(path: path, isServed: true, continuesCopy: true) }
    }

    /// Where the ledger is, for people: without the user and the password of an address.
    var place: String {
        get throws {
            #if PostgreSQL
            if case .postgresql(let uri) = configuration.database { return PostgresSettings(uri).place }
            #endif
            return "sqlite:" + URL(fileURLWithPath: try ledgerFile()).standardizedFileURL.path
        }
    }

    /// The same for the ledger in another place.
    func with(_ database: LedgerLocation) -> Composition {
        var configuration = configuration
        configuration.database = database
        return Composition(configuration)
    }

    /// Opens an existing ledger of this version, in a file.
    private func storage() throws -> SQLiteLedgerStorage {
        let path = try existingLedger()
        return try opening(path) { try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false) }
    }

    /// Opens the ledger for reading, without any change to its file.
    ///
    /// - Throws: Exit status 1 if the ledger cannot be opened.
    private func storageForReading() throws -> SQLiteLedgerStorage {
        let path = try existingLedger()
        return try opening(path) { try SQLiteLedgerStorage(reading: path) }
    }

    /// Throws if the ledger is in a file that does not exist.
    func requireLedger() throws {
        if case .postgresql = configuration.database { return }
        _ = try existingLedger()
    }

    /// The path of the ledger, whose file must exist.
    func existingLedger() throws -> String {
        let path = try ledgerFile()
        guard FileManager.default.fileExists(atPath: path) else {
            throw ValidationError("There is no ledger at \(path). quittance serve creates one.")
        }
        return path
    }

    /// The path of the ledger, whose file may be missing.
    ///
    /// - Throws: Wrong usage if the ledger is in a database, or nowhere.
    func ledgerFile() throws -> String {
        switch configuration.database {
        case .sqlite(let path): return path
        case .postgresql:
            throw ValidationError(
                """
                A database is backed up with PostgreSQL's own pg_dump or pg_basebackup, and restored with its own \
                tools, see docs/postgresql-operations.md. After a restore run quittance restore --new-epoch. \
                quittance copy --to sqlite:PATH makes a file of it.
                """)
        case nil:
            throw ValidationError(
                "Which ledger? Pass --config FILE of a configuration with database, or --database sqlite:PATH.")
        }
    }

    /// What the name of a ledger's file is followed by in that of its journal of erasures.
    static let erasuresEnding = "-erasures"

    /// Where erasures are written down too; `nil` for a database without the setting `erasureJournal`.
    var erasureJournalPath: String? {
        if let path = configuration.erasureJournal { return URL(fileURLWithPath: path).resolvingSymlinksInPath().path }
        guard case .sqlite(let path) = configuration.database else { return nil }
        return URL(fileURLWithPath: path).resolvingSymlinksInPath().path + Self.erasuresEnding
    }

    /// The journal of erasures, which is made if it does not exist.
    ///
    /// - Throws: Exit status 1 if it cannot be opened.
    func erasureJournal() throws -> ErasureJournalFile? {
        var random = random
        do {
            return try erasureJournalPath.map { try ErasureJournalFile($0, random: &random) }
        } catch let error as LedgerStorageError {
            Terminal.printError("quittance: \(error)")
            throw ExitCode(1)
        }
    }

    private func opening(_ path: String, _ body: () throws -> SQLiteLedgerStorage) throws -> SQLiteLedgerStorage {
        do {
            return try body()
        } catch {
            Terminal.printError("quittance: Cannot open the ledger at \(path): \(error)")
            throw ExitCode(1)
        }
    }

    /// What to do if this machine's clock and that of the database differ; `nil` if they agree, or cannot be compared.
    private func clockWarning(_ storage: any LedgerStorage) async -> String? {
        // If the database is away, the next request says so.
        guard let difference = try? await storage.clockDifference(now: SystemClock.now),
            max(difference, .zero - difference) > Self.clockTolerance
        else { return nil }
        let (distance, side) = difference > .zero ? (difference, "ahead of") : (.zero - difference, "behind")
        return "This machine's clock is \(distance) \(side) the database's: set both by NTP, also on other servers"
    }

    /// Logs what an operator should know of a ledger.
    func report(_ storage: any LedgerStorage, to logger: Logger) async {
        // If the database is away, the next request says so.
        if let report = try? await storage.report() {
            if !report.facts.isEmpty {
                let facts = report.facts.map { ($0.name, Logger.MetadataValue.string($0.value)) }
                logger.info("The ledger is in a database", metadata: Logger.Metadata(facts) { first, _ in first })
            }
            if let failure = report.lockFailure {
                logger.warning(
                    "The ledger cannot be locked: make sure that no other server uses it",
                    metadata: ["reason": "\(failure)"])
            }
            for note in report.notes { logger.info("\(note)") }
            for warning in report.warnings { logger.warning("\(warning)") }
        }
        if let warning = await clockWarning(storage) { logger.warning("\(warning)") }
    }

    /// How much the clocks of servers may differ. Documents are a second old when they arrive.
    private static let clockTolerance = Duration.seconds(1)

    #if PostgreSQL
    private func database(
        _ uri: String, upgrades: Bool = true, copies: Bool = false, continuesCopy: Bool = false,
        waiting logger: Logger? = nil
    ) async throws -> any LedgerStorage {
        try await openingDatabase { () -> any LedgerStorage in
            var settings = PostgresSettings(uri)
            if copies { settings.requestLimit = Self.copyLimit }
            let found = settings
            let open = {
                try await PostgresLedgerStorage(
                    found, upgrades: upgrades, continuesCopy: continuesCopy, clock: clock, random: random)
            }
            guard let logger else { return try await open() }
            let wait = DatabaseWait(clock: clock, isAway: { await found.isAway(clock: clock) }) { reason in
                logger.warning(
                    "The database is away: the server waits for it, for a minute at most",
                    metadata: ["reason": .string(reason)])
            }
            return try await wait.open(open)
        }
    }

    private func openingDatabase<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch {
            Terminal.printError("quittance: Cannot open the ledger in the database: \(error)")
            throw ExitCode(1)
        }
    }

    /// Makes the ledger of a database, or brings it up to date, as the owner of its tables.
    ///
    /// - Parameter role: A role that gets the rights of a server; `nil` for none.
    /// - Returns: What was done: a sentence each. What is not safe. What is missing; `nil` if nothing is.
    /// - Throws: Exit status 1 if the ledger cannot be opened; `LedgerStorageError`. Wrong usage unless the ledger is
    ///   in a database.
    func migrate(servingAs role: String?) async throws -> Migration {
        guard case .postgresql(let uri) = configuration.database else {
            throw ValidationError("The command is for a database: pass --database postgresql://…; serve makes files.")
        }
        let settings = PostgresSettings(uri)
        let (before, storage) = try await openingDatabase {
            let before = try await PostgresLedgerStorage.version(in: settings, clock: clock, random: random)
            return (before, try await PostgresLedgerStorage(settings, clock: clock, random: random))
        }
        defer { storage.close() }
        var done = [Self.sentence(from: before, to: PostgresLedgerStorage.newestVersion)]
        if let role {
            try await storage.grantServing(to: role)
            done.append("The role \(role) may read and write rows, as a server does.")
        }
        // Somebody may hold a lock for some seconds.
        for attempt in 1...Self.quarterAttempts {
            await storage.prepare(at: SystemClock.now())
            guard storage.condition.concern != nil, attempt < Self.quarterAttempts else { break }
            try await clock.sleep(for: .seconds(1))
        }
        let report = try await storage.report()
        if let quarters = report.fact("quarters") { done.append("Quarters of documents: \(quarters).") }
        return Migration(done: done, warnings: report.warnings, missing: storage.condition.concern)
    }

    /// How often tables of quarters are added before a lock of somebody else is reported. Each attempt waits 2 seconds.
    private static let quarterAttempts = 5

    private static func sentence(from before: Int?, to after: Int) -> String {
        switch before {
        case nil: "The ledger was made, with version \(after) of its tables."
        case after: "The ledger has version \(after) of its tables: nothing to do."
        case let before?: "The ledger's tables were brought from version \(before) to version \(after)."
        }
    }

    /// How long a request of a copy may take. Nobody waits for its answer as for a server's, and it may read a page of
    /// 500 records, count all documents or gather statistics. Longer than that only a database takes that hangs.
    private static let copyLimit = Duration.seconds(300)
    #else
    private func database(
        _ uri: String, upgrades: Bool = true, copies: Bool = false, continuesCopy: Bool = false,
        waiting logger: Logger? = nil
    ) async throws -> any LedgerStorage {
        throw withoutPostgres
    }

    func migrate(servingAs role: String?) async throws -> Migration { throw withoutPostgres }

    private var withoutPostgres: ValidationError {
        ValidationError("This program was built without PostgreSQL: build it with the package trait PostgreSQL.")
    }
    #endif
}

/// What `quittance migrate` did.
struct Migration: Sendable {
    /// A sentence each.
    var done: [String]
    /// What is not safe: a sentence each.
    var warnings: [String]
    /// What could not be done, with what mends it; `nil` if nothing is missing.
    var missing: String?
}

// MARK: - The verifier

extension Composition {
    /// A verifier for any app, with the configured roots.
    func verifier(checkingRevocation: Bool = true) throws -> AppStoreVerifier {
        let roots = try TrustRoots(
            at: configuration.roots, besidesApple: configuration.alsoAppleRoots,
            setting: configuration.place(of: "roots"))
        do {
            try configuration.requireSimulatorAlone(roots)
        } catch {
            throw ValidationError(error.message)
        }
        var verifier = AppStoreVerifier(apps: .any, environments: Set(Environment.allCases), roots: roots)
        if let intermediates = configuration.intermediates {
            verifier.intermediates = try Intermediates(
                at: intermediates, setting: configuration.place(of: "intermediates"))
        }
        if checkingRevocation, configuration.revocation != .off {
            let checker = RevocationChecker(transport: HTTPOCSPTransport(), clock: clock)
            verifier.revocation = .checked(by: checker, acceptsUnknown: configuration.revocation == .ask)
        }
        return verifier
    }
}

extension TrustRoots {
    /// The roots in the files, or Apple's if there are no files.
    ///
    /// - Parameter setting: The place where the operator gave the files.
    fileprivate init(at paths: [String], besidesApple: Bool, setting: String) throws {
        var trusted: TrustRoots? = besidesApple || paths.isEmpty ? .apple : nil
        for path in paths {
            let root: TrustRoots
            do {
                root = try TrustRoots(reading: Input.read(path))
            } catch {
                throw ValidationError("\(setting) \(path): \((error as? VerificationError)?.message ?? "\(error)")")
            }
            trusted = trusted?.union(root) ?? root
        }
        self = trusted ?? .apple
    }
}

extension Intermediates {
    /// Reads a file, or all files in a folder with the extension of a certificate.
    ///
    /// - Parameter setting: The place where the operator gave the path.
    fileprivate init(at path: String, setting: String) throws {
        let endings = [".cer", ".crt", ".der", ".pem"]
        var paths = [path]
        if let names = try? FileManager.default.contentsOfDirectory(atPath: path) {
            paths = names.filter { name in endings.contains { name.lowercased().hasSuffix($0) } }.sorted()
                .map { "\(path)/\($0)" }
            guard !paths.isEmpty else {
                throw ValidationError("\(setting) \(path): It has no \(endings.joined(separator: ", ")) file.")
            }
        }
        self.init()
        for path in paths {
            do {
                self = union(try Intermediates(reading: Input.read(path)))
            } catch {
                throw ValidationError(
                    "\(setting) \(path): \((error as? VerificationError)?.message ?? "\(error)")")
            }
        }
    }
}

// MARK: - The server

extension Composition {
    /// Takes the time from a simulator, if the configuration names one.
    ///
    /// - Throws: Exit status 1 if the time cannot be read from that simulator.
    mutating func takeSimulatorTime(_ logger: Logger) async throws {
        guard simulatorClock == nil, let address = configuration.simulatorClock else { return }
        do {
            simulatorClock = try await SimulatorClock(address, clock: clock, logger: logger)
        } catch {
            Terminal.printError("quittance: \(error) Start the simulator first: quittance simulate.")
            throw ExitCode(1)
        }
        logger.warning(
            "The time is a simulator's: for demonstrations only",
            metadata: ["simulatorClock": .string(address), "now": .string(now().iso8601)])
    }

    /// A logger that writes to standard error.
    func logger() -> Logger {
        var logger = Logger(label: "quittance") { [configuration] _ in
            LineLogHandler(configuration.logFormat, now: SystemClock.now, write: Terminal.printError)
        }
        logger.logLevel = configuration.logLevel
        return logger
    }

    /// Refuses a ledger with documents of roots that are not configured now.
    ///
    /// - Parameter trustsOthers: Whether the operator says that such documents count all the same.
    /// - Throws: Exit status 1 if the ledger is refused, or cannot be read.
    func requireRoots(of service: LedgerService, trustsOthers: Bool, _ logger: Logger) async throws {
        do {
            if trustsOthers {
                let forgotten = try await service.ledger.forgetRoots(besides: service.verifier.roots, at: now())
                // What a simulator signed may be anything.
                logger.log(
                    level: forgotten.contains(where: \.isSimulated) ? .critical : .warning,
                    """
                    The ledger may have documents of other roots than are trusted now (--trust-other-roots): they \
                    stay, and what they say counts. Omit the option from the next start on
                    """, metadata: ["forgotten": .string(forgotten.sentence)])
            }
            try await service.ledger.requireRoots(of: service.verifier, at: now())
        } catch let error as LedgerStorageError {
            Terminal.printError("quittance: \(error)")
            throw ExitCode(1)
        }
    }

    /// The ledger with the configured rules and apps, and its verifier.
    ///
    /// - Parameter judge: Judges the machine's clock, for a server that takes the time from it.
    func service(
        _ storage: any LedgerStorage, _ verifier: AppStoreVerifier, judge: ClockJudge? = nil
    ) -> LedgerService {
        LedgerService(configuration, storage: storage, verifier: verifier, clockJudge: judge)
    }

    /// Judges the machine's clock; `nil` if the time is a simulator's.
    func clockJudge() -> ClockJudge? {
        simulatorClock == nil ? ClockJudge(now: SystemClock.now, clock: clock) : nil
    }

    /// Signs with the apps' In-App Purchase keys.
    ///
    /// - Parameter warn: Called with what the operator should look at; by default, it is standard error.
    /// - Throws: Wrong usage if a key cannot be read.
    func signing(warn: (String) -> Void = { Terminal.printError("quittance: \($0)") }) throws -> AppSigning {
        configuration.keyWarnings.forEach(warn)
        do {
            return AppSigning(keys: try AppSigning.keys(of: configuration.apps), nonce: Self.nonce)
        } catch {
            throw ValidationError("inAppPurchaseKey.file \(error)")
        }
    }

    /// Asks the App Store, or a simulated one, about the apps that have keys.
    ///
    /// - Parameter share: How much of Apple's rate limits to use, in percent.
    func questions(_ service: LedgerService, share: Int = 100) -> AppStoreQuestions {
        var hosts = AppStoreHosts.apple
        if let address = configuration.appStoreServer { hosts[.production] = address }
        if let address = configuration.sandboxAppStoreServer { hosts[.sandbox] = address }
        let clock = clock
        var transport = HTTPAppStoreTransport(hosts: hosts, clock: clock)
        if let judge = service.clockJudge { transport.onDate = { judge.appStoreSaid($0) } }
        return AppStoreQuestions(
            service.ledger, service.verifier, keys: service.signing?.allKeys ?? [:], apps: service.apps,
            over: transport, share: share, now: now, wall: SystemClock.now,
            sleep: { try await clock.sleep(for: $0) }, random: SystemRandomNumberGenerator(),
            judge: service.clockJudge)
    }

    /// A new UUID in lower case.
    @Sendable static func nonce() -> String { UUID().uuidString.lowercased() }

    /// The server.
    ///
    /// - Parameter service: `nil` for a server that only verifies.
    func server(_ service: LedgerService?, _ logger: Logger) -> ServerApplication {
        var random = random
        var server = ServerApplication(
            environment: configuration.environment, ledger: service, bounds: configuration.bounds,
            requestSeed: random.next(), now: now, clock: clock, logger: logger)
        server.requestLog = configuration.requestLog
        server.simulatorClock = simulatorClock
        server.wall = SystemClock.now
        return server
    }
}
