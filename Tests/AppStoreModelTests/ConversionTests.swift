// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import TestData
import Testing

@Suite struct ConversionTests {
    private static let context = ConversionContext(bundleId: "com.example", environment: Open(.production))

    @Test(arguments: Seeds.first(300))
    func `converting from legacy to modern and back returns every field`(seed: UInt64) throws {
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

    @Test(arguments: Seeds.first(300))
    func `converting from modern to legacy and back returns every field that has a counterpart`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let transaction = JWSTransactionDecodedPayload.random(using: &random)
        let row = transaction.legacy()
        try Self.expect(row.value.modern(in: ConversionContext()).value, toBe: transaction, but: row.leftovers)
        let withoutCounterpart: Set<String> = [
            "signedDate", "storefront", "storefrontId", "price", "currency", "offerPeriod", "appTransactionId",
            "offerDiscountType", "transactionReason", "type", "offerType", "offerIdentifier", "inventedMember",
            "bundleId", "environment", "isUpgraded",
        ]
        #expect(Set(row.leftovers.map(\.path)).isSubset(of: withoutCounterpart))

        let renewal = JWSRenewalInfoDecodedPayload.random(using: &random)
        let pending = renewal.legacy()
        try Self.expect(pending.value.modern(in: ConversionContext()).value, toBe: renewal, but: pending.leftovers)
        let renewalMembers: Set<String> = [
            "signedDate", "renewalDate", "renewalPrice", "currency", "environment", "offerType", "offerIdentifier",
        ]
        #expect(Set(pending.leftovers.map(\.path)).isSubset(of: renewalMembers))
    }

    @Test(arguments: Seeds.first(200))
    func `every value of a verifyReceipt answer is converted or a leftover`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var response = VerifyReceiptResponse(status: .valid, environment: .sandbox, receipt: .random(using: &random))
        let rows = (0..<Int.random(in: 0...4, using: &random)).map { _ in LatestReceiptInfo.random(using: &random) }
        response.receipt?.inApp = rows.filter { _ in Bool.random(using: &random) }
        if Bool.random(using: &random) { response.latestReceiptInfo = rows }
        if Bool.random(using: &random) { response.pendingRenewalInfo = [.random(using: &random)] }
        if Bool.random(using: &random) { response.latestReceipt = "abc" }
        response.unknownMembers = UnknownMembers([.init("later", .number("1"))])

        let modern = response.modern()
        let paths = Set(modern.leftovers.map(\.path))
        var back = modern.value.legacy().value
        // A row in both lists comes back once. A leftover says which rows were in `in_app`.
        let ids = (response.latestReceiptInfo ?? []).map(\.transactionId)
        let added = (response.receipt?.inApp ?? []).filter { !ids.contains($0.transactionId) }
        let all = back.latestReceiptInfo ?? back.receipt?.inApp ?? []
        #expect(all.map(\.transactionId) == ids + added.map(\.transactionId))
        if response.latestReceiptInfo != nil {
            if back.latestReceiptInfo != nil { #expect(all == (response.latestReceiptInfo ?? []) + added) }
            #expect(paths.contains("receipt.in_app") == (response.receipt?.inApp?.isEmpty == false))
        }
        #expect(paths.contains("later"))
        #expect(paths.contains("latest_receipt") == (response.latestReceipt != nil))
        #expect(back.pendingRenewalInfo?.first?.autoRenewStatus == response.pendingRenewalInfo?.first?.autoRenewStatus)
        back.receipt?.inApp = response.receipt?.inApp
        for path in ["download_id", "expiration_date", "receipt_type"] where paths.contains("receipt.\(path)") {
            back.receipt?.downloadId = response.receipt?.downloadId
            back.receipt?.expirationDate = response.receipt?.expirationDate
            back.receipt?.receiptType = response.receipt?.receiptType
        }
        #expect(back.receipt == response.receipt)
        let isNamed = back.environment == response.environment || paths.contains("environment")
        #expect(isNamed)
    }

    @Test(arguments: Seeds.first(200))
    func `every value of converted purchases is converted back or a leftover`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var purchases = DecodedPurchases()
        if Bool.random(using: &random) {
            purchases.appTransaction = Receipt.random(using: &random).modern().value
            purchases.appTransaction?.originalPlatform = Open(.iOS)
        }
        purchases.transactions = (0..<Int.random(in: 0...3, using: &random)).map { _ in .random(using: &random) }
        purchases.renewalInfo = (0..<Int.random(in: 0...2, using: &random)).map { _ in .random(using: &random) }
        purchases.unknownMembers = UnknownMembers([.init("later", .bool(true))])

        let legacy = purchases.legacy()
        let back = legacy.value.modern().value
        let paths = Set(legacy.leftovers.map(\.path))
        #expect(paths.contains("later"))
        func expect(_ original: some Encodable, _ returned: (some Encodable)?, below path: String) throws {
            let found = try returned.map { try JSONValue(encoding: $0) }
            for member in try JSONValue(encoding: original).members ?? [] {
                let isThere = found?[member.name] == member.value
                #expect(isThere || paths.contains("\(path).\(member.name)"), "\(path).\(member.name)")
            }
        }
        if let app = purchases.appTransaction { try expect(app, back.appTransaction, below: "appTransaction") }
        for (index, transaction) in purchases.transactions.enumerated() {
            try expect(transaction, back.transactions[index], below: "transactions[\(index)]")
        }
        for (index, renewal) in purchases.renewalInfo.enumerated() {
            try expect(renewal, back.renewalInfo[index], below: "renewalInfo[\(index)]")
        }
    }

    /// Compares as JSON: everything but the leftovers is equal.
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

    /// Offers, for which the two formats have different members.
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
            // Apple does not document both together: the one that says more is converted, the other is a leftover.
            (
                #"{"is_trial_period":"true","promotional_offer_id":"a"}"#,
                #"{"offerType":2,"offerIdentifier":"a"}"#, ["is_trial_period"]
            ),
            (
                #"{"is_trial_period":"false","promotional_offer_id":"a","offer_code_ref_name":"b"}"#,
                #"{"offerType":2,"offerIdentifier":"a"}"#, ["offer_code_ref_name"]
            ),
        ] as [(String, String, [String])])
    func `an offer is converted from legacy to modern`(legacy: String, modern: String, leftovers: [String]) throws {
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
        (#"{"bundleId":"a","environment":"Sandbox"}"#, ["bundleId", "environment"]),
        (#"{"offerType":1,"price":0}"#, ["price"]),
        (#"{"later":{"a":1}}"#, ["later"]),
    ])
    func `a member without a counterpart in legacy is a leftover`(modern: String, leftovers: [String]) throws {
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

    @Test func `tokens are lower-case in modern payloads, and their case is no leftover`() throws {
        var info = LatestReceiptInfo()
        info.isTrialPeriod = false
        info.appAccountToken = "7B0E6D0A-3C55-4B0E-9A53-0C1E5D6F7A88"
        let conversion = info.modern(in: Self.context)
        #expect(conversion.value.appAccountToken == "7b0e6d0a-3c55-4b0e-9a53-0c1e5d6f7a88")
        #expect(conversion.leftovers.isEmpty)
    }

    @Test func `a purchase with two rows in an answer becomes one transaction, from the newer row`() throws {
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
        #expect(conversion.leftovers.map(\.path) == ["receipt.in_app[0].odd", "receipt.in_app", "latest_receipt"])
    }

    @Test(arguments: [
        (
            #"{"status":0,"receipt":{"receipt_type":"Production","in_app":[]},"environment":"Sandbox"}"#,
            #"{"appTransaction":{"receiptType":"Production"},"transactions":[],"renewalInfo":[]}"#, ["environment"]
        ),
        (
            #"{"environment":"Production","status":21010,"is_retryable":false}"#,
            #"{"transactions":[],"renewalInfo":[]}"#, ["environment", "is_retryable", "status"]
        ),
    ])
    func `an answer with few members is converted`(legacy: String, modern: String, leftovers: [String]) throws {
        let conversion = try VerifyReceiptResponse(JSONValue(parsing: legacy.utf8)).modern()
        #expect(try JSONValue(encoding: conversion.value).compactText == modern)
        #expect(conversion.leftovers.map(\.path).sorted() == leftovers)
    }

    @Test(
        arguments: [
            // Before March 2021: all members at the top, in the iOS 6 style.
            (
                #"{"notification_type":"CANCEL","environment":"PROD","bid":"a","auto_renew_status":"false","expiration_intent":2,"#
                    + #""latest_receipt":"abc","latest_expired_receipt_info":{"bid":"a","transaction_id":"2","original_transaction_id":"1"}}"#,
                #"{"transactions":[{"transactionId":"2","originalTransactionId":"1","bundleId":"a","environment":"Production"}],"#
                    + #""renewalInfo":[{"autoRenewStatus":0,"expirationIntent":2,"environment":"Production"}]}"#,
                ["latest_receipt", "notification_type"]
            ),
            // Since then: the purchases are in a unified receipt.
            (
                #"{"notification_type":"DID_RENEW","environment":"PROD","bid":"a","auto_renew_status":"true","password":"p","#
                    + #""unified_receipt":{"environment":"Production","status":0,"latest_receipt":"abc","#
                    + #""latest_receipt_info":[{"transaction_id":"2","original_transaction_id":"1","is_trial_period":"false","zzz":1}],"#
                    + #""pending_renewal_info":[{"auto_renew_status":"1","original_transaction_id":"1"}]}}"#,
                #"{"transactions":[{"transactionId":"2","originalTransactionId":"1","bundleId":"a","environment":"Production"}],"#
                    + #""renewalInfo":[{"originalTransactionId":"1","autoRenewStatus":1,"environment":"Production"}]}"#,
                [
                    "auto_renew_status", "notification_type", "password", "unified_receipt.latest_receipt",
                    "unified_receipt.latest_receipt_info[0].zzz",
                ]
            ),
            (
                #"{"notification_type":"DID_RENEW","environment":"Moon","bid":"a"}"#,
                #"{"transactions":[],"renewalInfo":[]}"#,
                ["bid", "environment", "notification_type"]
            ),
        ] as [(String, String, [String])])
    func `a version 1 notification is converted`(legacy: String, modern: String, leftovers: [String]) throws {
        let conversion = try ResponseBodyV1(JSONValue(parsing: legacy.utf8)).modern()
        #expect(try JSONValue(encoding: conversion.value).compactText == modern)
        #expect(conversion.leftovers.map(\.path).sorted() == leftovers)
    }

    @Test func `an answer in the iOS 6 style becomes a transaction and renewal info`() throws {
        let json = try JSONValue(
            parsing: #"""
                {"receipt":{"bid":"a","bvrs":"12","item_id":"9","product_id":"y","transaction_id":"7",
                "original_transaction_id":"1","expires_date":"1456893581000"},
                "latest_expired_receipt_info":{"bid":"a","bvrs":"12","item_id":"9","product_id":"y","transaction_id":"7",
                "original_transaction_id":"1","expires_date":"1456893581000"},
                "auto_renew_status":0,"expiration_intent":"1","is_in_billing_retry_period":"0","cancellation_reason":"1",
                "auto_renew_product_id":"y","status":21006}
                """#.utf8)
        let conversion = try VerifyTransactionReceiptResponse(json).modern()
        #expect(conversion.value.transactions.map(\.transactionId) == ["7"])
        #expect(conversion.value.transactions.first?.revocationReason == .appIssue)
        #expect(conversion.value.renewalInfo.first?.originalTransactionId == "1")
        #expect(conversion.value.renewalInfo.first?.autoRenewStatus == .off)
        let paths = Set(conversion.leftovers.map(\.path))
        #expect(
            paths == [
                "receipt.bvrs", "receipt.item_id", "latest_expired_receipt_info.bvrs",
                "latest_expired_receipt_info.item_id",
                "status",
            ])
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
    /// A transaction as the App Store might sign it, made without the conversion.
    static func random(using random: inout SeededRandom) -> JWSTransactionDecodedPayload {
        var transaction = JWSTransactionDecodedPayload()
        let isSubscription = Bool.random(using: &random)
        transaction.transactionId = random.digits()
        transaction.originalTransactionId = Bool.random(using: &random) ? transaction.transactionId : random.digits()
        transaction.bundleId = ["com.example", "com.example.two"].randomElement(using: &random)
        transaction.environment = [.production, .sandbox].randomElement(using: &random).map { Open($0) }
        transaction.productId = random.word()
        transaction.quantity = .random(in: 1...10, using: &random)
        transaction.purchaseDate = random.instant()
        transaction.originalPurchaseDate = random.instant()
        transaction.signedDate = random.instant()
        transaction.type =
            (isSubscription ? .autoRenewableSubscription : ProductType.allCases.randomElement(using: &random))
            .map { Open($0) }
        transaction.transactionReason = TransactionReason.allCases.randomElement(using: &random).map { Open($0) }
        // A first purchase is no renewal.
        if transaction.transactionId == transaction.originalTransactionId {
            transaction.transactionReason = Open(.purchase)
        }
        transaction.inAppOwnershipType = InAppOwnershipType.allCases.randomElement(using: &random).map { Open($0) }
        transaction.appAccountToken = Bool.random(using: &random) ? random.uuid() : nil
        transaction.storefront = "DEU"
        transaction.storefrontId = "143443"
        transaction.price = .random(in: 1...99_999_999, using: &random)
        transaction.currency = "EUR"
        transaction.appTransactionId = random.digits()
        if Bool.random(4, using: &random) {
            transaction.revocationDate = random.instant()
            transaction.revocationReason = Open(rawValue: .random(in: 0...2, using: &random))
        }
        if isSubscription {
            transaction.expiresDate = random.instant()
            transaction.webOrderLineItemId = random.digits()
            transaction.subscriptionGroupIdentifier = random.digits()
            transaction.isUpgraded = [true, false, nil].randomElement(using: &random) ?? nil
        }
        if Bool.random(using: &random) {
            transaction.offerType = Open(rawValue: .random(in: 1...5, using: &random))
            transaction.offerDiscountType = OfferDiscountType.allCases.randomElement(using: &random).map { Open($0) }
            transaction.offerIdentifier = Bool.random(using: &random) ? random.word() : nil
            transaction.offerPeriod = "P1M"
        }
        if Bool.random(4, using: &random) {
            transaction.unknownMembers = UnknownMembers([.init("inventedMember", .null)])
        }
        return transaction
    }
}

extension JWSRenewalInfoDecodedPayload {
    /// Renewal info as the App Store might sign it, made without the conversion.
    static func random(using random: inout SeededRandom) -> JWSRenewalInfoDecodedPayload {
        var renewal = JWSRenewalInfoDecodedPayload()
        renewal.originalTransactionId = random.digits()
        renewal.productId = random.word()
        renewal.autoRenewProductId = random.word()
        renewal.autoRenewStatus = Open(rawValue: .random(in: 0...2, using: &random))
        renewal.environment = [.production, .sandbox].randomElement(using: &random).map { Open($0) }
        renewal.expirationIntent =
            Bool.random(using: &random) ? Open(rawValue: .random(in: 1...6, using: &random)) : nil
        renewal.isInBillingRetryPeriod = [true, false, nil].randomElement(using: &random) ?? nil
        renewal.gracePeriodExpiresDate = Bool.random(using: &random) ? random.instant() : nil
        renewal.priceIncreaseStatus =
            Bool.random(using: &random) ? Open(rawValue: .random(in: 0...1, using: &random)) : nil
        if Bool.random(using: &random) {
            renewal.offerType = Open(rawValue: .random(in: 1...5, using: &random))
            renewal.offerIdentifier = Bool.random(using: &random) ? random.word() : nil
        }
        renewal.signedDate = random.instant()
        renewal.renewalDate = random.instant()
        renewal.renewalPrice = .random(in: 0...99_999_999, using: &random)
        renewal.currency = "EUR"
        return renewal
    }
}
