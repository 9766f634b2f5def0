// SPDX-License-Identifier: Apache-2.0

import Foundation
import AppStoreSimulator
import GRDB
import TestData
import Testing

@testable import LedgerSQLite

/// Tests that damage to a log is told from an interrupted write, on logs that SQLite wrote.
@Suite struct LogConditionTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// A log with the places of its frames.
    private struct Log {
        var bytes: [UInt8]
        var pageSize: Int { Int(word(8)) }
        var frameSize: Int { 24 + pageSize }
        var frames: Int { (bytes.count - 32) / frameSize }

        func word(_ offset: Int) -> UInt32 { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) } }
        func start(of frame: Int) -> Int { 32 + frame * frameSize }

        /// The transaction of each frame, from 0 on.
        var transactions: [Int] {
            var transaction = 0
            return (0..<frames).map { frame in
                defer { if word(start(of: frame) + 4) > 0 { transaction += 1 } }
                return transaction
            }
        }

        var condition: LogCondition { LogConditionTests.condition(of: bytes) }

        /// Goes on with a checksum over parts of the log, and writes it.
        mutating func seal(_ parts: [Range<Int>], at offset: Int, _ sum: inout LogChecksum) {
            let isBigEndian = bytes[3] & 1 == 1
            bytes.withUnsafeBytes { bytes in
                for part in parts { sum.add(UnsafeRawBufferPointer(rebasing: bytes[part]), isBigEndian: isBigEndian) }
            }
            for (index, word) in [sum.first, sum.second].enumerated() {
                for byte in 0..<4 {
                    bytes[offset + index * 4 + byte] = UInt8(truncatingIfNeeded: word >> (24 - 8 * byte))
                }
            }
        }

        func flipping(_ bit: Int, at offset: Int) -> Log {
            var log = self
            log.bytes[offset] ^= 1 << UInt8(bit)
            return log
        }
    }

    private static func condition(of bytes: [UInt8]) -> LogCondition {
        LogCondition { offset, buffer in
            let part = bytes.dropFirst(offset).prefix(buffer.count)
            buffer.copyBytes(from: part)
            return part.count
        }
    }

    private static let pageSizes = [512, 1024, 4096, 65536]

    /// Opens a database whose log is never brought into the file.
    private func database(_ name: String, pageSize: Int = 4096) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue(path: folder.path(name), configuration: configuration)
        try queue.inDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA page_size = \(pageSize);
                    PRAGMA journal_mode = WAL;
                    PRAGMA synchronous = FULL;
                    PRAGMA wal_autocheckpoint = 0;
                    CREATE TABLE rows (content BLOB);
                    """)
        }
        return queue
    }

    private func log(_ name: String) throws -> Log {
        Log(bytes: Array(try Data(contentsOf: URL(fileURLWithPath: folder.path(name + "-wal")))))
    }

    /// A log of some transactions, each of one frame or more.
    private func log(_ name: String, pageSize: Int, transactions: Int, _ random: inout SeededRandom) throws -> Log {
        let queue = try database(name, pageSize: pageSize)
        for _ in 1..<transactions {
            let count = Int.random(in: 1...3 * pageSize, using: &random)
            try queue.write { try $0.execute(sql: "INSERT INTO rows VALUES (randomblob(\(count)))") }
        }
        return try log(name)
    }

    @Test(arguments: pageSizes) func `a log that SQLite wrote is whole`(pageSize: Int) throws {
        var random = SeededRandom(seed: 1)
        let log = try log("whole", pageSize: pageSize, transactions: 12, &random)
        #expect(log.pageSize == pageSize && log.transactions.last == 11)
        #expect(log.condition == .whole)
        #expect(Self.condition(of: []) == .whole)
    }

    @Test(arguments: Seeds.isOptimised ? pageSizes : [512])
    func `a flipped bit is damage in all transactions but the last one`(pageSize: Int) throws {
        var random = SeededRandom(seed: 2)
        let log = try log("flipped", pageSize: pageSize, transactions: 6, &random)
        for (frame, transaction) in log.transactions.enumerated() {
            let expected =
                transaction < 5
                ? LogCondition.damaged(LogDamage(frame: frame, transactions: 6 - transaction)) : .interrupted
            // Each byte of the frame's header, and some of the page.
            let offsets = Array(0..<24) + (0..<6).map { _ in Int.random(in: 24..<log.frameSize, using: &random) }
            for offset in offsets {
                let bit = Int.random(in: 0..<8, using: &random)
                let found = log.flipping(bit, at: log.start(of: frame) + offset).condition
                let place = "frame \(frame), byte \(offset), bit \(bit)"
                if transaction > 0, offset < 24 {
                    #expect(found == expected, "\(place)")
                } else if case .damaged(let damage) = found {
                    // Some high bits of a page and the size of the database have the same effect on the checksum. Then
                    // the transactions can be miscounted, and a flipped bit in the last one is found too.
                    #expect(damage.frame == frame, "\(place)")
                } else {
                    #expect(found == .interrupted && transaction == 5, "\(place)")
                }
            }
        }
    }

    @Test func `a flipped bit in the header of the log is damage`() throws {
        var random = SeededRandom(seed: 3)
        let log = try log("header", pageSize: 4096, transactions: 3, &random)
        for offset in 0..<32 {
            for bit in 0..<8 {
                let flipped = log.flipping(bit, at: offset)
                #expect(flipped.condition == .damaged(LogDamage(frame: nil, transactions: 0)), "byte \(offset)")
            }
        }
        #expect(Self.condition(of: Array(log.bytes.prefix(32)).map { _ in 0 }) == .whole)
    }

    @Test func `every field of a damaged frame may hold anything`() throws {
        var random = SeededRandom(seed: 4)
        let log = try log("fields", pageSize: 512, transactions: 5, &random)
        let fields = [0..<4, 4..<8, 8..<16, 16..<24, 24..<536]
        for (frame, transaction) in log.transactions.enumerated() {
            for field in fields {
                var changed = log
                let start = log.start(of: frame)
                for offset in field {
                    changed.bytes[start + offset] &+= UInt8.random(in: 1...255, using: &random)
                }
                let expected =
                    transaction < 4
                    ? LogCondition.damaged(LogDamage(frame: frame, transactions: 5 - transaction)) : .interrupted
                if transaction == 0, case .damaged(let damage) = changed.condition {
                    #expect(damage.frame == frame)
                } else {
                    #expect(changed.condition == expected, "frame \(frame), \(field)")
                }
            }
        }
    }

    /// Then no field of it tells whether it ended a transaction.
    @Test func `a frame that is lost whole is damage if two transactions are behind it`() throws {
        var random = SeededRandom(seed: 5)
        let log = try log("lost", pageSize: 1024, transactions: 6, &random)
        for (frame, transaction) in log.transactions.enumerated() where transaction < 4 {
            var changed = log
            for offset in log.start(of: frame)..<log.start(of: frame + 1) { changed.bytes[offset] = 0 }
            guard case .damaged(let damage) = changed.condition else {
                Issue.record("frame \(frame): \(changed.condition)")
                continue
            }
            #expect(damage.frame == frame)
        }
    }

    @Test func `a log that ends early is no damage`() throws {
        var random = SeededRandom(seed: 6)
        let log = try log("short", pageSize: 512, transactions: 6, &random)
        let ends = log.transactions.indices.filter {
            $0 + 1 == log.frames || log.transactions[$0 + 1] > log.transactions[$0]
        }
        for count in 0...log.bytes.count {
            let frames = max(0, count - 32) / log.frameSize
            let expected = frames == 0 || ends.contains(frames - 1) ? LogCondition.whole : .interrupted
            #expect(Self.condition(of: Array(log.bytes.prefix(count))) == expected, "\(count) bytes")
        }
    }

    /// A power failure may keep any sectors of what was not flushed, and what was there before in all others.
    @Test(arguments: Seeds.first(60, soak: 2000))
    func `an interrupted write is no damage, whatever sectors of it were kept`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let name = "torn\(seed)"
        let queue = try database(name, pageSize: 512)
        // An earlier use of the file, of which frames are left.
        try queue.write { try $0.execute(sql: "INSERT INTO rows VALUES (randomblob(40000))") }
        try queue.inDatabase { _ = try $0.checkpoint(.restart) }
        for _ in 0..<3 { try queue.write { try $0.execute(sql: "INSERT INTO rows VALUES (randomblob(900))") } }
        let before = try log(name)
        try queue.write {
            try $0.execute(sql: "INSERT INTO rows VALUES (randomblob(\(Int.random(in: 1...9000, using: &random))))")
        }
        let after = try log(name)
        try #require(before.condition == .whole && after.condition == .whole)
        for _ in 0..<20 {
            var torn = after
            for sector in stride(from: 0, to: torn.bytes.count, by: 512) where Bool.random(using: &random) {
                let end = min(sector + 512, torn.bytes.count)
                let old = before.bytes.dropFirst(sector).prefix(512)
                torn.bytes.replaceSubrange(
                    sector..<end, with: old + [UInt8](repeating: 0, count: end - sector - old.count))
            }
            #expect(torn.condition == .whole || torn.condition == .interrupted, "seed \(seed)")
        }
    }

    @Test func `frames of an earlier use of the file are no damage`() throws {
        let queue = try database("old")
        try queue.write { try $0.execute(sql: "INSERT INTO rows VALUES (randomblob(400000))") }
        try queue.inDatabase { _ = try $0.checkpoint(.restart) }
        let used = try log("old").bytes.count
        for _ in 0..<5 {
            try queue.write { try $0.execute(sql: "INSERT INTO rows VALUES (1)") }
            let log = try log("old")
            #expect(log.bytes.count == used && log.condition == .whole)
        }
    }

    /// They lie behind the transactions that came after.
    @Test func `frames of a transaction that was rolled back are no damage`() throws {
        let queue = try database("back")
        for size in [400_000, 200_000, 100_000] {
            try queue.inDatabase { database in
                // Makes SQLite write pages to the log before the commit.
                try database.execute(sql: "PRAGMA cache_size = 2; PRAGMA cache_spill = 1")
                try database.execute(sql: "BEGIN")
                for _ in 0..<size / 10000 {
                    try database.execute(sql: "INSERT INTO rows VALUES (randomblob(10000))")
                }
                try database.execute(sql: "ROLLBACK")
            }
            for _ in 0..<3 {
                try queue.write { try $0.execute(sql: "INSERT INTO rows VALUES (1)") }
                let condition = try log("back").condition
                #expect(condition == .interrupted || condition == .whole)
            }
        }
        #expect(try log("back").frames > 90)
    }

    /// SQLite writes the order of the machine, and reads both.
    @Test func `a log of a machine with the other byte order is read too`() throws {
        var random = SeededRandom(seed: 7)
        var log = try log("order", pageSize: 512, transactions: 4, &random)
        log.bytes[3] ^= 1
        var sum = LogChecksum()
        log.seal([0..<24], at: 24, &sum)
        for frame in 0..<log.frames {
            let start = log.start(of: frame)
            log.seal([start..<start + 8, start + 24..<start + log.frameSize], at: start + 16, &sum)
        }
        try Data(log.bytes).write(to: URL(fileURLWithPath: folder.path("other-wal")))
        try FileManager.default.copyItem(atPath: folder.path("order"), toPath: folder.path("other"))
        #expect(
            try DatabaseQueue(path: folder.path("other")).read {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM rows")
            } == 3)
        #expect(log.condition == .whole)
        #expect(log.flipping(0, at: 40).condition == .damaged(LogDamage(frame: 0, transactions: 4)))
        #expect(log.flipping(0, at: log.start(of: 1) + 5).condition != .whole)
    }
}
