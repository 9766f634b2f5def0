// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The key of something read or written by a decision (``LedgerDecider``).
///
/// Two commits conflict if either of them writes a key that the other has read. Transactions, wordings (``Wording``)
/// and holdings have no writes of their own: they are written under the keys of their chains (``Chain``). A decision
/// that reads a transaction, a wording or a customer's holdings therefore also reads each chain in the result. A
/// storage that detects conflicts by versions compares the versions of all loaded chains, customers and records. It
/// also checks that missing records are still missing.
public enum LedgerKey: Hashable, Sendable {
    /// The record of a chain.
    case chain(ChainKey)
    /// The chains that have a transaction, with their records.
    case transaction(TransactionKey)
    /// The customer with an id.
    case customerID(CustomerID)
    /// A customer with all of its ids. A decision that writes this key erases the customer. In a query the key loads
    /// nothing.
    case customer(Customer)
    /// The customer with an id, and the records of the customer's chains in an environment.
    case holdings(CustomerID, Environment)
    /// The same without chains that have nothing more to give. A storage may load these too. Not for decisions, which
    /// could not notice that such a chain changes.
    case openHoldings(CustomerID, Environment, SettledChains)
    /// Whether a document is stored.
    case document(Provenance)
    /// A document with its content.
    case content(Provenance)
    /// The names of the documents with a given wording (``Wording``) about a purchase.
    case wording(WordingKey)
    /// The names of all documents of a chain.
    case evidence(ChainKey)
    /// A record.
    case record(RecordKey)
    /// The end of an app's events. In a query the key loads nothing.
    case events(String)
    /// The numbers and epochs assigned so far, see ``HighWaterMarks``. In a query the key loads nothing.
    case marks
}

extension LedgerKey {
    /// The app and environment of the rows for this key; `nil` if the rows are not found by app and environment
    /// together. Customers and events belong to an app, the names of documents contain no app, and some keys belong to
    /// the ledger as a whole.
    package var scope: LedgerScope? {
        switch self {
        case .chain(let key), .evidence(let key): key.scope
        case .transaction(let key): key.scope
        case .wording(let key): key.chain.scope
        case .record(let key): key.owner.scope
        case .customerID, .customer, .holdings, .openHoldings, .document, .content, .events, .marks: nil
        }
    }

    /// The app; `nil` for documents, and for keys of the ledger as a whole.
    package var bundleId: String? {
        switch self {
        case .chain, .evidence, .transaction, .wording: scope?.bundleId
        case .customerID(let id), .holdings(let id, _), .openHoldings(let id, _, _): id.bundleId
        case .customer(let customer): customer.bundleId
        case .record(let key): key.owner.bundleId
        case .events(let bundleId): bundleId
        case .document, .content, .marks: nil
        }
    }
}

extension Set<LedgerKey> {
    /// The chains whose record or documents are among the keys.
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
            case .customerID(let id), .holdings(let id, _), .openHoldings(let id, _, _): ids.insert(id)
            default: break
            }
        }
    }
}
