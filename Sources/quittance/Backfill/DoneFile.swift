// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Foundation
import Reconciliation

/// A file with the completed lines of a backfill, so that a second run continues where the first stopped.
///
/// Each line of this file names one completed line of the backfill's input list by its ids: an order id, a transaction
/// id, or the transaction ids of a receipt, separated by commas. A new file is readable only by its owner, because the
/// ids lead to customers.
final class DoneFile {
    private let path: String
    /// The open file; `nil` if the run writes nothing.
    private let file: FileHandle?
    /// The entries of earlier runs, some 100 bytes of memory each.
    private let entries: Set<Substring>

    /// Reads the entries of earlier runs.
    ///
    /// - Parameter isChanged: Whether the run will add entries.
    /// - Throws: `ValidationError` if the file cannot be read or written.
    init(_ path: String, isChanged: Bool) throws {
        self.path = path
        do {
            let exists = FileManager.default.fileExists(atPath: path)
            let bytes = exists ? try Data(contentsOf: URL(fileURLWithPath: path)) : Data()
            // The last line may be incomplete if the machine stopped during its write, so only lines with an end count.
            let whole = bytes.lastIndex(of: UInt8(ascii: "\n")).map { bytes[...$0] } ?? Data()
            // A line of invalid UTF-8 equals no entry, so it is harmless.
            entries = Set(String(decoding: whole, as: UTF8.self).split(separator: "\n"))
            file = isChanged ? try Self.open(path, length: whole.count) : nil
        } catch {
            throw ValidationError("--done \(path): \((error as? CocoaError)?.localizedDescription ?? "\(error)")")
        }
    }

    private static func open(_ path: String, length: Int) throws -> FileHandle {
        if !FileManager.default.fileExists(atPath: path) {
            guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
            else { throw CocoaError(.fileWriteNoPermission) }
        }
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        try file.truncate(atOffset: UInt64(length))
        return file
    }

    func contains(_ question: HistoryQuestion) -> Bool { entries.contains(question.entry[...]) }

    /// Writes an entry at once, so that no entry is lost if the process is killed.
    func add(_ question: HistoryQuestion) throws {
        try file?.write(contentsOf: Data("\(question.entry)\n".utf8))
    }

    /// Removes the file after all lines succeeded.
    func remove() {
        // All lines are in the ledger. If the file stays, the next run skips them.
        try? FileManager.default.removeItem(atPath: path)
    }
}

extension HistoryQuestion {
    fileprivate var entry: String { order ?? transactions.joined(separator: ",") }
}
