// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The notifications of an app that arrived in an hour.
public struct NotificationHour: Hashable, Sendable {
    /// The start of the hour, in UTC.
    public var from: Timestamp
    /// The number of notifications.
    public var count: Int
    /// The time of the last arrival.
    public var newest: Timestamp

    /// In milliseconds.
    public static let length: Int64 = 3_600_000

    /// - Parameter number: The number of hours since 1970.
    public init(_ number: Int64, _ count: Int, newest: Timestamp) {
        from = Timestamp(milliseconds: number.multipliedReportingOverflow(by: Self.length).partialValue)
        self.count = count
        self.newest = newest
    }
}

/// A storage's report to the operator.
public struct StorageReport: Sendable {
    /// Facts for the log: names and values, in the order in which to show them. Only databases report facts.
    public var facts: [(name: String, value: String)] = []
    /// Sentences about risks, each with its remedy.
    public var warnings: [String] = []
    /// Sentences with information that needs no action.
    public var notes: [String] = []
    /// The reason why other servers could not be locked out of a ledger that only one server may use; `nil` without
    /// such a failure.
    public var lockFailure: String?
    /// Why this process may not write the ledger, as a sentence; `nil` if it may. Nothing was written to find this out.
    public var writeRefusal: String?
    /// A text that two storages share if and only if they are the same ledger, whatever their addresses; `nil` if
    /// unknown.
    public var identity: String?

    public init() {}

    /// The value of a fact; `nil` if no fact has this name.
    public func fact(_ name: String) -> String? { facts.first { $0.name == name }?.value }
}

/// The present condition of a storage.
public struct StorageCondition: Hashable, Sendable {
    /// A sentence that warns the operator, although the storage still works; `nil` without a warning.
    public var concern: String?
    /// Whether a part of the records cannot be read or written, while the rest can. ``concern`` names the part.
    public var isDegraded: Bool

    public init(concern: String? = nil, isDegraded: Bool = false) {
        self.concern = concern
        self.isDegraded = isDegraded
    }
}
