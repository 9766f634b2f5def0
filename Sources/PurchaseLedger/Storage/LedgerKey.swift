// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What a decision looks at or changes: its read set and its write set are sets of keys.
///
/// Two commits are in each other's way if one of them read what the other writes. What is found by other things than
/// its own key is written under the key of its chain: a decision that looks at a transaction, a wording or a customer's
/// holdings therefore also looks at the chain of each. A storage that finds out by versions checks those of all chains,
/// customers and records that it loaded, and that what it did not find is still missing.
public enum LedgerKey: Hashable, Sendable {
    /// The record of a chain.
    case chain(ChainKey)
    /// The chain that contains a transaction, with its record.
    case transaction(TransactionKey)
    /// The customer with an id.
    case customerID(CustomerID)
    /// A customer with all of its ids. A decision that writes this key erases the customer. For a query it names
    /// nothing.
    case customer(Customer)
    /// The customer with an id, and the records of the chains that it owns in an environment.
    case holdings(CustomerID, Environment)
    /// Whether a document is stored.
    case document(Provenance)
    /// A document with its content.
    case content(Provenance)
    /// The names of the documents that say something about a purchase.
    case wording(WordingKey)
    /// The names of all documents of a chain.
    case evidence(ChainKey)
    /// A record.
    case record(RecordKey)
    /// The end of an app's events. For a query it names nothing.
    case events(String)
    /// The numbers and epochs that were given so far, see ``HighWaterMarks``. For a query it names nothing.
    case marks
}

extension LedgerKey {
    /// The app and environment by which rows are found; `nil` for those of a customer, which are found by the app, and
    /// for documents, whose names do not say.
    package var scope: LedgerScope? {
        switch self {
        case .chain(let key), .evidence(let key): key.scope
        case .transaction(let key): key.scope
        case .wording(let key): key.chain.scope
        case .record(let key): key.owner.scope
        case .customerID, .customer, .holdings, .document, .content, .events, .marks: nil
        }
    }

    /// The app; `nil` for documents, and for what belongs to the ledger as a whole.
    package var bundleId: String? {
        switch self {
        case .chain, .evidence, .transaction, .wording: scope?.bundleId
        case .customerID(let id), .holdings(let id, _): id.bundleId
        case .customer(let customer): customer.bundleId
        case .record(let key): key.owner.bundleId
        case .events(let bundleId): bundleId
        case .document, .content, .marks: nil
        }
    }
}

extension Set<LedgerKey> {
    /// The chains whose record is among the keys, or whose documents are.
    package var chains: Set<ChainKey> {
        reduce(into: []) { chains, key in
            switch key {
            case .chain(let chain), .evidence(let chain): chains.insert(chain)
            default: break
            }
        }
    }

    /// The ids whose customers are among the keys.
    package var customerIDs: Set<CustomerID> {
        reduce(into: []) { ids, key in
            switch key {
            case .customerID(let id), .holdings(let id, _): ids.insert(id)
            default: break
            }
        }
    }
}
