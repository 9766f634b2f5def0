// SPDX-License-Identifier: Apache-2.0

/// How a command works on a ledger.
enum LedgerUse {
    /// As a server: makes the ledger if there is none, brings it up to date, and erases again what its journal names.
    case serving
    /// Reads and writes an existing ledger of this version, beside a server that may run.
    case working
    /// Changes nothing, not even a file.
    case reading
    /// As ``reading``, before the command opens the ledger once more: without warnings.
    case inspecting
    /// Reads all of it, so that no server uses its file meanwhile.
    case copyingFrom
    /// Is the only way to open half a copy. Makes the ledger if there is none.
    case copyingInto

    /// Whether the ledger is made if there is none, or its tables are upgraded.
    var makesLedger: Bool { self == .serving || self == .copyingInto }
}
