// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Whose purchases are.

extension Ledger {
    /// The customer who presents something, by the app's id. It exists in its own right from now on.
    func claimant(_ id: String, of scope: LedgerScope, in writer: any LedgerWriter) throws -> Customer {
        let customer = try customer(id.asAccount, of: scope, in: writer)
        try writer.establish(customer)
        return customer
    }

    /// Deletes a customer who existed only because a purchase named the account, which was erased.
    private func forgetAccount(_ account: String, of scope: LedgerScope, in writer: any LedgerWriter) throws {
        guard let customer = try writer.customer(account, of: scope.bundleId),
            try !writer.isEstablished(customer),
            try writer.ids(of: customer) == [account],
            try Environment.allCases.allSatisfy({ try writer.chains(of: customer, in: $0).isEmpty })
        else { return }
        try writer.delete(customer)
    }

    /// Makes a customer of every account that a document names and that is none yet, also where a newer document names
    /// another for the purchase: who is known must not depend on which of them arrived first.
    ///
    /// - Returns: Those customers, by account.
    func addCustomers(of document: Evidence, to writer: any LedgerWriter) throws -> [String: Customer] {
        let tokens = document.statements.compactMap(\.appAccountToken) + document.renewals.compactMap(\.appAccountToken)
        var customers: [String: Customer] = [:]
        for token in Set(tokens).sorted() { customers[token] = try customer(token, of: document.scope, in: writer) }
        return customers
    }

    /// The customer that has an id. One that is not known is new.
    private func customer(_ id: String, of scope: LedgerScope, in writer: any LedgerWriter) throws -> Customer {
        try writer.customer(id, of: scope.bundleId) ?? writer.addCustomer(id, of: scope.bundleId)
    }

    /// Links a chain to the customer whose id the `appAccountToken` of its latest purchase is, and to nobody where none is
    /// named. A customer that is not known is new.
    ///
    /// - Parameter customers: Some that are known, by account.
    /// - Returns: Whose the chain is then.
    func linkByToken(
        _ chain: Chain, _ customers: [String: Customer], in writer: any LedgerWriter, at now: Timestamp
    ) throws -> [Customer] {
        let key = chain.key
        let customer = try chain.appAccountToken.map { token in
            try customers[token] ?? self.customer(token, of: key.scope, in: writer)
        }
        let owners = try writer.owners(of: key)
        guard !owners.contains(where: { $0.customer == customer }) else { return owners.map(\.customer) }
        // An accepted claim stays.
        guard !owners.contains(where: { $0.reason == .claim }) else { return owners.map(\.customer) }
        for owner in owners { try unlink(key, from: owner.customer, in: writer, at: now) }
        if let customer { try link(key, to: customer, .appAccountToken, in: writer, at: now) }
        return customer.map { [$0] } ?? []
    }

    /// Lets a customer claim a chain.
    ///
    /// - Parameters:
    ///   - isLimited: Whether the limit of ``OwnerChanges`` applies to this claim.
    ///   - recorded: Told if the chain stays with its owners.
    func claim(
        _ chain: Chain, for claimant: Customer, isLimited: Bool, in writer: any LedgerWriter, at now: Timestamp,
        _ recorded: inout Recorded
    ) throws {
        let key = chain.key
        let claim = try claim(chain, for: claimant, in: writer, at: now)
        switch claim.outcome {
        case .unchanged: return
        case .refused: recorded.kept.insert(key)
        case .accepted(let losers):
            if claim.changesOwner {
                var changes = OwnerChanges(try writer.ownerChanges(of: key))
                if isLimited, claim.isLimited, let retryAt = changes.nextAllowed(at: now) {
                    recorded.kept.insert(key)
                    recorded.tooManyClaims[key] = retryAt
                    return
                }
                changes.add(now)
                try writer.put(ownerChanges: changes.times, of: key)
            }
            for loser in losers { try unlink(key, from: loser, in: writer, at: now) }
            try link(key, to: claimant, .claim, in: writer, at: now)
        }
    }

    private func claim(
        _ chain: Chain, for claimant: Customer, in reader: any LedgerReader, at now: Timestamp
    ) throws -> Claim {
        func party(_ customer: Customer) throws -> Claim.Party {
            Claim.Party(customer, isEstablished: try reader.isEstablished(customer))
        }
        let scope = chain.key.scope
        let account = try chain.appAccountToken.flatMap { try reader.customer($0, of: scope.bundleId) }
        return Claim(
            policy: claimPolicy, claimant: claimant,
            owners: try reader.owners(of: chain.key).map { try party($0.customer) }, account: try account.map(party),
            isEntitling: Holdings([chain], catalogue: catalogue(scope), at: now).isEntitling)
    }

    private func link(
        _ key: ChainKey, to customer: Customer, _ reason: LinkReason, in writer: any LedgerWriter, at now: Timestamp
    ) throws {
        try writer.link(key, to: customer, reason)
        try writer.append(
            LedgerEvent(
                .linked, in: key.scope, at: now, customer: customer, originalTransactionId: key.originalTransactionId,
                detail: reason.rawValue))
    }

    private func unlink(
        _ key: ChainKey, from customer: Customer, in writer: any LedgerWriter, at now: Timestamp
    ) throws {
        try writer.unlink(key, from: customer)
        try writer.append(
            LedgerEvent(
                .unlinked, in: key.scope, at: now, customer: customer,
                originalTransactionId: key.originalTransactionId))
    }

    /// What a customer has at `now`; `nil` where the customer is not known.
    public func holdings(
        of id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Holdings? {
        try await storage.read { [self] reader in
            guard let customer = try reader.customer(id.asAccount, of: scope.bundleId) else { return nil }
            let keys = try reader.chains(of: customer, in: scope.environment)
            return Holdings(try keys.compactMap { try reader.chain($0) }, catalogue: catalogue(scope), at: now)
        }
    }

    /// Makes `alias` another id of the customer. If it was a customer of its own, the two become one. The customer exists in its
    /// own right from now on.
    ///
    /// - Returns: False where the customer is not known.
    public func addAlias(
        _ alias: String, to id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Bool {
        try await storage.write { writer in
            guard let customer = try writer.customer(id.asAccount, of: scope.bundleId) else { return false }
            try writer.establish(customer)
            let alias = alias.asAccount
            guard let other = try writer.customer(alias, of: scope.bundleId) else {
                try writer.add(id: alias, to: customer)
                return true
            }
            guard other != customer else { return true }
            try writer.merge(other, into: customer)
            try writer.append(LedgerEvent(.customersMerged, in: scope, at: now, customer: customer))
            return true
        }
    }

    /// What became of a customer that was deleted.
    public struct Deleted: Hashable, Sendable {
        /// The purchases that were the customer's, in all environments.
        public var purchases: Int
        /// The signed documents that were forgotten with them.
        public var forgottenDocuments: Int
        /// The signed documents about them that stay since they are about purchases of others too. Where the ledger is told to
        /// keep evidence, none is counted.
        public var keptDocuments: Int

        public init(purchases: Int, forgottenDocuments: Int = 0, keptDocuments: Int = 0) {
            self.purchases = purchases
            self.forgottenDocuments = forgottenDocuments
            self.keptDocuments = keptDocuments
        }
    }

    /// Forgets a customer: its ids and links, and unless ``keepsEvidence`` what the App Store signed about its purchases.
    /// Purchases that are somebody else's too stay that customer's. Events stay, and name nobody any more.
    ///
    /// - Returns: `nil` where the customer is not known.
    public func delete(_ id: String, in scope: LedgerScope, at now: Timestamp) async throws -> Deleted? {
        try await storage.write { [self] writer in
            guard let customer = try writer.customer(id.asAccount, of: scope.bundleId) else { return nil }
            let keys = try Environment.allCases.flatMap { try writer.chains(of: customer, in: $0) }
            try writer.delete(customer)
            var deleted = Deleted(purchases: keys.count)
            if !keepsEvidence {
                let unowned = try keys.filter { try writer.owners(of: $0).isEmpty }
                let accounts = try Set(unowned.compactMap { try writer.chain($0)?.appAccountToken })
                (deleted.forgottenDocuments, deleted.keptDocuments) = try writer.forget(unowned, at: now)
                for account in accounts.sorted() { try forgetAccount(account, of: scope, in: writer) }
            }
            try writer.append(LedgerEvent(.customerDeleted, in: scope, at: now, customer: customer))
            return deleted
        }
    }
}

extension Chain {
    /// The account that the latest purchase names, of those that name one; else the renewal info's. Word of an earlier period that
    /// was signed again, as for its refund, moves the purchase to nobody else. Receipts name no account.
    var appAccountToken: String? {
        let named = transactions.values.compactMap(\.signed).filter { $0.appAccountToken != nil }
        let latest = named.max {
            ($0.purchaseDate ?? .distantPast, $0.provenance) < ($1.purchaseDate ?? .distantPast, $1.provenance)
        }
        return latest?.appAccountToken ?? renewal?.appAccountToken
    }
}
