// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Keeps what the App Store signed and answers who owns what.
///
/// Whatever order documents arrive in, however often and however late, the answers are the same: they are computed from
/// facts, of which the newest hold, and never from what happened to arrive last.
public struct Ledger: Sendable {
    public var storage: any LedgerStorage

    /// By bundle id. An app without one has an empty catalogue.
    public var catalogues: [String: Catalogue]

    /// What happens if a customer presents a purchase that another customer has.
    public var claimPolicy: ClaimPolicy

    /// Whether what the App Store signed stays when a customer is deleted, as where books must be kept.
    public var keepsEvidence: Bool

    public init(
        storage: any LedgerStorage, catalogues: [String: Catalogue] = [:], claimPolicy: ClaimPolicy = .accountTokenWins,
        keepsEvidence: Bool = false
    ) {
        self.storage = storage
        self.catalogues = catalogues
        self.claimPolicy = claimPolicy
        self.keepsEvidence = keepsEvidence
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
        /// Those of ``kept`` that claims moved too often within a day, and when the same claim may succeed.
        public var tooManyClaims: [ChainKey: Timestamp] = [:]
    }

    /// Records documents in one transaction: they themselves, the facts in them, whose they are and what changed.
    ///
    /// - Parameters:
    ///   - evidence: All of it, or where something fails none of it, is durable once this returns.
    ///   - claimant: The app's own id of the customer who presents them, if one does. A customer that is not known is new.
    ///   - limitsClaims: Whether claims may change the owner of a chain only a few times a day; see
    ///     ``Recorded/tooManyClaims``.
    ///   - now: When they arrived.
    /// - Throws: ``LedgerStorageError``.
    public func record(
        _ evidence: [Evidence], claimedBy claimant: String? = nil, limitsClaims: Bool = false, at now: Timestamp
    ) async throws -> Recorded {
        let prepared = evidence.map { Prepared($0, for: storage) }
        return try await storage.write { [self] writer in
            var recorded = Recorded()
            let claimant = try claimant.flatMap { id in
                try evidence.first.map { try self.claimant(id, of: $0.scope, in: writer) }
            }
            let claimed =
                claimant == nil || evidence.count == 1
                ? [:] : try chains(evidence.flatMap(\.chains), with: evidence, in: writer)
            for prepared in prepared {
                let document = prepared.evidence
                let keys = try wanted(document, isClaimed: claimant != nil, in: writer)
                let isNew = try keys != nil && add(prepared, to: writer, at: now)
                if isNew { recorded.new += 1 } else { recorded.known += 1 }
                // A known document was kept when it arrived, and matters again only to a customer who presents it.
                guard let keys, isNew || claimant != nil else { continue }
                let chains = try chains(keys, with: [document], in: writer)
                try keep(document, about: keys, in: writer)
                let customers = try addCustomers(of: document, to: writer)
                for chain in keys.compactMap({ chains[$0] }) {
                    // Of several documents the order must not matter: all of them decide who owns a purchase.
                    let whole = claimed[chain.key] ?? chain
                    // In this order, so that a change is published to the customer it now concerns.
                    var owners = try linkByToken(whole, customers, in: writer, at: now)
                    if let claimant {
                        try claim(whole, for: claimant, isLimited: limitsClaims, in: writer, at: now, &recorded)
                        owners = try writer.owners(of: chain.key).map(\.customer)
                    }
                    try report(chain, of: owners, in: writer, at: now)
                }
            }
            return recorded
        }
    }

    /// A document with what the storage did ahead for it and for the tokens in it.
    private final class Prepared: Sendable {
        let evidence: Evidence
        let form: (any Sendable)?
        let parts: [Prepared]

        init(_ evidence: Evidence, for storage: any LedgerStorage) {
            self.evidence = evidence
            form = storage.prepare(evidence)
            parts = evidence.parts.map { Prepared($0, for: storage) }
        }
    }

    /// Adds a document with the tokens in it. Returns whether it is new, of which is told.
    private func add(_ document: Prepared, to writer: any LedgerWriter, at now: Timestamp) throws -> Bool {
        for part in document.parts { _ = try writer.add(part.evidence, prepared: part.form, receivedAt: now) }
        guard try writer.add(document.evidence, prepared: document.form, receivedAt: now) else { return false }
        try tell(of: document.evidence, to: writer, at: now)
        return true
    }

    /// The chains that a document is about, but for those that were forgotten since it was signed, unless
    /// somebody presents it; `nil` where nothing else is left of it.
    private func wanted(
        _ document: Evidence, isClaimed: Bool, in writer: any LedgerWriter
    ) throws -> [ChainKey]? {
        let wanted = try document.chains.filter { key in
            guard !isClaimed, let forgotten = try writer.forgottenAt(key) else { return true }
            return document.signedDate.map { $0 > forgotten } ?? false
        }
        return wanted.isEmpty && !document.chains.isEmpty ? nil : wanted
    }

    /// What is known of these chains together with what the documents say about them. Once they are kept the storage has the same,
    /// and need not be asked again.
    private func chains(
        _ keys: [ChainKey], with documents: [Evidence], in reader: any LedgerReader
    ) throws -> [ChainKey: Chain] {
        var chains: [ChainKey: Chain] = [:]
        for key in keys where chains[key] == nil { chains[key] = try reader.chain(key) ?? Chain(key) }
        for document in documents {
            for statement in document.statements {
                chains[ChainKey(statement.originalTransactionId, in: document.scope)]?.merge(statement)
            }
            for renewal in document.renewals {
                chains[ChainKey(renewal.originalTransactionId, in: document.scope)]?.merge(renewal)
            }
        }
        return chains
    }

    /// Keeps what a document says about these chains.
    func keep(_ document: Evidence, about keys: [ChainKey], in writer: any LedgerWriter) throws {
        let keys = Set(keys)
        for key in keys { try writer.remember(key) }
        for statement in document.statements {
            let key = ChainKey(statement.originalTransactionId, in: document.scope)
            if keys.contains(key) { try writer.put(statement, in: key) }
        }
        for renewal in document.renewals {
            let key = ChainKey(renewal.originalTransactionId, in: document.scope)
            if keys.contains(key) { try writer.put(renewal, in: key) }
        }
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
        // Nearly always there is nothing, and then nothing is written.
        guard try await !storage.read({ try $0.chainsDue(at: now, limit: 1) }).isEmpty else { return 0 }
        return try await storage.write { [self] writer in
            let due = try writer.chainsDue(at: now, limit: limit)
            for key in due { try report(key, in: writer, at: now) }
            return due.count
        }
    }

    /// Compares what is with what was last told, and tells the difference. About a chain of which nothing is known any more
    /// there is nothing to tell, and no reason to look again.
    func report(_ key: ChainKey, in writer: any LedgerWriter, at now: Timestamp) throws {
        if let chain = try writer.chain(key) {
            return try report(chain, of: writer.owners(of: key).map(\.customer), in: writer, at: now)
        }
        guard var last = try writer.report(key), last.nextChange != nil else { return }
        last.nextChange = nil
        try writer.put(last, for: key)
    }

    /// Compares what is with what was last told, and tells the difference.
    func report(_ chain: Chain, of owners: [Customer], in writer: any LedgerWriter, at now: Timestamp) throws {
        let key = chain.key
        let old = try writer.report(key)
        let new = ChainReport(chain, catalogue(key.scope), at: now)
        guard new != old else { return }
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
