// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The filter of a request for events. Without members, it lets every event through.
struct EventFilter: Hashable, Sendable {
    /// The kinds; `nil` for all kinds.
    var kinds: Set<String>?
    var environment = RequestedEnvironment.unnamed
    /// The ids of the customer; `nil` for all customers.
    var customers: Set<CustomerID>?
    /// The customer, and all who were merged into it; `nil` before they are read.
    var merged: Set<Customer>?
}

extension EventFilter {
    /// What a storage searches for, to find all events that the filter lets through; `nil` without members.
    var selection: EventSelection? {
        guard self != EventFilter() else { return nil }
        var selection = EventSelection(kinds: kinds, customers: merged)
        if case .one(let environment) = environment { selection.environment = environment }
        return selection
    }

    /// This filter with all ids that its customer has now.
    func withAllIds(in ledger: Ledger) async throws -> EventFilter {
        guard let customers else { return self }
        var filter = self
        filter.customers = Set(try await ledger.ids(ofCustomers: customers).values.joined())
        filter.merged = try await ledger.customers(withIds: customers)
        return filter
    }

    /// The found page with the events that the filter lets through.
    func matches(in found: FoundEvents) -> EventPage {
        var page = found.page
        page.events = page.events.indices.filter { includes(found, $0) }.map { found.page.events[$0] }
        return page
    }

    private func includes(_ found: FoundEvents, _ index: Int) -> Bool {
        let event = found.page.events[index]
        guard selection?.includes(event) ?? true else { return false }
        guard let customers, ![.ledgerRestored, .environmentsChanged].contains(event.kind.known) else { return true }
        return !customers.isDisjoint(with: found.ids(index))
    }
}

/// A page of events, and the ids by which filters find each event.
struct FoundEvents {
    let page: EventPage
    /// All ids of the customers in each event; `nil` before they are read.
    private(set) var allIds: [Set<CustomerID>]?

    init(_ page: EventPage) { self.page = page }

    /// Reads all ids that the customers in the events have now, so that a filter with any of them finds an event.
    mutating func readAllIds(from ledger: Ledger) async throws {
        let named = page.events.map(names)
        let all = try await ledger.ids(ofCustomers: Set(named.joined()))
        allIds = named.map { $0.reduce(into: []) { $0.formUnion(all[$1] ?? []) } }
    }

    fileprivate func ids(_ index: Int) -> Set<CustomerID> { allIds?[index] ?? names(page.events[index]) }

    /// The ids in an event.
    private func names(_ event: LedgerEvent) -> Set<CustomerID> {
        // Also the events after which an id names nobody: a reader then removes what it knows by the id.
        let former = [page.mergedId(of: event), page.removedId(of: event)] + (page.allDeletedIds(of: event) ?? [])
        let names = ([page.customerId(of: event)] + former).compactMap(\.self)
        return Set(names.map { CustomerID($0, of: event.scope.bundleId) })
    }
}

extension EventPage {
    /// The first events of the page. The following page begins after these events, or after the page.
    func first(_ limit: Int) -> EventPage {
        guard events.count > limit else { return self }
        var page = self
        page.events = Array(events.prefix(limit))
        page.next = page.events.last?.cursor ?? next
        return page
    }
}
