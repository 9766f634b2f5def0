// SPDX-License-Identifier: Apache-2.0

// Makes and ends grants: entitlements given to customers by the app's operator (``CustomerGrant``).
//
// A grant is in the record of its customer, so a merge, a copy and an entitlement read have it without a further load.
// A note (``GrantNote``) finds the grant by its id, and a job ends it at its end.

public import AppStoreModel
import Crypto

extension Ledger {
    /// Makes a grant. An unknown id makes a new customer. From then on the customer exists in its own right; see
    /// ``CustomerRecord/isEstablished``.
    ///
    /// - Parameters:
    ///   - request: Its ``GrantRequest/fault`` must be `nil`, and the app's configuration must name the entitlement.
    ///   - id: An id of the customer.
    public func make(
        _ request: GrantRequest, forCustomer id: String, of bundleId: String, at now: Timestamp
    ) async throws -> GrantOutcome {
        let id = CustomerID(id, of: bundleId)
        // An id of the ledger's choice needs the number of the customer. A refused request makes no customer.
        if request.id == nil {
            if let refusal = request.refusal(at: now) { return .refused(refusal) }
            try await makeCustomer(id, at: now)
        }
        let note = request.id.map { LedgerKey.record(GrantNote.key($0, of: bundleId)) }
        let query = LedgerQuery([.customerID(id)] + [note].compactMap(\.self))
        return try await commit(query, at: now) { $0.make(request, for: id) }
    }

    /// Ends a grant by hand. A grant that was ended by hand stays as it is. A grant that is over keeps its end, and
    /// gets the author.
    ///
    /// - Returns: The ended grant; `nil` if the customer has no such grant.
    public func endGrant(
        _ grantId: String, ofCustomer id: String, of bundleId: String, by author: CustomerGrant.Author,
        at now: Timestamp
    ) async throws -> CustomerGrant? {
        let id = CustomerID(id, of: bundleId)
        return try await commit(LedgerQuery([.customerID(id)]), at: now) { $0.endGrant(grantId, of: id, by: author) }
    }

    /// The grants of a customer in all environments, in the order of their making: all grants without a published end,
    /// and the last ``CustomerGrant/maxEnded`` ended grants. Empty if the customer is unknown.
    public func grants(ofCustomer id: String, of bundleId: String) async throws -> [CustomerGrant] {
        let id = CustomerID(id, of: bundleId)
        return try await storage.load(LedgerQuery([.customerID(id)])).customer(id)?.grants ?? []
    }

    /// Ends a grant whose end is due, as of its end, and publishes the end once. If a clock that was ahead has
    /// published the end, publishes the grant again.
    ///
    /// - Returns: The end of the grant; `nil` if nothing is left to do.
    func endDueGrant(_ id: String, in scope: LedgerScope, at now: Timestamp) async throws -> Timestamp? {
        let note = GrantNote.key(id, of: scope.bundleId)
        return try await commit(LedgerQuery([.record(note)]), at: now) { $0.endDueGrant(id, of: scope.bundleId) }
    }
}

// MARK: - Decisions

extension LedgerDraft {
    mutating func make(_ request: GrantRequest, for id: CustomerID) -> GrantOutcome {
        // A repeated request may arrive after the end of the grant, so the times are compared only afterwards.
        if let grantId = request.id, record(GrantNote.key(grantId, of: id.bundleId)) != nil {
            let grant = customer(id)?.grants.first { $0.id == grantId }
            guard let grant, request.made(grant) else { return .refused(.otherGrant) }
            return .known(grant)
        }
        if let refusal = request.refusal(at: now) { return .refused(refusal) }
        guard customer(id)?.grants.count(where: { $0.isActive(at: now) }) ?? 0 < CustomerGrant.maxActive else {
            return .refused(.tooMany)
        }
        let grant = CustomerGrant(
            id: request.id ?? freeGrantId(for: customer(id)), entitlement: request.entitlement,
            environment: request.environment, from: request.from ?? now, until: request.until, why: request.why,
            author: request.author, madeAt: now)
        add(grant, to: id)
        return .made(grant)
    }

    private mutating func add(_ grant: CustomerGrant, to id: CustomerID) {
        // Without a customer the id was not loaded, and the decision is made again.
        guard let customer = findOrAddCustomer(id), var record = self.customer(customer) else { return }
        record.isEstablished = true
        record.grants.append(grant)
        put(record)
        put(GrantNote(grant.id, of: id))
        if let until = grant.until { put(Job(endOf: grant, of: id.bundleId, at: until)) }
        publish(.grantMade, grant, of: customer, effectiveAt: grant.from)
    }

    /// An unused id for a grant. The id follows from the decision's input, so a repeated decision chooses the same id.
    /// It is made from the customer's number: events keep it after an erasure, and it must not prove the customer's id.
    private mutating func freeGrantId(for record: CustomerRecord?) -> String {
        // Without a customer the decision is made again.
        guard let record else { return "" }
        // Grants of the same instant have different numbers, so that the first attempt usually succeeds.
        var attempt = record.grants.count
        while true {
            let bundleId = record.customer.bundleId
            let name = "\(bundleId)\n\(record.customer.number)\n\(now.milliseconds)\n\(attempt)"
            let hash = SHA256.hash(data: Array(name.utf8)).prefix(CustomerGrant.chosenIdBytes)
            let grantId = hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            // Ends, because each attempt has a different id.
            guard self.record(GrantNote.key(grantId, of: bundleId)) != nil else { return grantId }
            attempt += 1
        }
    }

    mutating func endGrant(_ grantId: String, of id: CustomerID, by author: CustomerGrant.Author) -> CustomerGrant? {
        guard var record = customer(id), let index = record.grants.firstIndex(where: { $0.id == grantId }) else {
            return nil
        }
        let grant = record.grants[index]
        guard grant.end?.author == nil else { return grant }
        erase(grant.endJob(of: id.bundleId).key)
        // Without the author, a grant that a clock ahead has ended would be active again once the clock is right.
        let end = CustomerGrant.End(grant.isActive(at: now) ? now : grant.until ?? now, by: author)
        guard grant.end?.date != end.date else {
            record.grants[index].end = end
            put(record)
            return record.grants[index]
        }
        return self.end(&record, index, end)
    }

    mutating func endDueGrant(_ grantId: String, of bundleId: String) -> Timestamp? {
        // The customer was erased, or the grant was forgotten after many later grants.
        guard let note = GrantNote(readable: record(GrantNote.key(grantId, of: bundleId))),
            var record = customer(note.customer), let index = record.grants.firstIndex(where: { $0.id == grantId }),
            case let grant = record.grants[index], grant.end?.author == nil, let until = grant.until
        else { return nil }
        if until <= now, grant.end == nil { _ = end(&record, index, .init(until)) }
        if until > now.advanced(by: ChainReport.clockTolerance), grant.end != nil {
            record.grants[index].end = nil
            put(record)
            publish(.grantMade, record.grants[index], of: record.customer, effectiveAt: now)
        }
        return until
    }

    private mutating func end(
        _ record: inout CustomerRecord, _ index: Int, _ end: CustomerGrant.End
    ) -> CustomerGrant {
        record.grants[index].end = end
        let grant = record.grants[index]
        forgetOldGrants(of: &record)
        put(record)
        publish(.grantEnded, grant, of: record.customer, effectiveAt: end.date)
        return grant
    }

    /// Forgets the ended grants of a customer beyond ``CustomerGrant/maxEnded``, the earliest ends first.
    mutating func forgetOldGrants(of record: inout CustomerRecord) {
        let ended = record.grants.filter { $0.end != nil }
        guard ended.count > CustomerGrant.maxEnded else { return }
        let old = ended.sorted { ($0.end?.date ?? now, $0.id) < ($1.end?.date ?? now, $1.id) }
            .dropLast(CustomerGrant.maxEnded)
        let ids = Set(old.map(\.id))
        record.grants.removeAll { ids.contains($0.id) }
        for id in ids { erase(GrantNote.key(id, of: record.customer.bundleId)) }
    }

    /// Adds the grants of a customer who is merged into `record`. Their notes still name an id of the customer.
    mutating func take(_ grants: StoredGrants, into record: inout CustomerRecord) {
        for grant in grants.grants where grant.isActive(at: now) {
            publish(.grantMoved, grant, of: record.customer, effectiveAt: now)
        }
        record.grants += grants.grants
        record.grants.sort { ($0.madeAt, $0.id) < ($1.madeAt, $1.id) }
        record.storedGrants.unreadable += grants.unreadable
        forgetOldGrants(of: &record)
    }

    /// Erases the notes and jobs of a customer's grants.
    mutating func eraseGrants(of record: CustomerRecord) {
        let bundleId = record.customer.bundleId
        for grant in record.grants {
            erase(GrantNote.key(grant.id, of: bundleId))
            erase(grant.endJob(of: bundleId).key)
        }
    }

    /// Makes the notes of a customer's grants name the customer's first id. Call this method if the customer has lost
    /// an id, or has got grants of a second customer without its ids.
    mutating func renewGrantNotes(of record: CustomerRecord) {
        guard let id = record.ids.first else { return }
        let customer = CustomerID(id, of: record.customer.bundleId)
        for grant in record.grants { put(GrantNote(grant.id, of: customer)) }
    }

    private mutating func publish(
        _ kind: LedgerEvent.Kind, _ grant: CustomerGrant, of customer: Customer, effectiveAt: Timestamp
    ) {
        var content = EventContent(effectiveAt: effectiveAt, detail: grant.why, grantId: grant.id)
        content.entitlementsBefore = kind == .grantEnded ? grant.given : .empty
        content.entitlementsAfter = kind == .grantEnded ? .empty : grant.given
        let scope = LedgerScope(bundleId: customer.bundleId, environment: grant.environment)
        changes.events.append(LedgerEvent(kind, in: scope, at: now, customer: customer, content))
    }
}

extension CustomerGrant {
    /// The number of bytes of a chosen id, written in hexadecimal. A collision would only cost a further attempt.
    fileprivate static let chosenIdBytes = 10

    /// The id of the job that ends the grant.
    fileprivate func endJob(of bundleId: String) -> Job.ID {
        Job.ID(.grantEnd, id, in: LedgerScope(bundleId: bundleId, environment: environment))
    }
}

extension Job {
    fileprivate init(endOf grant: CustomerGrant, of bundleId: String, at end: Timestamp) {
        self.init(grant.endJob(of: bundleId), dueAt: end, payload: Array("\(end.milliseconds)".utf8))
    }
}
