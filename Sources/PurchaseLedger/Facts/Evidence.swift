// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust
package import Crypto
public import ReceiptCoding

/// A signed document that a verifier accepted, with what it says. It is kept byte for byte as ``Verified/document``.
///
/// It can only be made of verified things, so that nothing else gets into a ledger.
public struct Evidence: Hashable, Sendable {
    /// What kind of document it is.
    public enum Kind: String, CaseIterable, Sendable {
        case transaction
        case renewalInfo
        case appTransaction
        case notification
        case receipt
    }

    public let id: EvidenceID
    public let kind: Kind
    public let scope: LedgerScope
    /// When it was signed; `nil` where it does not say.
    public let signedDate: Timestamp?
    /// A token as it arrived; a receipt in canonical form.
    public let document: [UInt8]
    /// What it says about transactions.
    public let statements: [TransactionStatement]
    /// What it says about what comes next.
    public let renewals: [RenewalFact]
    /// The signed documents inside of a notification, each verified by itself: evidence in their own right.
    public let parts: [Evidence]
    /// Of a notification: its `notificationUUID`, type and subtype, whatever they are.
    public let notification: Notification?

    /// Its name and when it was signed: what a fact that it states refers to, and where it is found.
    public var provenance: Provenance { Provenance(id, signed: signedDate) }

    /// By original transaction id: the one that the subscription had before (`previousOriginalTransactionId`).
    let predecessors: [String: String]

    /// The chains that it speaks of, each once, in an order that follows from their ids.
    public let chains: [ChainKey]

    public struct Notification: Hashable, Sendable {
        public var uuid: String?
        public var type: String
        public var subtype: String?

        public init(uuid: String?, type: String, subtype: String?) {
            self.uuid = uuid
            self.type = type
            self.subtype = subtype
        }
    }

    /// Of a token: its parts, which storages that take it apart need not find again.
    package let jws: JWS?

    /// For ourselves and for tests of storages: what gets into a ledger was verified.
    ///
    /// - Parameter token: What verifying it came across.
    package init(
        _ kind: Kind, _ document: [UInt8], token: (jws: JWS, digest: SHA256Digest)? = nil, _ scope: LedgerScope,
        _ signedDate: Timestamp?,
        parts: [Evidence] = [], notification: Notification? = nil, predecessors: [String: String] = [:],
        says: (Provenance) -> ([TransactionStatement], [RenewalFact])
    ) {
        let id = token.map { EvidenceID(digest: $0.digest) } ?? EvidenceID(document, kind)
        self.id = id
        self.kind = kind
        self.scope = scope
        // What is signed at the beginning of time is not dated.
        self.signedDate = signedDate == .distantPast ? nil : signedDate
        self.document = document
        jws = token?.jws
        self.parts = parts
        self.notification = notification
        self.predecessors = parts.reduce(into: predecessors) { $0.merge($1.predecessors) { $1 } }
        (statements, renewals) = says(Provenance(id, signed: signedDate))
        let ids = Set(statements.map(\.originalTransactionId) + renewals.map(\.originalTransactionId))
        chains = ids.sorted().map { ChainKey($0, in: scope) }
    }
}

extension Evidence {
    public init?(_ transaction: Verified<JWSTransactionDecodedPayload>) {
        guard let scope = transaction.scope else { return nil }
        let (payload, own) = (transaction.payload, transaction.payload.originalTransactionId)
        var predecessors: [String: String] = [:]
        if let own, let previous = payload.previousOriginalTransactionId, !previous.isEmpty {
            predecessors[own] = previous
        }
        self.init(
            .transaction, transaction.document, token: transaction.token, scope, transaction.signedDate,
            predecessors: predecessors
        ) { provenance in
            (
                [TransactionStatement(transaction.payload, source: .signedTransaction, provenance: provenance)]
                    .compactMap { $0 }, []
            )
        }
    }

    /// - Parameter transaction: A verified transaction of the same subscription, which binds the renewal info to an app.
    /// - Returns: `nil` where the two are not of one subscription and environment.
    public init?(
        _ renewalInfo: Verified<JWSRenewalInfoDecodedPayload>,
        boundBy transaction: Verified<JWSTransactionDecodedPayload>
    ) {
        guard let scope = transaction.scope, renewalInfo.environment == transaction.environment,
            let subscription = renewalInfo.payload.originalTransactionId,
            subscription == transaction.payload.originalTransactionId
        else { return nil }
        self.init(.renewalInfo, renewalInfo.document, token: renewalInfo.token, scope, renewalInfo.signedDate) {
            provenance in
            ([], [RenewalFact(renewalInfo.payload, provenance: provenance)].compactMap { $0 })
        }
    }

    public init?(_ appTransaction: Verified<AppTransaction>) {
        guard let scope = appTransaction.scope else { return nil }
        self.init(
            .appTransaction, appTransaction.document, token: appTransaction.token, scope, appTransaction.signedDate
        ) {
            _ in ([], [])
        }
    }

    /// A notification. What its parts say counts from when each part was signed.
    public init?(_ notification: VerifiedNotification) {
        let envelope = notification.notification
        guard let scope = envelope.scope else { return nil }
        let about = Notification(
            uuid: envelope.payload.notificationUUID, type: envelope.payload.notificationType?.rawValue ?? "",
            subtype: envelope.payload.subtype?.rawValue)
        let parts = [
            notification.transaction.flatMap(Evidence.init),
            notification.renewalInfo.flatMap { renewal in
                notification.transaction.flatMap { Evidence(renewal, boundBy: $0) }
            },
            notification.appTransaction.flatMap(Evidence.init),
        ].compactMap { $0 }
        self.init(
            .notification, envelope.document, token: envelope.token, scope, envelope.signedDate, parts: parts,
            notification: about
        ) { _ in (parts.flatMap(\.statements), parts.flatMap(\.renewals)) }
    }

    /// An app receipt: a statement about every purchase in it, as of its creation.
    public init?(_ receipt: Verified<AppReceipt>) {
        guard let scope = receipt.scope else { return nil }
        let purchases = receipt.payload.modern().value.transactions
        self.init(.receipt, receipt.document, scope, receipt.signedDate) { provenance in
            (purchases.compactMap { TransactionStatement($0, source: .receipt, provenance: provenance) }, [])
        }
    }
}

extension EvidenceID {
    /// The name of a document: the SHA-256 of what in it is signed, which is a token up to its last dot and a receipt's payload.
    ///
    /// Anybody can write what is around that in other ways: a receipt's container, the second form of a token's signature. By
    /// any other name one document would be many, each with a place on the disk. Receipts that earlier versions kept with their
    /// whole container have the same name.
    public init(_ document: [UInt8], _ kind: Evidence.Kind) {
        switch kind {
        case .receipt:
            self.init((try? SignedReceipt(decoding: document)).map { $0.payload } ?? document[...])
        case .transaction, .renewalInfo, .appTransaction, .notification:
            self.init(document.lastIndex(of: UInt8(ascii: ".")).map { document[..<$0] } ?? document[...])
        }
    }

    /// The SHA-256 of some bytes.
    public init(_ bytes: [UInt8]) {
        self.init(bytes[...])
    }

    package init(_ bytes: ArraySlice<UInt8>) {
        self.init(digest: SHA256.hash(data: bytes))
    }

    fileprivate init(digest: SHA256Digest) {
        bytes = Array(digest)
    }
}

extension Verified {
    fileprivate var scope: LedgerScope? {
        bundleId.map { LedgerScope(bundleId: $0, environment: environment) }
    }
}
