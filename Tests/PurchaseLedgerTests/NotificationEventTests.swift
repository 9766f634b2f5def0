// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld
import Testing

/// Tests the events about notifications of which no other event tells.
@Suite struct NotificationEventTests {
    private typealias Change = @Sendable (inout ResponseBodyV2DecodedPayload) -> Void

    /// The content of the event `notification.received` about a notification.
    private static func content(
        _ type: String, _ subtype: String? = nil, transaction: String? = nil, of signed: SignedHistory,
        _ change: (inout ResponseBodyV2DecodedPayload) -> Void
    ) async throws -> (EventContent, Evidence) {
        let ledger = Ledger(storage: MemoryLedgerStorage())
        let token = try signed.notification(type, subtype: subtype, signed: 0, transaction: transaction, change)
        let evidence = try await signed.evidence(notification: token)
        _ = try await ledger.record([evidence], at: Facts.day(1))
        let events = try await ledger.events(of: Facts.scope.bundleId, limit: 9).events
        let received = events.filter { $0.kind == .notificationReceived }
        try #require(received.count == 1)
        #expect(received[0].customer == nil && received[0].scope.bundleId == Facts.scope.bundleId)
        return (try #require(received[0].content), evidence)
    }

    /// A payload with the members of a summary of a mass extension.
    private static let summary: Change = { payload in
        var summary = NotificationSummary()
        summary.environment = Open(.production)
        summary.bundleId = Facts.scope.bundleId
        summary.productId = "month"
        summary.requestIdentifier = "r1"
        summary.storefrontCountryCodes = ["DEU"]
        (summary.succeededCount, summary.failedCount) = (5, 2)
        (payload.data, payload.summary) = (nil, summary)
    }

    private static let token: Change = { payload in
        var token = ExternalPurchaseToken()
        token.externalPurchaseId = "e1"
        token.tokenCreationDate = Facts.day(-1)
        token.bundleId = Facts.scope.bundleId
        (token.tokenType, token.tokenExpirationDate) = ("SERVICES", Facts.day(9))
        (payload.data, payload.externalPurchaseToken) = (nil, token)
    }

    private static let members: [(type: String, subtype: String?, change: Change, expected: String)] = [
        ("TEST", nil, { _ in }, #"{"data":{"bundleId":"APP","environment":"Production"}}"#),
        (
            "RENEWAL_EXTENSION", "SUMMARY", summary,
            #"{"summary":{"environment":"Production","bundleId":"APP","productId":"month","requestIdentifier":"r1","#
                + #""storefrontCountryCodes":["DEU"],"succeededCount":5,"failedCount":2}}"#
        ),
        (
            "EXTERNAL_PURCHASE_TOKEN", "UNREPORTED", token,
            #"{"externalPurchaseToken":{"externalPurchaseId":"e1","tokenCreationDate":\#(Facts.day(-1).milliseconds),"#
                + #""bundleId":"APP","tokenType":"SERVICES","tokenExpirationDate":\#(Facts.day(9).milliseconds)}}"#
        ),
        (
            "FROM_THE_FUTURE", nil,
            {
                $0.unknownMembers = UnknownMembers([
                    .init("seats", .array([.number("1.50"), .null])), .init("signedSecret", .string("a.b.c")),
                    .init("owner", .object([.init("appAccountToken", .string("anna")), .init("name", .string("é"))])),
                ])
            },
            #"{"data":{"bundleId":"APP","environment":"Production"},"seats":[1.50,null],"owner":{"name":"é"}}"#
        ),
    ]

    @Test(arguments: members.indices)
    func `the event has the document's name and its decoded members, without accounts and tokens`(
        index: Int
    ) async throws {
        let (type, subtype, change, expected) = Self.members[index]
        let (content, evidence) = try await Self.content(type, subtype, of: SignedHistory(), change)
        #expect(content.detail == [type, subtype].compactMap(\.self).joined(separator: "/"))
        #expect(content.evidence == "\(evidence.provenance)")
        let bundleId = Facts.scope.bundleId
        #expect(content.notification?.compactText == expected.replacing("APP", with: bundleId))
        #expect(content.transactionId == nil && content.before == nil && content.entitlementsAfter == nil)
    }

    @Test func `a rescinded consent has the members of the app transaction`() async throws {
        let signed = try SignedHistory()
        let app = try signed.sign(TestStore.appTransaction("700"))
        let (content, _) = try await Self.content("RESCIND_CONSENT", of: signed) { payload in
            var data = NotificationAppData()
            data.bundleId = Facts.scope.bundleId
            data.environment = Open(.production)
            data.signedAppTransactionInfo = app
            (payload.data, payload.appData) = (nil, data)
        }
        let data = content.notification?["appData"]
        #expect(data?.members?.map(\.name) == ["bundleId", "environment", "appTransactionInfo"])
        #expect(data?["appTransactionInfo"]?["appTransactionId"]?.string == "700")
        #expect(data?["appTransactionInfo"]?["originalApplicationVersion"]?.string == "41")
    }

    /// The failed extension of a single subscription, and a type that this version does not know.
    @Test(arguments: [("RENEWAL_EXTENSION", "FAILURE"), ("FROM_THE_FUTURE", nil as String?)])
    func `a notification about a transaction names it, and no account`(type: String, subtype: String?) async throws {
        let signed = try SignedHistory()
        let account = "b6cd267f-e484-8a63-9796-5915077d8f7b"
        let transaction = try signed.transaction("7") { $0.appAccountToken = account }
        let (content, _) = try await Self.content(type, subtype, transaction: transaction, of: signed) { _ in }
        #expect(content.transactionId == "7" && content.productId == "month")
        let info = content.notification?["data"]?["transactionInfo"]
        #expect(info?["transactionId"]?.string == "7" && info?["appAccountToken"] == nil)
        #expect(!String(decoding: content.body, as: UTF8.self).contains(account))
    }

    @Test func `members that are too long are left out, and so are values that are nested too deeply`() async throws {
        for count in [7000, 9000] {
            let (content, evidence) = try await Self.content("FROM_THE_FUTURE", of: SignedHistory()) {
                $0.unknownMembers = UnknownMembers([.init("text", .string(String(repeating: "x", count: count)))])
            }
            #expect((content.notification == nil) == (count == 9000))
            #expect(content.evidence == "\(evidence.provenance)")
        }
        let (content, _) = try await Self.content("FROM_THE_FUTURE", of: SignedHistory()) {
            let deep = (0..<50).reduce(JSONValue.number("1")) { value, _ in .array([value]) }
            $0.unknownMembers = UnknownMembers([.init("deep", deep)])
        }
        let text = try #require(content.notification?["deep"]?.compactText)
        #expect(text == String(repeating: "[", count: 15) + String(repeating: "]", count: 15))
    }
}
