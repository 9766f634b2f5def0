// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What a decision changes, as whole values. A storage may write the members in any order, but keeps the order within
/// lists.
public struct LedgerChanges: Sendable {
    /// Documents to store. The tokens in a notification come before it.
    public var documents: [NewDocument] = []
    /// Records of chains, new or in place of the stored ones.
    public var chains: [ChainRecord] = []
    /// Records of customers, new or in place of the stored ones.
    public var customers: [CustomerRecord] = []
    /// Customers to erase together with their ids.
    public var erasedCustomers: Set<Customer> = []
    /// Chains whose documents become evidence for another chain.
    public var movedEvidence: [ChainKey: ChainKey] = [:]
    /// Chains to cut off from their documents. A document that is then evidence for no chain is erased.
    public var erasedChains: Set<ChainKey> = []
    /// Events, in order.
    public var events: [LedgerEvent] = []
    /// API keys, new or in place of those with the same public part.
    public var apiKeys: [APIKey] = []
    /// By bundle id: the digest of the catalogue with which all chains of the app were evaluated. Empty for none.
    public var catalogues: [String: [UInt8]] = [:]

    public init() {}

    /// Whether there is nothing to write.
    public var isEmpty: Bool {
        documents.isEmpty && chains.isEmpty && customers.isEmpty && erasedCustomers.isEmpty
            && movedEvidence.isEmpty && erasedChains.isEmpty && events.isEmpty && apiKeys.isEmpty && catalogues.isEmpty
    }
}

/// A document to store.
public struct NewDocument: Sendable {
    /// The document and what it says.
    public var evidence: Evidence
    /// The chains that it is evidence for, in addition to earlier ones if it is stored already.
    public var chains: Set<ChainKey>
    /// When the document arrived.
    public var receivedAt: Timestamp

    public init(_ evidence: Evidence, for chains: Set<ChainKey>, receivedAt: Timestamp) {
        self.evidence = evidence
        self.chains = chains
        self.receivedAt = receivedAt
    }
}

extension StoredDocument {
    /// The document as a storage returns it.
    package init(_ new: NewDocument) {
        let evidence = new.evidence
        self.init(
            id: evidence.id, kind: evidence.kind, scope: evidence.scope, signedDate: evidence.signedDate,
            receivedAt: new.receivedAt, notification: evidence.notification, document: evidence.document)
    }
}
