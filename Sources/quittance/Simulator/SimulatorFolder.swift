// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Foundation

/// The folder of a simulator: files for a server under test, and the simulator's stored state between two runs.
///
/// As long as this object exists, a lock keeps other simulators out of the folder.
final class SimulatorFolder: Sendable {
    /// The file with the keys and the other stored state.
    static let keysFile = "simulator-keys.json"
    static let rootsFile = "roots.pem"
    /// The configuration of a Quittance server, and its ledger.
    static let configurationFile = "quittance.json"
    static let ledgerFile = "quittance.sqlite"

    /// Files that are useless without the keys.
    private static let lastingFiles = [rootsFile, configurationFile, ledgerFile]

    let path: String
    private let lock: Int32

    /// Opens a folder, and creates it if it does not exist.
    ///
    /// - Throws: ``SimulatorFolderError`` if the folder cannot be written, or a second simulator uses it.
    init(_ path: String) throws(SimulatorFolderError) {
        self.path = URL(fileURLWithPath: path, isDirectory: true).standardizedFileURL.path
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw SimulatorFolderError("This folder cannot be written: \(error.localizedDescription)")
        }
        lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard lock >= 0 else { throw SimulatorFolderError("It cannot be opened: \(String(cString: strerror(errno))).") }
        // On a file system without locks, other users cannot be detected.
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else {
            throw SimulatorFolderError("A running simulator uses this folder: name a different folder.")
        }
    }

    /// Opens the folder of `--out`.
    ///
    /// - Throws: `ValidationError` if the folder cannot be used.
    convenience init(option path: String) throws {
        do throws(SimulatorFolderError) {
            try self.init(path)
        } catch {
            throw ValidationError("--out \(path.printable): \(error)")
        }
    }

    deinit { close(lock) }

    /// The path of a file in the folder.
    func file(_ name: String) -> String { "\(path)/\(name)" }

    func has(_ name: String) -> Bool { FileManager.default.fileExists(atPath: file(name)) }

    /// The stored state of the last run; `nil` if the folder has no files of a simulator.
    ///
    /// - Throws: ``SimulatorFolderError`` if the folder has files of a simulator without its keys, or if the keys
    ///   cannot be read.
    func kept() throws(SimulatorFolderError) -> KeptSimulator? {
        guard has(Self.keysFile) else {
            guard let other = Self.lastingFiles.first(where: has) else { return nil }
            throw SimulatorFolderError(
                """
                The folder has \(other), but no keys of a simulator (\(Self.keysFile)). Name a different folder; or if \
                the folder is a simulator's, put the keys back, or pass --new-keys for new keys.
                """)
        }
        do {
            return try KeptSimulator(JSONValue(parsing: Input.read(file(Self.keysFile))))
        } catch {
            throw SimulatorFolderError(
                """
                The keys in \(Self.keysFile) cannot be read. \(error) Put back a copy of the file, pass --new-keys for \
                new keys, or name a different folder.
                """)
        }
    }

    /// Stores a simulator for the next run.
    func keep(_ simulator: KeptSimulator) throws(SimulatorFolderError) {
        try write(simulator.json.compactText + "\n", to: Self.keysFile)
    }

    /// The warning for a run with new keys, if the folder has a ledger, whose documents were signed with other keys;
    /// `nil` if there is no ledger.
    var ledgerWarning: String? {
        guard has(Self.ledgerFile) else { return nil }
        guard has(Self.keysFile) else {
            return """
                \(file(Self.ledgerFile)) may be the ledger of a different server, and its documents have other \
                keys: name a different folder.
                """
        }
        return """
            \(file(Self.ledgerFile)) has documents of other keys, and quittance serve refuses the ledger: delete the \
            file with all files whose names begin so, or pass --trust-other-roots once.
            """
    }

    func write(_ text: String, to name: String) throws(SimulatorFolderError) {
        try Self.write(text, to: URL(fileURLWithPath: file(name)))
    }

    /// Replaces a file atomically. Only its owner can read the file.
    static func write(_ text: String, to file: URL) throws(SimulatorFolderError) {
        do {
            let partial = try PartialFile(beside: file.path)
            do {
                let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: partial.path))
                try handle.write(contentsOf: Data(text.utf8))
                try handle.close()
                try partial.install(as: file.path, replacing: true)
            } catch {
                partial.remove()
                throw error
            }
        } catch {
            throw SimulatorFolderError("\(file.lastPathComponent) cannot be written: \(error)")
        }
    }
}
