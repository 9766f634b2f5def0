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
/// A write is durable when it returns. Writes use one connection, and concurrent writes share a flush to the disk.
/// Reads use separate connections and never wait for a write. Each read sees one snapshot. Only one process at a time
/// should write.
public final class SQLiteLedgerStorage: LedgerStorage {
    /// `nil` for a ledger in memory.
    private let file: LedgerFile?
    /// `nil` if the ledger was opened without a lock against other servers.
    private let lock: ServerLock?
    private let connection: Mutex<Connection>
    private let groups: GroupCommit
    private let reads = ReadQueue(width: readers)
    /// `nil` for a ledger in memory.
    private let log: LedgerLog?
    /// The condition of SQLite's write-ahead log before the ledger was opened: whole, interrupted or damaged.
    private let logCondition: LogCondition
    private let keeper = LogKeeper()
    private let readCache = Mutex(SQLiteLedgerSession.Cache())
    /// Whether a ledger may be opened even if a copy from another ledger into it is not finished.
    private let continuesCopy: Bool

    private struct Connection {
        var database: any DatabaseWriter
        /// Set after a write failed because the connection is read-only. The connection stays read-only even after the
        /// file becomes writable, so the file must be reopened.
        var mayBeReadOnly = false
        var isReadOnly: Bool { database.configuration.readonly }
    }

    /// Opens a ledger.
    ///
    /// If the file cannot be written, the ledger is opened for reading. Writes then throw `readOnly` until the file
    /// becomes writable. A damaged log is copied before SQLite overwrites the log; see ``condition``.
    ///
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - createIfMissing: Whether to create a ledger if the file does not exist or is empty. Only the owner may read
    ///     a file that did not exist before; an empty file keeps its permissions.
    ///   - upgrades: Whether to take the steps that the tables of the ledger lack.
    ///   - isServed: Whether to lock the ledger, so that only one storage serves the ledger at a time, even if the
    ///     storages are in different processes. The lock is held until the storage is closed.
    ///   - continuesCopy: Whether to open an unfinished copy too, to continue the copy.
    /// - Throws: `LedgerStorageError`: `damaged` if no release wrote the file, or a newer version did,
    ///   `readOnly` if the ledger is of an older version and `upgrades` is false, `unfinishedCopy` if the ledger is an
    ///   unfinished copy, `unavailable` if the ledger is already served, `full` or `unavailable` if a damaged log
    ///   cannot be copied. After an error an existing ledger is unchanged.
    public convenience init(
        path: String, createIfMissing: Bool = true, upgrades: Bool = true, isServed: Bool = false,
        continuesCopy: Bool = false
    ) throws {
        try LedgerFile.requirePlace(path)
        guard try createIfMissing || LedgerFile(path: path).bytes > 0 else {
            throw SQLiteErrors.damaged("The file is empty")
        }
        if try LedgerHeader.require(path) {
            try Self.requireUsable(path, mayBeOld: upgrades, mayBeHalf: continuesCopy)
        }
        if createIfMissing { LedgerFile.createPrivately(path) }
        // The lock is taken before the file is opened for writing, because opening may change the tables, and a running
        // server of an older version could not use the new tables.
        let lock = try isServed ? ServerLock(path) : nil
        let log = LedgerLog(ofLedger: path)
        let condition = try log.condition()
        let database = try Self.open(path, log, condition, mayBeNew: createIfMissing, mayBeHalf: continuesCopy)
        self.init(database, try LedgerFile(path: path), log, condition, lock, continuesCopy: continuesCopy)
    }

    /// Opens a ledger for reading. The file is never changed, even if the ledger is damaged.
    ///
    /// - Parameter path: The path of the file.
    /// - Throws: `LedgerStorageError`: `damaged` if no release wrote the file, or a newer version did,
    ///   `readOnly` if the ledger is of an older version, `unfinishedCopy` if the ledger is an unfinished copy.
    public convenience init(reading path: String) throws {
        try LedgerFile.requirePlace(path)
        let file = try LedgerFile(path: path)
        guard file.bytes > 0 else { throw SQLiteErrors.damaged("The file is empty") }
        try LedgerHeader.require(path)
        let log = LedgerLog(ofLedger: path)
        let condition = try log.condition()
        self.init(try Self.open(path, log, condition, isRead: true), file, log, condition)
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

    /// Creates a ledger in memory.
    public static func inMemory() throws -> SQLiteLedgerStorage {
        do {
            let queue = try DatabaseQueue(configuration: configuration)
            try queue.writeWithoutTransaction { try Schema.migrate($0) }
            return SQLiteLedgerStorage(queue, nil, nil)
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    /// Waits for running reads and writes, and closes the file. Later reads and writes throw `unavailable`.
    public func close() throws {
        // The mutex of `connection` is not held while the database closes, because a running write may need it.
        let database = connection.withLock { $0.database }
        defer { lock?.release() }
        do {
            // Any error means that the file was moved or replaced.
            if (try? file?.requireInPlace()) == nil { try keepLog(of: database) }
            // After the checkpoint, the file alone is the complete ledger. If other processes still read, some writes
            // stay in the log, where they are just as safe. A ledger opened for reading keeps its log: SQLite would
            // empty a log in which it accepts no frame, and such a log may be a damaged one that nobody has copied.
            if !database.configuration.readonly {
                _ = try? database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            }
            try database.close()
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }
}

// MARK: - Permissions

extension SQLiteLedgerStorage {
    /// A warning with advice if other users of the machine may read or write the files of a ledger, as a sentence;
    /// `nil` if the files are private.
    ///
    /// The ledger also works with such permissions. The files are not changed, because the permissions may be the
    /// operator's intention.
    public static func exposure(of path: String) -> String? {
        let files = LedgerFile.exposed(path)
        guard let first = files.first else { return nil }
        return "Other users may open \(first.path) (mode \(String(first.mode, radix: 8))), which has customers' "
            + "purchases and the hashes of API keys: chmod 600 \(files.map(\.path).joined(separator: " "))"
    }
}

// MARK: - Integrity

extension SQLiteLedgerStorage {
    /// The loss caused by past or present damage of a ledger's log, and the remedy, as sentences; `nil` if nothing was
    /// lost.
    ///
    /// - Throws: `LedgerStorageError` if the file is no ledger.
    public static func loss(at path: String) throws -> String? {
        try LedgerFile.requirePlace(path)
        try LedgerHeader.require(path)
        let log = LedgerLog(ofLedger: path)
        if let concern = log.concern { return concern }
        // If the log cannot be read, opening the ledger reports the error.
        guard case .damaged(let damage)? = try? log.condition() else { return nil }
        return log.sentence(about: damage)
    }

    /// Checks the structure of the file and its foreign keys with SQLite's own checks, and reports past or present
    /// damage of the log.
    ///
    /// - Returns: A sentence per fault.
    public func faults() async throws -> [String] {
        let database = connection.withLock { $0.database }
        let damage = [logDamage].compactMap(\.self)
        do {
            return damage + (try await database.read(Self.faults))
        } catch {
            return damage + ["\(SQLiteErrors.storageError(error))"]
        }
    }

    /// A message for the operator about a damaged log, as a sentence. The message stays while a copy of a damaged log
    /// lies beside the ledger. A ledger opened for reading reports the damage found at opening. `nil` if there is no
    /// damage.
    private var logDamage: String? {
        if let concern = log?.concern { return concern }
        // A ledger opened only for reading has no copy of its damaged log.
        guard case .damaged(let damage) = logCondition, connection.withLock({ $0.isReadOnly }) else { return nil }
        return log?.sentence(about: damage)
    }

    /// The faults found by each check. If damage makes a check fail, its error counts as a fault, and the remaining
    /// checks still run.
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

    /// The maximum number of faults listed per check: enough to diagnose the file.
    private static let maxFaults = 100
}

// MARK: - LedgerStorage

extension SQLiteLedgerStorage {
    /// The concern is that the log grows, or that a damaged log has lost acknowledged writes. The concern about a
    /// damaged log stays until the operator has moved the copy of the log away.
    public var condition: StorageCondition {
        let concerns = [logDamage, file?.concern].compactMap(\.self)
        return StorageCondition(concern: concerns.isEmpty ? nil : concerns.joined(separator: " "))
    }

    /// Reports whether the ledger could be locked, whether other users may open the files, and whether the last write
    /// before the ledger was opened was interrupted.
    public func report() async throws -> StorageReport {
        var report = StorageReport()
        report.lockFailure = lock?.failure
        report.writeRefusal = file.flatMap { file in
            file.mayBeWritten ? nil : "This user may not write \(file.path) or its folder."
        }
        report.warnings = [file.flatMap { Self.exposure(of: $0.path) }].compactMap(\.self)
        if logCondition == .interrupted {
            report.notes = ["The last write was interrupted before its acknowledgement, and was undone"]
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
        let known = await known(query, decide)
        if let output = known.output { return output }
        let encoded = DocumentCodec.codecs(of: query.arriving.filter { !known.documents.contains($0.provenance) })
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
        try await events(nil, of: bundleId, after: cursor, limit: limit)
    }

    public func events(
        _ selection: EventSelection?, of bundleId: String, after cursor: EventCursor?, limit: Int
    ) async throws -> EventPage {
        try await read { try $0.events(selection, of: bundleId, after: cursor, limit: limit) }
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

    public func customers(
        _ selection: CustomerSelection, of bundleId: String, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        try await read { try $0.customers(selection, of: bundleId, after: cursor, limit: limit) }
    }

    public func cursor(beforeNewest count: Int, of bundleId: String) async throws -> EventCursor? {
        try await read { try $0.cursor(beforeNewest: count, of: bundleId) }
    }

    public func endOfEvents(of bundleId: String) async throws -> EventCursor {
        try await read { try $0.endOfEvents(of: bundleId) }
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

    public func beginEpoch(at now: Timestamp) async throws { try await write { try $0.beginEpochs(at: now) } }

    public func notificationHours(
        of bundleId: String?, among count: Int, limit: Int
    ) async throws -> [NotificationHour] {
        try await read { try $0.notificationHours(of: bundleId, among: count, limit) }
    }

    public func documentCount() async throws -> Int { try await read { try $0.documentCount() } }

    public func proveWritable() async throws { try await write { try $0.proveWritable() } }
}

// MARK: - Reading and writing

extension SQLiteLedgerStorage {
    /// Commits the writes of `body` in one transaction with other waiting writes; see ``GroupCommit``. If the
    /// transaction is rolled back, `body` runs again.
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
            // Every caller waits for the writer's thread, so the caller's thread yields its core. Without the yield,
            // the writer sometimes had to wait for a core for up to four milliseconds after its flush.
            sched_yield()
        }
    }

    /// The arriving documents that are stored, and the output of a decision that changes nothing. Asked if a receipt is
    /// among them: apps and their servers send the same receipt again and again, and compressing it takes a third of a
    /// megabyte, and as long as all other work on it.
    private func known<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async -> (documents: Set<Provenance>, output: Output?) {
        guard query.arriving.contains(where: { $0.jws == nil }) else { return ([], nil) }
        // After any error the writer decides, and reports the error if it lasts.
        let found = try? await read { [file] session in
            let names = Set(query.arriving.map(\.provenance))
            let documents = try names.filter { try session.number(of: $0) != nil }
            // A claim changes an owner, or at least the evidence.
            guard documents == names, !query.owners else { return (documents, nil as Output?) }
            let output = try session.output(of: decide, about: query)
            try file?.requireInPlaceWithLog()
            return (documents, output)
        }
        return found ?? ([], nil)
    }

    private func read<Output: Sendable>(
        _ body: @escaping @Sendable (SQLiteLedgerSession) throws -> Output
    ) async throws -> Output {
        // A waiting read cannot be cancelled, but the wait is short.
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
        // If the ledger's file was replaced, a new connection would read the replacement instead.
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
            guard let output else { throw LedgerStorageError(.unavailable, "A transaction ran no statement") }
            readCache.withLock { $0 = session.cache }
            return output
        } catch {
            throw SQLiteErrors.translate(error)
        }
    }

    /// Writes all groups, each in a separate task on the connection's queue, so that reads can run between the groups
    /// if they use the same connection, as in a ledger in memory.
    private func writeGroups() {
        writableDatabase().asyncWriteWithoutTransaction { [self] connection in
            let mustGoOn = groups.writeNext(to: connection)
            if file != nil { keeper.noteCommit { [weak self] done in self?.bringInLog(done) } }
            if mustGoOn { beginWriting() }
            // If `writeNext` returned false, the next write may already hold the mutex of `connection` and wait for
            // this queue, so nothing here may take that mutex.
        }
    }

    /// Moves the log into the file and empties the log, between writes.
    ///
    /// A write that arrives meanwhile waits up to ``LogKeeper/timeout``, and then for the transfer of the log's pages,
    /// usually at most `checkpoint` pages. On a busy server, writes wait for such transfers anyway, at SQLite's own
    /// checkpoints.
    ///
    /// - Parameter done: Called with true if a further try would be useless before the next commit.
    private func bringInLog(_ done: @escaping @Sendable (Bool) -> Void) {
        connection.withLock { $0.database }.asyncWriteWithoutTransaction { [file] connection in
            do {
                // A closed connection has emptied the log already.
                guard connection.sqliteConnection != nil else { return }
                try file?.requireInPlace()
                try Self.emptyLog(connection)
                done(true)
            } catch {
                // If a reader was busy, a further try soon is worthwhile. After any other error, only the next commit
                // leads to a further try.
                done((error as? DatabaseError)?.resultCode != .SQLITE_BUSY)
            }
        }
    }

    /// Moves the log into the file and empties the log. Fails if a read still needs the log after
    /// ``LogKeeper/timeout``.
    private static func emptyLog(_ connection: Database) throws {
        sqlite3_busy_timeout(connection.sqliteConnection, LogKeeper.timeout)
        defer { sqlite3_busy_timeout(connection.sqliteConnection, Int32(busyTimeout * 1000)) }
        try connection.checkpoint(.truncate)
    }

    /// Starts the writer. If the file must be reopened, the writer starts on a global queue. Reopening takes a while
    /// and closes a connection, and a connection cannot be closed on its own queue.
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

    /// Reopens the file if the permissions now allow writing. Reads wait meanwhile.
    ///
    /// The old connections are closed first, because SQLite shares the index of the write-ahead log among all
    /// connections of a process. While the index is open for reading only, new connections cannot write either.
    private func reopen(_ connection: inout Connection) {
        // After any error here, the next write fails with the reason, because its connection is closed or read-only.
        guard let file, file.mayBeWritten, (try? file.requireInPlace()) != nil else { return }
        try? connection.database.close()
        guard let log, let condition = try? log.condition() else { return }
        guard
            let new = try? Self.open(file.path, log, condition, mayBeHalf: continuesCopy)
        else { return }
        connection = Connection(database: new)
    }
}

// MARK: - Opening

extension SQLiteLedgerStorage {
    /// How long to wait for locks of other processes on the file, in seconds.
    private static let busyTimeout: TimeInterval = 5

    /// The number of connections for reading. More connections would help only if reads wait for a slow disk.
    private static let readers = 5

    /// The page cache of each connection in KiB. This size holds the upper levels of the indexes of a few million
    /// transactions.
    private static let cache = 32 << 10

    /// The number of bytes of the file that readers map into memory instead of copying pages: SQLite's maximum. With
    /// millions of customers, few pages are read twice, so a page cache would not help. If the disk fails to read a
    /// mapped page, the process ends.
    private static let mapped = 0x7fff_0000

    /// The number of pages in the log at which SQLite makes a checkpoint: 62.5 MiB. With SQLite's default of 1,000
    /// pages, a busy server would spend most of its time on checkpoints.
    private static let checkpoint = 16_000

    /// The size in bytes to which SQLite truncates a log that has grown during a long read. It is above the log's usual
    /// size. Otherwise, the log would be truncated at each checkpoint and then grow again.
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

    /// Makes SQLite keep the log when the file is closed. SQLite would remove the log by its path, but the path may
    /// lead to the log of a different file by now.
    private func keepLog(of database: any DatabaseWriter) throws {
        database.writeWithoutTransaction { connection in
            var isKept: Int32 = 1
            sqlite3_file_control(connection.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &isKept)
        }
    }

    /// Opens a file. All storages with a file open it here, so that SQLite writes no damaged log without a copy.
    ///
    /// - Parameters:
    ///   - condition: The condition of the log.
    ///   - isRead: Whether nothing may be written, not even a copy of the log.
    private static func open(
        _ path: String, _ log: LedgerLog, _ condition: LogCondition, isRead: Bool = false, mayBeNew: Bool = false,
        mayBeHalf: Bool = false
    ) throws -> any DatabaseWriter {
        do {
            if isRead { return try openForReading(path) }
            if case .damaged = condition {
                // SQLite could write the files even if the folder takes no copy.
                guard try LedgerFile(path: path).mayBeWritten else {
                    return try openForReading(path, mayBeHalf: mayBeHalf)
                }
                try log.copy()
            }
            if mayBeNew { try create(path) }
            return try openForWriting(path, mayBeHalf: mayBeHalf)
        } catch let error as DatabaseError where isReadOnly(error) && FileManager.default.fileExists(atPath: path) {
            return try openForReading(path, mayBeHalf: mayBeHalf)
        } catch {
            throw SQLiteErrors.storageError(error)
        }
    }

    /// Makes the tables in a file that has none, before the file gets a log: the header then names the ledger from the
    /// first commit on. A journal beside the file shows that an attempt was interrupted, which SQLite undoes first.
    private static func create(_ path: String) throws {
        let journal = URL(fileURLWithPath: path).resolvingSymlinksInPath().path + "-journal"
        guard try !LedgerHeader.require(path) || FileManager.default.fileExists(atPath: journal) else { return }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.writeWithoutTransaction { try Schema.migrate($0) }
        try queue.close()
    }

    private static func openForWriting(_ path: String, mayBeHalf: Bool) throws -> DatabasePool {
        let log = LedgerLog(ofLedger: path)
        let wasEmpty = log.isEmpty
        let pool = try DatabasePool(path: path, configuration: configuration)
        try pool.writeWithoutTransaction { connection in
            // Replaces NORMAL, as set by GRDB's pool: with NORMAL, a power failure loses the last commits.
            try connection.execute(sql: "PRAGMA synchronous = FULL")
            try connection.execute(sql: "PRAGMA wal_autocheckpoint = \(checkpoint)")
            try connection.execute(sql: "PRAGMA journal_size_limit = \(keptLog)")
        }
        try pool.read { try Schema.requireLedger($0, orHalf: mayBeHalf) }
        if wasEmpty {
            // Opening the pool has written a transaction to the log without a flush. This transaction must reach the
            // disk before any later transaction.
            log.flush()
        } else {
            // Restarts the log, so that the remains of an interrupted write do not lie behind later writes. An error is
            // harmless, because it leaves the log unchanged. The usual reason for an error is that other processes have
            // the ledger open. Then the log has no such remains anyway.
            pool.writeWithoutTransaction { connection in try? Self.emptyLog(connection) }
        }
        try pool.writeWithoutTransaction { connection in
            guard try Schema.version(connection) != Schema.steps.version else { return }
            try Schema.migrate(connection)
            // Moves the new version into the file, whose header tells it to older software. If a reader prevents the
            // move, a later checkpoint makes up for it.
            try? Self.emptyLog(connection)
        }
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
        guard try Schema.version(connection) == Schema.steps.version else {
            throw LedgerStorageError(
                .readOnly, "The ledger is of an older version: quittance serve brings it up to date")
        }
    }

    /// Throws if the ledger is of an older version or an unfinished copy. Opening it for writing would change the file.
    private static func requireUsable(_ path: String, mayBeOld: Bool, mayBeHalf: Bool) throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(busyTimeout)
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.read { connection in
                // Without tables, the creation of the ledger was interrupted.
                guard try Schema.version(connection) != nil else { return }
                try Schema.requireLedger(connection, orHalf: mayBeHalf)
                if !mayBeOld { try requireCurrent(connection) }
            }
            try queue.close()
        } catch is DatabaseError {
            // `open` then fails with the same error, and handles it.
        }
    }

    /// Whether an error means that the file cannot be written. If the folder cannot be written, SQLite reports that it
    /// cannot open the file.
    private static func isReadOnly(_ error: DatabaseError) -> Bool {
        [.SQLITE_READONLY, .SQLITE_CANTOPEN].contains(error.resultCode)
    }
}

// MARK: - For tests

extension SQLiteLedgerStorage {
    /// The number of committed transactions.
    package var commits: Int { groups.commits }

    /// The number of writes waiting for the next group.
    package var waiting: Int { groups.waiting }

    /// Runs SQL on the writing connection.
    package func execute(_ sql: String) async throws {
        try await connection.withLock { $0.database }.writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    /// Runs a query on the writing connection. Returns the number in the first row, or 0.
    package func number(_ sql: String) async throws -> Int {
        try await connection.withLock { $0.database }.writeWithoutTransaction { try Int.fetchOne($0, sql: sql) ?? 0 }
    }
}
