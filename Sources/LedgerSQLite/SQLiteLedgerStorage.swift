// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import DocumentPacking
import Foundation
import GRDB
import GRDBSQLite
public import PurchaseLedger
import Synchronization

/// A ledger in one SQLite file.
///
/// A write is durable when it returns. Writes use one connection, and concurrent writes share a flush. Reads have
/// connections of their own, never wait for a write, and each sees one consistent state. Only one process at a time
/// should write.
public final class SQLiteLedgerStorage: LedgerStorage {
    /// `nil` for a ledger in memory.
    private let file: LedgerFile?
    /// `nil` for one that is not served.
    private let lock: ServerLock?
    private let connection: Mutex<Connection>
    private let groups: GroupCommit
    private let reads = ReadQueue(width: readers)
    /// `nil` for a ledger in memory.
    private let log: LedgerLog?
    /// The condition of the log before the ledger was opened.
    private let logCondition: LogCondition
    private let keeper = LogKeeper()
    private let readCache = Mutex(SQLiteLedgerSession.Cache())
    /// Whether the ledger may be half a copy.
    private let continuesCopy: Bool

    private struct Connection {
        var database: any DatabaseWriter
        /// Set after a write failed because the connection is read-only. It stays read-only even after the file becomes
        /// writable.
        var mayBeReadOnly = false
        var isReadOnly: Bool { database.configuration.readonly }
    }

    /// Opens a ledger.
    ///
    /// A file that cannot be written is opened for reading. Writes then throw `readOnly` until the file becomes
    /// writable. A damaged log is copied before SQLite overwrites it; see ``condition``.
    ///
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - createIfMissing: Whether to create a ledger if the file does not exist or is empty. Only the owner may read
    ///     the new file.
    ///   - upgrades: Whether to upgrade the tables of an older version.
    ///   - isServed: Whether to refuse the ledger if another storage serves it, also of another process, and to keep
    ///     others from serving it until this one is closed.
    ///   - continuesCopy: Whether to open half a copy too, to go on with it.
    /// - Throws: `LedgerStorageError`: `damaged` if the file is no ledger or of a newer version, `readOnly` if it is of
    ///   an older version and `upgrades` is false, `unfinishedCopy` if it is half a copy, `unavailable` if another
    ///   storage serves it, `full` or `unavailable` if a damaged log cannot be copied. The file is not changed then.
    public convenience init(
        path: String, createIfMissing: Bool = true, upgrades: Bool = true, isServed: Bool = false,
        continuesCopy: Bool = false
    ) throws {
        try LedgerFile.requirePlace(path)
        guard try createIfMissing || LedgerFile(path: path).bytes > 0 else {
            throw SQLiteErrors.damaged("The file is empty")
        }
        if createIfMissing { LedgerFile.createPrivately(path) }
        try Self.requireNoOtherDatabase(
            path, mayBeNew: createIfMissing, mayBeOld: upgrades, mayBeHalf: continuesCopy)
        // Before the file is opened: a server of a newer version would change its tables.
        let lock = try isServed ? ServerLock(path) : nil
        let log = LedgerLog(ofLedger: path)
        let condition = try log.condition()
        let database = try Self.open(path, log, condition, mayBeHalf: continuesCopy)
        self.init(database, try LedgerFile(path: path), log, condition, lock, continuesCopy: continuesCopy)
    }

    /// Opens a ledger for reading. The file is never changed, even if it is damaged.
    ///
    /// - Parameter path: The path of the file.
    /// - Throws: `LedgerStorageError`: `damaged` if the file is no ledger or of a newer version, `readOnly` if it is
    ///   of an older version, `unfinishedCopy` if it is half a copy.
    public convenience init(reading path: String) throws {
        try LedgerFile.requirePlace(path)
        let file = try LedgerFile(path: path)
        guard file.bytes > 0 else { throw SQLiteErrors.damaged("The file is empty") }
        let log = LedgerLog(ofLedger: path)
        let condition = try log.condition()
        self.init(try Self.openForReading(path), file, log, condition)
    }

    private init(
        _ database: any DatabaseWriter, _ file: LedgerFile?, _ log: LedgerLog?, _ condition: LogCondition = .whole,
        _ lock: ServerLock? = nil, continuesCopy: Bool = false
    ) {
        self.continuesCopy = continuesCopy
        self.file = file
        self.log = log
        logCondition = condition
        self.lock = lock
        connection = Mutex(Connection(database: database))
        groups = GroupCommit { try file?.requireInPlaceWithLog() }
    }

    /// Makes a ledger in memory.
    public static func inMemory() throws -> SQLiteLedgerStorage {
        do {
            let queue = try DatabaseQueue(configuration: configuration)
            try Schema.migrator.migrate(queue)
            return SQLiteLedgerStorage(queue, nil, nil)
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    /// Waits for reads and writes that have begun, and closes the file. All later ones throw `unavailable`.
    public func close() throws {
        // The lock is not held here, since a running write may need it.
        let database = connection.withLock { $0.database }
        defer { lock?.release() }
        do {
            // Any error means that the file was moved or replaced.
            if (try? file?.requireInPlace()) == nil { try keepLog(of: database) }
            // The checkpoint makes the file alone a complete copy. If another process still reads, some writes stay in
            // the log, where they are just as safe.
            _ = try? database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            try database.close()
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }
}

// MARK: - Permissions

extension SQLiteLedgerStorage {
    /// What to do if other users of the machine may read or write the files of a ledger, as a sentence; `nil` if they
    /// may not.
    ///
    /// The ledger works all the same, and its files stay as they are: the operator may have meant it.
    public static func exposure(of path: String) -> String? {
        let files = LedgerFile.exposed(path)
        guard let first = files.first else { return nil }
        return "Other users may open \(first.path) (mode \(String(first.mode, radix: 8))), which has customers' "
            + "purchases and the hashes of API keys: chmod 600 \(files.map(\.path).joined(separator: " "))"
    }
}

// MARK: - Integrity

extension SQLiteLedgerStorage {
    /// What a ledger has lost by damage of its log, now or earlier, and what to do, as sentences; `nil` if nothing.
    public static func loss(at path: String) -> String? {
        let log = LedgerLog(ofLedger: path)
        if let concern = log.concern { return concern }
        // A log that cannot be read is reported by the next write.
        guard case .damaged(let damage)? = try? log.condition() else { return nil }
        return log.sentence(about: damage)
    }

    /// Checks the structure of the file and its foreign keys by SQLite's own means, and whether its log was damaged.
    ///
    /// - Returns: A sentence for each fault.
    public func faults() async throws -> [String] {
        let database = connection.withLock { $0.database }
        let damage = [logDamage].compactMap(\.self)
        do {
            return damage + (try await database.read(Self.faults))
        } catch {
            return damage + ["\(SQLiteErrors.storageError(error))"]
        }
    }

    /// What the operator must know about a damaged log, as a sentence: as long as its copy lies beside the ledger, or
    /// if it was in its place when the ledger was opened. `nil` if there is none.
    private var logDamage: String? {
        if let concern = log?.concern { return concern }
        // Of a ledger that may only be read there is no copy.
        guard case .damaged(let damage) = logCondition, connection.withLock({ $0.isReadOnly }) else { return nil }
        return log?.sentence(about: damage)
    }

    /// The faults that each check finds. If damage makes a check fail, its error counts as a fault and the other checks
    /// still run.
    static func faults(_ connection: Database) -> [String] {
        let references = """
            SELECT 'A row of ' || "table" || ' refers to a row of ' || parent || ' that does not exist'
            FROM pragma_foreign_key_check LIMIT \(maxFaults)
            """
        let checks = ["PRAGMA integrity_check(\(maxFaults))", references]
        return checks.flatMap { check in
            do {
                return try String.fetchAll(connection, sql: check).filter { $0 != "ok" }
            } catch {
                return ["\(SQLiteErrors.storageError(error))"]
            }
        }
    }

    /// How many faults each check lists: enough to see what happened to the file.
    private static let maxFaults = 100
}

// MARK: - LedgerStorage

extension SQLiteLedgerStorage {
    /// The concern is a log that grows, or that was damaged so that acknowledged writes are lost. The latter stays
    /// until the operator has moved the copy of the log away.
    public var condition: StorageCondition {
        let concerns = [logDamage, file?.concern].compactMap(\.self)
        return StorageCondition(concern: concerns.isEmpty ? nil : concerns.joined(separator: " "))
    }

    /// Who else may open the file, and whether the last write was interrupted before the ledger was opened.
    public func report() async throws -> StorageReport {
        var report = StorageReport()
        report.lockFailure = lock?.failure
        report.warnings = [file.flatMap { Self.exposure(of: $0.path) }].compactMap(\.self)
        if logCondition == .interrupted {
            report.notes = ["The last write was interrupted before it was acknowledged, and was undone"]
        }
        return report
    }

    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        try await read { try $0.load(query, numbersCustomers: false) }
    }

    public func statementCount(_ query: LedgerQuery) async throws -> Int {
        try await read { try $0.statementCount(query) }
    }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        let encoded = DocumentCodec.codecs(of: query.arriving)
        return try await write { [keeper] session in
            session.encoded = encoded
            return try LedgerDecision.run(query, decide) {
                try session.load($0, numbersCustomers: true)
            } commit: {
                if $0.isErasure { keeper.noteErasure() }
                try session.write($0)
            }
        }
    }

    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try await read { try $0.events(of: bundleId, after: cursor, limit: limit) }
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await write { [keeper] session in
            keeper.noteErasure()
            return try session.eraseEvents(before: instant, limit: limit)
        }
    }

    public func chains(
        _ selection: ChainSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<ChainKey> {
        try await read { try $0.chains(selection, after: cursor, limit: limit) }
    }

    public func customers(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<CustomerRecord> {
        try await read { try $0.customers(after: cursor, limit: limit) }
    }

    public func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<StoredDocument> {
        try await read { try $0.documents(selection, after: cursor, limit: limit) }
    }

    public func records(
        _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<LedgerRecord> {
        try await read { try $0.records(selection, after: cursor, limit: limit) }
    }

    public func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) async throws -> DueWork {
        try await read { try $0.due(in: lanes, at: now, limit: limit) }
    }

    public func marks() async throws -> HighWaterMarks { try await read { try $0.marks() } }

    public func beginEpoch() async throws { try await write { try $0.beginEpochs() } }

    public func documentCount() async throws -> Int { try await read { try $0.documentCount() } }

    public func proveWritable() async throws { try await write { try $0.proveWritable() } }
}

// MARK: - Reading and writing

extension SQLiteLedgerStorage {
    /// Commits what `body` writes, in a group with other writes. `body` may run several times.
    private func write<Output: Sendable>(
        _ body: @escaping @Sendable (SQLiteLedgerSession) throws -> Output
    ) async throws -> Output {
        try await withCheckedThrowingContinuation { continuation in
            let write = GroupCommit.Write { session in
                let output = try body(session)
                return { continuation.resume(returning: output) }
            } fail: { [self] error in
                if (error as? LedgerStorageError)?.code == .readOnly { connection.withLock { $0.mayBeReadOnly = true } }
                continuation.resume(throwing: error)
            }
            if groups.add(write) { beginWriting() }
            // Yields to the writer's thread, for which every caller waits. Otherwise the writer sometimes got no core
            // for up to four milliseconds after its flush.
            sched_yield()
        }
    }

    private func read<Output: Sendable>(
        _ body: @escaping @Sendable (SQLiteLedgerSession) throws -> Output
    ) async throws -> Output {
        // A waiting read cannot be cancelled, but does not wait long.
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
        // A connection that is opened now may open another file, which replaced the ledger.
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

    /// Writes all groups, each in a task of its own on the connection's queue. Reads of a ledger in memory, which use
    /// the same connection, run in between.
    private func writeGroups() {
        writableDatabase().asyncWriteWithoutTransaction { [self] connection in
            let mustGoOn = groups.writeNext(to: connection)
            if file != nil { keeper.noteCommit { [weak self] done in self?.bringInLog(done) } }
            if mustGoOn { beginWriting() }
            // If it returned false, the next write may already hold the lock of `connection` and wait for this queue,
            // so nothing here may take that lock.
        }
    }

    /// Brings the whole log into the file and empties it, between writes.
    ///
    /// A write that comes meanwhile waits for ``LogKeeper/patience`` and for the pages in the log. There are no more of
    /// them than `checkpoint`, for which a write of a busy server waits too.
    ///
    /// - Parameter done: Called with whether nothing is left to try.
    private func bringInLog(_ done: @escaping @Sendable (Bool) -> Void) {
        connection.withLock { $0.database }.asyncWriteWithoutTransaction { [file] connection in
            do {
                // If it was closed, it has done that.
                guard connection.sqliteConnection != nil else { return }
                try file?.requireInPlace()
                try Self.emptyLog(connection)
                done(true)
            } catch {
                // After another error there is nothing to hope for until the next commit.
                done((error as? DatabaseError)?.resultCode != .SQLITE_BUSY)
            }
        }
    }

    /// Brings the log into the file and empties it, unless a reader that needs the log is not done in a moment.
    private static func emptyLog(_ connection: Database) throws {
        sqlite3_busy_timeout(connection.sqliteConnection, LogKeeper.timeout)
        defer { sqlite3_busy_timeout(connection.sqliteConnection, Int32(busyTimeout * 1000)) }
        try connection.checkpoint(.truncate)
    }

    /// Starts the writer. If the file must be reopened, uses another queue: reopening takes a while, and closes a
    /// connection, which cannot be done on that connection's own queue.
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

    /// Reopens the file if permissions allow writing it now. Reads wait meanwhile.
    ///
    /// Closes the old connections first. SQLite shares the index of the write-ahead log among all connections of a
    /// process. As long as the index is open for reading only, new connections cannot write either.
    private func reopen(_ connection: inout Connection) {
        // After any error here the next write finds the connection closed or read only, and says so.
        guard let file, file.mayBeWritten, (try? file.requireInPlace()) != nil else { return }
        try? connection.database.close()
        guard let log, let condition = try? log.condition() else { return }
        guard let new = try? Self.open(file.path, log, condition, mayBeHalf: continuesCopy) else { return }
        connection = Connection(database: new)
    }
}

// MARK: - Opening

extension SQLiteLedgerStorage {
    /// How long to wait for another process that writes, such as one that makes a copy.
    private static let busyTimeout: TimeInterval = 5

    /// The number of connections for reading. More would help only if the disk is slow.
    private static let readers = 5

    /// The page cache of each connection in KiB. It holds the upper levels of the indexes of some million transactions.
    private static let cache = 32 << 10

    /// How many bytes of the file readers map into memory instead of copying pages: SQLite's maximum. With millions of
    /// customers hardly a page is read twice, so a page cache would not help. If the disk fails to read a mapped page,
    /// the process ends.
    private static let mapped = 0x7fff_0000

    /// The number of pages in the log that causes a checkpoint: 64 MiB. With SQLite's default of 1,000 pages, a busy
    /// server would do little else.
    private static let checkpoint = 16_000

    /// The size in bytes to which SQLite truncates the log after a long read made it grow. It is above the log's usual
    /// size, so that the log is not truncated and extended repeatedly.
    private static let keptLog = 96 << 20

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "LedgerSQLite"
        configuration.busyMode = .timeout(busyTimeout)
        configuration.foreignKeysEnabled = true
        configuration.maximumReaderCount = readers
        configuration.prepareDatabase { connection in
            try connection.execute(sql: "PRAGMA cache_size = -\(cache)")
            // Overwrites deleted content, also in free pages.
            try connection.execute(sql: "PRAGMA secure_delete = ON")
            if connection.configuration.readonly { try connection.execute(sql: "PRAGMA mmap_size = \(mapped)") }
        }
        return configuration
    }

    /// Makes SQLite keep the log when it closes the file. SQLite would remove the log by its path, at which there may
    /// be another file's log by now.
    private func keepLog(of database: any DatabaseWriter) throws {
        database.writeWithoutTransaction { connection in
            var isKept: Int32 = 1
            sqlite3_file_control(connection.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &isKept)
        }
    }

    private static func open(
        _ path: String, _ log: LedgerLog, _ condition: LogCondition, mayBeHalf: Bool
    ) throws -> any DatabaseWriter {
        do {
            if case .damaged = condition, try LedgerFile(path: path).mayBeWritten { try log.copy() }
            return try openForWriting(path, mayBeHalf: mayBeHalf)
        } catch let error as DatabaseError where isReadOnly(error) && FileManager.default.fileExists(atPath: path) {
            return try openForReading(path, mayBeHalf: mayBeHalf)
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    private static func openForWriting(_ path: String, mayBeHalf: Bool) throws -> DatabasePool {
        let log = LedgerLog(ofLedger: path)
        let wasEmpty = log.isEmpty
        let pool = try DatabasePool(path: path, configuration: configuration)
        try pool.writeWithoutTransaction { connection in
            // Replaces NORMAL, which GRDB's pool has set: with it, a power failure loses the last commits.
            try connection.execute(sql: "PRAGMA synchronous = FULL")
            try connection.execute(sql: "PRAGMA wal_autocheckpoint = \(checkpoint)")
            try connection.execute(sql: "PRAGMA journal_size_limit = \(keptLog)")
        }
        try pool.read { try Schema.requireLedger($0, orNone: true, orHalf: mayBeHalf) }
        if wasEmpty {
            // The pool has written a transaction without a flush. A later one must not be flushed before it.
            log.flush()
        } else {
            // Begins the log anew, so that what is left of an interrupted write does not lie behind later ones. If
            // another process has the ledger open, nothing is left. After an error the log stays as it is.
            pool.writeWithoutTransaction { connection in try? Self.emptyLog(connection) }
        }
        try Schema.migrator.migrate(pool)
        try pool.read { try Schema.requireLedger($0, orHalf: mayBeHalf) }
        return pool
    }

    private static func openForReading(_ path: String, mayBeHalf: Bool = false) throws -> DatabasePool {
        do {
            var configuration = configuration
            configuration.readonly = true
            let pool = try DatabasePool(path: path, configuration: configuration)
            try pool.read { try Schema.requireLedger($0, orHalf: mayBeHalf) }
            try pool.read(requireCurrent)
            return pool
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    private static func requireCurrent(_ connection: Database) throws {
        guard try Schema.migrator.hasCompletedMigrations(connection) else {
            throw LedgerStorageError(
                .readOnly, "The ledger is of an older version: quittance serve brings it up to date")
        }
    }

    /// Throws if the file is another kind of database, too old, or half a copy. Opening such a file for writing would
    /// change it.
    private static func requireNoOtherDatabase(
        _ path: String, mayBeNew: Bool, mayBeOld: Bool, mayBeHalf: Bool
    ) throws {
        // Any error means that there is no file.
        guard let bytes = try? LedgerFile(path: path).bytes, bytes > 0 else { return }
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(busyTimeout)
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.read { connection in
                try Schema.requireLedger(connection, orNone: mayBeNew, orHalf: mayBeHalf)
                if !mayBeOld { try requireCurrent(connection) }
            }
            try queue.close()
        } catch is DatabaseError {
            // `open` then fails with the same error, and handles it.
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

    /// How many writes wait for the current group.
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
