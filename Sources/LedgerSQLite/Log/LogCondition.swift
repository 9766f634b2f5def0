// SPDX-License-Identifier: Apache-2.0

/// The condition of SQLite's write-ahead log, read from its frames before SQLite opens the log
/// (https://sqlite.org/fileformat2.html section 4).
///
/// SQLite ends its recovery at the first frame with a wrong checksum, and treats all later frames as an interrupted
/// write. But the frame may also be damaged, and then the later frames show it. Each commit is flushed before the next
/// transaction begins (`synchronous=FULL`), so an interruption can only have spoiled the last transaction. If a whole
/// transaction follows the bad frame, the frame is damaged.
enum LogCondition: Hashable, Sendable {
    /// All transactions are complete.
    case whole
    /// The last transaction is incomplete. The transaction was never acknowledged.
    case interrupted
    /// A frame that SQLite cannot read is followed by a later transaction, so acknowledged transactions are lost.
    case damaged(LogDamage)
}

/// The position of the damage in a log, and the number of transactions from the damage on.
struct LogDamage: Hashable, Sendable {
    /// The index of the first frame SQLite does not accept, from 0 on; `nil` if the header is damaged.
    var frame: Int?
    /// The number of transactions that end at or after the damaged frame, as far as their frames can be recognised. 0
    /// if the header is damaged, because the transactions are not counted then.
    var transactions: Int
}
