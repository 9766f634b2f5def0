// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding

/// What verifyReceipt says about a receipt with auto-renewable subscriptions beyond the receipt itself: the renewals, refunds
/// and plans that the ledger has learnt of since.
struct FullReceiptAnswer: Sendable {
    let receipt: Verified<AppReceipt>
    let scope: LedgerScope

    init?(_ receipt: Verified<AppReceipt>) {
        guard let bundleId = receipt.bundleId else { return nil }
        self.receipt = receipt
        scope = LedgerScope(bundleId: bundleId, environment: receipt.environment)
    }

    /// Whether there is anything beyond the receipt: Apple adds to answers with auto-renewable subscriptions only.
    var isNeeded: Bool { receipt.payload.inAppPurchases.contains { $0.expiresDate != nil } }

    /// Adds `latest_receipt_info`, `pending_renewal_info` and `latest_receipt`.
    ///
    /// - Parameter latestOnly: Only the newest transaction of each subscription (`exclude-old-transactions`).
    func complete(
        _ response: VerifyReceiptResponse, from reader: any LedgerReader, latestOnly: Bool
    ) throws -> VerifyReceiptResponse {
        var response = response
        var receipts = KnownReceipts(receipt)
        let sent = receipt.payload.inAppPurchases
        let newest = try newestReceipt(chains(of: sent, reader), from: reader)
        let latest = try receipts.purchases(newest, from: reader)
        // What was bought since stands in the newest receipt alone.
        let chains = try chains(of: sent + latest.values, reader)
        response.latestReceiptInfo = try chains.flatMap { chain in
            try rows(chain, latest, from: reader, &receipts, latestOnly: latestOnly)
        }
        response.pendingRenewalInfo = try chains.compactMap { try renewal($0, from: reader) }
        // The one that was sent is canonical, even if an earlier version kept all that was around it.
        let kept = newest == KnownReceipts.provenance(receipt) ? nil : try reader.document(newest)?.document
        response.latestReceipt = Base64.encode(kept ?? receipt.document)
        return response
    }

    private func chains(of purchases: [InAppPurchase], _ reader: any LedgerReader) throws -> [Chain] {
        let ids = purchases.compactMap { $0.originalTransactionId ?? $0.transactionId }
        return try Set(ids).sorted().compactMap { try reader.chain(ChainKey($0, in: scope)) }
    }

    /// The transactions of a chain as verifyReceipt has them, the newest first. A consumable that is not in the newest receipt any
    /// more is used up, and not there.
    private func rows(
        _ chain: Chain, _ latest: [String: InAppPurchase], from reader: any LedgerReader,
        _ receipts: inout KnownReceipts, latestOnly: Bool
    ) throws -> [LatestReceiptInfo] {
        let purchases = chain.purchases.filter { $0.type != .consumable || latest[$0.transactionId] != nil }
        let facts = purchases.reversed().compactMap { chain.transactions[$0.transactionId] }
        return try (latestOnly ? Array(facts.prefix(1)) : facts).compactMap { try row($0, from: reader, &receipts) }
    }

    /// A transaction with all that its newest documents say: the signed transaction's words, else the receipt's, which need
    /// not be the one that was sent.
    private func row(
        _ fact: TransactionFact, from reader: any LedgerReader, _ receipts: inout KnownReceipts
    ) throws -> LatestReceiptInfo? {
        guard let current = fact.current else { return nil }
        var row: LatestReceiptInfo
        if let signed = fact.signed, let payload = try transaction(signed.provenance, from: reader) {
            row = payload.legacy().value
        } else if let purchase = try receipts.purchase(current, from: reader) {
            row = LatestReceiptInfo(purchase)
        } else {
            return nil
        }
        // Where the receipt is the newer of the two, its word holds about what it has words for.
        row.expiresDate = current.expiresDate
        // A receipt says of an upgraded period when it was left, which a signed transaction has no word for.
        row.cancellationDate =
            current.revocation?.date
            ?? (current.isUpgraded ? row.cancellationDate ?? fact.receipt?.revocation?.date : nil)
        if row.cancellationDate == nil { row.cancellationReason = nil }
        return row
    }

    private func renewal(_ chain: Chain, from reader: any LedgerReader) throws -> PendingRenewalInfo? {
        guard let source = chain.renewal?.provenance, let stored = try reader.document(source),
            let payload = try? JSONValue(parsing: JWS(stored.document).payload).decode(
                JWSRenewalInfoDecodedPayload.self)
        else { return nil }
        return payload.legacy().value
    }

    private func transaction(
        _ source: Provenance, from reader: any LedgerReader
    ) throws -> JWSTransactionDecodedPayload? {
        guard let stored = try reader.document(source) else { return nil }
        return try? JSONValue(parsing: JWS(stored.document).payload).decode(JWSTransactionDecodedPayload.self)
    }

    /// The newest receipt that speaks about these chains: the one that was sent, or a newer one of the same app.
    private func newestReceipt(_ chains: [Chain], from reader: any LedgerReader) throws -> Provenance {
        let newest = chains.flatMap { $0.transactions.values.compactMap(\.receipt?.provenance) }.max()
        return newest ?? KnownReceipts.provenance(receipt)
    }
}

/// The purchases in receipts that were verified, each decoded once and only where it is needed.
private struct KnownReceipts {
    private var purchases: [EvidenceID: [String: InAppPurchase]]

    init(_ receipt: Verified<AppReceipt>) {
        purchases = [Self.provenance(receipt).evidence: Self.byId(receipt.payload)]
    }

    /// As it is or would be in the ledger.
    static func provenance(_ receipt: Verified<AppReceipt>) -> Provenance {
        Provenance(EvidenceID(receipt.document, .receipt), signed: receipt.signedDate)
    }

    /// The purchase that a receipt's statement is about.
    mutating func purchase(_ statement: TransactionStatement, from reader: any LedgerReader) throws -> InAppPurchase? {
        try purchases(statement.provenance, from: reader)[statement.transactionId]
    }

    /// By transaction id.
    mutating func purchases(_ source: Provenance, from reader: any LedgerReader) throws -> [String: InAppPurchase] {
        if let known = purchases[source.evidence] { return known }
        let payload = try reader.document(source).flatMap { try? SignedReceipt(decoding: $0.document).payload }
        let receipt = payload.flatMap { try? AppReceipt(decoding: $0) }
        let found = receipt.map(Self.byId) ?? [:]
        purchases[source.evidence] = found
        return found
    }

    /// Of two with one id the last, as in the ledger.
    private static func byId(_ receipt: AppReceipt) -> [String: InAppPurchase] {
        let named = receipt.inAppPurchases.compactMap { purchase in purchase.transactionId.map { ($0, purchase) } }
        return Dictionary(named) { $1 }
    }
}
