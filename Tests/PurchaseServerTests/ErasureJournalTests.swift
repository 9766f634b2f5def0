// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerSQLite
import Logging
import PurchaseLedger
import TestData
import TestProcess
import Testing

@testable import PurchaseServer

/// Tests that erasures outlive an older state of the ledger.
@Suite struct ErasureJournalTests {
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    private static func time(_ second: Int64) -> Timestamp {
        Timestamp(milliseconds: 1_750_000_000_000 + second * 1000)
    }

    private func path(_ name: String) -> String { folder.url.appendingPathComponent(name).path }

    private func journal(_ name: String = "erasures", seed: UInt64 = 1) throws -> ErasureJournalFile {
        var random = SeededRandom(seed: seed)
        return try ErasureJournalFile(path(name), random: &random)
    }

    /// Adds a customer, as a claim does.
    private static func add(_ ids: String..., to ledger: Ledger) async throws {
        let keys = ids.map { CustomerID($0, of: scope.bundleId) }
        try await ledger.storage.commit(LedgerQuery([.customerID(keys[0])])) { snapshot in
            var changes = LedgerChanges()
            let customer = Customer(number: snapshot.newNumbers[keys[0]] ?? 0, bundleId: scope.bundleId)
            changes.customers = [CustomerRecord(customer, ids: ids, isEstablished: true)]
            return .commit(changes, ())
        }
    }

    private static func known(_ ids: String..., in ledger: Ledger) async throws -> [String] {
        var known: [String] = []
        for id in ids where try await ledger.customer(id, in: scope, at: time(0)) != nil { known.append(id) }
        return known
    }

    @Test func `in an older ledger who was deleted since is deleted again, and who came back stays`() async throws {
        var ledgers: [Ledger] = []
        for name in ["new", "old"] { ledgers.append(Ledger(storage: try SQLiteLedgerStorage(path: path(name)))) }
        let file = try journal()
        let journal = try #require(file.journal)
        for place in ledgers.indices { ledgers[place].keepErasures(in: journal) }
        // What both have.
        for ledger in ledgers {
            try await Self.add("anna", "anna@example.com", to: ledger)
            try await Self.add("bert", to: ledger)
            try await Self.add("dora", to: ledger)
        }
        _ = try await ledgers[0].delete("dora", in: Self.scope, at: Self.time(1))
        let note = try await ledgers[0].storage.records(RecordSelection(), limit: 9)
        try await ledgers[1].storage.commit(LedgerQuery()) { _ in
            // The backup was made after Dora's deletion and return.
            var changes = LedgerChanges()
            changes.records = note
            return .commit(changes, ())
        }
        // What only the new one has.
        #expect(try await ledgers[0].delete("anna@example.com", in: Self.scope, at: Self.time(2)) != nil)
        #expect(try await ledgers[0].delete("nobody", in: Self.scope, at: Self.time(3)) == nil)
        #expect(try await ledgers[0].replay(file).erased == 0)

        #expect(try await ledgers[1].replay(file).erased == 1)
        #expect(try await Self.known("anna", "anna@example.com", "bert", "dora", in: ledgers[1]) == ["bert", "dora"])
        try await Self.add("anna", to: ledgers[1])
        #expect(try await ledgers[1].replay(file).erased == 0)
        #expect(try await Self.known("anna", in: ledgers[1]) == ["anna"])
    }

    @Test func `the journal names nobody, and only its owner may read it`() async throws {
        var ledger = Ledger(storage: MemoryLedgerStorage())
        let file = try journal()
        ledger.keepErasures(in: try #require(file.journal))
        try await Self.add("anna@example.com", "9f3c", to: ledger)
        #expect(try await ledger.delete("9f3c", in: Self.scope, at: Self.time(1)) != nil)
        let text = try ErasureJournalFile.text(of: file.path)
        let lines = text.split(separator: "\n")
        #expect(lines.count == 3 && lines[0].hasPrefix("quittance-erasures 2 "))
        #expect(lines[1...].allSatisfy { $0.hasPrefix("2 1750000001000 com.example ") })
        #expect(!text.contains("anna") && !text.contains("9f3c"))
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    /// The program ended, or the commit failed, after the line was written.
    @Test func `an erasure that was written and not committed is done at the next start`() async throws {
        let ledger = Ledger(storage: MemoryLedgerStorage())
        try await Self.add("anna", to: ledger)
        try await Self.add("bert", to: ledger)
        let file = try journal()
        _ = try #require(file.journal).add([CustomerID("anna", of: Self.scope.bundleId)], at: Self.time(1))
        #expect(try await ledger.replay(file).erased == 1)
        #expect(try await Self.known("anna", "bert", in: ledger) == ["bert"])
    }

    @Test func `erasures at the same time are numbered and committed one after another`() async throws {
        var ledger = Ledger(storage: MemoryLedgerStorage())
        let file = try journal()
        ledger.keepErasures(in: try #require(file.journal))
        for number in 0..<40 { try await Self.add("\(number)", to: ledger) }
        try await withThrowingTaskGroup(of: Void.self) { [ledger] group in
            for number in 0..<40 {
                group.addTask { _ = try await ledger.delete("\(number)", in: Self.scope, at: Self.time(1)) }
            }
            try await group.waitForAll()
        }
        let records = try #require(file.journal).records()
        #expect(records.map(\.number) == Array(1...40))
        let notes = try await ledger.storage.records(
            RecordSelection(RecordKind(rawValue: "erasures")), limit: 9)
        #expect(notes.map { String(decoding: $0.payload, as: UTF8.self) } == ["40"])
    }

    @Test func `a line that was cut is passed over, and what follows it is read`() throws {
        let id = CustomerID("anna", of: Self.scope.bundleId)
        do { _ = try #require(try journal().journal).add([id], at: Self.time(1)) }
        var text = try ErasureJournalFile.text(of: path("erasures"))
        text.removeLast(20)
        try text.write(toFile: path("erasures"), atomically: false, encoding: .utf8)
        do { _ = try #require(try journal().journal).add([id], at: Self.time(2)) }
        let records = try #require(try journal().journal).records()
        #expect(records.map(\.erasedAt) == [Self.time(2)])
    }

    @Test func `a journal that was removed takes no erasure, so that no customer is deleted without it`() async throws {
        var ledger = Ledger(storage: MemoryLedgerStorage())
        let file = try journal()
        ledger.keepErasures(in: try #require(file.journal))
        try await Self.add("anna", to: ledger)
        try FileManager.default.removeItem(atPath: file.path)
        await #expect(throws: LedgerStorageError.self) {
            try await ledger.delete("anna", in: Self.scope, at: Self.time(1))
        }
        #expect(try await Self.known("anna", in: ledger) == ["anna"])
    }

    @Test(.timeLimit(.minutes(60)))
    func `as long as a journal cannot be written, a concern and the log say so`() async throws {
        var service = LedgerService(
            ledger: Ledger(storage: MemoryLedgerStorage()),
            verifier: AppStoreVerifier(apps: .any, environments: [.production]))
        let (file, lines) = (try journal(), LogLines())
        let logger = Logger(label: "test") { _ in lines }
        service.keepErasures(in: file, logger)
        let text = try ErasureJournalFile.text(of: file.path)
        var housekeeping = Housekeeping(
            ledger: service.ledger, now: { Self.time(0) }, clock: VirtualClock(), logger: logger)
        housekeeping.erasures = service.erasures
        let running = Task { [housekeeping] in try await housekeeping.run() }
        func wait(for line: String) async throws {
            while !lines.text.contains(where: { $0.contains(line) }) { try await Task.sleep(for: .milliseconds(1)) }
        }
        try FileManager.default.moveItem(atPath: file.path, toPath: path("aside"))
        try await wait(for: "Deletions fail, or soon will")
        #expect(service.concerns.map(\.code) == ["erasureJournal"])
        try FileManager.default.moveItem(atPath: path("aside"), toPath: file.path)
        try await wait(for: "The journal of erasures can be written again")
        #expect(service.concern == nil)
        running.cancel()
        try await running.value
        // The housekeeping did not wait for the end of its last trial.
        await file.tryWriting()
        #expect(try ErasureJournalFile.text(of: file.path) == text)
    }

    @Test(.enabled(if: TestMount.isPossible, "This user cannot mount a disk"))
    func `a full disk is found before a customer is to be deleted, and the room that is made`() async throws {
        try FileManager.default.createDirectory(atPath: path("disk"), withIntermediateDirectories: false)
        defer { _ = try? TestProcess.run(["umount", "-l", path("disk")]) }
        try #require(try TestProcess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", path("disk")]).status == 0)
        let file = try journal("disk/erasures")
        let text = try ErasureJournalFile.text(of: file.path)
        await file.tryWriting()
        #expect(file.fault == nil)
        try String(repeating: "x", count: 12 << 10).write(toFile: path("disk/x"), atomically: false, encoding: .utf8)
        await file.tryWriting()
        #expect(file.fault?.contains("No space left on device") == true)
        #expect(try ErasureJournalFile.text(of: file.path) == text)
        try FileManager.default.removeItem(atPath: path("disk/x"))
        // What is small may fit into the last block.
        _ = try #require(file.journal).add([CustomerID("anna", of: Self.scope.bundleId)], at: Self.time(1))
        #expect(file.fault != nil)
        await file.tryWriting()
        #expect(file.fault == nil)
    }

    @Test func `another file is refused, and so is a journal that is in use`() throws {
        for text in ["x", "{}\n", "quittance-erasures\n"] {
            try text.write(toFile: path("other"), atomically: false, encoding: .utf8)
            #expect { try journal("other") } throws: { ($0 as? LedgerStorageError)?.code == .damaged }
            #expect(try ErasureJournalFile.text(of: path("other")) == text)
        }
        var random = SeededRandom(seed: 1)
        #expect { try ErasureJournalFile("/dev/null", random: &random) } throws: {
            ($0 as? LedgerStorageError)?.code == .unavailable
        }
        let first = try journal()
        #expect { try journal() } throws: { "\($0)".contains("is used by a server") }
        #expect(first.journal != nil)
        #expect { try journal("none/erasures") } throws: { "\($0)".contains("No such file") }
    }

    /// Two machines went on with the journal of one backup.
    @Test func `of one journal in two files all lines are kept`() throws {
        let ids = ["anna", "bert", "cora"].map { CustomerID($0, of: Self.scope.bundleId) }
        do { _ = try #require(try journal("first").journal).add([ids[0]], at: Self.time(1)) }
        let first = try ErasureJournalFile.text(of: path("first"))
        var texts: [String] = []
        for added in [Array(ids[1...]), [ids[0]]] {
            try first.write(toFile: path("second"), atomically: false, encoding: .utf8)
            do { _ = try #require(try journal("second").journal).add(added, at: Self.time(2)) }
            texts.append(try ErasureJournalFile.text(of: path("second")))
        }
        let merged = ErasureSection.merge(texts[0], into: texts[1])
        try merged.write(toFile: path("merged"), atomically: false, encoding: .utf8)
        let file = try journal("merged")
        #expect(try file.journal?.records().map(\.number) == [1, 2, 3, 3] && file.damagedLine == nil)
        #expect(ErasureSection.merge(texts[0], into: merged) == merged)
    }

    /// A ledger that has deleted five customers, its journal, and the journal as it was after three of them.
    private func deleting() async throws -> (ledger: Ledger, older: String, whole: String) {
        var ledger = Ledger(storage: MemoryLedgerStorage())
        let file = try journal()
        ledger.keepErasures(in: try #require(file.journal))
        var older = ""
        for (second, ids) in [["anna", "anna@example.com"], ["bert"], ["cora"], ["dora"]].enumerated() {
            for id in ids { try await Self.add(id, to: ledger) }
            for id in ids { _ = try await ledger.delete(id, in: Self.scope, at: Self.time(Int64(second))) }
            if second == 1 { older = try ErasureJournalFile.text(of: file.path) }
        }
        return (ledger, older, try ErasureJournalFile.text(of: file.path))
    }

    /// The ledger may still have the former file open.
    private func write(_ text: String?) throws {
        unlink(path("erasures"))
        try text?.write(toFile: path("erasures"), atomically: false, encoding: .utf8)
    }

    private func outcome(
        of text: String?, in ledger: Ledger, isOnly: Bool = true, accepts: Bool = false
    ) async throws -> String? {
        try write(text)
        return try await ledger.replay(try journal(seed: 5), isOnly: isOnly, accepts: accepts).concern
    }

    @Test func `a journal that was cut, emptied, replaced or is older or missing is a concern`() async throws {
        let (ledger, older, whole) = try await deleting()
        let lines = whole.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        #expect(lines.count == 6)
        var random = SeededRandom(seed: 9)
        _ = try ErasureJournalFile(path("other"), random: &random)
        let other = try ErasureJournalFile.text(of: path("other"))
        let without = (1..<lines.count).map { place in
            let rest = lines.enumerated().filter { $0.offset != place }.map(\.element)
            return ("without line \(place + 1)", rest.joined(separator: "\n") + "\n" as String?)
        }
        let losses: [(String, String?)] = [
            ("older", older), ("emptied", ""), ("missing", nil), ("replaced", other),
            ("cut", String(whole.dropLast(20))), ("only its key", lines[0] + "\n"),
        ]
        for (name, text) in losses + without {
            #expect(try await outcome(of: text, in: ledger) != nil, "\(name)")
            #expect(try await outcome(of: whole, in: ledger) == nil, "\(name), then whole again")
        }
        // Of several servers, each has a journal of its own, in which the others' deletions are not.
        var two = ledger
        let second = try journal("second", seed: 7)
        #expect(try await two.replay(second, isOnly: false).concern != nil)
        two.keepErasures(in: try #require(second.journal))
        try await Self.add("emma", to: two)
        _ = try await two.delete("emma", in: Self.scope, at: Self.time(9))
        #expect(try await two.replay(second, isOnly: false).concern != nil)
        // The other server is still there, as its start shows.
        #expect(try await outcome(of: whole, in: ledger, isOnly: false) == nil)
        #expect(try await two.replay(second, isOnly: false).concern == nil)
        #expect(try await two.replay(second).concern != nil)
        #expect(try await outcome(of: older, in: ledger, isOnly: false) != nil)
        // A line that was being written when the power failed.
        #expect(try await outcome(of: whole + "7 17500", in: ledger, isOnly: false) == nil)
        #expect(try ErasureJournalFile.text(of: path("erasures")) == whole)
    }

    @Test(arguments: [true, false])
    func `on a shared ledger a lost journal is a concern until it is back, or the operator accepts it`(
        comesBack: Bool
    ) async throws {
        let (ledger, _, whole) = try await deleting()
        try write(nil)
        for name in ["emma", "fred"] {
            let file = try journal(seed: 5)
            #expect(try await ledger.replay(file, isOnly: false).concern != nil)
            var server = ledger
            server.keepErasures(in: try #require(file.journal))
            try await Self.add(name, to: server)
            _ = try await server.delete(name, in: Self.scope, at: Self.time(9))
        }
        let text = try ErasureJournalFile.text(of: path("erasures"))
        #expect(try await outcome(of: text, in: ledger, isOnly: false) != nil)
        #expect(try await ledger.erasureConcern(at: path("erasures"), isOnly: false) != nil)
        let mended = comesBack ? ErasureSection.merge(whole, into: text) : text
        #expect(try await outcome(of: mended, in: ledger, isOnly: false, accepts: !comesBack) == nil)
        #expect(try await outcome(of: mended, in: ledger, isOnly: false) == nil)
    }

    @Test func `a new server takes another's journal for lost until that server deletes somebody`() async throws {
        let (ledger, _, whole) = try await deleting()
        let second = try journal("second", seed: 7)
        for _ in 1...2 { #expect(try await ledger.replay(second, isOnly: false).concern != nil) }
        try write(whole)
        var server = ledger
        server.keepErasures(in: try #require(try journal(seed: 5).journal))
        try await Self.add("emma", to: server)
        _ = try await server.delete("emma", in: Self.scope, at: Self.time(9))
        for _ in 1...2 { #expect(try await ledger.replay(second, isOnly: false).concern == nil) }
    }

    @Test func `a flipped bit in any line of a journal is a concern, and ends no start`() async throws {
        let (ledger, _, whole) = try await deleting()
        let bytes = Array(whole.utf8)
        let positions = bytes.indices.filter { bytes[$0] != 0x0A && (Seeds.isSoak || $0 % 7 == 0) }
        for position in positions {
            var damaged = bytes
            damaged[position] ^= 1
            let text = String(decoding: damaged, as: UTF8.self)
            #expect(try await outcome(of: text, in: ledger) != nil, "byte \(position)")
        }
        // A damaged line still erases, because only the right name is a customer's.
        let restored = Ledger(storage: MemoryLedgerStorage())
        for id in ["anna", "bert"] { try await Self.add(id, to: restored) }
        var damaged = whole
        damaged.replaceSubrange(damaged.index(damaged.endIndex, offsetBy: -2)..., with: "x\n")
        try write(damaged)
        #expect(try await restored.replay(try journal()).erased == 2)
    }

    @Test(arguments: [(0, "\0"), (19, "3"), (30, "g"), (90, "g")])
    func `a server goes on behind a damaged first line, erases nobody by it, and the line of a copy mends it`(
        position: Int, character: String
    ) async throws {
        let (before, older, all) = try await deleting()
        var (ledger, whole) = (before, all)
        let place = whole.index(whole.startIndex, offsetBy: position)
        whole.replaceSubrange(place...place, with: character)
        for id in ["anna", "emma"] { try await Self.add(id, to: ledger) }
        try write(whole)
        do {
            let file = try journal(seed: 5)
            ledger.keepErasures(in: try #require(file.journal))
            let found = try await ledger.replay(file)
            #expect(found.erased == 0 && found.concern?.contains("is damaged in line 1, and lacks") == true)
            #expect(try await ledger.delete("emma", in: Self.scope, at: Self.time(9)) != nil)
        }
        let text = try ErasureJournalFile.text(of: path("erasures"))
        #expect(try await outcome(of: text, in: ledger) != nil)
        #expect(try await Self.known("anna", "emma", in: ledger) == ["anna"])
        for mended in [ErasureSection.merge(older, into: text), ErasureSection.merge(text, into: older)] {
            #expect(try await outcome(of: mended, in: ledger) == nil)
        }
        // The operator accepts the loss.
        #expect(try await outcome(of: ErasureSection.resealed(text), in: ledger, accepts: true) == nil)
        #expect(try await outcome(of: try ErasureJournalFile.text(of: path("erasures")), in: ledger) == nil)
    }

    @Test func `a journal is whole if an editor ended its lines by CR LF, and not with a CR for a byte`() async throws {
        let (ledger, _, whole) = try await deleting()
        #expect(try await outcome(of: whole.replacingOccurrences(of: "\n", with: "\r\n"), in: ledger) == nil)
        #expect(try await outcome(of: whole.dropLast(2) + "\r\n", in: ledger) != nil)
    }

    @Test func `a journal of which a power failure left zeros is a concern`() async throws {
        let (ledger, _, whole) = try await deleting()
        let zeros = String(repeating: "\0", count: whole.utf8.count)
        #expect(try await outcome(of: zeros, in: ledger) != nil)
        #expect(try await outcome(of: String(zeros.dropLast(200) + whole.suffix(200)), in: ledger) != nil)
    }

    @Test func `what is deleted behind a damaged first line of a second journal is read again`() async throws {
        let id = CustomerID("anna", of: Self.scope.bundleId)
        do {
            let file = try journal()
            _ = try #require(file.journal).add([id], at: Self.time(1))
            _ = try file.beginJournal().add([id], at: Self.time(2))
        }
        let lines = try ErasureJournalFile.text(of: path("erasures")).split(separator: "\n")
        try write((lines[...1] + [lines[2].dropLast()[...]] + lines[3...]).joined(separator: "\n") + "\n")
        do { _ = try #require(try journal(seed: 5).journal).add([id], at: Self.time(3)) }
        let file = try journal(seed: 5)
        #expect(try file.journals.map { try $0.records().map(\.erasedAt) } == [[Self.time(1)], [Self.time(3)]])
        #expect(file.damagedLine == 3)
    }

    @Test func `a flipped bit in a line of a journal erases nobody who came back`() async throws {
        let (ledger, _, whole) = try await deleting()
        for id in ["anna", "bert", "cora", "dora"] { try await Self.add(id, to: ledger) }
        let bytes = Array(whole.utf8)
        let start = try #require(bytes.firstIndex(of: 0x0A)) + 1
        for position in bytes.indices[start...] where bytes[position] != 0x0A && (Seeds.isSoak || position % 5 == 0) {
            for bit: UInt8 in [1, 2, 4, 8] {
                var damaged = bytes
                damaged[position] ^= bit
                try write(String(decoding: damaged, as: UTF8.self))
                #expect(try await ledger.replay(try journal()).erased == 0, "byte \(position), bit \(bit)")
            }
        }
        // The number of the last line, in which no bit of the loop may be.
        let last = try #require(whole.dropLast().lastIndex(of: "\n"))
        try write(whole[...last] + "9" + whole[last...].dropFirst(2))
        #expect(try await ledger.replay(try journal()).erased == 0)
        #expect(try await ledger.storage.apps() == [Self.scope.bundleId])
    }

    @Test(
        arguments: [
            ("5 ", "7 ", 4), ("5 ", "x ", 4), (" 1", " 9", 4), (" 1", " 99999999999999999991", 4),
            ("com.example", "com.examplf", 4), (" [0-9a-f]{32}$", " x", 4),
            (" [0-9a-f]{64} ", " \(String(repeating: "0", count: 64)) ", 3),
        ])
    func `a damaged last line repeats its erasure in a restore, as of no later time`(
        pattern: String, replacement: String, erased: Int
    ) async throws {
        let (_, _, whole) = try await deleting()
        var lines = whole.split(separator: "\n").map(String.init)
        let range = try #require(lines[5].range(of: pattern, options: .regularExpression))
        lines[5].replaceSubrange(range, with: replacement)
        for isRestore in [true, false] {
            let restored = Ledger(storage: MemoryLedgerStorage())
            for id in ["anna", "bert", "cora", "dora"] { try await Self.add(id, to: restored) }
            try write(lines.joined(separator: "\n") + "\n")
            let outcome = try await restored.replay(try journal(), restoringAt: isRestore ? Self.time(9) : nil)
            #expect(outcome.erased == (isRestore ? erased : 3) && outcome.concern != nil)
            let events = try await restored.events(of: Self.scope.bundleId, limit: 9).events
            #expect(events.allSatisfy { $0.recordedAt <= Self.time(9) })
            #expect(try await restored.storage.apps() == [Self.scope.bundleId])
        }
    }

    /// A volume was cloned with the journal, and both servers use one database.
    @Test func `what a server with a copied journal erases is erased again in a restored ledger`() async throws {
        let storage = MemoryLedgerStorage()
        var files: [ErasureJournalFile] = []
        var ledgers: [Ledger] = []
        for (seed, name) in ["first", "second"].enumerated() {
            if let first = files.first { try FileManager.default.copyItem(atPath: first.path, toPath: path(name)) }
            let file = try journal(name, seed: UInt64(seed))
            var service = LedgerService(
                ledger: Ledger(storage: storage), verifier: AppStoreVerifier(apps: .any, environments: [.production]))
            service.keepErasures(in: file, Logger(label: "test"))
            files.append(file)
            ledgers.append(service.ledger)
        }
        for id in ["anna", "bert", "cora", "dora"] { try await Self.add(id, to: ledgers[0]) }
        for id in ["anna", "bert"] { _ = try await ledgers[0].delete(id, in: Self.scope, at: Self.time(1)) }
        let restored = Ledger(storage: MemoryLedgerStorage())
        for id in ["cora", "dora"] { try await Self.add(id, to: restored) }
        let notes = try await storage.records(RecordSelection(RecordKind(rawValue: "erasures")), limit: 9)
        try await restored.storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.records = notes
            return .commit(changes, ())
        }
        for id in ["cora", "dora"] {
            #expect(try await ledgers[1].delete(id, in: Self.scope, at: Self.time(2)) != nil)
        }
        #expect(files.map(\.journals.count) == [1, 2])
        #expect(try await restored.replay(files[1], isOnly: false).erased == 2)
    }

    @Test func `what a journal lacks stays a concern until it is whole again, or the operator accepts it`()
        async throws
    {
        let (ledger, older, whole) = try await deleting()
        // The restored ledger knows what the replaced ledger knew.
        let restored = { () async throws -> Ledger in
            let restored = Ledger(storage: MemoryLedgerStorage())
            for id in ["anna", "bert", "cora", "dora", "emma"] { try await Self.add(id, to: restored) }
            try await restored.noteErasures(knownTo: try await ledger.erasureNotes())
            return restored
        }
        var first = try await restored()
        try write(older)
        do {
            let file = try journal(seed: 3)
            first.keepErasures(in: try #require(file.journal))
            let found = try await first.replay(file)
            #expect(found.erased == 2 && found.concern != nil)
            // A new journal has begun, so that no number of a lost deletion is given again.
            #expect(file.journals.count == 2)
            _ = try await first.delete("emma", in: Self.scope, at: Self.time(9))
        }
        let short = try ErasureJournalFile.text(of: path("erasures"))
        #expect(try await outcome(of: short, in: first) != nil)
        #expect(try await outcome(of: ErasureSection.merge(whole, into: short), in: first) == nil)
        #expect(try await Self.known("anna", "cora", "dora", "emma", in: first) == [])

        let second = try await restored()
        #expect(try await outcome(of: older, in: second) != nil)
        #expect(try await outcome(of: older, in: second, accepts: true) == nil)
        #expect(try await outcome(of: older, in: second) == nil)
        let damaged = older.dropLast(3) + "0x\n"
        #expect(try await outcome(of: String(damaged), in: second) != nil)
        #expect(try await outcome(of: ErasureSection.resealed(String(damaged)), in: second) == nil)
    }

    /// The ledger's disk was lost, a new ledger was begun, and then the backup was found.
    @Test func `the journals of a backup and of the ledger are kept both`() async throws {
        let ids = ["anna", "bert"].map { CustomerID($0, of: Self.scope.bundleId) }
        for (name, seed, id) in [("backup", 1, ids[0]), ("ledger", 2, ids[1])] as [(String, UInt64, CustomerID)] {
            _ = try #require(try journal(name, seed: seed).journal).add([id], at: Self.time(1))
        }
        let texts = try ["backup", "ledger"].map { try ErasureJournalFile.text(of: path($0)) }
        let merged = ErasureSection.merge(texts[0], into: texts[1])
        #expect(ErasureSection.merge(texts[0], into: merged) == merged)
        try merged.write(toFile: path("merged"), atomically: false, encoding: .utf8)
        let file = try journal("merged")
        #expect(file.journals.count == 2)
        let ledger = Ledger(storage: MemoryLedgerStorage())
        for id in ["anna", "bert", "cora"] { try await Self.add(id, to: ledger) }
        #expect(try await ledger.replay(file).erased == 2)
        #expect(try await Self.known("anna", "bert", "cora", in: ledger) == ["cora"])
    }
}
