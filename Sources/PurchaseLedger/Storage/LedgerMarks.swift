// SPDX-License-Identifier: Apache-2.0

/// What a ledger remembers besides its records, so that it gives no number twice and knows which events were erased. A
/// copy of the ledger needs it too.
public struct LedgerMarks: Hashable, Sendable {
    /// The greatest number that a customer has, or had before it was erased.
    public var lastCustomer: Int64 = 0
    /// The greatest number that a cursor of any app has, or had before its event was erased.
    public var lastEvent: Int64 = 0
    /// The cursor of the last event that was erased, by the bundle id of every app in the ledger; 0 if none was.
    public var erasedEvents: [String: Int64] = [:]

    public init() {}
}

extension EventCursor {
    /// The cursor of the event with a number.
    public init(_ number: Int64) {
        self.init(rawValue: "\(number)")
    }

    /// The number of the event, from 0 for the beginning; `nil` for other spellings of it, such as 007 or +7, and for
    /// any other text.
    public var number: Int64? {
        guard let number = Int64(rawValue), number >= 0, self == EventCursor(number) else { return nil }
        return number
    }
}
