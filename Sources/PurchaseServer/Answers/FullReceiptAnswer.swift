// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding

/// The additions of verifyReceipt to a receipt with auto-renewable subscriptions: the renewals, refunds and plans that
/// the ledger knows beyond the receipt.
struct FullReceiptAnswer: Sendable {
    let receipt: Verified<AppReceipt>
    let scope: LedgerScope

    init?(_ receipt: Verified<AppReceipt>) {
        guard let bundleId = receipt.bundleId else { return nil }
        self.receipt = receipt
        scope = LedgerScope(bundleId: bundleId, environment: receipt.environment)
    }

    /// Whether the response needs additions. Apple adds to receipts with auto-renewable subscriptions only.
    var isNeeded: Bool { receipt.payload.inAppPurchases.contains { $0.expiresDate != nil } }

    /// The chains of the purchases in the receipt. A chain is a subscription with its renewals, or a product bought
    /// once; see ``ChainKey``.
    var chains: Set<ChainKey> { chains(of: receipt.payload.inAppPurchases) }

    /// Whether the operator refuses a purchase in the receipt. The ids in the receipt and the chains in the ledger are
    /// both checked.
    func isRefused(by ledger: Ledger) async throws -> Bool {
        let catalogue = ledger.rules.catalogue(scope)
        // The answer to a receipt with subscriptions loads the chains anyway, and `complete` finds a denied purchase.
        guard !catalogue.refusedPurchases.isEmpty || !isNeeded else { return false }
        let ids = receipt.payload.inAppPurchases.flatMap { [$0.originalTransactionId, $0.transactionId] }
        if catalogue.refuses(ids.compactMap(\.self)) { return true }
        return try await ledger.chains(chains).values.contains(where: catalogue.refuses)
    }

    /// The reason to make the answer again: a newer receipt has purchases of further chains. The rows of these chains
    /// were not counted when memory was reserved for the answer.
    struct Uncounted: Error {
        var chains: Set<ChainKey>
    }

    /// Adds `latest_receipt_info`, `pending_renewal_info` and `latest_receipt`.
    ///
    /// The rows are made from facts. The server therefore reads only few documents: the newest receipt, and the newest
    /// renewal info of each subscription. The renewal info is read because the facts have neither its product nor its
    /// offer, nor whether it mentions billing retry.
    ///
    /// - Parameters:
    ///   - latestOnly: Whether to add only the newest transaction of each subscription (`exclude-old-transactions`).
    ///   - counted: The further chains of a newer receipt, counted when memory was reserved; empty on the first
    ///     attempt.
    /// - Throws: ``LedgerStorageError``, or ``VerifyReceiptStatus``, `accountNotFound`, if the operator refuses a
    ///   purchase that only a newer receipt has.
    func complete(
        _ response: VerifyReceiptResponse, from ledger: Ledger, latestOnly: Bool, besides counted: Set<ChainKey>
    ) async throws -> Result<VerifyReceiptResponse, Uncounted> {
        var documents = KnownDocuments(receipt)
        let own = self.chains
        var chains = try await ledger.chains(own)
        let newest = chains.values.flatMap(\.receipts).max() ?? documents.sent
        try await documents.load([newest], from: ledger)
        // The newest receipt may have purchases that are missing from the receipt in the request.
        let latest = documents.purchases(in: newest)
        let known = chains.values.reduce(into: own) { $0.formUnion($1.names) }
        let more = self.chains(of: Array(latest.values)).subtracting(known)
        guard more.isEmpty || !counted.isEmpty else { return .failure(Uncounted(chains: more)) }
        chains.merge(try await ledger.chains(more)) { $1 }
        guard !chains.values.contains(where: ledger.rules.catalogue(scope).refuses) else {
            throw VerifyReceiptStatus.accountNotFound
        }

        let rows = chains.values.sorted { $0.key.originalTransactionId < $1.key.originalTransactionId }
            .map { ChainRows($0, in: latest, latestOnly: latestOnly) }
        try await documents.load(chains.values.compactMap(\.renewal?.provenance), from: ledger)
        var response = response
        response.latestReceiptInfo = rows.flatMap { $0.transactions(documents) }
        response.pendingRenewalInfo = rows.compactMap { $0.renewal(documents) }
        response.latestReceipt = Base64.encode(documents[newest] ?? receipt.document)
        return .success(response)
    }

    private func chains(of purchases: [InAppPurchase]) -> Set<ChainKey> {
        Set(purchases.compactMap { ($0.originalTransactionId ?? $0.transactionId).map { ChainKey($0, in: scope) } })
    }
}

extension Chain {
    /// For each transaction, the newest receipt that has it.
    fileprivate var receipts: [Provenance] { transactions.values.compactMap(\.receipt?.provenance) }

    /// The chain's key, and the keys of the chains that were migrated to it.
    fileprivate var names: Set<ChainKey> { Set(predecessors.map { ChainKey($0, in: key.scope) } + [key]) }
}

/// The part of the answer about one chain.
private struct ChainRows {
    private let chain: Chain
    /// The transactions, newest first.
    private let facts: [TransactionFact]

    /// - Parameter latest: The purchases in the newest receipt. A consumable that is missing from this receipt is
    ///   omitted from the answer, because receipts drop consumables that the app has finished.
    init(_ chain: Chain, in latest: [String: InAppPurchase], latestOnly: Bool) {
        self.chain = chain
        let purchases = chain.purchases.filter { $0.type != .consumable || latest[$0.transactionId] != nil }
        let facts = purchases.reversed().compactMap { chain.transactions[$0.transactionId] }
        self.facts = latestOnly ? Array(facts.prefix(1)) : facts
    }

    /// The transactions in the form of verifyReceipt.
    func transactions(_ documents: KnownDocuments) -> [LatestReceiptInfo] {
        let originalDate = chain.names.lazy.compactMap { documents.originalDates[$0.originalTransactionId] }.first
        return facts.compactMap { transaction($0, documents, originalDate) }
    }

    /// A transaction in the form of verifyReceipt. Its content comes from the newest signed transaction. Without a
    /// signed transaction, its content comes from the newest receipt with the transaction, which need not be the
    /// receipt in the request. If that receipt cannot be read, only the stored facts remain.
    private func transaction(
        _ fact: TransactionFact, _ documents: KnownDocuments, _ originalDate: Timestamp?
    ) -> LatestReceiptInfo? {
        guard let current = chain.current(fact) else { return nil }
        var row: LatestReceiptInfo
        if let signed = fact.signed {
            row = LatestReceiptInfo(signed, originallyBought: originalDate)
        } else if let purchase = documents.purchases(in: current.provenance)[current.transactionId] {
            row = LatestReceiptInfo(purchase)
        } else {
            row = LatestReceiptInfo(current, originallyBought: originalDate)
        }
        // `current` comes from the newer of the signed transaction and the receipt, so its dates are current.
        row.expiresDate = current.expiresDate
        // The date on which an upgrade ended the period comes from a receipt, because a signed transaction has no
        // member for it.
        row.cancellationDate =
            current.revocation?.date
            ?? (current.isUpgraded ? row.cancellationDate ?? fact.receipt?.revocation?.date : nil)
        if row.cancellationDate == nil { row.cancellationReason = nil }
        return row
    }

    /// The renewal info in the form of verifyReceipt.
    func renewal(_ documents: KnownDocuments) -> PendingRenewalInfo? {
        chain.renewal.flatMap { documents.renewal($0.provenance) }.map { PendingRenewalInfo($0) }
    }
}

extension LatestReceiptInfo {
    /// A row from the ledger's stored values of a transaction, for a transaction whose receipt is not read.
    ///
    /// - Parameter date: The date of the chain's first purchase. Facts lack this date, but receipts state it with each
    ///   purchase. All purchases of a chain have the same date.
    fileprivate init(_ statement: TransactionStatement, originallyBought date: Timestamp?) {
        self.init()
        quantity = Int64(statement.quantity)
        productId = statement.productId
        transactionId = statement.transactionId
        originalTransactionId = statement.originalTransactionId
        purchaseDate = statement.purchaseDate
        originalPurchaseDate = date
        expiresDate = statement.expiresDate
        cancellationDate = statement.revocation?.date
        cancellationReason = statement.revocation?.reason
        webOrderLineItemId = statement.webOrderLineItemId
        isUpgraded = statement.isUpgraded ? true : nil
        inAppOwnershipType = statement.ownership
        subscriptionGroupIdentifier = statement.subscriptionGroup
        appAccountToken = statement.appAccountToken
        setOffer(
            statement.offerType, statement.offerIdentifier, statement.offerDiscountType,
            isFree: statement.price == 0, isSubscription: statement.expiresDate != nil)
    }
}

/// The documents for an answer, and the purchases in their receipts. Each document is decoded once.
private struct KnownDocuments {
    /// The receipt in the request, by its digest and signing date.
    let sent: Provenance
    private var documents: [Provenance: [UInt8]] = [:]
    private var purchases: [DocumentDigest: [String: InAppPurchase]]
    /// The date of each chain's first purchase, by original transaction id.
    private(set) var originalDates: [String: Timestamp] = [:]

    init(_ receipt: Verified<AppReceipt>) {
        sent = Provenance(DocumentDigest(receipt.document, .receipt), signed: receipt.signedDate)
        purchases = [sent.digest: Self.byId(receipt.payload)]
        addDates(of: receipt.payload)
    }

    private mutating func addDates(of receipt: AppReceipt) {
        for purchase in receipt.inAppPurchases {
            guard let id = purchase.originalTransactionId ?? purchase.transactionId else { continue }
            if let date = purchase.originalPurchaseDate { originalDates[id] = date }
        }
    }

    /// The bytes of a document; `nil` if the document is not loaded or not stored.
    subscript(_ name: Provenance) -> [UInt8]? { documents[name] }

    /// Loads the missing documents.
    mutating func load(_ names: [Provenance], from ledger: Ledger) async throws {
        let missing = Set(names).filter { documents[$0] == nil && $0 != sent }
        guard !missing.isEmpty else { return }
        add(try await ledger.documents(missing))
    }

    @inline(never)
    private mutating func add(_ stored: [Provenance: StoredDocument]) {
        for (name, document) in stored {
            documents[name] = document.document
            guard document.kind == .receipt, purchases[name.digest] == nil else { continue }
            // A stored receipt that this version cannot read contributes nothing.
            let receipt = try? AppReceipt(decoding: SignedReceipt(decoding: document.document).payload)
            purchases[name.digest] = receipt.map(Self.byId)
            if let receipt { addDates(of: receipt) }
        }
    }

    /// The purchases in a receipt, by transaction id; empty for other documents.
    func purchases(in receipt: Provenance) -> [String: InAppPurchase] { purchases[receipt.digest] ?? [:] }

    @inline(never)
    func renewal(_ name: Provenance) -> JWSRenewalInfoDecodedPayload? {
        // Renewal info that this version cannot read contributes nothing.
        documents[name].flatMap { try? JSONValue(parsing: JWS($0).payload).decode(JWSRenewalInfoDecodedPayload.self) }
    }

    /// The purchases by transaction id. Of two purchases with the same id the last counts, as in the ledger.
    private static func byId(_ receipt: AppReceipt) -> [String: InAppPurchase] {
        let named = receipt.inAppPurchases.compactMap { purchase in purchase.transactionId.map { ($0, purchase) } }
        return Dictionary(named) { $1 }
    }
}
