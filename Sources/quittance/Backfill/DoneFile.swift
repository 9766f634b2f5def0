// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Foundation
import Reconciliation

/// The lines of a backfill that were taken in, in a file, so that a second run goes on where the first one was.
///
/// The file has the ids of one of these lines in each of its own: an order id, a transaction id, or several with commas
/// between them, as in a receipt. Only its owner may read it, since ids lead to customers.
final class DoneFile {
    private let path: String
    /// `nil` if nothing is to be written.
    private let file: FileHandle?
    /// The entries of earlier runs: some 100 bytes for each.
    private let entries: Set<Substring>

    /// Reads the entries of earlier runs.
    ///
    /// - Parameter isChanged: Whether entries will be added.
    /// - Throws: Wrong usage if the file cannot be read or written.
    init(_ path: String, isChanged: Bool) throws {
        self.path = path
        do {
            let exists = FileManager.default.fileExists(atPath: path)
            let bytes = exists ? try Data(contentsOf: URL(fileURLWithPath: path)) : Data()
            // The last line may be cut, if the machine stopped while it was written.
            let whole = bytes.lastIndex(of: UInt8(ascii: "\n")).map { bytes[...$0] } ?? Data()
            // Bytes that are no text are no entry.
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

    /// Notes a line at once, so that nothing is lost if the process is killed.
    func add(_ question: HistoryQuestion) throws {
        try file?.write(contentsOf: Data("\(question.entry)\n".utf8))
    }

    /// Removes the file, once all lines were taken in.
    func remove() {
        // All lines are in the ledger. If the file stays, the next run skips them.
        try? FileManager.default.removeItem(atPath: path)
    }
}

extension HistoryQuestion {
    fileprivate var entry: String { order ?? transactions.joined(separator: ",") }
}
