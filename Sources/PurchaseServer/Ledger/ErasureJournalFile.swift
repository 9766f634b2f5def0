// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Crypto
import Foundation
public import PurchaseLedger
import Synchronization

/// A journal of erasures in a file, beside the ledger or at `erasureJournal`. Only the file's owner may read it (0600).
///
/// The first line has a random key. Each further line has an erasure:
///
/// ```
/// quittance-erasures 2 KEY START-OF-THE-KEY'S-SHA-256
/// NUMBER MILLISECONDS BUNDLE-ID HMAC-SHA-256-OF-THE-ID SEAL
/// ```
///
/// The seal is half an HMAC-SHA-256 of the line before and of the line up to the seal. The seals show damage, such as a
/// missing line. They do not stop a forger, who reads the key in the first line.
///
/// A restore merges the journal of the backup into the file, which may then have several journals, each with its own
/// first line. New erasures are added to the last journal.
///
/// Without its first line, nobody can say whose erasures a journal has. Its lines stay, and a new journal begins behind
/// them: the first line of a copy makes all of them readable again.
public final class ErasureJournalFile: Sendable {
    /// The path of the file.
    public let path: String
    /// The journals in the file, in the order of the file.
    public var journals: [any ErasureJournal] { all.withLock { $0 } }
    private let all: Mutex<[Journal]>
    private let file: OpenFile
    /// The keys of new journals are made from it.
    private let seed: [UInt8]
    /// The first damaged line when the file was opened, from 1; `nil` if all lines were whole.
    let damagedLine: Int?

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
        file = try OpenFile(path)
        seed = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        try file.removePartialLine()
        let whole = try Self.text(of: path)
        let sections = ErasureSection.all(in: whole).map { ($0, $0.read()) }
        damagedLine = ErasureSection.damagedLine(sections)
        let file = file
        all = Mutex(
            sections.compactMap { section, found in section.key.map { Journal(file, $0, section, found.records) } })
        // Behind a damaged first line, lines of a journal before it would be lost too.
        if sections.last?.0.key == nil {
            try beginJournal()
            try file.flushFolder()
        }
    }

    /// Begins a new journal behind the others.
    @inline(never)
    @discardableResult package func beginJournal() throws -> any ErasureJournal {
        try all.withLock { all in
            let key = Array(SHA256.hash(data: seed + Array("\(all.count)".utf8)))
            let header = ErasureSection.header(key)
            try file.append(header + "\n")
            let journal = Journal(file, key, ErasureSection(header: header[...]))
            all.append(journal)
            return journal
        }
    }

    /// The journal to which erasures are added.
    public var journal: (any ErasureJournal)? { journals.last }

    /// Tries whether an erasure could be added, without adding one; see ``fault``. A disk may hang, which must not take
    /// a thread of the shared pool; a cancelled task waits no longer.
    package func tryWriting() async {
        let (stream, end) = AsyncStream.makeStream(of: Void.self)
        DispatchQueue(label: "ErasureJournal.trial").async { [file] in end.yield(file.tryWriting()) }
        await stream.first { _ in true }
    }

    /// Why an erasure or the last trial was not added, as a sentence; `nil` once a trial was. An erasure alone may fit
    /// into the file's last block on a full disk.
    package var fault: String? { file.fault.map { "Deletions fail, or soon will: \($0.message)." } }

    /// The first key in a file, which only the file's owner knows; `nil` if there is none.
    ///
    /// - Throws: `LedgerStorageError.unavailable` if the file exists but cannot be read.
    package static func key(at path: String) throws -> [UInt8]? {
        try ErasureSection.all(in: text(of: path)).lazy.compactMap(\.key).first
    }

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
    /// Held during a write. The fault has its own lock: a disk may hang, and health is asked meanwhile.
    private let turn = Mutex(())
    private let lastFault = Mutex<LedgerStorageError?>(nil)

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

    /// Removes the last line if it is incomplete: its erasure was not committed.
    func removePartialLine() throws {
        guard let data = FileManager.default.contents(atPath: path), let last = data.last, last != 0x0A else { return }
        guard ftruncate(descriptor, off_t(data.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0)) == 0 else {
            throw Self.failure(path)
        }
    }

    /// Appends a text. The text is on the disk once this function returns. A partial text is removed before the
    /// function throws.
    func append(_ text: String) throws { if let fault = write(text, isKept: true) { throw fault } }

    /// Appends more than a disk gives a file without taking a block, and removes it.
    func tryWriting() { _ = write(String(repeating: "~", count: 8192), isKept: false) }

    /// The error of the last trial, or of a text since then.
    var fault: LedgerStorageError? { lastFault.withLock(\.self) }

    private func write(_ text: String, isKept: Bool) -> LedgerStorageError? {
        turn.withLock { _ in
            let fault = attempt(text, isKept: isKept)
            if fault != nil || !isKept { lastFault.withLock { $0 = fault } }
            return fault
        }
    }

    private func attempt(_ text: String, isKept: Bool) -> LedgerStorageError? {
        var own = stat()
        var found = stat()
        guard fstat(descriptor, &own) == 0, stat(path, &found) == 0, own.st_ino == found.st_ino,
            own.st_dev == found.st_dev
        else {
            return LedgerStorageError(
                .unavailable, "The journal of erasures \(path) was removed or replaced: put the file back, or restart")
        }
        let start = lseek(descriptor, 0, SEEK_END)
        let bytes = Array(text.utf8)
        let written = Foundation.write(descriptor, bytes, bytes.count)
        // `write` stops early if the disk is full.
        if (0..<bytes.count).contains(written) { errno = ENOSPC }
        let isWritten = written == bytes.count && fsync(descriptor) == 0
        let error = Self.failure(path)
        // Otherwise the next line would be appended to the partial line, and would be unreadable too.
        if !isKept || !isWritten { ftruncate(descriptor, start) }
        return isWritten ? nil : error
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
    /// Repeats the erasures that are in a file's journals but not in the ledger (``Ledger/replay(_:restoringAt:)``),
    /// and looks for erasures that the ledger knows and the file lacks. If the last journal lacks some, a new one
    /// begins: its numbers would be those of the lost erasures.
    ///
    /// - Parameters:
    ///   - isOnly: Whether the ledger has no server with a journal of its own.
    ///   - accepts: Whether the operator accepts what the file lacks.
    ///   - restoringAt: The time of a restore; `nil` for the start of a server.
    /// - Returns: The number of erased customers; and what the file lacks, as a sentence.
    package func replay(
        _ file: ErasureJournalFile, isOnly: Bool = true, accepts: Bool = false, restoringAt: Timestamp? = nil
    ) async throws -> (erased: Int, concern: String?) {
        let journals = file.journals
        let counts = Dictionary(journals.map { ($0.id, $0.count) }) { $1 }
        var erased = 0
        for journal in journals { erased += try await replay(journal, restoringAt: restoringAt) }
        let notes = try await erasureNotes()
        if let last = journals.last, notes.contains(where: { $0.journal == last.id && $0.newest > last.count }) {
            keepErasures(inNew: try file.beginJournal())
        }
        if !isOnly, let last = journals.last, Self.isNew(notes, counts) { try await doubt(notes, by: last) }
        try await endDoubts(of: notes.filter { counts[$0.journal] != nil && !$0.doubters.isEmpty })
        let lost = Self.lost(notes, counts, isOnly: isOnly)
        if accepts { try await acceptLoss(of: lost) }
        return (erased, Self.concern(file.path, file.damagedLine, lacks: !lost.isEmpty && !accepts))
    }

    /// The concern that ``replay(_:isOnly:accepts:)`` would return, without any change of the file or the ledger.
    ///
    /// - Throws: `LedgerStorageError`, with `damaged` if the file is not a journal.
    package func erasureConcern(at path: String, isOnly: Bool) async throws -> String? {
        let text = try ErasureJournalFile.text(of: path)
        try ErasureSection.requireJournal(text, path)
        let counts = ErasureSection.all(in: text).compactMap { section in
            section.key.map { (Journal.id($0), Int64(section.lines.count)) }
        }
        let lost = Self.lost(try await erasureNotes(), Dictionary(counts) { $1 }, isOnly: isOnly)
        return Self.concern(path, ErasureSection.damagedLine(in: text), lacks: !lost.isEmpty)
    }

    /// The notes of journals that lack erasures.
    ///
    /// - Parameter counts: The number of erasures in each journal of a file.
    private static func lost(_ notes: [ErasureNote], _ counts: [String: Int64], isOnly: Bool) -> [ErasureNote] {
        let doubtsAll = isOnly || isNew(notes, counts)
        return notes.filter { note in
            let isDoubted = doubtsAll || note.doubters.contains { counts[$0] != nil }
            return note.known > counts[note.journal] ?? (isDoubted ? 0 : .max)
        }
    }

    /// Whether a shared ledger does not know a file. Its server is new, or has lost its journal.
    private static func isNew(_ notes: [ErasureNote], _ counts: [String: Int64]) -> Bool {
        counts.values.allSatisfy { $0 == 0 } && !notes.contains { counts[$0.journal] != nil }
    }

    private static func concern(_ path: String, _ damagedLine: Int?, lacks: Bool) -> String? {
        let damage = damagedLine.map { "is damaged in line \($0)" }
        let faults = [damage, lacks ? "lacks deletions that the ledger knows" : nil].compactMap(\.self)
        guard !faults.isEmpty else { return nil }
        return """
            The journal of erasures \(path) \(faults.joined(separator: ", and ")): deleted customers may come back \
            with a backup. docs/ledger.md says how to end this
            """
    }
}

/// A journal in an open file.
private final class Journal: ErasureJournal {
    let id: String
    private let file: OpenFile
    private let key: [UInt8]
    private let state: Mutex<(records: [ErasureRecord], count: Int64, last: String)>

    init(_ file: OpenFile, _ key: [UInt8], _ section: ErasureSection, _ records: [ErasureRecord] = []) {
        self.file = file
        self.key = key
        state = Mutex((records, Int64(section.lines.count), String(section.lines.last ?? section.header)))
        id = Self.id(key)
    }

    static func id(_ key: [UInt8]) -> String { SHA256.hash(data: key).prefix(8).hexadecimal }

    func name(of id: CustomerID) -> String {
        let text = Array(id.bundleId.utf8) + [0] + Array(id.id.utf8)
        return HMAC<SHA256>.authenticationCode(for: text, using: SymmetricKey(data: key)).hexadecimal
    }

    func add(_ ids: [CustomerID], at now: Timestamp) throws -> Int64 {
        try state.withLock { state in
            // Two machines may have gone on with a journal, so that its greatest number is not in the last line.
            let number = max(state.records.map(\.number).max() ?? 0, state.count) + Int64(ids.count)
            let records = ids.map { id in
                ErasureRecord(number: number, bundleId: id.bundleId, erasedAt: now, name: name(of: id))
            }
            var last = state.last
            let lines = records.map { record in
                last = ErasureSection.seal(ErasureSection.content(record), after: last, key)
                return last + "\n"
            }
            try file.append(lines.joined())
            state = (state.records + records, state.count + Int64(ids.count), last)
            return number
        }
    }

    func records() -> [ErasureRecord] { state.withLock(\.records) }

    var count: Int64 { state.withLock(\.count) }
}
