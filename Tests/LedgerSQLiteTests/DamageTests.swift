// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Tests checks of a ledger whose file was damaged. They must terminate, and report faults unless all documents are
/// intact.
@Suite struct DamageTests {
    private let folder: TemporaryFolder
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)
    private static let pageSize = 4096

    init() throws {
        folder = try TemporaryFolder()
    }

    /// A kind of damage to a file.
    enum Damage: CaseIterable {
        case copiedPage, swappedPages, emptyPage, flippedBits, truncated

        func apply(to file: inout [UInt8], _ random: inout SeededRandom) {
            let size = DamageTests.pageSize
            let pages = (0..<2).map { _ in Int.random(in: 0..<(file.count / size), using: &random) * size }
            let (first, second) = (pages[0]..<(pages[0] + size), pages[1]..<(pages[1] + size))
            switch self {
            case .copiedPage: file.replaceSubrange(first, with: Array(file[second]))
            case .swappedPages:
                let old = Array(file[first])
                file.replaceSubrange(first, with: Array(file[second]))
                file.replaceSubrange(second, with: old)
            case .emptyPage: file.replaceSubrange(first, with: [UInt8](repeating: 0, count: size))
            case .flippedBits:
                for _ in 0..<Int.random(in: 1...8, using: &random) {
                    file[first.randomElement(using: &random) ?? 0] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                }
            case .truncated: file.removeLast(file.count - first.lowerBound)
            }
        }
    }

    /// What a check of a ledger found.
    private struct Findings {
        var faults: [String] = []
        var documents: [[UInt8]] = []
    }

    private func write(_ bytes: [UInt8], _ name: String) throws -> String {
        let path = folder.path(name)
        for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + ending) }
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        return path
    }

    /// Everything that `quittance check` and `quittance rebuild` examine.
    private static func findings(_ path: String, _ appStore: AppStore) async -> Findings {
        var findings = Findings()
        do {
            let storage = try SQLiteLedgerStorage(path: path, createIfMissing: false)
            defer { try? storage.close() }
            findings.faults = try await storage.faults()
            let ledger = Ledger(storage: storage)
            let checked = try await ledger.check(by: appStore.verifier)
            findings.faults += checked.faults.map(\.error)
            let rebuilt = try await ledger.rebuild(by: appStore.verifier, at: now)
            findings.faults += rebuilt.faults.map(\.error) + rebuilt.differing.map { "\($0) differed" }
            let scanned = try await storage.scanned()
            findings.faults += scanned.damage
            findings.documents = scanned.documents.map(\.document)
        } catch {
            findings.faults.append("\(error)")
        }
        return findings
    }

    @Test(.takesLong, arguments: Damage.allCases)
    func `a check of a damaged ledger terminates, and reports faults unless all documents are intact`(
        damage: Damage
    ) async throws {
        var appStore = try AppStore()
        let path = folder.path("whole.sqlite")
        let storage = try SQLiteLedgerStorage(path: path)
        for _ in 0..<4 {
            let evidence = try await appStore.evidence(of: appStore.notification())
            _ = try await Ledger(storage: storage).record([evidence], at: Self.now)
        }
        try storage.close()
        let whole = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
        let expected = await Self.findings(try write(whole, "copy.sqlite"), appStore)
        #expect(expected.faults == [] && expected.documents.count == 12)
        for seed in Seeds.first(12, soak: 200) {
            var (bytes, random) = (whole, SeededRandom(seed: seed))
            damage.apply(to: &bytes, &random)
            let found = await Self.findings(try write(bytes, "damaged.sqlite"), appStore)
            #expect(!found.faults.isEmpty || found.documents == expected.documents, "\(damage), seed \(seed)")
        }
    }

    @Test func `a page that overwrites another is reported, and all other documents are read`() async throws {
        let appStore = try AppStore()
        let path = folder.path("whole.sqlite")
        let storage = try SQLiteLedgerStorage(path: path)
        let count = 400
        try await storage.store(
            (0..<count).map { number in
                let filler = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 600)
                return .unverified(Array("#\(number)# ".utf8) + filler)
            })
        try storage.close()
        let whole = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
        // A page of type 13 holds rows of a table.
        let leaves = (1..<whole.count / Self.pageSize).map { $0 * Self.pageSize }.filter { page in
            whole[page] == 13 && whole[page..<page + Self.pageSize].contains(Array("# ".utf8))
        }
        try #require(leaves.count > 40)
        for (number, source) in leaves.enumerated() where number % 8 == 0 {
            var bytes = whole
            let target = leaves[(number * 7 + 11) % leaves.count]
            guard target != source else { continue }
            bytes.replaceSubrange(target..<target + Self.pageSize, with: whole[source..<source + Self.pageSize])
            let damaged = try SQLiteLedgerStorage(path: try write(bytes, "damaged.sqlite"))
            #expect(try await damaged.faults() != [])
            let checked = try await Ledger(storage: damaged).check(by: appStore.verifier)
            // Only the documents of the overwritten page are missing: at most 20. The check counts all others.
            #expect((count - 20..<count + 1).contains(checked.documents), "\(number): \(checked.documents)")
            #expect(checked.faults.contains { $0.document == nil }, "\(number)")
            try damaged.close()
        }
    }
}
