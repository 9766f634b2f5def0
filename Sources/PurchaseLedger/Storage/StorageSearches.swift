// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// What a storage is searched for, and the pages of what it finds.

/// Which chains a search finds, and in which order.
public enum ChainSelection: Hashable, Sendable {
    /// All that have or had facts or documents, in any order.
    case all
    /// Those whose report has a `nextChange` at or before an instant, the earliest first. There is one page of them.
    case due(at: Timestamp)
    /// Those whose report has an ``ChainReport/asOf`` after an instant, the latest first. There is one page of them.
    case ahead(of: Timestamp)
}

/// Which documents a search finds.
public enum DocumentSelection: Hashable, Sendable {
    /// All, in any order.
    case all
    /// The newest documents of a kind and an environment, in any order; `nil` for all kinds, or all environments. They
    /// are searched among the last `among` documents, in the order of their arrival or in that of their signing. There
    /// is one page of them, and those that cannot be read may be missing without a word.
    case newest(of: Evidence.Kind? = nil, in: Environment? = nil, among: Int)
}

/// A position in a scan, in the storage's own format.
public struct ScanCursor: Hashable, Sendable, RawRepresentable {
    public var rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }
}

/// A page of a scan.
public struct ScanPage<Item: Sendable>: Sendable {
    /// The items of the page, in the order of the scan.
    public var items: [Item]
    /// What could not be read on this page, as sentences. The scan continues after it.
    public var damage: [String]
    /// The cursor of the next page; `nil` at the end of the scan.
    public var next: ScanCursor?

    public init(items: [Item], damage: [String] = [], next: ScanCursor?) {
        self.items = items
        self.damage = damage
        self.next = next
    }
}
