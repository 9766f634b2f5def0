// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Foundation

/// The folder of a simulator: what a server under test needs, and what the simulator keeps from one run to the next.
///
/// No other simulator may use it meanwhile.
final class SimulatorFolder: Sendable {
    /// Has the keys, and what else goes on in the next run.
    static let keysFile = "simulator-keys.json"
    static let rootsFile = "roots.pem"
    /// The configuration of a Quittance server, and its ledger.
    static let configurationFile = "quittance.json"
    static let ledgerFile = "quittance.sqlite"

    /// Files that are of no use without the keys.
    private static let lastingFiles = [rootsFile, configurationFile, ledgerFile]

    let path: String
    private let lock: Int32

    /// Opens a folder, which is created if it does not exist.
    ///
    /// - Throws: ``SimulatorFolderError`` if it cannot be written, or if another simulator uses it.
    init(_ path: String) throws(SimulatorFolderError) {
        self.path = URL(fileURLWithPath: path, isDirectory: true).standardizedFileURL.path
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw SimulatorFolderError("This folder cannot be written: \(error.localizedDescription)")
        }
        lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard lock >= 0 else { throw SimulatorFolderError("It cannot be opened: \(String(cString: strerror(errno))).") }
        // A file system without locks cannot tell.
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else {
            throw SimulatorFolderError("Another simulator uses this folder: name another one.")
        }
    }

    /// Opens the folder of `--out`.
    ///
    /// - Throws: Wrong usage if it cannot be used.
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

    /// What the last run kept; `nil` if the folder has nothing of a simulator.
    ///
    /// - Throws: ``SimulatorFolderError`` if the folder has files of a simulator without its keys, or if the keys
    ///   cannot be read.
    func kept() throws(SimulatorFolderError) -> KeptSimulator? {
        guard has(Self.keysFile) else {
            guard let other = Self.lastingFiles.first(where: has) else { return nil }
            throw SimulatorFolderError(
                """
                It has \(other), but no keys of a simulator (\(Self.keysFile)). Name another folder; or if this \
                one is a simulator's, put the keys back, or pass --new-keys for new ones.
                """)
        }
        do {
            return try KeptSimulator(JSONValue(parsing: Input.read(file(Self.keysFile))))
        } catch {
            throw SimulatorFolderError(
                """
                The keys in \(Self.keysFile) cannot be read. \(error) Put back a copy of the file, pass --new-keys for \
                new ones, or name another folder.
                """)
        }
    }

    /// Keeps a simulator for the next run.
    func keep(_ simulator: KeptSimulator) throws(SimulatorFolderError) {
        try write(simulator.json.compactText + "\n", to: Self.keysFile)
    }

    /// What to do about a ledger whose documents other keys signed than those that will be made; `nil` if there is
    /// none.
    var ledgerWarning: String? {
        guard has(Self.ledgerFile) else { return nil }
        guard has(Self.keysFile) else {
            return """
                \(file(Self.ledgerFile)) may be the ledger of another server, and these keys are not those of its \
                documents: name another folder.
                """
        }
        return """
            \(file(Self.ledgerFile)) has documents of other keys, and quittance serve refuses it: delete it with all \
            files whose names begin so, or pass --trust-other-roots once.
            """
    }

    func write(_ text: String, to name: String) throws(SimulatorFolderError) {
        try Self.write(text, to: URL(fileURLWithPath: file(name)))
    }

    /// Replaces a file at once, or not at all. Only its owner can read it.
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
