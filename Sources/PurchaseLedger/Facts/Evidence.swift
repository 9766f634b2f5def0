// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust
package import Crypto
public import ReceiptCoding

/// A signed and verified document, and the facts in the document. The ledger stores `Verified.document` byte for byte.
///
/// The public initializers require a `Verified` value, so that no unverified document gets into a ledger.
public struct Evidence: Hashable, Sendable {
    /// The kinds of documents.
    public enum Kind: String, CaseIterable, Sendable {
        case transaction
        case renewalInfo
        case appTransaction
        case notification
        case receipt
    }

    /// The document's digest, which identifies the document.
    public let id: DocumentDigest
    /// The kind of the document.
    public let kind: Kind
    /// The app and environment of the document. Renewal info does not name its app, and takes it from a transaction.
    public let scope: LedgerScope
    /// The signing date; `nil` if the document has none.
    public let signedDate: Timestamp?
    /// A token (JWS) as received, or a receipt in canonical form.
    public let document: [UInt8]
    /// The document's statements about transactions.
    public let statements: [TransactionStatement]
    /// The document's facts about renewals.
    public let renewals: [RenewalFact]
    /// The signed documents inside a notification. Each part is verified separately, and is evidence in its own right.
    public let parts: [Evidence]
    /// The root certificate that anchored the document at its verification; `nil` outside production and sandbox,
    /// because documents of Xcode and LocalTesting are tests, whoever signed them.
    package let anchor: TrustAnchor?
    /// The UUID, type and subtype of a notification; `nil` for other documents.
    public let notification: Notification?

    /// Whether the document contains no purchase in the app: an app transaction, or a receipt without purchases. False
    /// for a receipt whose purchases this version cannot read.
    let isWithoutPurchases: Bool

    /// Whether the document proves a purchase of the app itself.
    var provesAppPurchase: Bool { chains.contains(where: \.isAppPurchase) }

    /// The name under which the document is stored. The document's facts refer to the document by this name.
    public var provenance: Provenance { Provenance(id, signed: signedDate) }

    /// The earlier id of each migrated subscription (`previousOriginalTransactionId`), by its present original
    /// transaction id.
    let predecessors: [String: String]

    /// The purchases (see ``Chain``) that the document is about, without duplicates, ordered by name.
    public let chains: [ChainKey]

    /// The accounts named in the document by an `appAccountToken`, without duplicates, ordered by id.
    let accounts: [CustomerID]

    /// The chains about which a recording of the document records facts. A purchase of the app is a fact about the
    /// customer that presents it. Without a customer nothing asks for it, and it would only be a purchase of nobody
    /// beside each receipt.
    ///
    /// - Parameter isClaimed: Whether a customer presents the document.
    func chains(isClaimed: Bool) -> [ChainKey] { isClaimed ? chains : chains.filter { !$0.isAppPurchase } }

    /// The UUID, type and subtype of a notification. The type may be unknown to this version.
    public struct Notification: Hashable, Sendable {
        /// `notificationUUID`, the same in each delivery.
        public var uuid: String?
        /// `notificationType`, in the App Store's spelling.
        public var type: String
        /// `subtype`; `nil` if the notification has none.
        public var subtype: String?

        public init(uuid: String?, type: String, subtype: String?) {
            self.uuid = uuid
            self.type = type
            self.subtype = subtype
        }
    }

    /// The parsed token, so that a storage need not parse it again; `nil` for a receipt.
    package let jws: JWS?

    /// Makes evidence without requiring a `Verified` value, for the initializers below and for tests of storages.
    ///
    /// - Parameters:
    ///   - token: The parsed token and its digest from the verifier; `nil` for a receipt.
    ///   - says: Returns the facts in the document, given the document's name.
    package init(
        _ kind: Kind, _ document: [UInt8], token: (jws: JWS, digest: SHA256Digest)? = nil, _ scope: LedgerScope,
        _ signedDate: Timestamp?, anchor: TrustAnchor? = nil, parts: [Evidence] = [],
        notification: Notification? = nil, predecessors: [String: String] = [:], isWithoutPurchases: Bool = false,
        says: (Provenance) -> ([TransactionStatement], [RenewalFact])
    ) {
        let id = token.map { DocumentDigest(digest: $0.digest) } ?? DocumentDigest(document, kind)
        self.id = id
        self.kind = kind
        self.scope = scope
        // `distantPast` stands for an unknown date; see ``Provenance``.
        self.signedDate = signedDate == .distantPast ? nil : signedDate
        self.document = document
        self.anchor = scope.environment.hasAppStore ? anchor : nil
        jws = token?.jws
        self.parts = parts
        self.notification = notification
        self.isWithoutPurchases = isWithoutPurchases
        self.predecessors = parts.reduce(into: predecessors) { $0.merge($1.predecessors) { $1 } }
        (statements, renewals) = says(Provenance(id, signed: signedDate))
        let names = Set(statements.map(\.chainName) + renewals.map(\.chainName))
        chains = names.sorted().map { ChainKey($0, in: scope) }
        let tokens = Set(statements.compactMap(\.appAccountToken) + renewals.compactMap(\.appAccountToken))
        accounts = tokens.sorted().map { CustomerID($0, of: scope.bundleId) }
    }
}

extension Evidence {
    /// A signed transaction.
    ///
    /// - Returns: `nil` if the transaction names no app. The same holds for app transactions, notifications and
    ///   receipts.
    public init?(_ transaction: Verified<JWSTransactionDecodedPayload>) {
        guard let scope = transaction.scope else { return nil }
        let payload = transaction.payload
        let own = transaction.payload.originalTransactionId
        var predecessors: [String: String] = [:]
        // Only the App Store migrates subscriptions, so in environments without an App Store the field is ignored.
        if scope.environment.hasAppStore, let own, let previous = payload.previousOriginalTransactionId.orNone {
            predecessors[own] = previous
        }
        self.init(
            .transaction, transaction.document, token: transaction.token, scope, transaction.signedDate,
            anchor: transaction.anchor, predecessors: predecessors
        ) { provenance in
            let statement = TransactionStatement(
                payload, source: .signedTransaction, provenance: provenance, in: scope.environment)
            return (statement.map { [$0] } ?? [], [])
        }
    }

    /// Renewal info, bound to an app by a transaction.
    ///
    /// - Parameter transaction: A transaction of the same subscription. The transaction names the app; renewal info
    ///   does not.
    /// - Returns: `nil` unless the transaction names an app, and both documents are about the same subscription in the
    ///   same environment.
    public init?(
        _ renewalInfo: Verified<JWSRenewalInfoDecodedPayload>,
        boundBy transaction: Verified<JWSTransactionDecodedPayload>
    ) {
        guard let scope = transaction.scope, renewalInfo.environment == transaction.environment,
            let subscription = renewalInfo.payload.originalTransactionId,
            subscription == transaction.payload.originalTransactionId
        else { return nil }
        let payload = transaction.payload
        let chain = ChainName.name(payload, payload.transactionId ?? subscription, in: scope.environment)
        self.init(renewalInfo, of: chain, in: scope)
    }

    /// Renewal info, bound to an app by evidence of any kind with a statement about the same subscription.
    init?(_ renewalInfo: Verified<JWSRenewalInfoDecodedPayload>, boundBy evidence: Evidence) {
        guard let subscription = renewalInfo.payload.originalTransactionId,
            renewalInfo.environment == evidence.scope.environment,
            let statement = evidence.statements.first(where: { $0.originalTransactionId == subscription })
        else { return nil }
        self.init(renewalInfo, of: statement.chainName, in: evidence.scope)
    }

    private init(_ renewalInfo: Verified<JWSRenewalInfoDecodedPayload>, of chain: String, in scope: LedgerScope) {
        self.init(
            .renewalInfo, renewalInfo.document, token: renewalInfo.token, scope, renewalInfo.signedDate,
            anchor: renewalInfo.anchor
        ) { provenance in
            ([], RenewalFact(renewalInfo.payload, provenance: provenance, chain: chain).map { [$0] } ?? [])
        }
    }

    /// An app transaction. Its only fact is the purchase of the app itself.
    public init?(_ appTransaction: Verified<AppTransaction>) {
        guard let scope = appTransaction.scope else { return nil }
        self.init(
            .appTransaction, appTransaction.document, token: appTransaction.token, scope, appTransaction.signedDate,
            anchor: appTransaction.anchor, isWithoutPurchases: true
        ) { provenance in
            let statement = TransactionStatement(
                appTransaction.payload, provenance: provenance, in: scope.environment)
            return (statement.map { [$0] } ?? [], [])
        }
    }

    /// A notification with its parts. Facts have the signing date of the part that states them, not of the
    /// notification.
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
            .notification, envelope.document, token: envelope.token, scope, envelope.signedDate,
            anchor: envelope.anchor, parts: parts, notification: about
        ) { _ in (parts.flatMap(\.statements), parts.flatMap(\.renewals).map { $0.completed(by: envelope.payload) }) }
    }

    /// An app receipt, with a statement per purchase as of the receipt's creation. A statement about the app's own
    /// purchase is the last.
    public init?(_ receipt: Verified<AppReceipt>) {
        guard let scope = receipt.scope else { return nil }
        let purchases = receipt.payload.modern().value.transactions
        self.init(
            .receipt, receipt.document, scope, receipt.signedDate, anchor: receipt.anchor,
            isWithoutPurchases: receipt.payload.inAppPurchases.isEmpty
        ) { provenance in
            let statements = purchases.compactMap {
                TransactionStatement($0, source: .receipt, provenance: provenance, in: scope.environment)
            }
            let app = TransactionStatement(receipt.payload, provenance: provenance, in: scope.environment)
            return (statements + [app].compactMap(\.self), [])
        }
    }
}

extension RenewalFact {
    /// The fact with what only the notification around the renewal info says.
    package func completed(by notification: ResponseBodyV2DecodedPayload) -> RenewalFact {
        let isGrace =
            notification.notificationType == .didFailToRenew && notification.subtype == .gracePeriod
            || notification.data?.status == .billingGracePeriod
        var fact = self
        fact.hasGraceWithoutEnd = isGrace && gracePeriodExpiresDate == nil
        return fact
    }
}

extension DocumentDigest {
    /// The SHA-256 digest of a document's signed bytes: a token up to its last dot, or a receipt's payload.
    ///
    /// The digest leaves out all bytes that an attacker can change in a valid document: a receipt's container, and a
    /// token's signature, because every ECDSA signature has a second valid form. Otherwise variants of the same
    /// document could be stored many times.
    ///
    /// - Parameter kind: `nil` for a kind that only a newer version knows. The first byte of the document then decides:
    ///   a receipt begins with the ASN.1 tag SEQUENCE, and a token never does.
    public init(_ document: [UInt8], _ kind: Evidence.Kind?) {
        switch kind ?? (document.first == 0x30 ? .receipt : .transaction) {
        case .receipt:
            // A damaged receipt, or a receipt of an unknown form, has the digest of all its bytes.
            self.init((try? SignedReceipt(decoding: document)).map { $0.payload } ?? document[...])
        case .transaction, .renewalInfo, .appTransaction, .notification:
            self.init(document.lastIndex(of: UInt8(ascii: ".")).map { document[..<$0] } ?? document[...])
        }
    }

    /// The SHA-256 digest of `bytes`.
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

extension Evidence.Kind: Storable {}
