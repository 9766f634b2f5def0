// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Testing

/// A payload's kind is recognised, whatever members Apple adds.
@Suite struct KindTests {
    /// The members that every genuine payload of a kind has.
    private static let payloads: [(kind: SignedKind, payload: String)] = [
        (
            .transaction,
            #"{"transactionId":"2","originalTransactionId":"1","bundleId":"com.example","productId":"p","#
                + #""environment":"Production","signedDate":1700000500000}"#
        ),
        (
            .renewalInfo,
            #"{"originalTransactionId":"1","productId":"p","autoRenewProductId":"p","autoRenewStatus":1,"#
                + #""environment":"Production","signedDate":1700000500000}"#
        ),
        (
            .appTransaction,
            #"{"receiptType":"Production","appAppleId":7,"bundleId":"com.example","receiptCreationDate":1700000500000}"#
        ),
        (
            .notification,
            #"{"notificationType":"TEST","notificationUUID":"u","version":"2.0","signedDate":1700000500000,"#
                + #""data":{"bundleId":"com.example","environment":"Sandbox"}}"#
        ),
        (
            .retentionRequest,
            #"{"originalTransactionId":"1","appAppleId":7,"productId":"p","userLocale":"en-US","#
                + #""requestIdentifier":"r","environment":"Production","signedDate":1700000500000}"#
        ),
    ]

    /// The members of all payloads.
    private static let names: Set<String> = [
        names(of: JWSTransactionDecodedPayload()), names(of: JWSRenewalInfoDecodedPayload()),
        names(of: AppTransaction()),
        names(of: ResponseBodyV2DecodedPayload()), names(of: DecodedRealtimeRequestBody()),
        names(of: NotificationData()),
        names(of: NotificationSummary()), names(of: ExternalPurchaseToken()), names(of: NotificationAppData()),
        names(of: UnclaimInfo()),
    ].reduce([]) { $0.union($1) }

    private static func names(of payload: Any) -> Set<String> {
        Set(Mirror(reflecting: payload).children.compactMap(\.label)).subtracting(["unknownMembers"])
    }

    private static let values: [JSONValue] = [
        .null, .bool(true), .number("1"), .string("x"), .array([]), .object([]),
    ]

    @Test(arguments: payloads)
    func `one more member of any name and value changes no kind`(kind: SignedKind, payload: String) throws {
        let json = try JSONValue(parsing: Array(payload.utf8))
        let members = try #require(json.members)
        #expect(Self.names.count > 80)
        for name in Self.names where json[name] == nil {
            for value in Self.values {
                let more = JSONValue.object(members + [JSONValue.Member(name, value)])
                #expect(SignedKind(recognizing: more) == kind, "\(name)")
                #expect(kind.accepts(more), "\(name)")
            }
        }
    }

    @Test(arguments: payloads)
    func `a payload is accepted where its kind is expected, with the members of all kinds`(
        kind: SignedKind, payload: String
    ) throws {
        let json = try JSONValue(parsing: Array(payload.utf8))
        let added = Self.names.filter { json[$0] == nil }.map { JSONValue.Member($0, .string("x")) }
        #expect(kind.accepts(.object(try #require(json.members) + added)))
    }

    @Test func `no payload is accepted where another kind is expected`() throws {
        for (kind, payload) in Self.payloads {
            let json = try JSONValue(parsing: Array(payload.utf8))
            for expected in SignedKind.allCases {
                #expect(expected.accepts(json) == (expected == kind), "\(kind) as \(expected)")
            }
        }
    }
}
