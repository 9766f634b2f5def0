// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Foundation
import GRDB
import GRDBSQLite
public import PurchaseLedger
import Synchronization

/// A ledger in one SQLite file.
///
/// A write is on the disk when it returns. Writes go through one connection, and concurrent ones share a flush. Reads
/// have connections of their own, wait for no write, and each sees one state. One process at a time should write.
public final class SQLiteLedgerStorage: LedgerStorage {
    /// `nil` for one in memory.
    private let file: LedgerFile?
    /// `nil` for one that is not served.
    private let lock: ServerLock?
    private let connection: Mutex<Connection>
    private let groups: GroupCommit
    private let reads = ReadQueue(width: readers)
    private let readCache = Mutex(SQLiteLedgerSession.Cache())

    private struct Connection {
        var database: any DatabaseWriter
        /// A connection that opened a read-only file stays read-only, even once the file may be written.
        var mayBeReadOnly = false
    }

    /// Opens a ledger. Tables of an older version are brought up to date.
    ///
    /// A file that cannot be written is opened for reading; writes throw `readOnly` until it may be written.
    ///
    /// - Parameters:
    ///   - path: Of the file.
    ///   - createIfMissing: Whether a ledger is created if there is no file, or an empty one.
    ///   - isServed: Whether to refuse the ledger if another storage serves it, also of another process, and to keep
    ///     others from serving it until this one is closed.
    /// - Throws: `LedgerStorageError`: `damaged` if the file is no ledger or of a newer version, `unavailable` if
    ///   another storage serves it. Then it stays as it is.
    public convenience init(path: String, createIfMissing: Bool = true, isServed: Bool = false) throws {
        try LedgerFile.requirePlace(path)
        guard try createIfMissing || LedgerFile(path: path).bytes > 0 else {
            throw SQLiteErrors.damaged("The file is empty")
        }
        try Self.requireNothingElse(path, mayBeNew: createIfMissing)
        // Before the file is opened: a server of a newer version would change its tables.
        let lock = try isServed ? ServerLock(path) : nil
        let database = try Self.open(path)
        self.init(database, try LedgerFile(path: path), lock)
    }

    /// Opens a ledger for reading: its file stays as it is, byte for byte, also if it is damaged.
    ///
    /// - Parameter path: Of the file.
    /// - Throws: `LedgerStorageError`: `damaged` if the file is no ledger or of a newer version, `readOnly` if it is
    ///   of an older version.
    public convenience init(reading path: String) throws {
        try LedgerFile.requirePlace(path)
        let file = try LedgerFile(path: path)
        guard file.bytes > 0 else { throw SQLiteErrors.damaged("The file is empty") }
        self.init(try Self.openForReading(path), file)
    }

    private init(_ database: any DatabaseWriter, _ file: LedgerFile?, _ lock: ServerLock? = nil) {
        (self.file, self.lock) = (file, lock)
        connection = Mutex(Connection(database: database))
        groups = GroupCommit { try file?.requireInPlaceWithLog() }
    }

    /// Makes a ledger in memory.
    public static func inMemory() throws -> SQLiteLedgerStorage {
        do {
            let queue = try DatabaseQueue(configuration: configuration)
            try Schema.migrator.migrate(queue)
            return SQLiteLedgerStorage(queue, nil)
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    /// Waits for reads and writes that have begun, and closes the file. All later ones throw `unavailable`.
    public func close() throws {
        // Outside the lock, which a write that has begun may need.
        let database = connection.withLock { $0.database }
        defer { lock?.release() }
        do {
            if (try? file?.requireInPlace()) == nil { try keepLog(of: database) }
            // Then the file alone is a complete copy. If another process still reads, the rest stays in the log, as
            // safe.
            _ = try? database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            try database.close()
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }
}

// MARK: - Integrity

extension SQLiteLedgerStorage {
    /// What is wrong with the file itself, by SQLite's own checks of its structure and of references.
    ///
    /// - Returns: A sentence for each fault.
    public func faults() async throws -> [String] {
        let database = connection.withLock { $0.database }
        do {
            return try await database.read(Self.faults)
        } catch {
            return ["\(SQLiteErrors.storageError(error))"]
        }
    }

    /// What each check finds. If damage ends a check, that is a fault by itself, and the others go on.
    static func faults(_ connection: Database) -> [String] {
        let references = """
            SELECT 'A row of ' || "table" || ' refers to a row of ' || parent || ' that does not exist'
            FROM pragma_foreign_key_check LIMIT \(mostFaults)
            """
        let checks = ["PRAGMA integrity_check(\(mostFaults))", references]
        return checks.flatMap { check in
            do {
                return try String.fetchAll(connection, sql: check).filter { $0 != "ok" }
            } catch {
                return ["\(SQLiteErrors.storageError(error))"]
            }
        }
    }

    /// How many faults each check lists: enough to see what happened to the file.
    private static let mostFaults = 100
}

// MARK: - LedgerStorage

extension SQLiteLedgerStorage {
    public var concern: String? { file?.concern }

    /// Why other servers cannot be kept from this ledger, although it is served; `nil` if they are.
    public var lockFailure: String? { lock?.failure }

    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        try await read { try $0.load(query, numbersCustomers: false) }
    }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        let encoded = DocumentCodec.codecs(of: query.arriving)
        return try await write { session in
            session.encoded = encoded
            return try LedgerDecision.run(query, decide) {
                try session.load($0, numbersCustomers: true)
            } commit: {
                try session.write($0)
            }
        }
    }

    public func dueChains(at now: Timestamp, limit: Int) async throws -> [ChainKey] {
        try await read { try $0.dueChains(at: now, limit: limit) }
    }

    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try await read { try $0.events(of: bundleId, after: cursor, limit: limit) }
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await write { try $0.eraseEvents(before: instant, limit: limit) }
    }

    public func scanDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument> {
        try await read { try $0.scanDocuments(after: cursor, limit: limit) }
    }

    public func scanChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey> {
        try await read { try $0.scanChains(after: cursor, limit: limit) }
    }

    public func lastNotification(among count: Int) async throws -> Timestamp? {
        try await read { try $0.lastNotification(among: count) }
    }

    public func apiKeys() async throws -> [APIKey] { try await read { try $0.apiKeys() } }

    public func proveWritable() async throws { try await write { try $0.proveWritable() } }
}

// MARK: - Reading and writing

extension SQLiteLedgerStorage {
    /// Commits what `body` writes, in a group with others. It may run several times.
    private func write<Output: Sendable>(
        _ body: @escaping @Sendable (SQLiteLedgerSession) throws -> Output
    ) async throws -> Output {
        try await withCheckedThrowingContinuation { continuation in
            let write = GroupCommit.Write { session in
                let output = try body(session)
                return { continuation.resume(returning: output) }
            } fail: { [self] error in
                if (error as? LedgerStorageError)?.code == .readOnly { reopenNext() }
                continuation.resume(throwing: error)
            }
            if groups.add(write) { beginWriting() }
            // Yields so that the writer's thread can run, for which every caller waits. Otherwise it got a core up to
            // four milliseconds after its flush.
            sched_yield()
        }
    }

    private func read<Output: Sendable>(
        _ body: @escaping @Sendable (SQLiteLedgerSession) throws -> Output
    ) async throws -> Output {
        // A read that waits for its turn cannot be cancelled, but does not wait long.
        try Task.checkCancellation()
        return try await withCheckedThrowingContinuation { continuation in
            reads.add { [self] connection in
                continuation.resume(with: connection.flatMap { on in Result { try read(on, body) } })
            } lending: { [self] in
                try lendReader($0)
            }
        }
    }

    /// Lends a connection for reading.
    private func lendReader(_ use: (Database) -> Void) throws {
        let database = connection.withLock { $0.database }
        // A connection that is opened now would open the file that replaced the ledger.
        if let loss = groups.loss { throw loss }
        do {
            try database.unsafeRead(use)
        } catch {
            throw SQLiteErrors.translate(error)
        }
    }

    private func read<Output>(
        _ connection: Database, _ body: (SQLiteLedgerSession) throws -> Output
    ) throws -> Output {
        do {
            let session = SQLiteLedgerSession(connection, readCache.withLock { $0 })
            var output: Output?
            try connection.inTransaction(.deferred) {
                output = try body(session)
                return .commit
            }
            guard let output else { throw LedgerStorageError(.unavailable, "A transaction ran nothing") }
            readCache.withLock { $0 = session.cache }
            return output
        } catch {
            throw SQLiteErrors.translate(error)
        }
    }

    /// Writes one group after another, each in a turn of its own: reads of a ledger in memory, which use the same
    /// connection, run in between.
    private func writeGroups() {
        writableDatabase().asyncWriteWithoutTransaction { [self] connection in
            if groups.writeNext(to: connection) { beginWriting() }
            // If it was false, the next write may hold the connection's lock by now and wait for this queue to end.
        }
    }

    private func reopenNext() {
        connection.withLock { $0.mayBeReadOnly = true }
    }

    /// Starts the writer. If the file has to be opened again, it does so on another queue: that takes a while, and
    /// cannot be done on the queue of the connection that it closes.
    private func beginWriting() {
        guard connection.withLock({ $0.mayBeReadOnly }) else { return writeGroups() }
        DispatchQueue.global().async { self.writeGroups() }
    }

    private func writableDatabase() -> any DatabaseWriter {
        connection.withLock { connection in
            if connection.mayBeReadOnly { reopen(&connection) }
            return connection.database
        }
    }

    /// Opens the same file again if permissions allow writing it now. Reads wait meanwhile.
    ///
    /// Closes the old connections first: SQLite shares the index of the log among all connections of a process, and as
    /// long as it is open for reading only, a new connection cannot write either.
    private func reopen(_ connection: inout Connection) {
        guard let file, file.mayBeWritten, (try? file.requireInPlace()) != nil else { return }
        try? connection.database.close()
        if let new = try? Self.open(file.path) { connection = Connection(database: new) }
    }
}

// MARK: - Opening

extension SQLiteLedgerStorage {
    /// How long to wait for another process that writes, such as one that makes a copy.
    private static let busyTimeout: TimeInterval = 5

    /// How many connections read. More would only help if the disk is slow.
    private static let readers = 5

    /// The page cache of each connection in KiB: the upper levels of the indexes of some million transactions.
    private static let cache = 32 << 10

    /// How many bytes of the file readers map into memory, instead of copying each page: SQLite's own limit. Of
    /// millions of customers hardly a page is read twice, so that a page cache would not help. A disk that fails to
    /// read then ends the process.
    private static let mapped = 0x7fff_0000

    /// How many pages of the log cause a checkpoint: 64 MiB. With SQLite's own 1,000 a busy server would do little
    /// else.
    private static let checkpoint = 16_000

    /// To how many bytes the log is cut after a long read made it longer: above its usual size, so that it is not cut
    /// and extended again and again.
    private static let keptLog = 96 << 20

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "LedgerSQLite"
        configuration.busyMode = .timeout(busyTimeout)
        configuration.foreignKeysEnabled = true
        configuration.maximumReaderCount = readers
        configuration.prepareDatabase { connection in
            try connection.execute(sql: "PRAGMA cache_size = -\(cache)")
            // Overwrites what was deleted, also in free pages.
            try connection.execute(sql: "PRAGMA secure_delete = ON")
            if connection.configuration.readonly { try connection.execute(sql: "PRAGMA mmap_size = \(mapped)") }
        }
        return configuration
    }

    /// Keeps the log when the file is closed: SQLite removes it by its path, which may lead to that of another file by
    /// now.
    private func keepLog(of database: any DatabaseWriter) throws {
        database.writeWithoutTransaction { connection in
            var isKept: Int32 = 1
            sqlite3_file_control(connection.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &isKept)
        }
    }

    private static func open(_ path: String) throws -> any DatabaseWriter {
        do {
            return try openForWriting(path)
        } catch let error as DatabaseError where isReadOnly(error) && FileManager.default.fileExists(atPath: path) {
            return try openForReading(path)
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    private static func openForWriting(_ path: String) throws -> DatabasePool {
        let pool = try DatabasePool(path: path, configuration: configuration)
        try pool.writeWithoutTransaction { connection in
            // After GRDB's pool has chosen NORMAL, by which a power failure loses the last commits.
            try connection.execute(sql: "PRAGMA synchronous = FULL")
            try connection.execute(sql: "PRAGMA wal_autocheckpoint = \(checkpoint)")
            try connection.execute(sql: "PRAGMA journal_size_limit = \(keptLog)")
        }
        try pool.read { try Schema.requireLedger($0, orNone: true) }
        try Schema.migrator.migrate(pool)
        return pool
    }

    private static func openForReading(_ path: String) throws -> DatabasePool {
        do {
            var configuration = configuration
            configuration.readonly = true
            let pool = try DatabasePool(path: path, configuration: configuration)
            try pool.read { try Schema.requireLedger($0) }
            guard try pool.read(Schema.migrator.hasCompletedMigrations) else {
                throw LedgerStorageError(
                    .readOnly, "The ledger is of an older version: quittance serve brings it up to date")
            }
            return pool
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    /// Refuses a database that is no ledger before it is opened for writing, which would change it.
    private static func requireNothingElse(_ path: String, mayBeNew: Bool) throws {
        guard let bytes = try? LedgerFile(path: path).bytes, bytes > 0 else { return }
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(busyTimeout)
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.read { try Schema.requireLedger($0, orNone: mayBeNew) }
            try queue.close()
        } catch is DatabaseError {
            // Opening the file meets the same error and handles it.
        }
    }

    /// If the folder cannot be written, SQLite reports that it cannot open the file.
    private static func isReadOnly(_ error: DatabaseError) -> Bool {
        [.SQLITE_READONLY, .SQLITE_CANTOPEN].contains(error.resultCode)
    }
}

// MARK: - For tests

extension SQLiteLedgerStorage {
    /// How many transactions were committed.
    package var commits: Int { groups.commits }

    /// How many writes wait for the one that is going on.
    package var waiting: Int { groups.waiting }

    /// Runs SQL on the connection that writes.
    package func execute(_ sql: String) async throws {
        try await connection.withLock { $0.database }.writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    /// The number that a query on the connection that writes returns.
    package func number(_ sql: String) async throws -> Int {
        try await connection.withLock { $0.database }.writeWithoutTransaction { try Int.fetchOne($0, sql: sql) ?? 0 }
    }
}
