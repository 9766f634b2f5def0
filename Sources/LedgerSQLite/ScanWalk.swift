// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Reads all rows of a table in the order of their numbers, also if the file is damaged.
///
/// It ends on any damage: each step continues behind a greater number than the last one, and if no numbers can be read the
/// steps grow.
struct ScanWalk<Item: Sendable> {
    /// How many numbers are tried one by one if not even the numbers of rows can be read. A page of a file has fewer rows.
    /// After that each step is twice as long as the last.
    private static var shortSteps: Int { 1000 }

    private let items: (_ after: Int64, _ limit: Int) throws -> [(number: Int64, item: Item)]
    private let numbers: (_ after: Int64, _ limit: Int) throws -> [Int64]
    private var page = ScanPage<Item>(items: [], next: nil)
    /// The number of the last row that was read or passed over.
    private var last: Int64 = 0
    /// Steps since a row was found.
    private var misses = 0

    init(
        items: @escaping (_ after: Int64, _ limit: Int) throws -> [(number: Int64, item: Item)],
        numbers: @escaping (_ after: Int64, _ limit: Int) throws -> [Int64]
    ) {
        (self.items, self.numbers) = (items, numbers)
    }

    /// The rows behind a cursor, which is the number of the row before.
    ///
    /// - Throws: ``LedgerStorageError`` other than `damaged`.
    func page(after cursor: ScanCursor?, limit: Int) throws -> ScanPage<Item> {
        var walk = self
        walk.last = cursor.flatMap { Int64($0.rawValue) } ?? 0
        let isAtEnd = try walk.read(max(1, limit))
        walk.page.next = isAtEnd ? nil : ScanCursor(rawValue: "\(walk.last)")
        return walk.page
    }

    /// - Returns: Whether there is nothing behind.
    private mutating func read(_ limit: Int) throws -> Bool {
        if case .success(let found) = try undamaged({ try items(last, limit) }, number: \.number) {
            take(found)
            return found.count < limit
        }
        let end = last.advanced(upTo: Int64(limit))
        while last < end || misses > 0 {
            if try readNext() { return true }
        }
        return false
    }

    /// Reads one row, or passes over one that is damaged.
    ///
    /// - Returns: Whether there is nothing behind.
    private mutating func readNext() throws -> Bool {
        switch try undamaged({ try items(last, 1) }, number: \.number) {
        case .success(let found):
            if let number = found.first?.number, try isMisplaced(number) { return try passOver(Self.disorder) }
            take(found)
            return found.isEmpty
        case .failure(let error): return try passOver(error)
        }
    }

    private mutating func take(_ found: [(number: Int64, item: Item)]) {
        guard let end = found.last?.number else { return }
        page.items += found.map(\.item)
        (last, misses) = (end, 0)
    }

    /// Whether there are rows before this one that a search from the last one does not find: in a damaged file later rows may
    /// be in the place of earlier ones.
    private func isMisplaced(_ number: Int64) throws -> Bool {
        var step: Int64 = 1
        while case let start = last.advanced(upTo: step), start < number {
            if let next = try nextNumber(after: start), next < number { return true }
            step = step.advanced(upTo: step)
        }
        return false
    }

    private func nextNumber(after start: Int64) throws -> Int64? {
        let found = try undamaged({ try numbers(start, 1) }, number: \.self, after: start)
        return (try? found.get())?.first
    }

    /// Goes on behind the damaged row, or a step further if its number cannot be read.
    private mutating func passOver(_ error: LedgerStorageError) throws -> Bool {
        // No number can be greater.
        guard last < .max else { return true }
        // Many rows in a row may be missing for one reason.
        if page.damage.last != error.message { page.damage.append(error.message) }
        if let number = try nextNumber(after: last), try !isMisplaced(number) {
            (last, misses) = (number, 0)
        } else {
            misses += 1
            last = last.advanced(upTo: 1 << min(62, max(0, misses - Self.shortSteps)))
        }
        return false
    }

    private static var disorder: LedgerStorageError {
        LedgerStorageError(.damaged, "Rows are not in the order of their numbers")
    }

    /// What a read finds if all numbers are greater than the last, in order. In a damaged file they need not be.
    private func undamaged<Row>(
        _ read: () throws -> [Row], number: (Row) -> Int64, after start: Int64? = nil
    ) throws -> Result<[Row], LedgerStorageError> {
        do {
            let rows = try read()
            var previous = start ?? last
            for row in rows {
                guard number(row) > previous else { return .failure(Self.disorder) }
                previous = number(row)
            }
            return .success(rows)
        } catch let error as LedgerStorageError where error.code == .damaged {
            return .failure(error)
        }
    }
}

extension Int64 {
    /// The sum, but not more than the greatest number.
    fileprivate func advanced(upTo step: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(step)
        return overflow ? .max : sum
    }
}
