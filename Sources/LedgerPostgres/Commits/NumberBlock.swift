// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Numbers for new customers, drawn from the database in blocks. No number is drawn twice, and unused numbers are lost.
struct NumberBlock {
    private static let size: Int64 = 1000

    private var left: Range<Int64> = 0..<0

    /// Takes `count` numbers; `nil` if too few are left.
    mutating func take(_ count: Int) -> [Int64]? {
        guard left.count >= count else { return nil }
        defer { left = (left.lowerBound + Int64(count))..<left.upperBound }
        return Array(left.prefix(count))
    }

    /// Draws a block of at least `count` numbers.
    static func draw(_ count: Int) -> PostgresStatement {
        PostgresStatement(
            "UPDATE quittance.counter SET last = last + $1 WHERE id = 2 RETURNING last - $1, last",
            [.integer(max(size, Int64(count)))])
    }

    /// Replaces the rest of the old block, which is lost, with the drawn block.
    mutating func refill(_ rows: PostgresRows) throws {
        let drawn = try rows.map { (try $0.next(Int64.self), try $0.next(Int64.self)) }
        guard let (first, last) = drawn.first, first < last else {
            throw LedgerStorageError(.damaged, "The ledger has lost its last numbers")
        }
        left = (first + 1)..<(last + 1)
    }
}
