// SPDX-License-Identifier: Apache-2.0

// Sets, reads and finds the attributes of customers (``CustomerAttributes``). They are merged and erased with the
// customers, and no answer about entitlements loads them.

public import AppStoreModel

extension Ledger {
    /// Sets or removes attributes of a customer. An unknown id makes a new customer, who exists in its own right from
    /// then on; see ``CustomerRecord/isEstablished``.
    ///
    /// - Returns: All attributes of the customer after the change.
    /// - Throws: ``AttributeError`` if a name, a value or the number of attributes is not allowed: then nothing was
    ///   changed; ``LedgerStorageError``.
    @discardableResult
    public func setAttributes(
        _ changes: [CustomerAttributes.Change], of id: String, in bundleId: String, at now: Timestamp
    ) async throws -> CustomerAttributes? {
        let id = CustomerID(id, of: bundleId)
        // The attributes are stored under the customer's number. A decision that makes a customer may get a different
        // number each time that it runs, so a commit of its own makes the customer first.
        try Self.requireAllowed(changes, at: now)
        try await makeCustomer(id, at: now)
        return try await commit(LedgerQuery([.customerID(id)]), at: now) { draft in
            // The customer may have been erased since the commit before.
            guard let customer = draft.customer(id)?.customer else { return nil }
            draft.establish(customer)
            let known = draft.attributes(of: customer)
            var attributes = known
            do { try attributes.apply(changes, at: now) } catch { draft.refusal = error }
            // Attributes belong to no environment.
            draft.put(attributes, insteadOf: known, in: LedgerScope(bundleId: bundleId, environment: .production))
            return attributes
        }
    }

    /// Requires that a new customer may have the changes, so that a refusal makes no customer. Not inlined into its
    /// asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private static func requireAllowed(
        _ changes: [CustomerAttributes.Change], at now: Timestamp
    ) throws(AttributeError) {
        var attributes = CustomerAttributes(of: Customer(number: 0, bundleId: ""))
        try attributes.apply(changes, at: now)
    }

    /// Makes a customer with an id, who exists in its own right, if there is none. A following decision then knows the
    /// customer's number, which a decision that makes the customer may get anew each time that it runs.
    func makeCustomer(_ id: CustomerID, at now: Timestamp) async throws {
        guard try await storage.load(LedgerQuery([.customerID(id)])).customer(id) == nil else { return }
        try await commit(LedgerQuery([.customerID(id)]), at: now) { draft in
            guard draft.customer(id) == nil, let customer = draft.findOrAddCustomer(id) else { return }
            draft.establish(customer)
        }
    }

    /// The attributes of a customer; `nil` if the customer is unknown.
    public func attributes(of id: String, in bundleId: String) async throws -> CustomerAttributes? {
        let id = CustomerID(id, of: bundleId)
        var customer = try await storage.load(LedgerQuery([.customerID(id)])).customer(id)?.customer
        for _ in 0..<Self.maxLookups {
            guard let known = customer else { return nil }
            let key = CustomerAttributes.key(known)
            let snapshot = try await storage.load(LedgerQuery([.customerID(id), .record(key)]))
            customer = snapshot.customer(id)?.customer
            if customer == known { return try snapshot.value(key) ?? CustomerAttributes(of: known) }
        }
        throw LedgerStorageError(.unavailable, "The customer was merged again and again during the lookup")
    }

    /// The maximum number of lookups of a customer that is merged into a different customer meanwhile.
    private static let maxLookups = 4

    /// The customers whose `$email` is this text in upper or lower case, after a cursor, at most `limit`, in any order.
    /// A page may have fewer customers, or none, although more pages follow.
    public func customers(
        withEmail email: String, of bundleId: String, after cursor: ScanCursor? = nil, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        let selection = RecordSelection(
            CustomerAttributes.recordKind, of: .app(bundleId), entry: CustomerAttributes.entry(email: email))
        let page = try await storage.records(selection, after: cursor, limit: limit)
        var found: [CustomerRecord] = []
        for customer in Self.customers(page.items, withEmail: email) {
            if let record = try await self.customer(customer) { found.append(record) }
        }
        return ScanPage(items: found, next: page.next)
    }

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result. Unreadable
    /// attributes have no address.
    @inline(never)
    private static func customers(_ records: [LedgerRecord], withEmail email: String) -> [Customer] {
        let email = CustomerAttributes.folded(email)
        return records.compactMap { CustomerAttributes(readable: $0) }.filter { attributes in
            let own = attributes[CustomerAttributes.email].map(CustomerAttributes.folded)
            return own?.utf8.elementsEqual(email.utf8) ?? false
        }.map(\.customer)
    }

    /// The customer with a number; `nil` if the customer was erased or merged into a different customer.
    func customer(_ customer: Customer) async throws -> CustomerRecord? {
        let before = ScanCursor(rawValue: "\(customer.number &- 1)")
        let page = try await storage.customers(.all, of: customer.bundleId, after: before, limit: 1)
        return page.items.first { $0.customer == customer }
    }
}

extension LedgerDraft {
    /// The attributes of a customer, with the changes decided so far. Unreadable attributes refuse the decision,
    /// because it would replace them.
    mutating func attributes(of customer: Customer) -> CustomerAttributes {
        do {
            return try value(CustomerAttributes.key(customer)) ?? CustomerAttributes(of: customer)
        } catch {
            refusal = error
            return CustomerAttributes(of: customer)
        }
    }

    /// Stores attributes, and publishes the names of those whose text changed.
    fileprivate mutating func put(
        _ attributes: CustomerAttributes, insteadOf known: CustomerAttributes, in scope: LedgerScope
    ) {
        put(attributes)
        let names = Set(known.all.keys).union(attributes.all.keys).sorted().filter { name in
            known[name].map { Array($0.utf8) } != attributes[name].map { Array($0.utf8) }
        }
        guard !names.isEmpty else { return }
        append(.attributesChanged, about: attributes.customer, in: scope) { $0.attributes = names }
    }

    /// Moves the attributes of a merged customer to the customer that stays.
    mutating func mergeAttributes(of other: Customer, into customer: Customer, _ scope: LedgerScope) {
        // Both records are looked up at once, so that the decision asks for them together.
        _ = record(CustomerAttributes.key(customer))
        guard record(CustomerAttributes.key(other)) != nil else { return }
        let known = attributes(of: customer)
        var attributes = known
        attributes.merge(self.attributes(of: other))
        put(attributes, insteadOf: known, in: scope)
        erase(CustomerAttributes.key(other))
    }

    /// Erases the attributes of an erased customer.
    mutating func eraseAttributes(of customer: Customer) {
        let key = CustomerAttributes.key(customer)
        if record(key) != nil { erase(key) }
    }
}
