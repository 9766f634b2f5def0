// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import Foundation
public import PurchaseLedger
import Synchronization

/// A journal of erasures in a file, beside the ledger or at `erasureJournal`. Only the file's owner may read it (0600).
///
/// The first line has a random key. Each further line has an erasure:
///
/// ```
/// quittance-erasures 1 KEY
/// NUMBER MILLISECONDS BUNDLE-ID HMAC-SHA-256-OF-THE-ID
/// ```
///
/// A restore merges the journal of the backup into the file, which may then have several journals, each with its own
/// first line. New erasures are added to the last journal.
public final class ErasureJournalFile: Sendable {
    /// The path of the file.
    public let path: String
    /// The journals in the file, in the order of the file.
    public let journals: [any ErasureJournal]

    /// Opens a journal. No other process may have the journal open.
    ///
    /// - Parameters:
    ///   - path: The path of the file. A missing file is created.
    ///   - random: Chooses the key of a new file.
    /// - Throws: `LedgerStorageError`: `unavailable` if the file cannot be opened, or another process uses it; `full`
    ///   if the disk is full; `damaged` if the file is not a journal.
    public init(_ path: String, random: inout some RandomNumberGenerator) throws {
        self.path = path
        let text = try Self.text(of: path)
        // Checked before the file is opened for writing, so that a file that is not a journal stays unchanged.
        try ErasureSection.requireJournal(text, path)
        let file = try OpenFile(path)
        if text.isEmpty {
            let key = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            try file.append("\(ErasureSection.title) \(key.hexadecimal)\n")
            try file.flushFolder()
        } else if text.last != "\n" {
            // The last line is incomplete: its erasure was not committed.
            try file.append("\n")
        }
        journals = try ErasureSection.all(in: Self.text(of: path)).compactMap { section in
            section.key.map { Journal(file, SymmetricKey(data: $0), section.records) }
        }
    }

    /// The journal to which erasures are added.
    public var journal: (any ErasureJournal)? { journals.last }

    /// The content of a journal's file; empty if the file does not exist.
    ///
    /// - Throws: `LedgerStorageError.unavailable` if the file exists but cannot be read.
    package static func text(of path: String) throws -> String {
        guard FileManager.default.fileExists(atPath: path) else { return "" }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw LedgerStorageError(.unavailable, "\(path) cannot be read")
        }
        return String(decoding: data, as: UTF8.self)
    }
}

/// A file with an exclusive lock for the lifetime of this object. No other process can open the file in this way.
private final class OpenFile: Sendable {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure(path) }
        var status = stat()
        // A device, such as /dev/null, would not keep the erasures. The change of mode below would affect all other
        // users of the device.
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw LedgerStorageError(.unavailable, "\(path) is no regular file: choose a different erasureJournal")
        }
        // `open` applies the umask to the mode of a new file, and does not change the mode of an existing file. This
        // call sets the mode in both cases.
        fchmod(descriptor, 0o600)
        guard flock(descriptor, LOCK_EX | LOCK_NB) != 0 else { return }
        guard errno == EWOULDBLOCK else { throw Self.failure(path) }
        throw LedgerStorageError(
            .unavailable,
            "\(path) is used by a server: pass --server, or stop it. Servers on the same database need a journal each")
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Appends a text. The text is on the disk once this function returns. A partial text is removed before the
    /// function throws.
    func append(_ text: String) throws {
        var own = stat()
        var found = stat()
        guard fstat(descriptor, &own) == 0, stat(path, &found) == 0, own.st_ino == found.st_ino,
            own.st_dev == found.st_dev
        else {
            throw LedgerStorageError(
                .unavailable, "The journal of erasures \(path) was removed or replaced: put the file back, or restart")
        }
        let start = lseek(descriptor, 0, SEEK_END)
        let bytes = Array(text.utf8)
        let written = write(descriptor, bytes, bytes.count)
        // `write` stops early if the disk is full.
        if (0..<bytes.count).contains(written) { errno = ENOSPC }
        guard written == bytes.count, fsync(descriptor) == 0 else {
            let error = Self.failure(path)
            // Otherwise the next line would be appended to the partial line, and would be unreadable too.
            ftruncate(descriptor, start)
            throw error
        }
    }

    /// Flushes the folder, so that the name of a new file survives a crash.
    func flushFolder() throws {
        let folder = open(URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_CLOEXEC)
        guard folder >= 0 else { throw Self.failure(path) }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw Self.failure(path) }
    }

    private static func failure(_ path: String) -> LedgerStorageError {
        let error = errno
        return LedgerStorageError(
            error == ENOSPC ? .full : .unavailable,
            "The journal of erasures \(path): \(String(cString: strerror(error)))")
    }
}

extension Ledger {
    /// Repeats the erasures that are in a file's journals but not in the ledger; see ``Ledger/replay(_:)``.
    ///
    /// - Returns: The number of erased customers.
    package func replay(_ file: ErasureJournalFile) async throws -> Int {
        var count = 0
        for journal in file.journals { count += try await replay(journal) }
        return count
    }
}

/// One journal of a file: its first line, and the lines up to the first line of the next journal.
package struct ErasureSection: Hashable, Sendable {
    /// The first line.
    package var header: Substring
    package var lines: [Substring] = []

    fileprivate static let title = "quittance-erasures 1"

    package static func all(in text: String) -> [ErasureSection] {
        var sections: [ErasureSection] = []
        for line in text.split(separator: "\n") {
            if line.hasPrefix(title) || sections.isEmpty {
                sections.append(ErasureSection(header: line))
            } else {
                sections[sections.count - 1].lines.append(line)
            }
        }
        return sections
    }

    /// - Throws: `LedgerStorageError.damaged` if a text is neither empty nor a journal.
    package static func requireJournal(_ text: String, _ path: String) throws {
        guard !all(in: text).contains(where: { $0.key == nil }) else {
            throw LedgerStorageError(
                .damaged,
                "\(path) is no journal of erasures, or damaged: take the journal from a backup, BACKUP-erasures")
        }
    }

    /// The text of a file with the journals of both texts. A journal that both texts have gets the lines of both.
    ///
    /// - Parameter text: The text whose last journal remains the last journal of the result.
    package static func merge(_ other: String, into text: String) -> String {
        var sections = all(in: text)
        for section in all(in: other).reversed() {
            if let index = sections.firstIndex(where: { $0.header == section.header }) {
                let known = Set(sections[index].lines)
                sections[index].lines += section.lines.filter { !known.contains($0) }
            } else {
                sections.insert(section, at: 0)
            }
        }
        return sections.map { ([$0.header] + $0.lines).joined(separator: "\n") + "\n" }.joined()
    }

    /// The key in the header; `nil` if the line is not a header.
    fileprivate var key: [UInt8]? {
        let digits = header.split(separator: " ").last ?? ""
        let bytes = stride(from: 0, to: digits.utf8.count, by: 2).map { start in
            UInt8(digits.dropFirst(start).prefix(2), radix: 16)
        }
        guard header.hasPrefix(Self.title), bytes.count == 32, !bytes.contains(nil) else { return nil }
        return bytes.compactMap(\.self)
    }

    /// The erasures in the lines. Unreadable lines are skipped: each line is written before its erasure is committed,
    /// so a partial line belongs to an erasure that was not committed.
    fileprivate var records: [ErasureRecord] {
        lines.compactMap { line in
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            guard words.count == 4, let number = Int64(words[0]), let time = Int64(words[1]), words[3].count == 64
            else { return nil }
            return ErasureRecord(
                number: number, bundleId: String(words[2]), erasedAt: Timestamp(milliseconds: time),
                name: String(words[3]))
        }
    }
}

/// A journal in an open file.
private final class Journal: ErasureJournal {
    let id: String
    private let file: OpenFile
    private let key: SymmetricKey
    private let all: Mutex<[ErasureRecord]>

    init(_ file: OpenFile, _ key: SymmetricKey, _ records: [ErasureRecord]) {
        self.file = file
        self.key = key
        all = Mutex(records)
        id = key.withUnsafeBytes { SHA256.hash(data: $0) }.prefix(8).hexadecimal
    }

    func name(of id: CustomerID) -> String {
        let text = Array(id.bundleId.utf8) + [0] + Array(id.id.utf8)
        return HMAC<SHA256>.authenticationCode(for: text, using: key).hexadecimal
    }

    func add(_ ids: [CustomerID], at now: Timestamp) throws -> Int64 {
        try all.withLock { all in
            // After a merge the lines are in no order, so the last line need not have the greatest number.
            let number = (all.map(\.number).max() ?? 0) + 1
            let records = ids.map { id in
                ErasureRecord(number: number, bundleId: id.bundleId, erasedAt: now, name: name(of: id))
            }
            let lines = records.map { "\(number) \(now.milliseconds) \($0.bundleId) \($0.name)\n" }
            try file.append(lines.joined())
            all += records
            return number
        }
    }

    func records() -> [ErasureRecord] { all.withLock(\.self) }
}

extension Sequence<UInt8> {
    /// Two lower-case digits for each byte.
    package var hexadecimal: String { map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }
}
