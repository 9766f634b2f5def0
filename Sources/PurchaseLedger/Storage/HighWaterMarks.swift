// SPDX-License-Identifier: Apache-2.0

/// What a ledger remembers besides its records, so that it gives no number twice and knows which events were erased. A
/// copy of the ledger needs it too.
public struct HighWaterMarks: Hashable, Sendable {
    /// The greatest number that a customer has, or had before it was erased.
    public var lastCustomer: Int64 = 0
    /// The greatest number that a cursor of any app has, or had before its event was erased.
    public var lastEvent: Int64 = 0
    /// The number of the last event that was erased, by the bundle id of every app in the ledger; 0 if none was.
    public var erasedEvents: [String: Int64] = [:]
    /// The epochs of each app's events, by its bundle id. Apps without events may have none.
    public var epochs: [String: EventEpochs] = [:]

    public init() {}
}
