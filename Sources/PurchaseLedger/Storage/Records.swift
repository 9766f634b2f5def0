// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The stored record of a purchase with its renewals (``Chain``), with all data except its documents. The record is
/// loaded, changed and committed as a single value.
public struct ChainRecord: Hashable, Sendable {
    /// The facts of the chain. Changed facts end the ``settlement``, until the chain is evaluated again.
    public var chain: Chain { didSet { settlement = nil } }
    /// When the chain has nothing more to give, by its present facts; `nil` if this is not known, or never.
    public var settlement: Settlement?
    /// The last published report about the chain; `nil` if there is no such report.
    public var report: ChainReport?
    /// The owners, in the order in which they became owners.
    public var owners: [Owner] = []
    /// The times at which claims changed the owner; see `OwnerChanges`.
    public var ownerChanges: [Timestamp] = []
    /// All customers that presented the purchase; empty while only the owner did.
    public var claimants = Claimants()
    /// Whether a correction set the owners. They then change by corrections alone, even if an erasure took all of them.
    public var isCorrected = false
    /// The time at which the chain was erased; `nil` if the chain was not erased, or a document restored it. A document
    /// signed up to this time does not count for the chain, unless a customer presents the document.
    public var erasedAt: Timestamp?
    /// The name of the chain that took over this chain's facts in a migration. In environments without an App Store, a
    /// record that is named by the bare original transaction id has no facts of its own, and points to the newest chain
    /// with this id.
    public var successor: String?
    /// The time of the last recorded event about the chain. The events of a chain never go back in time.
    public var lastEventAt: Timestamp?

    /// A customer that owns a chain.
    public struct Owner: Hashable, Sendable {
        /// The owner.
        public var customer: Customer
        /// The reason why the chain belongs to the customer. A newer version may have stored a reason unknown to this
        /// version.
        public var reason: Open<LinkReason>

        public init(_ customer: Customer, _ reason: LinkReason) {
            self.init(customer, Open(reason))
        }

        package init(_ customer: Customer, _ reason: Open<LinkReason>) {
            self.customer = customer
            self.reason = reason
        }
    }

    /// Makes the record of a chain without facts.
    public init(_ key: ChainKey) {
        chain = Chain(key)
    }

    /// The key under which the record is stored.
    public var key: ChainKey { chain.key }

    /// Whether the chain has facts from documents that were not erased.
    public var hasFacts: Bool { !chain.transactions.isEmpty || chain.renewal != nil }

    /// Whether a customer is among the owners.
    public func isOwned(by customer: Customer) -> Bool { owners.contains { $0.customer == customer } }

    /// Whether the chain is among settled chains.
    public func isAmong(_ settled: SettledChains) -> Bool {
        guard let settlement, settlement.at <= settled.at, settlement.catalogue == settled.catalogue else {
            return false
        }
        let isDue = report?.nextChange.map { $0 <= settled.at } ?? false
        return !settled.keepsStale || !isDue && report?.state.status.known != .stale
    }

    /// The periods that a question about chains that are not settled needs; `nil` for all.
    package func neededPeriods(_ settled: SettledChains) -> NeededPeriods? {
        guard let settlement, settlement.catalogue == settled.catalogue, let newest = settlement.newestPeriod,
            newest <= settled.at
        else { return nil }
        return NeededPeriods(bought: newest, end: settled.at.advanced(by: .zero - settled.leeway))
    }

    /// The record without the periods that such a question does not need.
    func withoutPastPeriods(_ settled: SettledChains) -> ChainRecord {
        guard let needed = neededPeriods(settled) else { return self }
        var record = self
        record.chain.keep(needed)
        record.settlement = settlement
        return record
    }
}

/// A customer with its ids.
public struct CustomerRecord: Hashable, Sendable {
    /// The customer.
    public let customer: Customer
    /// The app's ids for the customer, in the order of their addition, each normalized by
    /// `String.normalizedCustomerID`.
    public var ids: [String]
    /// Whether the app itself has named the customer: in a claim, with an alias, a consent or a grant. Otherwise the
    /// customer exists only because a signed document has an `appAccountToken` that names it.
    public var isEstablished: Bool
    /// The time at which the customer consented to the sending of consumption information to Apple; `nil` if the app
    /// has recorded no consent, or has recorded that it was withdrawn.
    public var consentedAt: Timestamp?
    /// The grants in their stored form.
    public var storedGrants = StoredGrants()

    /// The entitlements given to the customer by the app's operator, in the order of their making.
    public var grants: [CustomerGrant] {
        get { storedGrants.grants }
        set { storedGrants.grants = newValue }
    }

    public init(_ customer: Customer, ids: [String], isEstablished: Bool = false) {
        self.customer = customer
        self.ids = ids
        self.isEstablished = isEstablished
    }

    /// The grants in an environment.
    func grants(in environment: Environment) -> [CustomerGrant] { grants.filter { $0.environment == environment } }

    /// The ids with their app.
    var identifiers: Set<CustomerID> { Set(ids.map { CustomerID($0, of: customer.bundleId) }) }
}

/// A document from a storage.
public struct StoredDocument: Hashable, Sendable {
    /// The digest of the document.
    public var id: DocumentDigest
    /// The kind of the document. A newer version may have stored a kind unknown to this version.
    public var kind: Open<Evidence.Kind>
    /// The app and environment of the document. Renewal info does not name its app, and has it from a transaction.
    public var scope: LedgerScope
    /// The time of the signature; `nil` if the document has no such date.
    public var signedDate: Timestamp?
    /// The time at which the document arrived.
    public var receivedAt: Timestamp
    /// The type, subtype and UUID of a notification; `nil` for other documents.
    public var notification: Evidence.Notification?
    /// The wording of the document: its content without the signing date. A new document with the same wording may
    /// replace this document, unless this document is pinned. `nil` if the document is kept in any case.
    public var wording: Wording?
    /// Whether the document stays although it has a wording; see ``WordedDocument/isPinned``.
    public var isPinned = false
    /// A token (JWS) as it arrived, or a receipt in canonical form.
    public var document: [UInt8]

    public init(
        id: DocumentDigest, kind: Open<Evidence.Kind>, scope: LedgerScope, signedDate: Timestamp?,
        receivedAt: Timestamp,
        notification: Evidence.Notification?, wording: Wording? = nil,
        isPinned: Bool = false, document: [UInt8]
    ) {
        self.id = id
        self.kind = kind
        self.scope = scope
        self.signedDate = signedDate
        self.receivedAt = receivedAt
        self.notification = notification
        self.wording = wording
        self.isPinned = isPinned
        self.document = document
    }

    /// The name under which the document is stored.
    public var name: Provenance { Provenance(id, signed: signedDate) }
}
