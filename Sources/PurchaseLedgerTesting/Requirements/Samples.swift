// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// Sample values for the requirements that ``LedgerStorageContract`` tests. The App Store would never sign some of
/// these values, such as the greatest numbers and awkward texts. None of the values needs a signature, so the author of
/// a storage needs no App Store simulator to make them.
enum Sample {
    static let production = LedgerScope(bundleId: "com.example.one", environment: .production)
    static let sandbox = LedgerScope(bundleId: "com.example.one", environment: .sandbox)
    static let otherApp = LedgerScope(bundleId: "com.example.two", environment: .production)

    /// Texts that a storage may cut, escape or normalize by mistake.
    static let awkward = [
        "\u{0}", "a\u{0}b", "\u{1}0", "", "é\u{1f600}", "'; --\"\\,%_", String(repeating: "x", count: 70_000),
    ]

    /// The key of a chain (a purchase with its renewals), made from a small number.
    static func key(_ number: Int = 1, in scope: LedgerScope = production) -> ChainKey {
        ChainKey("\(2_000_000_000 + number)", in: scope)
    }

    static func time(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: 1_700_000_000_000 + milliseconds) }

    /// The earliest and the latest timestamp.
    static let ends = [Timestamp(milliseconds: .min), Timestamp(milliseconds: .max)]

    static func state(_ product: String = "product", transactionId: String? = nil) -> ChainState {
        ChainState(
            status: .billingGrace, productId: product, transactionId: transactionId, hasAccess: true, until: time(7),
            willRenew: false, commitmentWillRenew: true, renewal: renewal.terms)
    }

    static func event(
        _ detail: String, _ customer: Customer? = nil, chain: Int = 1, in scope: LedgerScope = production,
        at milliseconds: Int64 = 5
    ) -> LedgerEvent {
        let content = EventContent(
            effectiveAt: time(3), transactionId: "2", productId: "product", detail: detail, before: state("before"),
            after: state("after"))
        return LedgerEvent(
            .refunded, in: scope, at: time(milliseconds), customer: customer, chainName: key(chain).name, content)
    }

    /// Bodies of events that a storage must neither parse nor change. Some have members of a newer version, or unusual
    /// white space and numbers. Others are not even text.
    static let bodies: [[UInt8]] =
        [#"{"gift":{"from":[1.50,1E400,"\ud800\u0000"]},"gift":2}"#, "{ \"é\" :\t\u{1f600}\r\n}", "{}", ""]
        .map { Array($0.utf8) } + [Array(0...255), Array(repeating: 32, count: 70_000)]
}

// MARK: - Customers

extension Sample {
    /// The grants of a customer in their stored form: with all members, with members and grants of a newer version, and
    /// with awkward texts.
    static let grants: [String?] = [
        #"[{"id":"1","entitlement":"pro","environment":"Xcode","from":1,"why":"é\u0000\ud83d\ude00","madeAt":2}]"#,
        """
        [{"id":"1","entitlement":"pro","environment":"Sandbox","from":1,"until":9,"why":"w","key":"k","name":"n",\
        "madeAt":2,"endedAt":5,"isEndedByHand":true,"endedByKey":"e","endedByName":"f","gift":{"of":[1.50]}},\
        {"id":"2","entitlement":"pro","environment":"Mars","from":1,"why":"w","madeAt":2},7]
        """, nil, "[\(String(repeating: " ", count: 70_000))7]",
    ]
}

// MARK: - Chains

extension Sample {
    /// A chain with one transaction.
    static func chain(
        _ number: Int = 1, in scope: LedgerScope = production, transaction: String? = nil, signed: Int64 = 0,
        owners: [CustomerRecord] = [], next: Timestamp? = nil
    ) -> ChainRecord {
        var record = ChainRecord(key(number, in: scope))
        record.chain.merge(statement(transaction ?? "\(number)", of: number, signed: signed))
        record.owners = owners.map { ChainRecord.Owner($0.customer, .claim) }
        if let next { record.report = ChainReport(state(), isSubscription: true, nextChange: next) }
        return record
    }

    /// A chain with a value in every member.
    static func full(_ owners: [ChainRecord.Owner]) -> ChainRecord {
        var record = ChainRecord(key())
        for text in awkward { record.chain.merge(statement(text, text: text)) }
        record.chain.merge(statement("both"))
        record.chain.merge(statement("both", source: .receipt))
        record.chain.merge(bare)
        record.chain.merge(renewal)
        for text in awkward { record.chain.mergeResidue(statement(text, text: text)) }
        record.chain.mergeResidue(statement("both", source: .receipt))
        record.chain.mergeResidue(bare)
        record.report = ChainReport(
            state(awkward[1], transactionId: awkward[0]), isSubscription: true, expiresDate: ends[1],
            revoked: Set(awkward), isEntitling: true, nextChange: time(9), asOf: time(8))
        record.report?.expirationIntent = Open(rawValue: 77)
        record.owners = owners
        record.ownerChanges = [time(2), time(1)] + ends
        record.claimants = Claimants([
            Claimants.Claimant(.max, at: ends[0]), Claimants.Claimant(1, at: time(3)),
            Claimants.Claimant(.min, at: ends[1]),
        ])
        record.isCorrected = true
        record.erasedAt = time(10)
        record.lastEventAt = time(11)
        record.chain.predecessors = Set(awkward)
        record.successor = awkward[2]
        record.chain.denial = Chain.Denial(at: ends[0], reason: awkward[3])
        return record
    }

    private static let revocation = TransactionStatement.Revocation(
        date: time(3), reason: Open(rawValue: 17), type: Open(rawValue: "A_WORD"), percentage: -1)

    private static var commitment: TransactionStatement.Commitment {
        var commitment = TransactionStatement.Commitment(billingPeriodNumber: 4)
        commitment.totalBillingPeriods = 12
        commitment.expiresDate = time(8)
        commitment.price = .min
        return commitment
    }

    /// A statement (the claims of one document about a transaction) with a value in every member. All its enumerations
    /// except `source` have values unknown to this version.
    static func statement(
        _ id: String, of chain: Int = 1, signed: Int64 = 0, text: String = "text",
        source: TransactionStatement.Source = .signedTransaction
    ) -> TransactionStatement {
        var statement = TransactionStatement(
            source: source, provenance: Provenance(signedDate: time(signed), digest: DocumentDigest([1, 2, 3])),
            transactionId: id, chain: key(chain).name, productId: text)
        statement.knownSince = time(signed - 1)
        statement.type = Open(rawValue: text)
        statement.subscriptionGroup = text
        statement.purchaseDate = ends[0]
        statement.expiresDate = ends[1]
        statement.quantity = .max
        statement.isUpgraded = true
        statement.revocation = revocation
        statement.ownership = Open(rawValue: text)
        statement.appAccountToken = text
        statement.offerType = Open(rawValue: 99)
        statement.webOrderLineItemId = text
        statement.transactionReason = Open(rawValue: text)
        statement.price = .max
        statement.currency = text
        statement.storefront = text
        statement.offerIdentifier = text
        statement.offerPeriod = text
        statement.offerDiscountType = Open(rawValue: text)
        statement.commitment = commitment
        statement.revokedSeats = .max
        statement.originalApplicationVersion = text
        statement.originalPlatform = Open(rawValue: text)
        statement.receiptType = text
        statement.olderMembers["price"] = time(8)
        return statement
    }

    /// A statement without optional members.
    private static let bare = TransactionStatement(
        source: .signedTransaction, provenance: Provenance(signedDate: ends[0], digest: DocumentDigest([])),
        transactionId: "bare", chain: key().name, productId: "")

    /// Renewal info with a value in every member.
    static var renewal: RenewalFact {
        var renewal = RenewalFact(
            provenance: Provenance(signedDate: ends[0], digest: DocumentDigest([4])),
            chain: key().name)
        renewal.terms.autoRenewProductId = awkward[1]
        renewal.terms.renewalPrice = .min
        renewal.terms.currency = awkward[5]
        renewal.terms.offerType = Open(rawValue: 99)
        renewal.terms.offerIdentifier = awkward[0]
        renewal.terms.offerDiscountType = Open(rawValue: "A_WORD")
        renewal.terms.offerPeriod = awkward[2]
        renewal.terms.renewalQuantity = .max
        // Without the longest text, because each event has the terms twice.
        renewal.terms.eligibleWinBackOfferIds = Array(awkward.dropLast())
        renewal.appAccountToken = awkward[6]
        renewal.willRenew = false
        renewal.expirationIntent = Open(rawValue: 77)
        renewal.isInBillingRetry = true
        renewal.gracePeriodExpiresDate = time(4)
        renewal.hasGraceWithoutEnd = true
        renewal.olderTokenDate = time(5)
        renewal.renewalDate = time(6)
        renewal.terms.priceIncreaseStatus = Open(rawValue: 5)
        renewal.commitmentWillRenew = true
        renewal.commitmentAutoRenewProductId = awkward[3]
        return renewal
    }
}

// MARK: - Documents

extension Sample {
    static func evidence(
        _ document: [UInt8], _ kind: Evidence.Kind = .receipt, in scope: LedgerScope = production,
        signed: Timestamp? = nil, parts: [Evidence] = [], notification: Evidence.Notification? = nil
    ) -> Evidence {
        Evidence(kind, document, scope, signed, parts: parts, notification: notification) { _ in ([], []) }
    }

    /// Bytes in the form of a signed token.
    static func token(_ payload: String) -> [UInt8] {
        let header = "{\"alg\":\"ES256\",\"x5c\":[\"\(String(repeating: "A", count: 500))\"]}"
        let parts = [header, payload, String(repeating: "s", count: 64)]
        return Array(parts.map { Base64.encodeURL(Array($0.utf8)[...]) }.joined(separator: [UInt8(ascii: ".")]))
    }

    static func document(_ number: Int, for chains: [Int]) -> NewDocument {
        newDocument(evidence(token(#"{"number":\#(number)}"#), .transaction, signed: time(Int64(number))), for: chains)
    }

    static func newDocument(_ evidence: Evidence, for chains: [Int], at milliseconds: Int64 = 0) -> NewDocument {
        NewDocument(evidence, for: Set(chains.map { key($0) }), receivedAt: time(milliseconds))
    }
}
