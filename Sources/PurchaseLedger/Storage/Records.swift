// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Everything that is stored about one chain except its documents. It is loaded, decided about and committed as one
/// value.
public struct ChainRecord: Hashable, Sendable {
    /// The facts of the chain.
    public var chain: Chain
    /// What was published about the chain last; `nil` if nothing was.
    public var report: ChainReport?
    /// The owners, in the order in which they were linked.
    public var owners: [Owner] = []
    /// The times at which claims changed the owner; see `OwnerChanges`.
    public var ownerChanges: [Timestamp] = []
    /// The customers that presented the purchase, if another than its owner did.
    public var claimants = Claimants()
    /// The tombstone: when the chain was erased; `nil` if it was not erased, or a document restored it. A document that
    /// was signed before then says nothing about the chain unless a customer presents it.
    public var erasedAt: Timestamp?
    /// The name of the chain that took over the facts of this one, if it was migrated. In environments without an App
    /// Store, the record with the bare original transaction id has here the newest chain with that id.
    public var successor: String?
    /// When the last event about the chain was recorded. Events of one chain never go back in time.
    public var lastEventAt: Timestamp?

    /// A customer that owns a chain.
    public struct Owner: Hashable, Sendable {
        /// The owner.
        public var customer: Customer
        /// Why the chain belongs to the customer. A newer version may have linked it for a reason that this one does
        /// not know.
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

    /// Whether there are facts whose documents were not erased.
    public var hasFacts: Bool { !chain.transactions.isEmpty || chain.renewal != nil }

    /// Whether a customer is among the owners.
    public func isOwned(by customer: Customer) -> Bool { owners.contains { $0.customer == customer } }
}

/// A customer with its ids.
public struct CustomerRecord: Hashable, Sendable {
    /// The customer.
    public let customer: Customer
    /// The app's ids for the customer, in the order in which they were added, each normalized by
    /// `String.normalizedCustomerID`.
    public var ids: [String]
    /// Whether the customer exists in its own right: a claim or an alias has used one of its ids. Otherwise it exists
    /// only because a signed document names its account.
    public var isEstablished: Bool
    /// Since when the customer consents to information about consumption being sent to Apple; `nil` if the app has
    /// recorded no consent, or its withdrawal.
    public var consentedAt: Timestamp?

    public init(_ customer: Customer, ids: [String], isEstablished: Bool = false) {
        self.customer = customer
        self.ids = ids
        self.isEstablished = isEstablished
    }

    /// The ids with their app.
    var identifiers: Set<CustomerID> { Set(ids.map { CustomerID($0, of: customer.bundleId) }) }
}

/// A document from a storage.
public struct StoredDocument: Hashable, Sendable {
    /// The digest of the document.
    public var id: DocumentDigest
    /// What kind of document it is. A newer version may have stored a kind that this one does not know.
    public var kind: Open<Evidence.Kind>
    /// The app and environment that the document names.
    public var scope: LedgerScope
    /// When the document was signed; `nil` if it does not say.
    public var signedDate: Timestamp?
    /// When the document arrived.
    public var receivedAt: Timestamp
    /// The type and UUID of a notification; `nil` for other documents.
    public var notification: Evidence.Notification?
    /// What it says, if another document that says the same may take its place; otherwise `nil`.
    public var wording: Wording?
    /// Whether it stays nevertheless; see ``WordedDocument/isPinned``.
    public var isPinned = false
    /// The document as it arrived, byte for byte.
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
