// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger

/// The log of a ledger as a file, and the copies of those that were damaged.
///
/// SQLite overwrites a damaged log from the damage on, so it is copied before SQLite opens it: `FILE-wal-damaged-1` and
/// so on. As long as a copy lies beside the ledger, the ledger lacks what was lost, as far as anybody knows. The
/// operator moves it away once the loss is made good.
struct LedgerLog {
    /// The ledger, to which links lead: SQLite's own files are beside it.
    private let ledger: String
    private var log: String { ledger + "-wal" }

    /// How many copies are kept: the first ones, which have most. A log has 64 MiB.
    private static let maxCopies = 3

    init(ofLedger path: String) {
        ledger = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    }

    /// Whether nothing is in the log, or there is none.
    var isEmpty: Bool {
        var status = stat()
        return stat(log, &status) != 0 || status.st_size == 0
    }

    /// Flushes the log. If that fails, so does the next commit.
    func flush() { Self.flush(log) }

    private static func flush(_ path: String) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        fsync(file)
        close(file)
    }

    /// Reads the condition of the log. There need not be one.
    ///
    /// - Throws: `LedgerStorageError` if it cannot be read.
    func condition() throws -> LogCondition {
        let file = open(log, O_RDONLY | O_CLOEXEC)
        // SQLite reports what is wrong.
        guard file >= 0 else { return .whole }
        defer { close(file) }
        var last = try condition(file)
        // Another process may write the log meanwhile. What looks like damage must still be there in the same place.
        for _ in 0..<Self.maxReadings {
            guard case .damaged = last else { return last }
            let next = try condition(file)
            if next == last { return last }
            last = next
        }
        return .whole
    }

    /// Damage is there at the second reading. At the speed of a disk, no writer changes each of some more.
    private static let maxReadings = 5

    private func condition(_ file: Int32) throws -> LogCondition {
        try LogCondition { offset, buffer in
            let count = pread(file, buffer.baseAddress, buffer.count, off_t(offset))
            guard count >= 0 else { throw failure("cannot be read") }
            return count
        }
    }

    // MARK: Copies

    /// The copies that lie beside the ledger.
    var copies: [String] { copyPaths.filter { access($0, F_OK) == 0 } }

    private var copyPaths: [String] { (1...Self.maxCopies).map { "\(log)-damaged-\($0)" } }

    /// Copies the log, unless there are enough copies. Only its owner may read the copy.
    ///
    /// - Throws: `LedgerStorageError` if it cannot be copied. To open the ledger would destroy what is left.
    func copy() throws {
        guard let target = copyPaths.first(where: { access($0, F_OK) != 0 }) else { return }
        let partial = target + ".partial"
        do {
            // What an earlier try left.
            unlink(partial)
            try copy(to: partial)
            guard rename(partial, target) == 0 else { throw failure("cannot be copied to \(target)") }
            // Makes the name durable. A file system that cannot is no reason to keep the ledger closed.
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
        // Whatever the umask.
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
    /// What the operator must know about a damaged log that is still in its place, as a sentence.
    func sentence(about damage: LogDamage) -> String {
        let location = damage.frame.map { "in frame \($0)" } ?? "in its header"
        let loss =
            damage.frame == nil
            ? "what was in it is lost"
            : "what was acknowledged from there on is lost, at least \(damage.transactions) transactions"
        return "\(log) is damaged \(location): \(loss). docs/ledger.md says how to get it back."
    }

    /// What the operator must know about the copies of damaged logs, as a sentence; `nil` if there are none.
    var concern: String? {
        guard let first = copies.first else { return nil }
        return
            "The log of this ledger was damaged, and what had been acknowledged is lost: restore a backup, or ask the "
            + "App Store again as docs/ledger.md says, then move \(first) away."
    }
}
