// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// One server at a time serves a ledger.
@Suite struct ServerLockTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    private func error(_ path: String) -> LedgerStorageError? {
        do {
            try SQLiteLedgerStorage(path: path, isServed: true).close()
            return nil
        } catch {
            return error as? LedgerStorageError
        }
    }

    @Test func `a ledger that is served is refused to a second server, also by a link, until the first one closes it`()
        async throws
    {
        let (path, link) = (folder.path(), folder.path("link.sqlite"))
        let server = try SQLiteLedgerStorage(path: path, isServed: true)
        #expect(try await server.report().lockFailure == nil)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        for path in [path, link] {
            let error = error(path)
            #expect(error?.code == .unavailable)
            #expect(error?.message.contains("Another server uses this ledger: stop it first") == true)
        }
        // The server works on, and its lock too, after others were refused.
        try await server.store(.unverified(Array("1".utf8)))
        #expect(error(path) != nil)
        try server.close()
        #expect(error(link) == nil)
    }

    @Test func `a ledger with two names is refused to a server, since SQLite would lose writes`() throws {
        let (path, link) = (folder.path(), folder.path("link.sqlite"))
        #expect(error(path) == nil)
        try FileManager.default.linkItem(atPath: path, toPath: link)
        for path in [path, link] {
            #expect(error(path)?.code == .unavailable)
            #expect(error(path)?.message.contains("The file has 2 names (hard links)") == true)
        }
        try FileManager.default.removeItem(atPath: link)
        #expect(error(path) == nil)
    }

    @Test func `a server that is released without being closed releases the ledger`() throws {
        do { _ = try SQLiteLedgerStorage(path: folder.path(), isServed: true) }
        #expect(error(folder.path()) == nil)
    }

    /// Until a child of this process begins its program, it has a copy of each open file.
    @Test func `a server that is closed releases the ledger while a copy of its lock's file is open`() throws {
        let server = try SQLiteLedgerStorage(path: folder.path(), isServed: true)
        var (lock, file) = (stat(), stat())
        #expect(stat(folder.path("ledger.sqlite-lock"), &lock) == 0)
        let copies = (Int32(0)..<4096).filter {
            fstat($0, &file) == 0 && (file.st_ino, file.st_dev) == (lock.st_ino, lock.st_dev)
        }.map { dup($0) }
        defer { for copy in copies { close(copy) } }
        #expect(copies.count == 1)
        try server.close()
        #expect(error(folder.path()) == nil)
    }

    @Test func `commands may use a ledger that is served, and leave its lock alone`() async throws {
        let server = try SQLiteLedgerStorage(path: folder.path(), isServed: true)
        let command = try SQLiteLedgerStorage(path: folder.path(), createIfMissing: false)
        try await command.store(.unverified(Array("1".utf8)))
        try command.close()
        let reader = try SQLiteLedgerStorage(reading: folder.path())
        #expect(try await reader.texts() == ["1"])
        #expect(try await reader.report().lockFailure == nil)
        try reader.close()
        _ = try SQLiteLedgerBackup.copy(folder.path(), to: folder.path("copy"), at: Timestamp(milliseconds: 0))
        #expect(error(folder.path()) != nil)
        try server.close()
    }

    @Test func `a lock file that stayed locks nothing, and only its owner may read it`() throws {
        try SQLiteLedgerStorage(path: folder.path(), isServed: true).close()
        let lock = folder.path("ledger.sqlite-lock")
        let mode = try FileManager.default.attributesOfItem(atPath: lock)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(error(folder.path()) == nil)
    }

    @Test func `a ledger that cannot be locked is served all the same, and the reason is known`() async throws {
        // No file can be created where a folder is.
        try FileManager.default.createDirectory(
            atPath: folder.path("ledger.sqlite-lock"), withIntermediateDirectories: false)
        let server = try SQLiteLedgerStorage(path: folder.path(), isServed: true)
        #expect(try await server.report().lockFailure?.contains("ledger.sqlite-lock: ") == true)
        try await server.store(.unverified(Array("1".utf8)))
        try server.close()
    }
}
