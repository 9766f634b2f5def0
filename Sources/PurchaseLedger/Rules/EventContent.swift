// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The members in the body of a ``LedgerEvent``. The body has all members of an event except the members by which the
/// event is found; see ``LedgerEvent/body``.
///
/// A new member needs a property here and a line in ``body``. If the member follows from the old and the new
/// ``ChainReport``, it also needs a line in `init(_:from:to:at:)`. From the first release on, a new member must be
/// optional, because stored bodies lack it.
public struct EventContent: Hashable, Sendable, Decodable {
    /// The time at which the change took effect. A change caused by the mere passage of time takes effect at the
    /// instant at which it is due, and a change caused by a document at the document's signing date. Any other change
    /// takes effect when the ledger records it.
    public var effectiveAt: Timestamp
    /// The transaction of the change.
    public var transactionId: String?
    /// The product of the change.
    public var productId: String?
    /// Further information, such as the type of a notification.
    public var detail: String?
    /// The facts about the transaction; `nil` if the event is about no transaction.
    public var details: EventDetails?
    /// The id of the grant (see ``CustomerGrant/id``) that was made or ended; `nil` for other events.
    public var grantId: String?
    /// The last published state of the purchase; `nil` if there was none, if the customer did not own the purchase, and
    /// if the event is not about a purchase. Events about payments lack it.
    public var before: ChainState?
    /// The present state of the purchase; `nil` if the customer no longer owns it, if the App Store gave it a new
    /// original transaction id, and if the event is not about a purchase. Events about payments lack it.
    public var after: ChainState?
    /// The entitlements that the purchase or grant gave its owner before the change; `nil` if the event is not about a
    /// purchase or grant.
    public var entitlementsBefore: GivenEntitlements?
    /// The entitlements that the purchase or grant gives the event's customer since the change; `nil` if the event is
    /// not about a purchase or grant.
    public var entitlementsAfter: GivenEntitlements?
    /// The number of the customer that was merged. The body names no customer.
    public var mergedCustomer: Int64?
    /// The number of the id that was taken off the customer. The body names no customer.
    public var removedId: Int64?
    /// The names of the attributes that changed. The body has no values, because these go with the customer.
    public var attributes: [String]?
    /// The start of the customer's consent to answers about consumption; `nil` without consent, and for other events.
    public var consentedAt: Timestamp?
    /// The settings that decided and now decide for which customers sandbox purchases count; `nil` for other events.
    public var sandboxAccessBefore, sandboxAccessAfter: String?
    /// The name of a notification's document, which `GET /v1/evidence/{id}` returns; `nil` for other events.
    public var evidence: String?
    /// The decoded members of a notification; `nil` for other events, without members, and if they are too long.
    public var notification: JSONValue?
    /// The author and the reason of a correction; `nil` if the change was no correction.
    public var correction: Correction?
    /// Whether the event is about a payment. It then has neither ``before`` nor ``after``, not even `null`.
    private var isAboutPayment = false

    public init(
        effectiveAt: Timestamp, transactionId: String? = nil, productId: String? = nil, detail: String? = nil,
        grantId: String? = nil, before: ChainState? = nil, after: ChainState? = nil
    ) {
        self.effectiveAt = effectiveAt
        self.transactionId = transactionId
        self.productId = productId
        self.detail = detail
        self.grantId = grantId
        self.before = before
        self.after = after
    }
}

extension EventContent {
    /// The content of an event about a change of a chain.
    ///
    /// - Parameters:
    ///   - old: The last published report; `nil` if there is none.
    ///   - new: The chain as it is now, with the report to publish.
    ///   - effectiveAt: The time at which the change took effect.
    init(_ change: ChainReport.Change, from old: ChainReport?, to new: ChainEvaluation, at effectiveAt: Timestamp) {
        self.init(
            effectiveAt: effectiveAt, transactionId: change.transactionId, productId: change.productId,
            before: old?.state, after: new.report.state)
        details = new.details(of: change.transactionId)
        entitlementsBefore = old.map(\.entitlements) ?? GivenEntitlements.empty
        entitlementsAfter = new.report.entitlements
    }

    /// The content of an event about a payment.
    package init(payment details: EventDetails, effectiveAt: Timestamp, transactionId: String, productId: String) {
        self.init(effectiveAt: effectiveAt, transactionId: transactionId, productId: productId)
        self.details = details
        isAboutPayment = true
    }

    /// The content of an event about the owners of a chain, with its published transaction. Before anything is
    /// published, as for a new purchase, this is the last purchase.
    init(about record: ChainRecord, at now: Timestamp, detail: String?) {
        let chain = record.chain
        let statement =
            chain.statement(record.report?.transactionId)
            ?? chain.transactions.values.compactMap(chain.current).max { $0.isBought(before: $1) }
        self.init(effectiveAt: now, detail: detail)
        var link = EventDetails()
        link.type = statement?.type
        details = link
        guard let statement, !statement.isAppPurchase else { return }
        transactionId = statement.transactionId
        productId = statement.productId
        details?.price = statement.price
        details?.currency = statement.currency
    }
}

// MARK: - The body

extension EventContent {
    /// Reads a body. Ignores members unknown to this version.
    ///
    /// - Throws: `JSONError` or `DecodingError` if the body is not a JSON object with these members.
    public init(reading body: [UInt8]) throws {
        self = try JSONValue(parsing: body).decode(Self.self)
    }

    /// The body: a JSON object in one line. Most bodies are written while documents are recorded, which must be fast.
    /// The members are therefore written without an encoder, which would be slower.
    public var body: [UInt8] {
        var writer = JSONWriter(reservingCapacity: Self.usualSize)
        writer.object { writer in
            writer.member("effectiveAt", number: effectiveAt.milliseconds)
            writer.member("transactionId", transactionId)
            writer.member("productId", productId)
            writer.member("detail", detail)
            details?.write(to: &writer)
            writer.member("evidence", evidence)
            if let notification {
                writer.name("notification")
                writer.value(notification)
            }
            writer.member("grantId", grantId)
            if !isAboutPayment {
                writer.name("before")
                writer.state(before)
                writer.name("after")
                writer.state(after)
            }
            writer.member("entitlementsBefore", entitlementsBefore)
            writer.member("entitlementsAfter", entitlementsAfter)
            writer.correction(correction)
            if let mergedCustomer { writer.member("mergedCustomer", number: mergedCustomer) }
            if let removedId { writer.member("removedId", number: removedId) }
            if let attributes {
                writer.name("attributes")
                writer.array(attributes) { $0.string($1) }
            }
            writer.member("consentedAt", consentedAt?.milliseconds)
            writer.member("sandboxAccessBefore", sandboxAccessBefore)
            writer.member("sandboxAccessAfter", sandboxAccessAfter)
        }
        return writer.bytes
    }

    /// The body of an event without further members, in SQL or JSON: the storages begin epochs in SQL.
    package static func body(effectiveAt: String) -> String {
        #"{"effectiveAt":\#(effectiveAt),"before":null,"after":null}"#
    }

    /// The capacity reserved for a body, in bytes. Most bodies are shorter.
    private static let usualSize = 1024

    private enum CodingKeys: CodingKey {
        case effectiveAt, transactionId, productId, detail, before, after, entitlementsBefore, entitlementsAfter
        case mergedCustomer, removedId, attributes, consentedAt, sandboxAccessBefore, sandboxAccessAfter, correction
        case grantId, evidence, notification
    }

    /// Reads the members of ``details`` beside the others.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        effectiveAt = try members.decode(Timestamp.self, forKey: .effectiveAt)
        transactionId = try members.decodeIfPresent(String.self, forKey: .transactionId)
        productId = try members.decodeIfPresent(String.self, forKey: .productId)
        detail = try members.decodeIfPresent(String.self, forKey: .detail)
        let details = try EventDetails(from: decoder)
        self.details = details == EventDetails() ? nil : details
        isAboutPayment = !members.contains(.before)
        evidence = try members.decodeIfPresent(String.self, forKey: .evidence)
        notification = try members.decodeIfPresent(JSONValue.self, forKey: .notification)
        before = try members.decodeIfPresent(ChainState.self, forKey: .before)
        after = try members.decodeIfPresent(ChainState.self, forKey: .after)
        entitlementsBefore = try members.decodeIfPresent(GivenEntitlements.self, forKey: .entitlementsBefore)
        entitlementsAfter = try members.decodeIfPresent(GivenEntitlements.self, forKey: .entitlementsAfter)
        grantId = try members.decodeIfPresent(String.self, forKey: .grantId)
        mergedCustomer = try members.decodeIfPresent(Int64.self, forKey: .mergedCustomer)
        removedId = try members.decodeIfPresent(Int64.self, forKey: .removedId)
        attributes = try members.decodeIfPresent([String].self, forKey: .attributes)
        consentedAt = try members.decodeIfPresent(Timestamp.self, forKey: .consentedAt)
        sandboxAccessBefore = try members.decodeIfPresent(String.self, forKey: .sandboxAccessBefore)
        sandboxAccessAfter = try members.decodeIfPresent(String.self, forKey: .sandboxAccessAfter)
        correction = try members.decodeIfPresent(Correction.self, forKey: .correction)
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: StaticString, _ entitlements: GivenEntitlements?) {
        guard let entitlements else { return }
        self.name(name)
        literal(entitlements.json)
    }

    fileprivate mutating func correction(_ correction: Correction?) {
        guard let correction else { return }
        name("correction")
        object { writer in
            writer.member("by", correction.by)
            writer.member("reason", correction.reason)
        }
    }

    fileprivate mutating func state(_ state: ChainState?) {
        guard let state else { return null() }
        object { writer in
            writer.member("status", state.status.rawValue)
            writer.name("productId")
            if let productId = state.productId { writer.string(productId) } else { writer.null() }
            writer.member("transactionId", state.transactionId)
            writer.name("hasAccess")
            writer.bool(state.hasAccess)
            writer.name("until")
            if let until = state.until { writer.number(until.milliseconds) } else { writer.null() }
            if let renewal = state.renewal {
                writer.name("renewal")
                renewal.write(to: &writer)
            }
            writer.name("willRenew")
            if let willRenew = state.willRenew { writer.bool(willRenew) } else { writer.null() }
            guard let commitmentWillRenew = state.commitmentWillRenew else { return }
            writer.name("commitmentWillRenew")
            writer.bool(commitmentWillRenew)
        }
    }
}

// MARK: - Events

extension LedgerEvent {
    /// Makes an event of a kind that this version knows.
    ///
    /// - Parameter content: The members of the event's body. With `nil`, the body only says that the change took effect
    ///   when it was recorded.
    public init(
        _ kind: Kind, in scope: LedgerScope, at recordedAt: Timestamp, customer: Customer? = nil,
        chainName: String? = nil, _ content: EventContent? = nil
    ) {
        self.init(
            Open(kind), in: scope, at: recordedAt, customer: customer, chainName: chainName,
            body: (content ?? EventContent(effectiveAt: recordedAt)).body)
    }

    /// The members of the event's body; `nil` if the body cannot be read. Each call reads the body again.
    public var content: EventContent? {
        // Readers of events skip damaged bodies. `Ledger.check` reports why a body cannot be read.
        try? EventContent(reading: body)
    }
}
