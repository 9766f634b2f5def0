// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust

/// Faults of notifications: each part is genuine, and still they must belong together.
enum NotificationCases {
    private static let transaction =
        #"{"transactionId":"2","originalTransactionId":"1","bundleId":"com.example","environment":"Sandbox","#
        + #""signedDate":1700000500000}"#
    private static let renewal =
        #"{"originalTransactionId":"1","autoRenewStatus":1,"environment":"Sandbox","signedDate":1700000500000}"#

    /// - Parameter signsWithOther: Whether somebody else signs the parts.
    private static func parts(
        _ id: String, _ description: String, _ expected: VerificationError.Code?,
        transaction: String? = transaction, renewal: String? = renewal, signsWithOther: Bool = false,
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
            let payload = """
                {"notificationType":"DID_RENEW","notificationUUID":"u","signedDate":1700000500000,\
                "data":{"bundleId":"com.example","appAppleId":7,"environment":"Sandbox"\(tokens)}}
                """
            return try TokenPlan(breaking(payload), by: world.authority.tokens).signed()
        }
    }

    static let all = [
        parts("genuine", "As the App Store sends it.", nil),
        parts("no-renewal-info", "A transaction alone.", nil, renewal: nil),
        parts("no-parts", "Neither, as for TEST.", nil, transaction: nil, renewal: nil),
        parts("renewal-info-alone", "Renewal info that nothing binds to an app.", .otherPurchase, transaction: nil),
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
            "parts-of-other-signer", "Parts that somebody else signed.", .untrustedChain, signsWithOther: true,
            conflicts: [
                Vector.Conflict(
                    implementation: "openiap kit", actual: "verified",
                    reason: "It decodes the tokens inside without verifying them.")
            ]),
        parts("part-not-a-token", "A transaction that is no token.", .malformed) {
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
        parts("no-subject", "A notification about nothing.", .otherApp, transaction: nil, renewal: nil) {
            $0.replacing(#""data""#, with: #""date""#)
        },
        parts(
            "two-subjects", "A notification with a second subject, of another app: the first in Apple's order counts.",
            nil
        ) {
            $0.replacing(#""data""#, with: #""summary":{"bundleId":"com.evil","environment":"Sandbox"},"data""#)
        },
    ]
}
