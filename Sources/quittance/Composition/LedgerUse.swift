// SPDX-License-Identifier: Apache-2.0

/// The way in which a command uses a ledger.
enum LedgerUse {
    /// As a server: creates a missing ledger, upgrades its tables, and repeats the erasures in its journal.
    case serving
    /// Reads and writes an existing ledger of this version, possibly beside a running server.
    case working
    /// Changes nothing, not even a file.
    case reading
    /// Like ``reading``, for a search for faults: a database gives no numbers to its events meanwhile.
    case checking
    /// Like ``reading``, but without warnings: the command opens the ledger again afterwards, and warns only then.
    case inspecting
    /// Reads the whole ledger for a copy. No server may use the ledger's file meanwhile.
    case copyingFrom
    /// Creates a missing ledger, or continues an unfinished copy. Every other use refuses an unfinished copy.
    case copyingInto

    /// Whether a missing ledger is created, and its tables are upgraded.
    var makesLedger: Bool { self == .serving || self == .copyingInto }
}
