// SPDX-License-Identifier: Apache-2.0

// Cursors, and the epochs that make the number in a cursor unambiguous.
//
// Events are numbered. A ledger that was restored from a backup assigns some numbers a second time, to other events. A
// standby that took over without the last commits does the same. A bare number from the lost events would then look
// like a cursor of this ledger, and a follower (a program that reads events in order) with this number would miss the
// new events up to the number. Therefore each ledger that may have lost events begins an epoch, and a cursor names the
// epoch in which its number was assigned.

/// A position in the events of an app: the number of an event and the id of its epoch, such as `130.5f3a9c01d2e4`.
///
/// The cursor `0`, without an epoch, is the beginning of any ledger's events.
public struct EventCursor: Hashable, Sendable, RawRepresentable {
    public var rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }
}

extension EventCursor {
    /// The cursor of the event with a number in an epoch.
    ///
    /// - Parameter epoch: The id of the epoch; empty in a ledger that has no epoch yet.
    public init(_ number: Int64, epoch: String = "") {
        self.init(rawValue: epoch.isEmpty ? "\(number)" : "\(number).\(epoch)")
    }

    /// The number of the event, or 0 for the beginning; `nil` for other spellings of a number, such as 007 or +7, and
    /// for any other text.
    public var number: Int64? {
        let digits = rawValue.prefix { $0 != "." }
        guard let number = Int64(digits), number >= 0, "\(number)" == digits else { return nil }
        // A point without an id after it is a wrong spelling too.
        return rawValue.hasSuffix(".") ? nil : number
    }

    /// The id of the epoch; empty if the cursor names none.
    public var epoch: String { String(rawValue.drop { $0 != "." }.dropFirst()) }
}

/// The error for a cursor after which the ledger cannot return events.
public enum EventCursorError: Error, Hashable {
    /// The text is not a cursor of this app in this ledger.
    case invalid
    /// Events after the cursor were erased. The remaining events begin after `oldest`.
    case expired(oldest: EventCursor)
    /// This ledger has no event at the cursor: it was restored from a backup, or lost its last commits. `oldest` is the
    /// last event that the follower shares with this ledger, or the last erased event if that is later.
    case lost(oldest: EventCursor)
}

/// A period of a ledger in which each number stands for a single event of an app.
public struct EventEpoch: Hashable, Sendable {
    /// A text unique among the epochs of all ledgers and apps.
    public var id: String
    /// The last number of the epoch that still stands for the same event in this ledger; `nil` for the newest epoch.
    public var last: Int64?

    public init(id: String, last: Int64? = nil) {
        self.id = id
        self.last = last
    }
}

/// The epochs of an app's events in a ledger, the newest last.
public struct EventEpochs: Hashable, Sendable {
    /// The epochs, in the order of their beginnings.
    public private(set) var all: [EventEpoch]

    public init(_ all: [EventEpoch] = []) {
        self.all = all
    }

    /// The cursor of a number, with the epoch in which the number was assigned. An event always has the same cursor.
    public func cursor(_ number: Int64) -> EventCursor {
        let epoch = all.first { number <= $0.last ?? .max }
        return EventCursor(number, epoch: epoch?.id ?? "")
    }

    /// The cursor after the last event: the beginning if the app has no epoch, because its first epoch will have an id.
    ///
    /// - Parameter last: The greatest number that a cursor of the app may have.
    package func end(_ last: Int64) -> EventCursor { all.isEmpty ? EventCursor(0) : cursor(last) }

    /// The number of the last event before those that a cursor asks for; 0 if there is none.
    ///
    /// - Parameters:
    ///   - cursor: `nil` for the beginning.
    ///   - erased: The number of the app's last erased event.
    ///   - last: The greatest number that a cursor of the app may have.
    /// - Throws: ``EventCursorError``.
    public func start(
        after cursor: EventCursor?, erased: Int64, last: Int64
    ) throws(EventCursorError) -> Int64 {
        guard let cursor else { return erased }
        guard let number = cursor.number else { throw .invalid }
        let epoch = cursor.rawValue == "0" ? all.first : all.first { $0.id == cursor.epoch }
        // Before its first event an app may have no epoch.
        guard epoch != nil || all.isEmpty && cursor.epoch.isEmpty else { throw .invalid }
        let shared = min(last, epoch?.last ?? last)
        guard number <= shared else { throw .lost(oldest: self.cursor(max(shared, erased))) }
        guard number >= erased else { throw .expired(oldest: self.cursor(erased)) }
        return number
    }

    /// Ends the newest epoch and begins a new epoch.
    ///
    /// - Parameters:
    ///   - id: The id of the new epoch.
    ///   - last: The greatest number assigned so far.
    public mutating func begin(_ id: String, after last: Int64) {
        if let newest = all.indices.last { all[newest].last = all[newest].last ?? last }
        all.append(EventEpoch(id: id))
    }

    /// Adds the epochs of a replaced ledger, so that its followers learn up to which event the two ledgers agree.
    ///
    /// - Parameter other: The epochs of the same app in the replaced ledger.
    public mutating func add(replaced other: EventEpochs) {
        let common = zip(all, other.all).prefix { $0.id == $1.id }.count
        guard common > 0, let newest = all.last else { return }
        let parting = min(all[common - 1].last ?? .max, other.all[common - 1].last ?? .max)
        let known = Set(all.map(\.id))
        let lost = other.all.dropFirst(common).filter { !known.contains($0.id) }
        all.removeLast()
        all += lost.map { EventEpoch(id: $0.id, last: min(parting, $0.last ?? .max)) } + [newest]
    }
}
