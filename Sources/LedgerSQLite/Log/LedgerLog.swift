// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger

/// The file of a ledger's write-ahead log, and the copies of damaged logs.
///
/// SQLite overwrites a damaged log from the damage on. The log is therefore copied before SQLite opens the ledger, to
/// `FILE-wal-damaged-1` and so on. While a copy lies beside the ledger, the ledger is assumed to lack the lost
/// transactions, and reports a concern. The operator repairs the loss, and then moves the copy away.
struct LedgerLog {
    /// The path of the ledger without symbolic links, because SQLite keeps its files beside the link's target.
    private let ledger: String
    private var log: String { ledger + "-wal" }

    /// The maximum number of copies. The first copies are kept, because they hold the most of the lost transactions. A
    /// copy takes about 64 MiB, the usual size of a log.
    private static let maxCopies = 3

    init(ofLedger path: String) {
        ledger = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    }

    /// Whether the log is empty or missing.
    var isEmpty: Bool {
        var status = stat()
        return stat(log, &status) != 0 || status.st_size == 0
    }

    /// Flushes the log. If the flush fails, the next commit fails too.
    func flush() { Self.flush(log) }

    private static func flush(_ path: String) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        fsync(file)
        close(file)
    }

    /// Reads the condition of the log. The log may be missing.
    ///
    /// - Throws: `LedgerStorageError` if the log cannot be read.
    func condition() throws -> LogCondition {
        let file = open(log, O_RDONLY | O_CLOEXEC)
        // If the log exists but cannot be opened, SQLite reports the error.
        guard file >= 0 else { return .whole }
        defer { close(file) }
        var last = try condition(file)
        // Another process may write the log during a reading. Damage counts only if two successive readings find the
        // same damage.
        for _ in 0..<Self.maxReadings {
            guard case .damaged = last else { return last }
            let next = try condition(file)
            if next == last { return last }
            last = next
        }
        return .whole
    }

    /// The maximum number of further readings. Real damage is usually the same at the second reading. If a writer
    /// changes the log, two readings can differ. But no disk is so fast that the log changes before each of these
    /// readings.
    private static let maxReadings = 5

    private func condition(_ file: Int32) throws -> LogCondition {
        try LogCondition { offset, buffer in
            let count = pread(file, buffer.baseAddress, buffer.count, off_t(offset))
            guard count >= 0 else { throw failure("cannot be read") }
            return count
        }
    }

    // MARK: Copies

    /// The paths of the copies that exist beside the ledger.
    var copies: [String] { copyPaths.filter { access($0, F_OK) == 0 } }

    private var copyPaths: [String] { Self.copyEndings.map { ledger + $0 } }

    /// The endings of the names of the copies, appended to the name of the ledger's file.
    static let copyEndings = (1...maxCopies).map { "-wal-damaged-\($0)" }

    /// Copies the log, unless `maxCopies` copies exist. Only the owner may read the copy.
    ///
    /// - Throws: `LedgerStorageError` if the log cannot be copied. The ledger must then stay closed, because SQLite
    ///   would overwrite the rest of the log.
    func copy() throws {
        guard let target = copyPaths.first(where: { access($0, F_OK) != 0 }) else { return }
        let partial = target + ".partial"
        do {
            // Deletes the remains of an earlier attempt.
            unlink(partial)
            try copy(to: partial)
            guard rename(partial, target) == 0 else { throw failure("cannot be copied to \(target)") }
            // Makes the name durable. A file system without support for this flush is no reason to keep the ledger
            // closed.
            Self.flush(URL(fileURLWithPath: ledger).deletingLastPathComponent().path)
        } catch {
            unlink(partial)
            throw error
        }
    }

    private func copy(to target: String) throws {
        let source = open(log, O_RDONLY | O_CLOEXEC)
        let copy = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        defer { for file in [source, copy] where file >= 0 { close(file) } }
        guard source >= 0, copy >= 0 else { throw failure("cannot be copied to \(target)") }
        // Sets the mode regardless of the umask.
        fchmod(copy, 0o600)
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(source, &buffer, buffer.count)
            guard count != 0 else { break }
            guard count > 0, write(copy, buffer, count) == count else { throw failure("cannot be copied to \(target)") }
        }
        guard fsync(copy) == 0 else { throw failure("cannot be copied to \(target)") }
    }

    private func failure(_ what: String) -> LedgerStorageError {
        let code: LedgerStorageError.Code = errno == ENOSPC ? .full : .unavailable
        return LedgerStorageError(
            code, "\(log) is damaged or on a faulty disk, and \(what): \(String(cString: strerror(errno)))")
    }
}

extension LedgerLog {
    /// A message for the operator about a damaged log that is still in use, as a sentence.
    func sentence(about damage: LogDamage) -> String {
        let location = damage.frame.map { "in frame \($0)" } ?? "in its header"
        let loss =
            damage.frame == nil
            ? "the transactions in the log are lost"
            : "at least \(damage.transactions) acknowledged transactions are lost from there on"
        return "\(log) is damaged \(location): \(loss). docs/ledger.md says how to get the transactions back."
    }

    /// A message for the operator about the copies of damaged logs, as a sentence; `nil` if there are no copies.
    var concern: String? {
        guard let first = copies.first else { return nil }
        return
            "The log of this ledger was damaged, and acknowledged transactions are lost: restore a backup, or ask the "
            + "App Store again as docs/ledger.md says, then move \(first) away."
    }
}
