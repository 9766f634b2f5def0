// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import TestData
import Testing

@Suite struct ConversionTests {
    private static let context = ConversionContext(bundleId: "com.example", environment: Open(.production))

    @Test(arguments: 0..<UInt64(300))
    func `legacy to modern and back brings every field`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let info = LatestReceiptInfo.random(using: &random)
        let modern = info.modern(in: Self.context)
        #expect(modern.value.legacy().value == info)
        #expect(modern.leftovers.isEmpty)

        let pending = PendingRenewalInfo.random(using: &random)
        let renewal = pending.modern(in: Self.context)
        var expected = pending
        expected.priceConsentStatus = nil
        #expect(renewal.value.legacy().value == expected)
        #expect(renewal.leftovers.map(\.path) == (pending.priceConsentStatus == nil ? [] : ["price_consent_status"]))

        let receipt = Receipt.random(using: &random)
        let app = receipt.modern()
        var back = app.value.legacy().value
        for path in app.leftovers.map(\.path) {
            switch path {
            case "download_id": back.downloadId = receipt.downloadId
            case "expiration_date": back.expirationDate = receipt.expirationDate
            case "receipt_type": back.receiptType = receipt.receiptType
            default: Issue.record("\(path) was left over")
            }
        }
        #expect(back == receipt)
    }

    @Test(arguments: 0..<UInt64(300))
    func `modern to legacy and back brings every field that has a counterpart`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let transaction = JWSTransactionDecodedPayload.random(using: &random)
        let row = transaction.legacy()
        try Self.expect(row.value.modern(in: Self.context).value, toBe: transaction, but: row.leftovers)
        let wordless: Set<String> = [
            "signedDate", "storefront", "storefrontId", "price", "currency", "offerPeriod", "appTransactionId",
            "offerDiscountType", "transactionReason", "type", "offerType", "offerIdentifier", "inventedMember",
        ]
        #expect(Set(row.leftovers.map(\.path)).isSubset(of: wordless))

        let renewal = JWSRenewalInfoDecodedPayload.random(using: &random)
        let pending = renewal.legacy()
        try Self.expect(pending.value.modern(in: Self.context).value, toBe: renewal, but: pending.leftovers)
        #expect(
            Set(pending.leftovers.map(\.path)).isSubset(of: ["signedDate", "renewalDate", "renewalPrice", "currency"]))
    }

    /// Compares as JSON: what is left over is gone, all else is equal.
    private static func expect<Payload: Encodable>(
        _ found: Payload, toBe original: Payload, but leftovers: [Leftover]
    ) throws {
        let gone = Set(leftovers.map(\.path))
        let (found, original) = (try JSONValue(encoding: found), try JSONValue(encoding: original))
        for member in original.members ?? [] {
            #expect(found[member.name] == (gone.contains(member.name) ? nil : member.value), "\(member.name)")
        }
        let invented = Set(found.members?.map(\.name) ?? []).subtracting(original.members?.map(\.name) ?? [])
        #expect(invented.isEmpty)
    }

    /// Offers are the one field that is cut differently in the two worlds.
    @Test(
        arguments: [
            (#"{"is_trial_period":"true"}"#, #"{"offerType":1,"offerDiscountType":"FREE_TRIAL"}"#, []),
            (#"{"is_trial_period":"false"}"#, #"{}"#, []),
            (
                #"{"is_trial_period":"false","is_in_intro_offer_period":"true","expires_date_ms":"1000"}"#,
                #"{"expiresDate":1000,"type":"Auto-Renewable Subscription","offerType":1}"#, []
            ),
            (
                #"{"is_trial_period":"false","promotional_offer_id":"a"}"#,
                #"{"offerType":2,"offerIdentifier":"a"}"#, []
            ),
            (#"{"is_trial_period":"false","offer_code_ref_name":"b"}"#, #"{"offerType":3,"offerIdentifier":"b"}"#, []),
            // Nothing says what both together would mean: the one that tells more is carried, the other named.
            (
                #"{"is_trial_period":"true","promotional_offer_id":"a"}"#,
                #"{"offerType":2,"offerIdentifier":"a"}"#, ["is_trial_period"]
            ),
            (
                #"{"is_trial_period":"false","promotional_offer_id":"a","offer_code_ref_name":"b"}"#,
                #"{"offerType":2,"offerIdentifier":"a"}"#, ["offer_code_ref_name"]
            ),
        ] as [(String, String, [String])])
    func `offers from legacy to modern`(legacy: String, modern: String, leftovers: [String]) throws {
        let info = try LatestReceiptInfo(JSONValue(parsing: legacy.utf8))
        let conversion = info.modern(in: ConversionContext())
        #expect(try JSONValue(encoding: conversion.value).sorted == JSONValue(parsing: modern.utf8).sorted)
        #expect(conversion.leftovers.map(\.path) == leftovers)
    }

    @Test(arguments: [
        (#"{"offerType":1,"offerDiscountType":"PAY_UP_FRONT","expiresDate":1}"#, ["offerDiscountType"]),
        (#"{"offerType":1,"offerIdentifier":"a"}"#, ["offerIdentifier", "offerType"]),
        (#"{"offerType":4,"offerIdentifier":"back"}"#, ["offerIdentifier", "offerType"]),
        (#"{"offerType":2}"#, ["offerType"]),
        (#"{"offerType":9,"offerIdentifier":"a"}"#, ["offerIdentifier", "offerType"]),
        (#"{"offerType":3,"offerIdentifier":"a","offerDiscountType":"ONE_TIME"}"#, ["offerDiscountType"]),
        (#"{"type":"Consumable"}"#, ["type"]), (#"{"isUpgraded":false}"#, ["isUpgraded"]),
        (#"{"transactionId":"1","originalTransactionId":"1","transactionReason":"PURCHASE"}"#, []),
        (#"{"transactionId":"2","originalTransactionId":"1","transactionReason":"RENEWAL"}"#, ["transactionReason"]),
        (#"{"appAccountToken":"7e3fb20b-4cdb-47cc-936d-99d65f608138"}"#, []),
        (#"{"bundleId":"a","environment":"Sandbox"}"#, []),
        (#"{"later":{"a":1}}"#, ["later"]),
    ])
    func `what legacy has no words for is named`(modern: String, leftovers: [String]) throws {
        let payload = try JSONValue(parsing: modern.utf8).decode(JWSTransactionDecodedPayload.self)
        #expect(payload.legacy().leftovers.map(\.path).sorted() == leftovers)
    }

    @Test(arguments: [
        (#"{"receipt_type":"Production"}"#, "Production", []),
        (#"{"receipt_type":"ProductionSandbox","download_id":0,"adam_id":0,"app_item_id":0}"#, "Sandbox", []),
        (
            #"{"receipt_type":"ProductionVPP","expiration_date_ms":"1"}"#, "Production",
            ["expiration_date", "receipt_type"]
        ),
        (#"{"receipt_type":"ProductionVPPSandbox"}"#, "Sandbox", ["receipt_type"]),
        (#"{"receipt_type":"Xcode"}"#, "Xcode", []), (#"{"receipt_type":"Moon"}"#, "Moon", []),
        (#"{"receipt_type":"Production","download_id":503312345678901234}"#, "Production", ["download_id"]),
    ])
    func `receipt types become environments`(receipt: String, environment: String, leftovers: [String]) throws {
        let conversion = try Receipt(JSONValue(parsing: receipt.utf8)).modern()
        #expect(conversion.value.receiptType?.rawValue == environment)
        #expect(conversion.leftovers.map(\.path).sorted() == leftovers)
    }

    @Test func `tokens are lower-case in modern payloads, and none is left over for that`() throws {
        var info = LatestReceiptInfo()
        info.isTrialPeriod = false
        info.appAccountToken = "7B0E6D0A-3C55-4B0E-9A53-0C1E5D6F7A88"
        let conversion = info.modern(in: Self.context)
        #expect(conversion.value.appAccountToken == "7b0e6d0a-3c55-4b0e-9a53-0c1e5d6f7a88")
        #expect(conversion.leftovers.isEmpty)
    }

    @Test func `a purchase that stands twice in an answer becomes one, by the fresher row`() throws {
        let json = try JSONValue(
            parsing: #"""
                {"status":0,"environment":"Sandbox","receipt":{"bundle_id":"a","in_app":[
                {"transaction_id":"1","product_id":"p","is_trial_period":"false","odd":"x"},
                {"transaction_id":"2","product_id":"p","is_trial_period":"false"}]},
                "latest_receipt_info":[{"transaction_id":"1","product_id":"p","is_trial_period":"false","is_upgraded":"true"}],
                "latest_receipt":"abc"}
                """#.utf8)
        let conversion = try VerifyReceiptResponse(json).modern()
        #expect(conversion.value.transactions.map(\.transactionId) == ["1", "2"])
        #expect(conversion.value.transactions.map(\.isUpgraded) == [true, nil])
        #expect(conversion.value.transactions.map(\.bundleId) == ["a", "a"])
        #expect(conversion.leftovers.map(\.path) == ["receipt.in_app[0].odd", "latest_receipt"])
    }
}

// MARK: - Random documents

extension Bool {
    static func random(_ chance: Int, using random: inout SeededRandom) -> Bool {
        Int.random(in: 0..<chance, using: &random) == 0
    }
}

extension RandomNumberGenerator {
    mutating func digits() -> String { "\(UInt64.random(in: 1...999_999_999_999_999_999, using: &self))" }
    mutating func word() -> String { String((0..<8).map { _ in "abcdefghij.".randomElement(using: &self) ?? "a" }) }
    mutating func instant() -> Timestamp {
        Timestamp(milliseconds: .random(in: 1_200_000_000_000...2_200_000_000_000, using: &self))
    }
    mutating func maybe<Value>(_ value: @autoclosure () -> Value) -> Value? {
        Bool.random(using: &self) ? value() : nil
    }
    mutating func uuid() -> String {
        let digits = (0..<32).map { _ in "0123456789abcdef".randomElement(using: &self) ?? "0" }
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }
}

extension LatestReceiptInfo {
    /// A row as the App Store might write it.
    static func random(using random: inout SeededRandom) -> LatestReceiptInfo {
        var info = LatestReceiptInfo()
        let isSubscription = Bool.random(using: &random)
        info.quantity = .random(in: 1...10, using: &random)
        info.productId = random.word()
        info.transactionId = random.digits()
        info.originalTransactionId = Bool.random(using: &random) ? info.transactionId : random.digits()
        info.purchaseDate = random.instant()
        info.originalPurchaseDate = random.instant()
        info.cancellationDate = Bool.random(using: &random) ? random.instant() : nil
        if info.cancellationDate != nil {
            info.cancellationReason = Open(rawValue: .random(in: 0...2, using: &random))
        }
        info.inAppOwnershipType =
            [nil, Open(.purchased), Open(.familyShared), Open(rawValue: "BORROWED")]
            .randomElement(using: &random) ?? nil
        info.appAccountToken = Bool.random(using: &random) ? random.uuid() : nil
        info.isTrialPeriod = false
        if isSubscription {
            info.expiresDate = random.instant()
            info.webOrderLineItemId = random.digits()
            info.subscriptionGroupIdentifier = random.digits()
            info.isUpgraded = Bool.random(using: &random) ? true : nil
            info.isInIntroOfferPeriod = false
            switch Int.random(in: 0...4, using: &random) {
            case 0: info.isTrialPeriod = true
            case 1: info.isInIntroOfferPeriod = true
            case 2: info.promotionalOfferId = random.word()
            case 3: info.offerCodeRefName = random.word()
            default: break
            }
        }
        return info
    }
}

extension PendingRenewalInfo {
    static func random(using random: inout SeededRandom) -> PendingRenewalInfo {
        var info = PendingRenewalInfo()
        info.autoRenewProductId = random.word()
        info.productId = random.word()
        info.originalTransactionId = random.digits()
        info.autoRenewStatus = Open(rawValue: .random(in: 0...2, using: &random))
        info.expirationIntent = Bool.random(using: &random) ? Open(rawValue: .random(in: 1...6, using: &random)) : nil
        info.isInBillingRetryPeriod = Bool.random(using: &random) ? Bool.random(using: &random) : nil
        info.gracePeriodExpiresDate = Bool.random(using: &random) ? random.instant() : nil
        info.priceIncreaseStatus =
            Bool.random(using: &random) ? Open(rawValue: .random(in: 0...1, using: &random)) : nil
        // Only an increase that needs consent has the older name too.
        if info.priceIncreaseStatus != nil, Bool.random(using: &random) {
            info.priceConsentStatus = info.priceIncreaseStatus
        }
        switch Int.random(in: 0...2, using: &random) {
        case 0: info.promotionalOfferId = random.word()
        case 1: info.offerCodeRefName = random.word()
        default: break
        }
        return info
    }
}

extension Receipt {
    static func random(using random: inout SeededRandom) -> Receipt {
        var receipt = Receipt()
        receipt.receiptType = ReceiptType.allCases.randomElement(using: &random).map { Open($0) }
        let isSandbox = receipt.receiptType?.known?.environment == .sandbox
        receipt.adamId = isSandbox ? 0 : .random(in: 1...9_999_999_999, using: &random)
        receipt.appItemId = receipt.adamId
        receipt.downloadId = isSandbox ? 0 : .random(in: 1...999_999_999_999_999_999, using: &random)
        receipt.versionExternalIdentifier = isSandbox ? 0 : .random(in: 1...999_999_999, using: &random)
        receipt.bundleId = random.word()
        receipt.applicationVersion = random.digits()
        receipt.receiptCreationDate = random.instant()
        receipt.requestDate = random.instant()
        receipt.originalPurchaseDate = random.instant()
        receipt.originalApplicationVersion = random.digits()
        receipt.preorderDate = Bool.random(using: &random) ? random.instant() : nil
        receipt.expirationDate = Bool.random(using: &random) ? random.instant() : nil
        return receipt
    }
}

extension JWSTransactionDecodedPayload {
    /// A transaction as the App Store might sign it, with what only signed payloads have.
    static func random(using random: inout SeededRandom) -> JWSTransactionDecodedPayload {
        var transaction = LatestReceiptInfo.random(using: &random).modern(
            in: .init(bundleId: "com.example", environment: Open(.production))
        ).value
        transaction.type = transaction.expiresDate == nil ? Open(.consumable) : Open(.autoRenewableSubscription)
        transaction.transactionReason = Bool.random(using: &random) ? Open(.renewal) : Open(.purchase)
        if transaction.transactionId == transaction.originalTransactionId {
            transaction.transactionReason = Open(.purchase)
        }
        transaction.signedDate = random.instant()
        transaction.storefront = "DEU"
        transaction.storefrontId = "143443"
        transaction.price = .random(in: 0...99_999_999, using: &random)
        transaction.currency = "EUR"
        transaction.appTransactionId = random.digits()
        if transaction.offerType != nil { transaction.offerPeriod = "P1M" }
        if transaction.expiresDate != nil, Bool.random(4, using: &random) {
            transaction.offerType = Open(.winBack)
            transaction.offerIdentifier = random.word()
            transaction.offerDiscountType = Open(.payAsYouGo)
        }
        if Bool.random(4, using: &random) {
            transaction.unknownMembers = UnknownMembers([.init("inventedMember", .null)])
        }
        return transaction
    }
}

extension JWSRenewalInfoDecodedPayload {
    static func random(using random: inout SeededRandom) -> JWSRenewalInfoDecodedPayload {
        var renewal = PendingRenewalInfo.random(using: &random).modern(
            in: .init(bundleId: "com.example", environment: Open(.production))
        ).value
        renewal.signedDate = random.instant()
        renewal.renewalDate = random.instant()
        renewal.renewalPrice = .random(in: 0...99_999_999, using: &random)
        renewal.currency = "EUR"
        return renewal
    }
}
