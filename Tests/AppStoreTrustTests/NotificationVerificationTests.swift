// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import Testing

@Suite struct NotificationVerificationTests {
    private static let now = Timestamp(milliseconds: 1_700_000_500_000)
    private static let transaction =
        #"{"transactionId":"2","originalTransactionId":"1","bundleId":"com.example","environment":"Sandbox","signedDate":1700000500000}"#
    private static let renewal =
        #"{"originalTransactionId":"1","autoRenewStatus":1,"environment":"Sandbox","signedDate":1700000500000}"#

    /// A notification with a transaction and renewal info, each changed by the case.
    struct Parts: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var expected: VerificationError.Code?
        var transaction: String? = NotificationVerificationTests.transaction
        var renewal: String? = NotificationVerificationTests.renewal
        /// Signs both, where that is not the authority that signs the notification.
        var signsWithOtherAuthority = false
    }

    static let cases = [
        Parts(testDescription: "as the App Store sends it", expected: nil),
        Parts(testDescription: "no renewal info", expected: nil, renewal: nil),
        Parts(testDescription: "neither, as for TEST", expected: nil, transaction: nil, renewal: nil),
        Parts(testDescription: "renewal info alone", expected: .otherPurchase, transaction: nil),
        Parts(
            testDescription: "renewal info of another subscription", expected: .otherPurchase,
            renewal: renewal.replacing(#"Id":"1""#, with: #"Id":"7""#)),
        Parts(
            testDescription: "renewal info of none", expected: .otherPurchase,
            renewal: renewal.replacing(#""originalTransactionId":"1","#, with: "")),
        Parts(
            testDescription: "a transaction from another environment that is accepted too", expected: .otherPurchase,
            transaction: transaction.replacing("Sandbox", with: "Production")),
        Parts(
            testDescription: "renewal info from another environment that is accepted too", expected: .otherPurchase,
            renewal: renewal.replacing("Sandbox", with: "Production")),
        Parts(
            testDescription: "a transaction of another app that is accepted too", expected: .otherPurchase,
            transaction: transaction.replacing("com.example", with: "com.example.two")),
        Parts(
            testDescription: "a transaction of an app that is not accepted", expected: .otherApp,
            transaction: transaction.replacing("com.example", with: "com.evil")),
        Parts(testDescription: "renewal info in the transaction's place", expected: .otherKind, transaction: renewal),
        Parts(
            testDescription: "tokens that somebody else signed", expected: .untrustedChain,
            signsWithOtherAuthority: true),
    ]

    @Test(arguments: cases)
    func notification(_ parts: Parts) async throws {
        let authority = try TestAuthority()
        let other = parts.signsWithOtherAuthority ? try TestAuthority() : authority
        func member(_ name: String, _ payload: String?) throws -> String {
            try payload.map { ",\"\(name)\":\"\(String(decoding: try other.sign($0), as: UTF8.self))\"" } ?? ""
        }
        let tokens =
            try member("signedTransactionInfo", parts.transaction) + member("signedRenewalInfo", parts.renewal)
        let token = try authority.sign(
            """
            {"notificationType":"DID_RENEW","notificationUUID":"u","signedDate":1700000500000,\
            "data":{"bundleId":"com.example","environment":"Sandbox"\(tokens)}}
            """)
        let verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example"), AppIdentity(bundleId: "com.example.two")]),
            environments: [.sandbox, .production], roots: try authority.roots)
        let found: VerificationError.Code?
        do throws(VerificationError) {
            let verified = try await verifier.verify(notification: token, at: Self.now)
            #expect(verified.notification.payload.notificationType == .didRenew)
            #expect(verified.transaction?.payload.transactionId == (parts.transaction == nil ? nil : "2"))
            #expect(verified.renewalInfo?.payload.autoRenewStatus?.rawValue == (parts.renewal == nil ? nil : 1))
            found = nil
        } catch {
            found = error.code
        }
        #expect(found == parts.expected)
    }
}
