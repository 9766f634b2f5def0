// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Everything that is stored about one chain but for its documents: loaded, decided about and committed as one value.
public struct ChainRecord: Hashable, Sendable {
    /// The facts.
    public var chain: Chain
    /// What was published about it last; `nil` if nothing was.
    public var report: ChainReport?
    /// Whose it is, in the order in which they became owners.
    public var owners: [Owner] = []
    /// When claims changed the owner, as ``OwnerChanges`` keeps them.
    public var ownerChanges: [Timestamp] = []
    /// When it was erased: a tombstone. Documents that were signed before say nothing about it, unless a customer presents them.
    /// `nil` if it was not erased, or a document restored it.
    public var erasedAt: Timestamp?
    /// The original transaction id of the chain to which it was migrated, which then has all that was known of it; else `nil`.
    public var successor: String?
    /// When the last event about it was recorded. Events of one chain never go back in time.
    public var lastEventAt: Timestamp?

    /// A customer who owns a chain.
    public struct Owner: Hashable, Sendable {
        public var customer: Customer
        public var reason: LinkReason

        public init(_ customer: Customer, _ reason: LinkReason) {
            self.customer = customer
            self.reason = reason
        }
    }

    /// A chain of which nothing is known.
    public init(_ key: ChainKey) {
        chain = Chain(key)
    }

    public var key: ChainKey { chain.key }

    /// Whether any document said something about it that was not erased.
    public var hasFacts: Bool { !chain.transactions.isEmpty || chain.renewal != nil }

    public func isOwned(by customer: Customer) -> Bool { owners.contains { $0.customer == customer } }
}

/// One customer.
public struct CustomerRecord: Hashable, Sendable {
    public let customer: Customer
    /// Its ids, in the order in which they were added. Normalized, see ``Swift/String/normalizedCustomerID``.
    public var ids: [String]
    /// Whether it exists in its own right: a claim or an alias has used one of its ids. Otherwise it exists only because a signed
    /// document names its account.
    public var isEstablished: Bool

    public init(_ customer: Customer, ids: [String], isEstablished: Bool = false) {
        self.customer = customer
        self.ids = ids
        self.isEstablished = isEstablished
    }
}

/// An id of a customer, as the app calls it.
public struct CustomerID: Hashable, Sendable {
    public var bundleId: String
    /// Normalized, see ``Swift/String/normalizedCustomerID``.
    public var id: String

    /// - Parameter id: In any form.
    public init(_ id: String, of bundleId: String) {
        self.bundleId = bundleId
        self.id = id.normalizedCustomerID
    }
}

/// A document as it is stored.
public struct StoredDocument: Hashable, Sendable {
    public var id: EvidenceID
    public var kind: Evidence.Kind
    public var scope: LedgerScope
    /// `nil` if it does not say when it was signed.
    public var signedDate: Timestamp?
    public var receivedAt: Timestamp
    public var notification: Evidence.Notification?
    /// As it arrived, byte for byte.
    public var document: [UInt8]

    public init(
        id: EvidenceID, kind: Evidence.Kind, scope: LedgerScope, signedDate: Timestamp?, receivedAt: Timestamp,
        notification: Evidence.Notification?, document: [UInt8]
    ) {
        self.id = id
        self.kind = kind
        self.scope = scope
        self.signedDate = signedDate
        self.receivedAt = receivedAt
        self.notification = notification
        self.document = document
    }

    public var name: Provenance { Provenance(id, signed: signedDate) }
}
