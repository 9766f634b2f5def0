// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import Foundation
public import PurchaseLedger
import Synchronization

/// A journal of erasures in a file, beside the ledger or at `erasureJournal`, which only its owner may read (0600).
///
/// The first line has a random key, and each further line an erasure:
///
/// ```
/// quittance-erasures 1 KEY
/// NUMBER MILLISECONDS BUNDLE-ID HMAC-SHA-256-OF-THE-ID
/// ```
///
/// A file that was restored together with an older ledger may have several journals, each after a first line of its
/// own. Erasures are added to the last journal.
public final class ErasureJournalFile: Sendable {
    /// The path of the file.
    public let path: String
    /// The journals in the file, with what is in them when it is opened.
    public let journals: [any ErasureJournal]

    /// Opens a journal. No other process may have it open.
    ///
    /// - Parameters:
    ///   - path: The path of the file, which is made if it does not exist.
    ///   - random: Chooses the key of a new file.
    /// - Throws: `LedgerStorageError`: `unavailable` if it cannot be opened, or another process uses it, `damaged` if
    ///   it is another file.
    public init(_ path: String, random: inout some RandomNumberGenerator) throws {
        self.path = path
        let text = try Self.text(of: path)
        // Another file is left as it is.
        try ErasureSection.requireJournal(text, path)
        let file = try OpenFile(path)
        if text.isEmpty {
            let key = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            try file.append("\(ErasureSection.title) \(key.hexadecimal)\n")
            try file.flushFolder()
        } else if text.last != "\n" {
            // A line that was not written whole: its erasure was not committed.
            try file.append("\n")
        }
        journals = try ErasureSection.all(in: Self.text(of: path)).compactMap { section in
            section.key.map { Journal(file, SymmetricKey(data: $0), section.records) }
        }
    }

    /// The journal to which erasures are added.
    public var journal: (any ErasureJournal)? { journals.last }

    /// The content of a journal's file; empty if there is none.
    ///
    /// - Throws: `LedgerStorageError.unavailable` if there is one that cannot be read.
    package static func text(of path: String) throws -> String {
        guard FileManager.default.fileExists(atPath: path) else { return "" }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw LedgerStorageError(.unavailable, "\(path) cannot be read")
        }
        return String(decoding: data, as: UTF8.self)
    }
}

/// A file that no other process has open in this way, as long as this value exists.
private final class OpenFile: Sendable {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure(path) }
        var status = stat()
        // A device, such as /dev/null, would forget the erasures, and lose its mode for all others.
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw LedgerStorageError(.unavailable, "\(path) is no regular file: choose another erasureJournal")
        }
        // Whatever the umask.
        fchmod(descriptor, 0o600)
        guard flock(descriptor, LOCK_EX | LOCK_NB) != 0 else { return }
        guard errno == EWOULDBLOCK else { throw Self.failure(path) }
        throw LedgerStorageError(
            .unavailable,
            "\(path) is used by a server: stop it first. Servers on one database need a journal each")
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Adds a text, which is on the disk once this returns, or not in the file.
    func append(_ text: String) throws {
        var own = stat()
        var found = stat()
        guard fstat(descriptor, &own) == 0, stat(path, &found) == 0, own.st_ino == found.st_ino,
            own.st_dev == found.st_dev
        else {
            throw LedgerStorageError(
                .unavailable, "The journal of erasures \(path) was removed or replaced: put it back, or restart")
        }
        let start = lseek(descriptor, 0, SEEK_END)
        let bytes = Array(text.utf8)
        let written = write(descriptor, bytes, bytes.count)
        // A part is written if the rest does not fit.
        if (0..<bytes.count).contains(written) { errno = ENOSPC }
        guard written == bytes.count, fsync(descriptor) == 0 else {
            let error = Self.failure(path)
            // A part of a line would take the next one with it.
            ftruncate(descriptor, start)
            throw error
        }
    }

    /// Puts the file's name on the disk.
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
    /// Erases what the journals of a file have and the ledger has not, see ``Ledger/replay(_:)``.
    ///
    /// - Returns: How many customers were erased.
    package func replay(_ file: ErasureJournalFile) async throws -> Int {
        var count = 0
        for journal in file.journals { count += try await replay(journal) }
        return count
    }
}

/// A first line and the lines that follow it.
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

    /// - Throws: `LedgerStorageError.damaged` if a text is neither empty nor that of a journal.
    package static func requireJournal(_ text: String, _ path: String) throws {
        guard !all(in: text).contains(where: { $0.key == nil }) else {
            throw LedgerStorageError(
                .damaged, "\(path) is no journal of erasures, or damaged: take it from a backup, BACKUP-erasures")
        }
    }

    /// The text with all that two files have.
    ///
    /// - Parameter text: The one whose last journal stays the last.
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

    /// `nil` if the header is none.
    fileprivate var key: [UInt8]? {
        let digits = header.split(separator: " ").last ?? ""
        let bytes = stride(from: 0, to: digits.utf8.count, by: 2).map { start in
            UInt8(digits.dropFirst(start).prefix(2), radix: 16)
        }
        guard header.hasPrefix(Self.title), bytes.count == 32, !bytes.contains(nil) else { return nil }
        return bytes.compactMap(\.self)
    }

    /// Lines that cannot be read are those of erasures that were not committed, since each was written before.
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
            // Lines of two files that were united are in no order.
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
