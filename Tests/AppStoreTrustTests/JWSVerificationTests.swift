// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import TestWorld
import Testing

/// The results of valid tokens. The vectors cover invalid ones.
@Suite struct JWSVerificationTests {
    private static let payload =
        #"{"transactionId":"1","originalTransactionId":"1","bundleId":"com.example","environment":"Sandbox","#
        + #""signedDate":1700000500000,"new":[1]}"#
    private static let now = Timestamp(milliseconds: 1_900_000_000_000)

    private static let authority = Result { try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000)) }

    private static func sign(_ payload: String) throws -> [UInt8] {
        Array(try TokenPlan(payload, by: authority.get().tokens).signed().utf8)
    }

    private static var verifier: AppStoreVerifier {
        get throws {
            AppStoreVerifier(
                apps: .only([AppIdentity(bundleId: "com.example", appAppleId: 7)]), environments: [.sandbox],
                roots: try authority.get().trust)
        }
    }

    @Test func `a verified token keeps its text, its date and its unknown members`() async throws {
        let token = try Self.sign(Self.payload)
        let verified = try await Self.verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: Self.now)
        #expect(verified.document == token)
        #expect(verified.payload.transactionId == "1")
        #expect(verified.payload.unknownMembers["new"] == .array([.number("1")]))
        #expect(verified.signedDate == Timestamp(milliseconds: 1_700_000_500_000))
        #expect(verified.environment == .sandbox)
        #expect(verified.bundleId == "com.example")
    }

    /// Each kind of document names its app and environment in other members.
    @Test(
        arguments: [
            (#"{"notificationType":"TEST","data":{"bundleId":"com.example","environment":"Sandbox"}}"#, nil),
            (#"{"notificationType":"TEST","data":{"bundleId":"com.other","environment":"Sandbox"}}"#, .otherApp),
            (
                #"{"notificationType":"X","summary":{"bundleId":"com.example","environment":"Production","appAppleId":7}}"#,
                .otherEnvironment
            ),
            (
                #"{"notificationType":"X","appData":{"bundleId":"com.example","environment":"Sandbox","appAppleId":9}}"#,
                nil
            ),
            (
                #"{"notificationType":"X","externalPurchaseToken":{"bundleId":"com.example","externalPurchaseId":"SANDBOX_1"}}"#,
                nil
            ),
            (
                #"{"notificationType":"X","externalPurchaseToken":{"bundleId":"com.example","externalPurchaseId":"1"}}"#,
                .otherApp
            ),
            (#"{"notificationType":"X"}"#, .otherKind), (#"{"notificationType":"X","data":{}}"#, .otherApp),
            (#"{"receiptType":"Sandbox","bundleId":"com.example"}"#, nil),
            (#"{"receiptType":"Sandbox","bundleId":"com.other"}"#, .otherApp),
            (#"{"receiptType":"Production","bundleId":"com.example","appAppleId":9}"#, .otherApp),
            (#"{"receiptType":"Production","bundleId":"com.example"}"#, .otherApp),
            (#"{"environment":"Production","userLocale":"en-US"}"#, .otherApp),
            (#"{"environment":"Production","userLocale":"en-US","appAppleId":7}"#, .otherEnvironment),
            (#"{"notificationType":"TEST","data":{"bundleId":"com.example","environment":"Production"}}"#, .otherApp),
            (#"{"receiptType":"Production","bundleId":"com.example","appAppleId":7}"#, .otherEnvironment),
            (#"{"environment":"Sandbox","userLocale":"en-US"}"#, nil),
            (#"{"environment":"Sandbox","autoRenewStatus":1}"#, nil),
            (#"{"environment":"Production","autoRenewStatus":1}"#, .otherEnvironment),
        ] as [(String, VerificationError.Code?)])
    func `the app and environment of every kind must be accepted`(
        payload: String, expected: VerificationError.Code?
    ) async throws {
        let now = Timestamp(milliseconds: 1_700_000_500_000)
        let found: VerificationError.Code?
        do {
            _ = try await Self.verifier.verify(jws: try Self.sign(payload), at: now)
            found = nil
        } catch let error as VerificationError {
            found = error.code
        }
        #expect(found == expected)
    }
}
