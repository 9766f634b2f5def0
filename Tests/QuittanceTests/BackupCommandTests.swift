// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerSQLite
import NIOHTTP1
import TestData
import TestProcess
import TestWorld
import Testing

@testable import quittance

/// Tests `quittance backup`, and a restore as an operator does it.
@Suite struct BackupCommandTests {
    private static let bundleId = "com.example.notes"
    /// How many purchases there are to report.
    private static let purchases = 30

    /// A temporary folder for a ledger, with the roots of an App Store, and purchases there.
    private final class LedgerFolder: Sendable {
        let folder: TemporaryFolder
        /// The ids of the transactions.
        let ids: [String]
        private let store: TestStore
        private let world: World
        private let roots: [String]

        init() throws {
            folder = try TemporaryFolder()
            store = try TestStore()
            let book = StoreProduct(id: "book", type: .nonConsumable, price: StorePrice(milliunits: 2990))
            let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) - 3_600_000)
            var world = World(selling: [book], in: AppIdentity(bundleId: bundleId, appAppleId: 1), at: now)
            // One of the purchases names an account.
            ids = try (0..<purchases).map { number in
                try world.sell("book", hasAccount: number == 5).transaction?.transactionId ?? ""
            }
            self.world = world
            roots = try store.writeRoots(to: folder.url)
        }

        func path(_ name: String) -> String { folder.path(name) }

        var database: [String] { ["--database", "sqlite:\(path("ledger.sqlite"))"] }

        var arguments: [String] { database + roots.flatMap { ["--root", $0] } }

        func serve() async throws -> ServerProcess {
            try await ServerProcess(arguments + ["--bundle-id", bundleId], in: folder.url)
        }

        /// Reports some of the purchases.
        func send(_ purchases: Range<Int>, to server: ServerProcess) async throws {
            for occurrence in world.occurrences[purchases] {
                let token = try store.signer.notification(occurrence, from: world.catalogue)
                let body = #"{"signedPayload":"\#(token)"}"#
                #expect(try await server.send(.POST, "/notifications/v2", body).status == 200)
            }
        }

        /// Presents a purchase as a customer.
        func claim(_ purchase: Int, by id: String, on server: ServerProcess, _ key: String) async throws {
            let transaction = try #require(world.occurrences[purchase].transaction)
            let body = #"{"document":"\#(try store.signer.sign(transaction, at: world.now))"}"#
            #expect(try await server.send(.POST, "/v1/customers/\(id)/purchases", body, key: key).status == 200)
        }
    }

    private static func mode(_ path: String) throws -> Int {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int ?? 0
    }

    /// Makes a backup while no file may exceed `fileLimit` blocks of 512 bytes, as on a nearly full disk.
    private static func backup(_ target: String, of place: LedgerFolder, fileLimit: Int) throws -> Int32 {
        // Without the trap, the signal SIGXFSZ would end the program. With it, the write fails, as on a full disk.
        let script = "trap '' XFSZ; ulimit -f \(fileLimit); exec \"$0\" \"$@\""
        let command = ["sh", "-c", script, CommandLineTests.program.path, "backup", target] + place.database
        return try TestProcess(command, output: .inherited).wait()
    }

    /// The steps of docs/ledger.md, with a follower of events and a customer who is deleted after the backup.
    @Test(.takesLong, arguments: [true, false])
    func `a backup is restored: its followers are told, and who was deleted stays deleted`(
        byCommand: Bool
    ) async throws {
        let place = try LedgerFolder()
        let server = try await place.serve()
        let key = try CommandLineTests.key(["--bundle-id", Self.bundleId] + place.database)
        try await place.send(1..<20, to: server)
        for (purchase, id) in [(1, "anna"), (2, "bert"), (3, "cora")] {
            try await place.claim(purchase, by: id, on: server, key)
        }
        #expect(try await server.send(.DELETE, "/v1/customers/cora", key: key).status == 200)
        // Cora came back before the backup.
        try await place.claim(4, by: "cora", on: server, key)
        let shared = try #require(try await server.follow(key).cursors.last)
        let backup = try CommandLineTests.run(["backup", place.path("copy.sqlite")] + place.database)
        try #require(backup.status == 0, "\(backup.error)")
        for ending in ["", "-erasures"] { #expect(try Self.mode(place.path("copy.sqlite" + ending)) == 0o600) }
        #expect(try await server.send(.DELETE, "/v1/customers/anna", key: key).status == 200)
        // In the backup this purchase is of the account that it names.
        try await place.claim(5, by: "dora", on: server, key)
        #expect(try await server.send(.DELETE, "/v1/customers/dora", key: key).status == 200)
        #expect(try await server.send(.GET, "/v1/transactions/\(place.ids[5])", key: key).status == 404)
        try await place.send(20..<30, to: server)
        let lost = try #require(try await server.follow(key).cursors.last)
        let isServed = try CommandLineTests.run(["restore", place.path("copy.sqlite")] + place.arguments)
        #expect(isServed.status == 1 && isServed.error.contains("Another server uses this ledger"), "\(isServed.error)")
        #expect(server.terminate() == 0)

        if byCommand {
            let outcome = try CommandLineTests.run(["restore", place.path("copy.sqlite")] + place.arguments)
            try #require(outcome.status == 0, "\(outcome.error)")
            #expect(outcome.output.contains("2 deleted customers erased again."), "\(outcome.output)")
            let names = try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path)
            #expect(names.contains { $0.hasPrefix("ledger.sqlite.replaced-") })
            #expect(!names.contains { $0.contains("partial") })
        } else {
            for ending in ["", "-wal", "-shm"] { unlink(place.path("ledger.sqlite" + ending)) }
            try FileManager.default.copyItem(atPath: place.path("copy.sqlite"), toPath: place.path("ledger.sqlite"))
        }
        let checked = try CommandLineTests.run(["check"] + place.arguments)
        #expect(checked.status == 0 && checked.output.hasSuffix("verified; no faults.\n"), "\(checked.error)")

        let restored = try await place.serve()
        for (id, purchases) in [("anna", 0), ("bert", 1), ("cora", 1)] {
            let answer = try await restored.send(.GET, "/v1/customers/\(id)", key: key)
            #expect(answer.json["purchases"]?.array?.count ?? 0 == purchases, "\(id): \(answer.json.compactText)")
        }
        #expect(try await restored.send(.GET, "/v1/transactions/\(place.ids[5])", key: key).status == 404)
        for round in 0..<2 {
            let found = try await restored.follow(key, after: lost)
            #expect(found.error == "cursorExpired" && found.oldest == shared, "round \(round)")
            guard round == 0 else { break }
            // As many events as it takes until the lost number is given again.
            try await place.send(20..<30, to: restored)
        }
        let first = try await restored.send(.GET, "/v1/events?limit=1&kind=purchase.made&after=\(shared)", key: key)
        #expect(first.json["items"]?.array?.first?["kind"]?.string == "ledger.restored")
        let told = try await restored.send(.GET, "/v1/events?limit=500&after=\(shared)", key: key)
        #expect(told.json["items"]?.array?.count { $0["kind"]?.string == "ledger.restored" } == 1)
        let all = try await restored.follow(key).cursors
        let place0 = try #require(all.firstIndex(of: shared))
        #expect(try await restored.follow(key, after: shared).cursors == Array(all[(place0 + 1)...]))
        #expect(all.suffix(10).allSatisfy { !$0.hasSuffix(lost.drop { $0 != "." }) })
        #expect(restored.terminate() == 0)
    }

    /// What becomes of the journal before the restore. Two customers were deleted after the backup.
    @Test(
        .takesLong,
        arguments: ["whole", "cut", "emptied", "missing", "older", "replaced", "flipped 1", "flipped 2"])
    func `a restore and the starts after it say if the journal of erasures lacks deletions`(loss: String) async throws {
        let place = try LedgerFolder()
        let server = try await place.serve()
        let key = try CommandLineTests.key(["--bundle-id", Self.bundleId] + place.database)
        try await place.send(1..<6, to: server)
        for (purchase, id) in [(1, "anna"), (2, "bert")] { try await place.claim(purchase, by: id, on: server, key) }
        let copy = place.path("copy.sqlite")
        #expect(try CommandLineTests.run(["backup", copy] + place.database).status == 0)
        for id in ["anna", "bert"] {
            #expect(try await server.send(.DELETE, "/v1/customers/\(id)", key: key).status == 200)
        }
        #expect(server.terminate() == 0)
        let journal = URL(fileURLWithPath: place.path("ledger.sqlite-erasures"))
        let text = try String(contentsOf: journal, encoding: .utf8)
        var bytes = Array(text.utf8)
        let ends = bytes.indices.filter { bytes[$0] == 0x0A }
        switch loss {
        case "cut": bytes.removeSubrange((ends[1] + 1)...)
        case "emptied": bytes = []
        case "missing": unlink(journal.path)
        case "older": bytes = Array(try Data(contentsOf: URL(fileURLWithPath: copy + "-erasures")))
        case "replaced": bytes = Array("quittance-erasures 2 \(String(repeating: "0f", count: 32)) 9b68d49b\n".utf8)
        case "flipped 1": bytes[ends[0] + 9] ^= 1
        case "flipped 2": bytes[ends[2] - 9] ^= 1
        default: break
        }
        if loss != "missing" { try Data(bytes).write(to: journal) }
        let restored = try CommandLineTests.run(["restore", copy] + place.arguments)
        #expect(restored.status == 0, "\(restored.error)")
        #expect(restored.error.contains("The journal of erasures") == (loss != "whole"), "\(restored.error)")
        for start in 0..<2 {
            let server = try await place.serve()
            let concern = try await server.send(.GET, "/health/ready").json["concern"]?.string ?? ""
            #expect(concern.contains("The journal of erasures") == (loss != "whole"), "start \(start): \(concern)")
            #expect(server.terminate() == 0)
        }
        if loss != "whole" {
            let files = ["", "-erasures"].map { URL(fileURLWithPath: place.path("ledger.sqlite" + $0)) }
            let before = try files.map { try Data(contentsOf: $0) }
            let refused = try CommandLineTests.run(["restore", "--new-epoch"] + place.arguments)
            #expect(refused.status == 1 && refused.error.contains("Nothing was changed"), "\(refused.error)")
            #expect(refused.output.isEmpty)
            #expect(try files.map { try Data(contentsOf: $0) } == before)
        }
        let accepted = try CommandLineTests.run(["restore", "--new-epoch", "--force"] + place.arguments)
        let isSaid = accepted.error.contains("--force accepts the loss")
        #expect(accepted.status == 0 && isSaid == (loss != "whole"), "\(accepted.error)")
        let last = try await place.serve()
        // The configuration lacks the products, which is another concern.
        let concern = try await last.send(.GET, "/health/ready").json["concern"]?.string ?? ""
        #expect(!concern.contains("The journal of erasures"), "\(concern)")
        for id in ["anna", "bert"] where loss == "whole" || loss.hasPrefix("flipped") {
            let found = try await last.send(.GET, "/v1/customers/\(id)", key: key)
            #expect(found.json["purchases"]?.array?.isEmpty != false, "\(id): \(found.json.compactText)")
        }
        #expect(last.terminate() == 0)
    }

    @Test func `a ledger whose log was damaged is not copied over an earlier backup`() async throws {
        let place = try LedgerFolder()
        #expect(try await place.serve().terminate() == 0)
        let copy = place.path("copy.sqlite")
        #expect(try CommandLineTests.run(["backup", copy] + place.database).status == 0)
        let first = try Data(contentsOf: URL(fileURLWithPath: copy))
        try Data([1]).write(to: URL(fileURLWithPath: place.path("ledger.sqlite-wal-damaged-1")))
        let refused = try CommandLineTests.run(["backup", copy, "--force"] + place.database)
        #expect(refused.status == 1 && refused.error.contains("No backup was created"), "\(refused.error)")
        #expect(try Data(contentsOf: URL(fileURLWithPath: copy)) == first)
        // A restore says it, and the new ledger has no concern.
        let restored = try CommandLineTests.run(["restore", copy] + place.arguments)
        #expect(restored.status == 0 && restored.error.contains("was damaged"), "\(restored.error)")
        let names = try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path)
        let copies = names.filter { $0.hasSuffix("-wal-damaged-1") }
        #expect(copies.count == 1 && copies.allSatisfy { $0.hasPrefix("ledger.sqlite.replaced-") }, "\(copies)")
        #expect(try CommandLineTests.run(["check"] + place.arguments).status == 0)
    }

    /// A file of a killed command is as if it had been killed, because its writer's lock has ended with it.
    @Test func `backup, restore and serve remove what killed ones left, and nothing that is still written`()
        async throws
    {
        let place = try LedgerFolder()
        try SQLiteLedgerStorage(path: place.path("ledger.sqlite")).close()
        let left = ["monday.sqlite", "ledger.sqlite"].map { "\($0).0A1B2C3D.quittance-partial" }
        let others = ["other.partial", "x-quittance-partial"]
        let written = try PartialFile(beside: place.path("tuesday.sqlite"))
        let commands = [
            ["backup", place.path("copy.sqlite")] + place.database,
            ["restore", place.path("copy.sqlite")] + place.arguments, ["serve"],
        ]
        for command in commands {
            for name in left + others + left.map({ $0 + "-wal" }) {
                try Data([1]).write(to: URL(fileURLWithPath: place.path(name)))
            }
            if command == ["serve"] {
                #expect(try await place.serve().terminate() == 0)
            } else {
                let outcome = try CommandLineTests.run(command)
                #expect(outcome.status == 0, "\(outcome.error)")
            }
            let names = Set(try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path))
            #expect(!names.contains { name in left.contains { name.hasPrefix($0) } }, "\(command[0]): \(names)")
            #expect(names.isSuperset(of: others), "\(command[0])")
            #expect(FileManager.default.fileExists(atPath: written.path), "\(command[0])")
        }
        written.remove()
    }

    @Test func `a new file that another process has taken for abandoned is not used`() throws {
        let folder = try TemporaryFolder()
        for (name, isRemoved) in [("kept", false), ("removed", true)] {
            let path = folder.path(name)
            let file = open(path, O_RDWR | O_CREAT, 0o600)
            if isRemoved { unlink(path) }
            #expect(PartialFile.hold(file, path) != isRemoved, "\(name)")
            // The lock belongs to the descriptor, so a second one is as that of a different process.
            if !isRemoved { #expect(!PartialFile.hold(open(path, O_RDWR), path), "locked") }
            if !isRemoved { close(file) }
        }
    }

    @Test(.takesLong) func `a restore that is refused changes nothing`() async throws {
        let place = try LedgerFolder()
        let server = try await place.serve()
        try await place.send(1..<3, to: server)
        #expect(server.terminate() == 0)
        let copy = place.path("copy.sqlite")
        #expect(try CommandLineTests.run(["backup", copy] + place.database).status == 0)
        try Data("no ledger".utf8).write(to: URL(fileURLWithPath: place.path("other")))
        let before = try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path).sorted()
        let ledger = try Data(contentsOf: URL(fileURLWithPath: place.path("ledger.sqlite")))
        let wrong: [([String], String, Int32)] = [
            ([], "Pass the BACKUP to restore", 2), ([copy, "--new-epoch"], "Pass the BACKUP to restore", 2),
            ([place.path("none")], "There is no backup at", 2),
            ([place.path("ledger.sqlite")], "is the ledger itself", 2),
            ([place.path("other")], "Nothing was restored", 1),
        ]
        for (arguments, message, status) in wrong {
            let outcome = try CommandLineTests.run(["restore"] + arguments + place.arguments)
            #expect(outcome.status == status && outcome.error.contains(message), "\(outcome.error)")
        }
        // Without the roots of these documents.
        let unverified = try CommandLineTests.run(["restore", copy] + place.database)
        #expect(unverified.status == 1 && unverified.error.contains("Nothing was restored"), "\(unverified.error)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path).sorted() == before)
        #expect(try Data(contentsOf: URL(fileURLWithPath: place.path("ledger.sqlite"))) == ledger)
        for name in ["ledger.sqlite-lock", "ledger.sqlite-erasures", "ledger.sqlite-journal"] {
            let outcome = try CommandLineTests.run(["backup", place.path(name), "--force"] + place.database)
            #expect(outcome.status == 2 && outcome.error.contains("a name of the ledger's own"), "\(outcome.error)")
        }
    }

    @Test func `a backup replaces another file only with --force, and leaves no file behind if it fails`()
        async throws
    {
        let place = try LedgerFolder()
        #expect(try await place.serve().terminate() == 0)
        let (copy, ledger) = (place.path("copy.sqlite"), place.path("ledger.sqlite"))
        #expect(try CommandLineTests.run(["backup", copy] + place.database).status == 0)
        let first = try Data(contentsOf: URL(fileURLWithPath: copy))
        let before = try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path).sorted()
        let wrong: [([String], String, Int32)] = [
            ([copy], "exists: choose another file", 2), ([ledger, "--force"], "is the ledger itself", 2),
            ([ledger + "-wal", "--force"], "is a name of the ledger's own files", 2),
            ([place.folder.url.path, "--force"], "is not a regular file", 2),
            ([place.path("nowhere/copy")], "in \(place.path("nowhere")): No such file", 1),
            ([""], "name the file to write", 2),
        ]
        for (arguments, message, status) in wrong {
            let outcome = try CommandLineTests.run(["backup"] + arguments + place.database)
            #expect(outcome.status == status && outcome.error.contains(message), "\(outcome.error)")
        }
        let none = try CommandLineTests.run(["backup", place.path("new"), "--database", "sqlite:\(place.path("none"))"])
        #expect(none.status == 2 && none.error.contains("There is no ledger at"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: copy)) == first)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path).sorted() == before)
        #expect(try Self.backup(place.path("large"), of: place, fileLimit: 100) == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path).sorted() == before)
        #expect(try CommandLineTests.run(["backup", copy, "--force"] + place.database).status == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path).sorted() == before)
    }

    @Test(.takesLong)
    func `check, rebuild and backup exit with status 1 on a damaged file, and change nothing`() async throws {
        let place = try LedgerFolder()
        let server = try await place.serve()
        try await place.send(1..<10, to: server)
        #expect(server.terminate() == 0)
        let file = URL(fileURLWithPath: place.path("ledger.sqlite"))
        let whole = Array(try Data(contentsOf: file))
        let size = 4096
        let texts = whole.indices.dropLast(13).filter { whole[$0..<$0 + 12].elementsEqual("notification".utf8) }
        // Finds three pages with rows of notifications. A page of type 13 holds rows of a table, and the row of a
        // notification contains this word as its kind. Pages of the schema contain the word too, but come first.
        let pages = Set(texts.map { $0 / size }).filter { whole[$0 * size] == 13 }.sorted().suffix(3)
        try #require(pages.count == 3)
        let (first, last) = (pages[pages.startIndex] * size, pages[pages.endIndex - 1] * size)
        var copied = whole
        copied.replaceSubrange(last..<last + size, with: whole[first..<first + size])
        var header = whole
        header.replaceSubrange(0..<size, with: [UInt8](repeating: 1, count: size))
        for damaged in [copied, header, Array(whole.prefix(whole.count / 2 / size * size)), []] {
            for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file.path + ending) }
            try Data(damaged).write(to: file)
            for arguments in [["check"], ["rebuild"], ["backup", place.path("copy.sqlite")]] {
                let outcome = try CommandLineTests.run(
                    arguments + (arguments[0] == "backup" ? place.database : place.arguments))
                #expect(outcome.status == 1 && !outcome.error.isEmpty, "\(arguments): \(outcome)")
            }
            #expect(Array(try Data(contentsOf: file)) == damaged)
            #expect(!FileManager.default.fileExists(atPath: place.path("copy.sqlite")))
        }
    }
}

extension ServerProcess {
    /// The cursors of all events after one, or the error with what it names as `oldest`.
    func follow(
        _ key: String, after cursor: String? = nil
    ) async throws -> (cursors: [String], error: String?, oldest: String?) {
        let after = cursor.map { "&after=\($0)" } ?? ""
        let answer = try await send(.GET, "/v1/events?limit=500" + after, key: key)
        let items = answer.json["items"]?.array ?? []
        let error = answer.json["error"]
        return (items.compactMap { $0["id"]?.string }, error?["code"]?.string, error?["oldest"]?.string)
    }
}
