// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Reads all rows of a table in the order of their numbers, even if the file is damaged.
///
/// If the rows of a page of the scan cannot be read together, the scan looks up each number separately. The scan ends
/// even if the file is damaged, because each page begins at a greater number than the page before.
struct TableScan<Item: Sendable> {
    typealias Row = (number: Int64, item: Item)

    /// The maximum number of single lookups: more than the number of rows in a page of the file (not of the scan).
    private static var lookups: Int64 { 1000 }

    private let rows: (_ after: Int64, _ limit: Int) throws -> [Row]
    private var page = ScanPage<Item>(items: [], next: nil)
    /// The number of the last row read or skipped.
    private var last: Int64

    /// The items of the rows after a cursor, and the damage found among them. A cursor is the number of the last row
    /// read or skipped.
    ///
    /// - Parameter rows: Reads the rows after a number, the lowest number first.
    /// - Throws: `LedgerStorageError` other than `damaged`.
    static func page(
        after cursor: ScanCursor?, limit: Int, _ rows: (_ after: Int64, _ limit: Int) throws -> [Row]
    ) throws -> ScanPage<Item> {
        try withoutActuallyEscaping(rows) { rows in
            var scan = TableScan(rows: rows, last: cursor.flatMap { Int64($0.rawValue) } ?? 0)
            let isAtEnd = try scan.read(max(1, limit))
            scan.page.next = isAtEnd ? nil : ScanCursor(rawValue: "\(scan.last)")
            return scan.page
        }
    }

    /// - Returns: Whether the scan is at its end.
    private mutating func read(_ limit: Int) throws -> Bool {
        if let found = try undamaged(limit) {
            page.items = found.map(\.item)
            last = found.last?.number ?? last
            return found.count < limit
        }
        // The single lookups report the same damage again, so the first report is dropped. But if the rows were only
        // out of order, the lookups find no damage, and the first report is kept.
        let damage = page.damage
        page.damage = []
        defer { if page.damage.isEmpty { page.damage = damage } }
        let end = last.advanced(upTo: Self.lookups)
        while last < end, page.items.count < limit {
            let found = try undamaged(1)
            if found?.isEmpty == true { return true }
            last += 1
            if let row = found?.first, row.number == last { page.items.append(row.item) }
        }
        return try page.items.isEmpty && passGap()
    }

    /// Skips damaged rows up to a readable row. Each step is twice as long as the step before, so the last step may
    /// skip readable rows too.
    ///
    /// - Returns: Whether the scan is at its end.
    private mutating func passGap() throws -> Bool {
        var step: Int64 = 1
        while last < .max {
            if let found = try undamaged(1) {
                guard let row = found.first else { return true }
                last = row.number - 1
                return false
            }
            last = last.advanced(upTo: step)
            step = step.advanced(upTo: step)
        }
        return true
    }

    /// The rows after `last`; `nil` if rows are damaged. In a damaged file, rows can be out of order.
    private mutating func undamaged(_ limit: Int) throws -> [Row]? {
        do {
            let found = try rows(last, limit)
            var previous = last
            for row in found {
                guard row.number > previous else { throw SQLiteErrors.damaged("Rows are not in order") }
                previous = row.number
            }
            return found
        } catch let error as LedgerStorageError where error.code == .damaged {
            // Many rows may be damaged for the same reason, which is reported once.
            if page.damage.last != error.message { page.damage.append(error.message) }
            return nil
        }
    }
}

extension Int64 {
    /// The sum, or the greatest number if the sum overflows.
    fileprivate func advanced(upTo step: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(step)
        return overflow ? .max : sum
    }
}
