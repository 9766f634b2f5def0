// SPDX-License-Identifier: Apache-2.0

/// The condition of SQLite's write-ahead log, as its frames tell before SQLite opens it
/// (https://sqlite.org/fileformat2.html section 4).
///
/// SQLite ends its recovery at the first frame that its checksum does not fit, and takes all behind it for an
/// interrupted write. The frames behind it tell damage from that: each commit is flushed before the next transaction
/// begins (`synchronous=FULL`), so an interruption can only have spoiled the last transaction.
enum LogCondition: Hashable, Sendable {
    /// All transactions are whole.
    case whole
    /// The last transaction is not complete. It was never acknowledged.
    case interrupted
    /// A later transaction follows what SQLite cannot read, so that transactions are lost that were acknowledged.
    case damaged(LogDamage)
}

/// Where a log is damaged, and how much is behind that.
struct LogDamage: Hashable, Sendable {
    /// The first frame that SQLite does not accept, from 0 on; `nil` if that is the header.
    var frame: Int?
    /// How many whole transactions end there or behind it; 0 behind a damaged header, which nobody counts.
    var transactions: Int
}
