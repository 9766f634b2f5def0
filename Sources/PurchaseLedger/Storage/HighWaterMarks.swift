// SPDX-License-Identifier: Apache-2.0

/// The numbers that a ledger keeps in addition to its records. They keep the ledger from assigning a number twice, and
/// show which events were erased. A copy of the ledger needs these numbers too.
public struct HighWaterMarks: Hashable, Sendable {
    /// The greatest customer number assigned so far, even if this customer was erased.
    public var lastCustomer: Int64 = 0
    /// At least the greatest number in the cursors of all apps, including cursors of erased events.
    public var lastEvent: Int64 = 0
    /// The number of the last erased event, by the bundle id of every app in the ledger; 0 if no event was erased.
    public var erasedEvents: [String: Int64] = [:]
    /// The epochs of each app's events (``EventEpochs``), by bundle id. Apps without events may be missing.
    public var epochs: [String: EventEpochs] = [:]

    public init() {}
}
