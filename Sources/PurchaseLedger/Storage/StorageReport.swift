// SPDX-License-Identifier: Apache-2.0

/// What an operator should know of a storage when it was opened.
public struct StorageReport: Sendable {
    /// Names and values for the log, in the order in which to show them. Only a database has some.
    public var facts: [(name: String, value: String)] = []
    /// What is not safe, and what to do about it: a sentence each.
    public var warnings: [String] = []
    /// What is only worth knowing: a sentence each.
    public var notes: [String] = []
    /// Why other servers cannot be kept from the ledger although it may have only one; `nil` if they are.
    public var lockFailure: String?
    /// A text that two storages share if and only if they are the same ledger, whatever their addresses say; `nil` if
    /// it is unknown.
    public var identity: String?

    public init() {}

    /// The value of a fact; `nil` if there is none of that name.
    public func fact(_ name: String) -> String? { facts.first { $0.name == name }?.value }
}

/// How well a storage works at present.
public struct StorageCondition: Hashable, Sendable {
    /// A warning for the operator about a storage that still works, as a sentence; `nil` if there is none.
    public var concern: String?
    /// Whether a part of the records cannot be read or written, and others can. ``concern`` says which part.
    public var isDegraded: Bool

    public init(concern: String? = nil, isDegraded: Bool = false) {
        self.concern = concern
        self.isDegraded = isDegraded
    }
}
