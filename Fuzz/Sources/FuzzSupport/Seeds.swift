// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import ReceiptCoding

/// Writes the seeds of this target into `.corpus/<target>/seeds`; libFuzzer calls it first. Seeds are documents of the
/// hostile suite, genuine documents if they are available, and a few texts from this file.
@_cdecl("LLVMFuzzerInitialize")
public func writeSeeds(
    _ count: UnsafeMutablePointer<CInt>?,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>?
) -> CInt {
    let target = URL(fileURLWithPath: CommandLine.arguments[0]).lastPathComponent
    let folder = Folder.fuzz.appendingPathComponent(".corpus/\(target)/seeds")
    requireNoError("seeds can be written to \(folder.path)") {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for (name, bytes) in seeds(of: target) {
            try Data(bytes).write(to: folder.appendingPathComponent(name))
        }
    }
    return 0
}

private typealias Seed = (name: String, bytes: [UInt8])

private func seeds(of target: String) -> [Seed] {
    switch target {
    case "FuzzReceipt": SignedForm.receipt.documents + payloads
    case "FuzzTransactionReceipt": SignedForm.transactionReceipt.documents + signatures
    case "FuzzJWS": SignedForm.token.documents + headersAndPayloads
    case "FuzzVerifyReceiptRequest": requests
    case "FuzzNotificationBody": bodies
    case "FuzzDateText": dates
    case "FuzzOCSPResponse": SeedFile.files(of: target).filter { $0.name.hasSuffix(".der") }
    case "FuzzCustomerToken": tokens
    case "FuzzStoreKitFile": Folder.genuine("storekit") + storeKitFiles
    case "FuzzStoredChain": chains
    default: []
    }
}

/// The payloads of receipts.
private var payloads: [Seed] {
    SignedForm.receipt.documents.compactMap { name, bytes in
        (try? SignedReceipt(decoding: bytes)).map { ("payload-\(name)", Array($0.payload)) }
    }
}

/// Signature and purchase of transaction receipts, without the base64 around them.
private var signatures: [Seed] {
    SignedForm.transactionReceipt.documents.compactMap { name, bytes in
        (try? TransactionReceipt(decoding: bytes)).map { ("parts-\(name)", ($0.signatureBlob ?? []) + $0.purchaseInfo) }
    }
}

/// Header and payload of tokens, without the base64 around them.
private var headersAndPayloads: [Seed] {
    SignedForm.token.documents.compactMap { name, bytes in
        guard let jws = try? JWS(bytes), let header = Base64.decodeURL(jws.encodedHeader) else { return nil }
        return ("parts-\(name)", header + [UInt8(ascii: "\n")] + jws.payload)
    }
}

private var requests: [Seed] {
    SignedForm.receipt.documents.enumerated().map { index, receipt in
        let options = [#""password":"0123456789abcdef","exclude-old-transactions":true,"#, ""][index % 2]
        return (receipt.name, Array("{\(options)\"receipt-data\":\"\(Base64.encode(receipt.bytes))\"}".utf8))
    }
}

private var bodies: [Seed] {
    let tokens = SignedForm.token.documents
    let payloads: [Seed] = tokens.compactMap { name, bytes in
        (try? JWS(bytes)).map { ("payload-\(name)", $0.payload) }
    }
    let wrapped: [Seed] = tokens.prefix(3).map { name, bytes in
        (name, Array(#"{"signedPayload":""#.utf8) + bytes + Array(#""}"#.utf8))
    }
    let answers = (Folder.genuine("golden") + Folder.genuine("models")).filter { $0.name.hasSuffix(".json") }
    return payloads + wrapped + answers + legacyBodies.enumerated().map { ("legacy-\($0)", Array($1.utf8)) }
}

private let legacyBodies = [
    """
    {"notification_type":"DID_CHANGE_RENEWAL_STATUS","password":"0123","environment":"PROD","auto_renew_product_id":"m1",\
    "auto_renew_adam_id":"123","auto_renew_status":"false","auto_renew_status_change_date":"2020-11-01 08:30:00 Etc/GMT",\
    "auto_renew_status_change_date_ms":"1604219400000","bid":"com.example","bvrs":"1","expiration_intent":1,\
    "original_transaction_id":170000000000000,"unified_receipt":{"environment":"Production","latest_receipt":"MII=",\
    "latest_receipt_info":[{"quantity":"1","product_id":"m1","transaction_id":"17","purchase_date_ms":"1604219400000",\
    "is_trial_period":"true","offer_code_ref_name":"o"}],"pending_renewal_info":[{"auto_renew_status":"0",\
    "product_id":"m1","is_in_billing_retry_period":"1","grace_period_expires_date_ms":"1604219400000"}],"status":0}}
    """,
    """
    {"receipt":{"bid":"com.example","bvrs":"2","item_id":"5","quantity":"1","product_id":"m1","transaction_id":"17",\
    "original_transaction_id":"16","purchase_date":"2012-02-29 23:59:59 Etc/GMT","original_purchase_date_pst":\
    "2012-11-04 01:30:00 America/Los_Angeles","expires_date":"1604219400000"},"latest_receipt_info":{"bid":"com.example",\
    "transaction_id":"18"},"latest_receipt":"MII=","auto_renew_status":1,"expiration_intent":"1","status":21006}
    """,
    #"{"status":21100,"is-retryable":"true","environment":"Sandbox"}"#,
    #"{"receipt-data":"MII=","password":null,"exclude-old-transactions":false}"#,
]

private let dates: [Seed] = [
    "2024-02-29T12:34:56Z", "2024-02-29T12:34:56.789Z", "2024-02-29T12:34:56.123456789+05:30",
    "1999-12-31T23:59:59-0800", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z",
    "2020-03-08 02:30:00 America/Los_Angeles", "2020-11-01 01:30:00 America/Los_Angeles",
    "2006-10-29 01:59:59 America/Los_Angeles", "1986-04-27 02:00:00 America/Los_Angeles",
    "2012-02-29 23:59:59 Etc/GMT", "\0\0\0\0\0\0\0\0",
].enumerated().map { ("date-\($0)", Array($1.utf8)) }

/// The headers and payloads of customer tokens.
private let tokens: [Seed] = [
    #"{"sub":"anna","exp":1795000060}"#, #"{"sub":"anna","exp":1795000060.5,"nbf":1794999000,"iat":1}"#,
    #"{"sub":"anna","exp":1795086400,"aud":"com.example.notes"}"#,
    #"{"exp":1795000060,"aud":["other","com.example.notes"],"sub":"\u0061nna","x":{"y":[null,true]}}"#,
].enumerated().map { ("token-\($0)", Array("{\"alg\":\"HS256\",\"typ\":\"JWT\"}\n\($1)".utf8)) }

private let storeKitFiles: [Seed] = [
    """
    {"identifier":"A","nonRenewingSubscriptions":[],"products":[{"displayPrice":"0.99","familyShareable":true,\
    "internalID":"1","localizations":[],"productID":"coins","referenceName":"c","type":"Consumable"}],\
    "settings":{"_applicationInternalID":"12","_billingGracePeriodEnabled":true,"_storefront":"DEU"},\
    "subscriptionGroups":[{"id":"G","localizations":[],"name":"g","subscriptions":[{"adHocOffers":[],"codeOffers":[],\
    "displayPrice":"4.99","familyShareable":false,"groupNumber":1,"internalID":"2","introductoryOffer":{"internalID":\
    "3","paymentMode":"free","subscriptionPeriod":"P1W"},"localizations":[],"productID":"monthly","recurringSubscriptionPeriod":"P1M","referenceName":"m","subscriptionGroupID":"G","type":"RecurringSubscription"}]}],\
    "version":{"major":3,"minor":0}}
    """
].enumerated().map { ("file-\($0)", Array($1.utf8)) }

/// Chains as `ChainCodingTests` has them.
private let chains: [Seed] = [
    """
    01910180a0abfef962970120039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81a50100c20106\
    616374697665c601076d6f6e74686c79c90101d50102e101000000020161016200010e05636c61696d0106013209020d80a0\
    abfef9621320039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb8116076d6f6e74686c7929022d\
    005580a0abfef96271060000
    """,
    """
    010000000000030602313009000d0a1320e52d9c508c502347344d8c07ad91cbd6068afc75ff6292f062a09ca381c89e7116\
    076d6f6e74686c7929022d00550a0006013909000d0a1320e52d9c508c502347344d8c07ad91cbd6068afc75ff6292f062a0\
    9ca381c89e7116076d6f6e74686c7929022d00550a0006013909020d0a1320e52d9c508c502347344d8c07ad91cbd6068afc\
    75ff6292f062a09ca381c89e7116076d6f6e74686c7929022d00550a000106013809020d0a1320e52d9c508c502347344d8c\
    07ad91cbd6068afc75ff6292f062a09ca381c89e7116076d6f6e74686c7929022d00550a00
    """,
].enumerated().map { ("chain-\($0)", bytes(hex: $1)) }

private func bytes(hex text: String) -> [UInt8] {
    let digits = text.compactMap { $0.hexDigitValue.map(UInt8.init) }
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
