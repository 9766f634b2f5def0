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

/// The events that a search finds. Each member restricts the search further.
public struct EventSelection: Hashable, Sendable {
    /// The kinds, always with ``LedgerEvent/Kind/ledgerRestored``; `nil` for all kinds.
    public let kinds: Set<String>?
    /// The environment; `nil` for all environments. Events about a customer as such belong to each of them.
    public var environment: Environment?
    /// The customers; `nil` for all customers. A search for some also finds the events that concern all customers, or
    /// that may name a customer besides their own.
    public var customers: Set<Customer>?
    /// The most events that the search compares with the selection.
    public var among = 10_000

    public init(kinds: Set<String>? = nil, environment: Environment? = nil, customers: Set<Customer>? = nil) {
        self.kinds = kinds?.union([LedgerEvent.Kind.ledgerRestored.rawValue])
        self.environment = environment
        self.customers = customers
    }

    /// The kinds of the events that belong to each environment of an app.
    package static let ofEachEnvironment = Set(LedgerEvent.Kind.allCases.filter(\.isAboutCustomer).map(\.rawValue))

    /// The kinds of the events that concern all customers, or that may name a customer besides their own.
    package static let ofEachCustomer = Set(
        [.ledgerRestored, .environmentsChanged, .customersMerged, .customerDeleted, .aliasRemoved]
            .map { (kind: LedgerEvent.Kind) in kind.rawValue })

    /// The kinds as a list in SQL.
    package static func list(_ kinds: Set<String>) -> String {
        kinds.sorted().map { "'\($0)'" }.joined(separator: ", ")
    }

    /// Whether the search finds an event.
    public func includes(_ event: LedgerEvent) -> Bool {
        let kind = event.kind.rawValue
        if let kinds, !kinds.contains(kind) { return false }
        let isThere = environment.map { $0 == event.scope.environment } ?? true
        guard isThere || Self.ofEachEnvironment.contains(kind) else { return false }
        guard let customers, !Self.ofEachCustomer.contains(kind) else { return true }
        return event.customer.map(customers.contains) ?? false
    }
}

/// The documents that a search finds.
public enum DocumentSelection: Hashable, Sendable {
    /// All documents, in any order.
    case all
    /// The newest documents of an environment, in any order, on a single page; `nil` for all environments. The search
    /// covers the last `among` documents to arrive or to be signed, depending on the storage. Unreadable documents may
    /// be left out without being listed as damage.
    case newest(in: Environment? = nil, among: Int)
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
