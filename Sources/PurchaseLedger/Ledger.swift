// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Keeps what the App Store signed and answers who owns what.
///
/// Whatever order documents arrive in, however often and however late, the answers are the same: they are computed from
/// facts, of which the newest hold, and never from what happened to arrive last.
public struct Ledger: Sendable {
    public let storage: any LedgerStorage

    /// By bundle id. An app without one has an empty catalogue.
    public var catalogues: [String: Catalogue]

    /// What happens when a customer presents a purchase that is another's already.
    public var claimPolicy: ClaimPolicy

    public init(
        storage: any LedgerStorage, catalogues: [String: Catalogue] = [:], claimPolicy: ClaimPolicy = .transfer
    ) {
        self.storage = storage
        self.catalogues = catalogues
        self.claimPolicy = claimPolicy
    }

    /// What an app's products stand for.
    package func catalogue(_ scope: LedgerScope) -> Catalogue { catalogues[scope.bundleId] ?? Catalogue() }
}

// MARK: - Recording

extension Ledger {
    /// What became of documents that were recorded.
    public struct Recorded: Hashable, Sendable {
        /// Those that were not there yet.
        public var new = 0
        /// Those that were there already, byte for byte.
        public var known = 0
        /// The purchases that stayed another customer's, as the claim policy has it.
        public var kept: Set<ChainKey> = []
    }

    /// Records documents in one transaction: they themselves, the facts in them, whose they are and what changed.
    ///
    /// - Parameters:
    ///   - evidence: All of it, or where something fails none of it, is durable once this returns.
    ///   - claimant: The app's own id of the customer who presents them, if one does. A customer that is not known is new.
    ///   - now: When they arrived.
    /// - Throws: ``LedgerStorageError``.
    public func record(
        _ evidence: [Evidence], claimedBy claimant: String? = nil, at now: Timestamp
    ) async throws -> Recorded {
        try await storage.write { [self] writer in
            var recorded = Recorded()
            for document in evidence {
                for part in document.parts { _ = try writer.add(part, receivedAt: now) }
                let isNew = try writer.add(document, receivedAt: now)
                if isNew { recorded.new += 1 } else { recorded.known += 1 }
                if isNew { try tell(of: document, to: writer, at: now) }
                let keys = try keep(document, in: writer)
                try addCustomers(of: document, to: writer)
                for key in keys {
                    // In this order, so that a change is told to whom it now concerns.
                    try linkByToken(key, in: writer, at: now)
                    if let claimant, try !claim(key, for: claimant, in: writer, at: now) { recorded.kept.insert(key) }
                    try report(key, in: writer, at: now)
                }
            }
            return recorded
        }
    }

    /// Keeps the facts of a document. Returns the chains that they are about, in a stable order.
    private func keep(_ document: Evidence, in writer: any LedgerWriter) throws -> [ChainKey] {
        var keys: Set<ChainKey> = []
        for statement in document.statements {
            let key = ChainKey(statement.originalTransactionId, in: document.scope)
            try writer.put(statement, in: key)
            keys.insert(key)
        }
        for renewal in document.renewals {
            let key = ChainKey(renewal.originalTransactionId, in: document.scope)
            try writer.put(renewal, in: key)
            keys.insert(key)
        }
        return keys.sorted { $0.originalTransactionId < $1.originalTransactionId }
    }

    /// Tells of a notification that is about no purchase, or whose type is not known, so that none is ever dropped unseen.
    private func tell(of document: Evidence, to writer: any LedgerWriter, at now: Timestamp) throws {
        guard let notification = document.notification,
            document.statements.isEmpty || NotificationTypeV2(rawValue: notification.type) == nil
        else { return }
        let name = [notification.type, notification.subtype].compactMap { $0 }.joined(separator: "/")
        try writer.append(LedgerEvent(.notificationReceived, in: document.scope, at: now, detail: name))
    }

    /// Looks at every chain whose answer changed by itself since it was last told, and tells of it.
    ///
    /// - Returns: How many were looked at: `limit` where there may be more.
    public func tellChanges(at now: Timestamp, limit: Int = 500) async throws -> Int {
        try await storage.write { [self] writer in
            let due = try writer.chainsDue(at: now, limit: limit)
            for key in due { try report(key, in: writer, at: now) }
            return due.count
        }
    }

    /// Compares what is with what was last told, and tells the difference.
    func report(_ key: ChainKey, in writer: any LedgerWriter, at now: Timestamp) throws {
        guard let chain = try writer.chain(key) else { return }
        let old = try writer.report(key)
        let new = ChainReport(chain, catalogue(key.scope), at: now)
        guard new != old else { return }
        let owners = try writer.owners(of: key).map(\.customer)
        for change in new.changes(since: old, chain) {
            for owner in owners.isEmpty ? [nil] : owners.map(Optional.some) {
                try writer.append(
                    LedgerEvent(
                        change.kind, in: key.scope, at: now, customer: owner,
                        originalTransactionId: key.originalTransactionId, transactionId: change.transactionId,
                        productId: change.productId))
            }
        }
        try writer.put(new, for: key)
    }
}

// MARK: - Customers

extension Ledger {
    /// Makes a customer of every account that a document names and that is none yet, also where a newer document names
    /// another for the purchase: who is known must not depend on which of them arrived first.
    private func addCustomers(of document: Evidence, to writer: any LedgerWriter) throws {
        let tokens = document.statements.compactMap(\.appAccountToken) + document.renewals.compactMap(\.appAccountToken)
        for token in Set(tokens).sorted() where try writer.customer(token, of: document.scope.bundleId) == nil {
            _ = try writer.addCustomer(token, of: document.scope.bundleId)
        }
    }

    /// Links a chain to the customer whose id its newest `appAccountToken` is, and to nobody where the newest words name
    /// nobody. A customer that is not known is new.
    private func linkByToken(_ key: ChainKey, in writer: any LedgerWriter, at now: Timestamp) throws {
        let customer = try writer.chain(key)?.appAccountToken.map { token in
            try writer.customer(token, of: key.scope.bundleId) ?? writer.addCustomer(token, of: key.scope.bundleId)
        }
        let owners = try writer.owners(of: key)
        guard !owners.contains(where: { $0.customer == customer }) else { return }
        // Somebody who claimed it has it for a reason that is newer than the purchase.
        guard !owners.contains(where: { $0.reason == .claim }) else { return }
        for owner in owners { try unlink(key, from: owner.customer, in: writer, at: now) }
        if let customer { try link(key, to: customer, .appAccountToken, in: writer, at: now) }
    }

    /// Gives a chain to whoever presents it, as the policy has it. Returns false where it stays another's.
    private func claim(
        _ key: ChainKey, for id: String, in writer: any LedgerWriter, at now: Timestamp
    ) throws -> Bool {
        let id = Self.normalized(id)
        let customer =
            try writer.customer(id, of: key.scope.bundleId) ?? writer.addCustomer(id, of: key.scope.bundleId)
        let owners = try writer.owners(of: key).map(\.customer)
        guard !owners.contains(customer) else { return true }
        switch claimPolicy {
        case .keep where !owners.isEmpty: return false
        case .keep, .share: break
        case .transfer: for owner in owners { try unlink(key, from: owner, in: writer, at: now) }
        }
        try link(key, to: customer, .claim, in: writer, at: now)
        return true
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

    /// A UUID is the same in large and small letters; other ids are as they are.
    package static func normalized(_ id: String) -> String {
        let digits = id.utf8.filter { $0 != UInt8(ascii: "-") }
        let isUUID = id.utf8.count == 36 && digits.count == 32 && digits.allSatisfy(\.isHexDigit)
        return isUUID ? id.lowercased() : id
    }

    /// What a customer has at `now`; `nil` where the customer is not known.
    public func holdings(
        of id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Holdings? {
        try await storage.read { [self] reader in
            guard let customer = try reader.customer(Self.normalized(id), of: scope.bundleId) else { return nil }
            let keys = try reader.chains(of: customer, in: scope.environment)
            return Holdings(try keys.compactMap { try reader.chain($0) }, catalogue: catalogue(scope), at: now)
        }
    }

    /// Makes `alias` another id of the customer. If it was a customer of its own, the two become one.
    ///
    /// - Returns: False where the customer is not known.
    public func addAlias(
        _ alias: String, to id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Bool {
        try await storage.write { writer in
            guard let customer = try writer.customer(Self.normalized(id), of: scope.bundleId) else { return false }
            let alias = Self.normalized(alias)
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

    /// Forgets a customer: its ids and links. What the App Store signed stays, and is nobody's.
    ///
    /// - Returns: How many purchases were unlinked; `nil` where the customer is not known.
    public func delete(_ id: String, in scope: LedgerScope, at now: Timestamp) async throws -> Int? {
        try await storage.write { writer in
            guard let customer = try writer.customer(Self.normalized(id), of: scope.bundleId) else { return nil }
            let count = try Environment.allCases.reduce(0) { try $0 + writer.chains(of: customer, in: $1).count }
            try writer.delete(customer)
            try writer.append(LedgerEvent(.customerDeleted, in: scope, at: now, customer: customer))
            return count
        }
    }
}

extension UInt8 {
    fileprivate var isHexDigit: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}

extension Chain {
    /// The account that the newest word about the chain names. Receipts name none, so it does not matter how new they are.
    var appAccountToken: String? {
        let words =
            transactions.values.compactMap(\.signed).map { ($0.provenance, $0.appAccountToken) }
            + [renewal].compactMap { $0.map { ($0.provenance, $0.appAccountToken) } }
        return words.filter { $0.1 != nil }.max { $0.0 < $1.0 }?.1
    }
}
