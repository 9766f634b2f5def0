// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import X509

/// Faults of notifications. Most have only genuine parts that do not belong together.
enum NotificationCases {
    private static let transaction =
        #"{"transactionId":"2","originalTransactionId":"1","bundleId":"com.example","environment":"Sandbox","#
        + #""signedDate":1700000500000}"#
    private static let renewal =
        #"{"originalTransactionId":"1","autoRenewStatus":1,"environment":"Sandbox","signedDate":1700000500000}"#

    /// A notification with tokens inside; `breaking` changes its payload.
    ///
    /// - Parameter signsWithOther: Whether the untrusted authority signs the parts.
    private static func parts(
        _ id: String, _ description: String, _ expected: VerificationError.Code?,
        transaction: String? = transaction, renewal: String? = renewal, appTransaction: String? = nil,
        signsWithOther: Bool = false,
        conflicts: [Vector.Conflict] = [], _ breaking: @escaping @Sendable (String) -> String = { $0 }
    ) -> Case {
        Case(
            id: "notification::\(id)", description: description, kind: .notification, expected: expected,
            trust: "two apps", source: "signed-transactions A.6", conflicts: conflicts
        ) { world in
            let signer = signsWithOther ? world.other.tokens : world.authority.tokens
            func member(_ name: String, _ payload: String?) throws -> String {
                try payload.map { #","\#(name)":"\#(try TokenPlan($0, by: signer).signed())""# } ?? ""
            }
            let tokens =
                try member("signedTransactionInfo", transaction) + member("signedRenewalInfo", renewal)
            if let appTransaction {
                let token = try TokenPlan(appTransaction, by: signer).signed()
                return try TokenPlan(
                    #"{"notificationType":"RESCIND_CONSENT","signedDate":1700000500000,"appData":{"bundleId":"com.example","#
                        + #""environment":"Sandbox","signedAppTransactionInfo":"\#(token)"}}"#,
                    by: world.authority.tokens
                ).signed()
            }
            let payload = """
                {"notificationType":"DID_RENEW","notificationUUID":"u","signedDate":1700000500000,\
                "data":{"bundleId":"com.example","appAppleId":7,"environment":"Sandbox"\(tokens)}}
                """
            return try TokenPlan(breaking(payload), by: world.authority.tokens).signed()
        }
    }

    private static let app = #"{"receiptType":"Sandbox","bundleId":"com.example","receiptCreationDate":1700000500000}"#

    /// A notification without tokens inside, after `breaking` has changed its plan.
    private static func outer(
        _ id: String, _ description: String, _ expected: VerificationError.Code?,
        _ breaking: @escaping @Sendable (inout TokenPlan, World) throws -> Void
    ) -> Case {
        Case(
            id: "notification::\(id)", description: description, kind: .notification, expected: expected,
            trust: "two apps", source: "verification-libraries: opencat, croissantpay"
        ) { world in
            var plan = try TokenPlan(
                #"{"notificationType":"DID_RENEW","signedDate":1700000500000,"data":{"bundleId":"com.example","#
                    + #""environment":"Sandbox"}}"#, by: world.authority.tokens)
            try breaking(&plan, world)
            return try plan.signed()
        }
    }

    static let all = [
        parts("genuine", "As the App Store sends it.", nil),
        parts("no-renewal-info", "A transaction alone.", nil, renewal: nil),
        parts("no-parts", "No tokens inside, as in a `TEST` notification.", nil, transaction: nil, renewal: nil),
        parts(
            "renewal-info-alone", "Renewal info without a transaction that binds it to an app.", .otherPurchase,
            transaction: nil),
        parts(
            "other-subscription", "Renewal info of another subscription.", .otherPurchase,
            renewal: renewal.replacing(#"Id":"1""#, with: #"Id":"7""#)),
        parts(
            "no-subscription", "Renewal info of no subscription.", .otherPurchase,
            renewal: renewal.replacing(#""originalTransactionId":"1","#, with: "")),
        parts(
            "transaction-other-environment", "A transaction from another environment that is accepted too.",
            .otherPurchase, transaction: transaction.replacing("Sandbox", with: "Production")),
        parts(
            "renewal-info-other-environment", "Renewal info from another environment that is accepted too.",
            .otherPurchase, renewal: renewal.replacing("Sandbox", with: "Production")),
        parts(
            "transaction-other-accepted-app", "A transaction of another app that is accepted too.", .otherPurchase,
            transaction: transaction.replacing("com.example", with: "com.example.two")),
        parts(
            "transaction-other-app", "A transaction of an app that is not accepted.", .otherApp,
            transaction: transaction.replacing("com.example", with: "com.evil")),
        parts("parts-exchanged", "Renewal info in the transaction's place.", .otherKind, transaction: renewal),
        parts(
            "parts-of-other-signer", "Parts that another authority signed.", .untrustedChain, signsWithOther: true,
            conflicts: [
                Vector.Conflict(
                    implementation: "openiap kit", actual: "verified",
                    reason: "It decodes the tokens inside without verifying them.")
            ]),
        parts("part-not-a-token", "A transaction that is not a token.", .malformed) {
            $0.replacing(#""signedTransactionInfo":""#, with: #""signedTransactionInfo":"x"#)
        },
        parts("part-unsigned", "A part whose signature was cut off.", .malformed, renewal: nil) {
            $0.lastIndex(of: ".").map { [text = $0] end in text[...end] + #""}}"# } ?? $0
        },
        parts("part-a-number", "A transaction that is a number.", .unreadable, transaction: nil, renewal: nil) {
            $0.replacing(#""environment""#, with: #""signedTransactionInfo":1,"environment""#)
        },
        parts("other-app", "A notification for an app that is not accepted.", .otherApp) {
            $0.replacing(#""bundleId":"com.example""#, with: #""bundleId":"com.evil""#)
        },
        parts(
            "other-apple-id", "A production notification with another Apple ID.", .otherApp, transaction: nil,
            renewal: nil
        ) {
            $0.replacing("Sandbox", with: "Production").replacing(#""appAppleId":7"#, with: #""appAppleId":8"#)
        },
        parts(
            "no-apple-id", "A production notification without an Apple ID.", .otherApp, transaction: nil, renewal: nil
        ) {
            $0.replacing("Sandbox", with: "Production").replacing(#""appAppleId":7,"#, with: "")
        },
        parts("no-subject", "A notification without a subject.", .otherApp, transaction: nil, renewal: nil) {
            $0.replacing(#""data""#, with: #""date""#)
        },
        parts("data-null", "`data` is null, and `summary` is the subject.", nil, transaction: nil, renewal: nil) {
            $0.replacing(#""data""#, with: #""data":null,"summary""#)
        },
        parts(
            "seats-released", "A notification about seats, which names no app.", .otherApp, transaction: nil,
            renewal: nil
        ) {
            $0.replacing(#""data""#, with: #""unclaimInfo""#)
        },
        parts(
            "app-transaction", "A notification with an app transaction.", nil, transaction: nil, renewal: nil,
            appTransaction: app),
        parts(
            "app-transaction-other-app", "An app transaction of another app that is accepted too.", .otherPurchase,
            transaction: nil,
            renewal: nil, appTransaction: app.replacing("com.example", with: "com.example.two")),
        parts(
            "app-transaction-other-environment", "An app transaction from another environment that is accepted too.",
            .otherPurchase,
            transaction: nil, renewal: nil,
            appTransaction: app.replacing("Sandbox", with: "Production").replacing(
                #""bundleId""#, with: #""appAppleId":7,"bundleId""#)),
        parts(
            "app-transaction-other-kind", "A transaction in the place of the app transaction.", .otherKind,
            transaction: nil, renewal: nil, appTransaction: transaction),
        outer("self-made", "A notification that another authority signed.", .untrustedChain) { plan, world in
            plan.chain = try world.other.tokens.issue().map { try [UInt8](der: $0) }
            plan.key = world.other.tokens.leaf.key
        },
        outer("changed", "A notification that was changed after signing.", .invalidSignature) { plan, _ in
            plan.text = { text in
                let parts = text.split(separator: ".")
                let payload = String(decoding: Base64.decodeURL(Array(parts[1].utf8)[...]) ?? [], as: UTF8.self)
                let changed = payload.replacing("DID_RENEW", with: "REFUND")
                return "\(parts[0]).\(TokenPlan.base64URL(Array(changed.utf8))).\(parts[2])"
            }
        },
        outer("xcode", "A notification that Xcode's certificate signed.", .untrustedChain) { plan, world in
            plan.chain = [try [UInt8](der: world.xcode.token.certificate)]
            plan.key = world.xcode.token.plan.key
        },
        parts(
            "two-subjects", "A notification with two subjects: readers may take either.", .otherPurchase
        ) {
            $0.replacing(#""data""#, with: #""summary":{"bundleId":"com.evil","environment":"Sandbox"},"data""#)
        },
    ]
}
