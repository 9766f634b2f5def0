// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import Synchronization
import TestWorld
import Testing

/// The results of valid notifications. The vectors cover invalid ones.
@Suite struct NotificationVerificationTests {
    private static let now = Timestamp(milliseconds: 1_700_000_500_000)

    private static func notification(_ authority: CertificateAuthority) throws -> String {
        var transaction = JWSTransactionDecodedPayload()
        transaction.transactionId = "2"
        transaction.originalTransactionId = "1"
        transaction.bundleId = "com.example"
        transaction.environment = Open(.sandbox)
        var renewal = JWSRenewalInfoDecodedPayload()
        renewal.originalTransactionId = "1"
        renewal.autoRenewStatus = Open(.on)
        renewal.environment = Open(.sandbox)
        var data = NotificationData()
        data.bundleId = "com.example"
        data.environment = Open(.sandbox)
        data.signedTransactionInfo = try authority.sign(transaction)
        data.signedRenewalInfo = try authority.sign(renewal)
        var payload = ResponseBodyV2DecodedPayload()
        payload.notificationType = Open(.didRenew)
        payload.signedDate = now
        payload.data = data
        return try authority.sign(payload)
    }

    @Test func `a notification is returned with its parts, and every check is reported in order`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        var verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example")]), environments: [.sandbox], roots: try authority.trust)
        let recorder = CheckRecorder()
        verifier.onCheck = { recorder.record($0) }
        let token = try Self.notification(authority)
        let verified = try await verifier.verify(notification: token.utf8, at: Self.now)
        #expect(verified.notification.payload.notificationType == .didRenew)
        #expect(verified.transaction?.payload.transactionId == "2")
        #expect(verified.renewalInfo?.payload.autoRenewStatus == .on)

        let subjects = [
            "form", "algorithm", "chain", "dates", "dates", "signature", "kind", "app", "environment", "contents",
        ]
        let parts = ["data.signedTransactionInfo", "data.signedRenewalInfo"]
        #expect(
            recorder.checks.map { [$0.part ?? "", $0.subject.rawValue] }
                == subjects.map { ["", $0] } + parts.flatMap { part in subjects.map { [part, $0] } } + [
                    ["", "purchase"]
                ])
    }

    @Test func `an error in a part names the part, after the checks that passed`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        var verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example")]), environments: [.sandbox], roots: try authority.trust)
        let recorder = CheckRecorder()
        verifier.onCheck = { recorder.record($0) }
        let payload =
            #"{"notificationType":"TEST","signedDate":1700000500000,"data":{"bundleId":"com.example","#
            + #""environment":"Sandbox","signedTransactionInfo":"x"}}"#
        let token = try TokenPlan(payload, by: authority.tokens).signed()
        let error = await #expect(throws: VerificationError.self) {
            try await verifier.verify(notification: token.utf8, at: Self.now)
        }
        #expect(error?.code == .malformed)
        #expect(error?.message.hasPrefix("In data.signedTransactionInfo: ") == true)
        #expect(recorder.checks.last?.subject == .contents)
        #expect(recorder.checks.allSatisfy { $0.part == nil })
    }

    private final class CheckRecorder: Sendable {
        private let list = Mutex<[VerificationCheck]>([])
        var checks: [VerificationCheck] { list.withLock { $0 } }
        func record(_ check: VerificationCheck) { list.withLock { $0.append(check) } }
    }
}
