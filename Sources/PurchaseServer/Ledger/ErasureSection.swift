// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import PurchaseLedger

/// One journal of a file: its first line, and the lines up to the first line of the next journal.
package struct ErasureSection: Hashable, Sendable {
    /// The first line.
    package var header: Substring
    package var lines: [Substring] = []

    static let title = "quittance-erasures 2"

    /// - Parameter text: A text whose last line may be incomplete. It is then left out, unless it is the first.
    package static func all(in text: String) -> [ErasureSection] {
        var sections: [ErasureSection] = []
        // By bytes, because CR LF is a single character.
        for bytes in text.utf8[..<(text.utf8.lastIndex(of: 0x0A) ?? text.endIndex)].split(separator: 0x0A) {
            // An editor may have ended the lines by CR LF.
            let line = Substring(bytes.last == 0x0D ? bytes.dropLast() : bytes)
            if line.hasPrefix(title) || sections.isEmpty {
                sections.append(ErasureSection(header: line))
            } else {
                sections[sections.count - 1].lines.append(line)
            }
        }
        return sections
    }

    /// - Throws: `LedgerStorageError.damaged` if nothing in a text shows that it was a journal. A power failure may
    ///   leave zeros alone.
    package static func requireJournal(_ text: String, _ path: String) throws {
        let isJournal = all(in: text).contains { section in
            section.header.hasPrefix(title) || section.lines.contains { record($0) != nil }
        }
        guard isJournal || text.utf8.allSatisfy({ $0 == 0 }) else {
            throw LedgerStorageError(
                .damaged,
                """
                \(path) is no journal of erasures, and stays as it is: set erasureJournal to a different file, or move \
                this one away and put the newest copy of the journal in its place (BACKUP-erasures), if there is one
                """)
        }
    }

    /// The text of a file with the journals of both texts. A journal that both texts have gets the lines of both,
    /// but for damaged lines of `other`. A damaged first line is taken from the other text.
    ///
    /// - Parameter text: The text whose last journal remains the last journal of the result.
    package static func merge(_ other: String, into text: String) -> String {
        let own = all(in: text)
        let others = all(in: other)
        var sections = own.map { $0.mended(from: others) }
        for section in others.reversed().map({ $0.mended(from: own) }) where section.key != nil {
            if let index = sections.firstIndex(where: { $0.header == section.header }) {
                let known = Set(sections[index].lines.map { content($0) })
                let damaged = Set(section.read().damaged)
                for (place, line) in section.lines.enumerated()
                where !damaged.contains(place) && !known.contains(content(line)) {
                    sections[index].append(content(line))
                }
            } else {
                sections.insert(section, at: 0)
            }
        }
        return sections.map(\.text).joined()
    }

    /// The journal with a readable first line: with that of the journal whose key seals its lines.
    private func mended(from others: [ErasureSection]) -> ErasureSection {
        guard key == nil, !lines.isEmpty else { return self }
        let mended = others.lazy.map { ErasureSection(header: $0.header, lines: lines) }
        return mended.first { $0.key != nil && $0.read().damaged.first != 0 } ?? self
    }

    /// A text with all readable lines, each with a valid seal. Of a journal without its first line no line is.
    package static func resealed(_ text: String) -> String {
        all(in: text).filter { $0.key != nil }.map { section in
            var resealed = ErasureSection(header: section.header)
            for record in section.read().records { resealed.append(content(record)[...]) }
            return resealed.text
        }.joined()
    }

    /// The number of the first damaged line of a text, from 1; `nil` if there is none.
    package static func damagedLine(in text: String) -> Int? { damagedLine(all(in: text).map { ($0, $0.read()) }) }

    static func damagedLine(_ sections: [(ErasureSection, Found)]) -> Int? {
        var before = 0
        for (section, found) in sections {
            if section.key == nil { return before + 1 }
            if let first = found.damaged.first { return before + first + 2 }
            before += section.lines.count + 1
        }
        return nil
    }

    private var text: String { ([header] + lines).joined(separator: "\n") + "\n" }

    /// A line without its seal.
    private static func content(_ line: Substring) -> Substring {
        line.lastIndex(of: " ").map { line[..<$0] } ?? line
    }

    /// The readable erasures in the lines, and the places of the lines without a valid seal. Behind a damaged line, the
    /// next has none either.
    typealias Found = (records: [ErasureRecord], damaged: [Int])

    /// Reads the lines. A damaged line that can be read counts too, because only the right name is that of a customer.
    /// Its number is at most its place, as if it had no later erasure, and its time is between those of whole lines.
    func read() -> Found {
        var found: Found = ([], [])
        let key = key ?? []
        var before = header
        var time: Timestamp?
        for (place, line) in lines.enumerated() {
            let record = Self.record(line)
            let isSealed = line == Self.seal(Self.content(line), after: before, key)
            // No journal has 2^48 lines. With a greater number, the next could overflow.
            let isWhole = (record?.number ?? .max) >> 48 == 0 && isSealed
            before = line
            if !isWhole { found.damaged.append(place) }
            guard var record else { continue }
            if isWhole {
                time = record.erasedAt
            } else {
                record.isDamaged = true
                record.number = min(record.number, Int64(place) + 1)
                record.erasedAt = max(record.erasedAt, time ?? record.erasedAt)
            }
            found.records.append(record)
        }
        var end: Timestamp?
        for index in found.records.indices.reversed() {
            let time = found.records[index].erasedAt
            guard found.records[index].isDamaged else {
                end = time
                continue
            }
            found.records[index].erasedAt = min(time, end ?? time)
        }
        return found
    }

    private mutating func append(_ content: Substring) {
        lines.append(Self.seal(content, after: lines.last ?? header, key ?? [])[...])
    }

    /// The first line of a journal with a key: the key, and four bytes of its hash against damage.
    static func header(_ key: [UInt8]) -> String {
        "\(title) \(key.hexadecimal) \(SHA256.hash(data: key).prefix(4).hexadecimal)"
    }

    /// The key in the header; `nil` if the line is not a header.
    var key: [UInt8]? {
        let words = header.split(separator: " ")
        let digits = words.count == 4 ? words[2] : ""
        let bytes = stride(from: 0, to: digits.utf8.count, by: 2).compactMap { start in
            UInt8(digits.dropFirst(start).prefix(2), radix: 16)
        }
        return bytes.count == 32 && Self.header(bytes) == header ? bytes : nil
    }

    /// The line of an erasure without its seal.
    static func content(_ record: ErasureRecord) -> String {
        "\(record.number) \(record.erasedAt.milliseconds) \(record.bundleId) \(record.name)"
    }

    private static func record(_ line: Substring) -> ErasureRecord? {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 5, words[3].count == 64 else { return nil }
        // Of a damaged line the name alone counts, so that its number and its time need not be numbers.
        return ErasureRecord(
            number: Int64(words[0]) ?? .max, bundleId: String(words[2]),
            erasedAt: Timestamp(milliseconds: Int64(words[1]) ?? .max), name: String(words[3]))
    }

    /// A line of a journal with its seal.
    static func seal(_ content: some StringProtocol, after line: some StringProtocol, _ key: [UInt8]) -> String {
        let text = Array("\(line)\n\(content)".utf8)
        let code = HMAC<SHA256>.authenticationCode(for: text, using: SymmetricKey(data: key))
        return "\(content) \(code.prefix(16).hexadecimal)"
    }
}

extension Sequence<UInt8> {
    /// Two lower-case digits for each byte.
    package var hexadecimal: String { map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }
}
