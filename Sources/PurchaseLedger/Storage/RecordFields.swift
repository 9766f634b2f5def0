// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// The stored fields of purchases (see ``ChainRecord``), and the rows of events and documents, for all storages alike.

extension ChainRecord: StoredFields {
    @usableFromInline package static let blank = ChainRecord(
        ChainKey("", in: LedgerScope(bundleId: "", environment: .production)))

    /// All fields except the key, transactions, residue (``Chain/residue``), owners and owner changes. Also without
    /// `nextChange` and `asOf` of the report, because a storage keeps these two where it can index them.
    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        // Taken out, because reading the facts below ends the settlement.
        var settlement = settlement
        defer { self.settlement = settlement }
        try coder.field("erasedAt", &erasedAt)
        try coder.field("lastEventAt", &lastEventAt)
        try coder.field("successor", &successor)
        try coder.field("claimants", &claimants)
        try coder.field("isCorrected", &isCorrected)
        try coder.texts("predecessors", &chain.predecessors)
        var renewal = chain.renewal
        try coder.group(&renewal)
        if chain.renewal == nil, var renewal {
            renewal.chainName = key.name
            chain.merge(renewal)
        }
        try coder.group(&report)
        try coder.group(&chain.denial)
        try coder.group(&settlement)
    }
}

extension Settlement: StoredFields {
    @usableFromInline package static let blank = Settlement(at: Timestamp(milliseconds: 0), catalogue: 0)

    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("settledAt", &at)
        try coder.field("settledBy", &catalogue)
        var unknown = TextList(unknownProducts)
        try coder.field("unknownProducts", &unknown)
        unknownProducts = unknown.texts
        try coder.field("newestPeriod", &newestPeriod)
    }
}

extension Chain.Denial: StoredFields {
    @usableFromInline package static let blank = Chain.Denial(at: Timestamp(milliseconds: 0), reason: "")

    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("deniedAt", &at)
        try coder.field("deniedBecause", &reason)
    }
}

extension ChainReport: StoredFields {
    @usableFromInline package static let blank = ChainReport(.blank, isSubscription: false)

    /// All fields except `nextChange` and `asOf`, with the transaction of the state.
    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try state.fields(&coder)
        try coder.field("publishedIsSubscription", &isSubscription)
        try coder.field("publishedTransactionId", &state.transactionId)
        try coder.field("publishedExpiresDate", &expiresDate)
        try coder.texts("publishedRevoked", &revoked)
        try coder.field("publishedEntitling", &isEntitling)
        try coder.field("publishedEntitlements", &entitlements)
        try coder.field("publishedDetails", &details)
        try coder.field("publishedExpirationIntent", &expirationIntent)
    }
}

extension ChainState: StoredFields {
    @usableFromInline package static let blank = ChainState(status: .active, hasAccess: true)

    /// All fields except the transaction, which ``ChainReport`` has.
    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("publishedStatus", &status)
        try coder.field("publishedProductId", &productId)
        try coder.field("publishedHasAccess", &hasAccess)
        try coder.field("publishedUntil", &until)
        try coder.field("publishedWillRenew", &willRenew)
        try coder.field("publishedCommitmentWillRenew", &commitmentWillRenew)
        try coder.field("publishedRenewal", &renewal)
    }
}

extension StoredRow {
    /// Reads the time of an event's recording, its kind, its customer, the name of its chain, and its body.
    @inlinable
    package mutating func event(in scope: LedgerScope) throws -> LedgerEvent {
        let recordedAt = try next(Timestamp.self)
        let kind = try next(Open<LedgerEvent.Kind>.self)
        let customer = try next(Int64?.self)
        return LedgerEvent(
            kind, in: scope, at: recordedAt,
            customer: customer.map { Customer(number: $0, bundleId: scope.bundleId) }, chainName: try next(),
            body: StoredBody.unpacked(try next()))
    }
}

extension EventPage {
    /// - Parameters:
    ///   - found: The events, each with the first id of its customer.
    ///   - start: The position of the request.
    package init(_ found: [(customerId: String?, event: LedgerEvent)], after start: EventCursor) {
        self.init(events: found.map(\.event), customerIds: [:], next: found.last?.event.cursor ?? start)
        for (id, event) in found {
            if let customer = event.customer, let id { customerIds[customer] = id }
        }
    }
}

extension StoredRow {
    /// Reads the columns of a document between its name and its content.
    package mutating func document(_ name: Provenance) throws -> StoredDocument {
        let scope = try scope()
        let kind = try next(Open<Evidence.Kind>.self)
        let receivedAt = try next(Timestamp.self)
        let type = try next(String?.self)
        let subtype = try next(String?.self)
        let uuid = try next(String?.self)
        return StoredDocument(
            id: name.digest, kind: kind, scope: scope, signedDate: name.date, receivedAt: receivedAt,
            notification: type.map { Evidence.Notification(uuid: uuid, type: $0, subtype: subtype) },
            wording: try next(Int64?.self).map { Wording(digest: $0) }, isPinned: try next(Bool?.self) ?? false,
            document: [])
    }

    /// Reads the owner of a record: the owner's number, bundle id and environment. The number is 0 for the ledger as a
    /// whole.
    ///
    /// - Throws: `LedgerStorageError.damaged` if the owner's app is missing.
    @inlinable
    package mutating func recordOwner() throws -> RecordOwner {
        let number = try next(Int64.self)
        let bundleId = try next(String?.self)
        let environment = try next(Environment?.self)
        guard number != 0 else { return .ledger }
        guard let bundleId else { throw LedgerStorageError(.damaged, "A record belongs to an app that is missing") }
        return environment.map { .scope(LedgerScope(bundleId: bundleId, environment: $0)) } ?? .app(bundleId)
    }
}
