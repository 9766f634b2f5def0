// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// The searches of a storage, and the pages of their results.

/// The purchases (see ``Chain``) that a search finds, and their order.
public enum ChainSelection: Hashable, Sendable {
    /// All chains that have or had facts or documents, in any order.
    case all
    /// The chains whose report has a `nextChange` at or before an instant, the earliest first, on a single page.
    case due(at: Timestamp)
    /// The chains whose report has an ``ChainReport/asOf`` after an instant, the latest first, on a single page.
    case ahead(of: Timestamp)
}

/// The customers of an app that a search finds, and their order.
public enum CustomerSelection: Hashable, Sendable {
    /// All customers in the order of their numbers, which are the cursors.
    case all
    /// All customers, the newest first.
    case newest
    /// The customers with an id that begins with a text, byte for byte, in the order of these ids. A customer comes
    /// once for each such id.
    case beginning(String)
}

/// The documents that a search finds.
public enum DocumentSelection: Hashable, Sendable {
    /// All documents, in any order.
    case all
    /// The newest documents of a kind and an environment, in any order, on a single page; `nil` for all kinds, or all
    /// environments. The search covers the last `among` documents to arrive or to be signed, depending on the storage.
    /// Unreadable documents may be left out without being listed as damage.
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
    /// Sentences about the unreadable items of this page. The scan continues after them.
    public var damage: [String]
    /// The cursor of the next page; `nil` at the end of the scan.
    public var next: ScanCursor?

    public init(items: [Item], damage: [String] = [], next: ScanCursor?) {
        self.items = items
        self.damage = damage
        self.next = next
    }
}
