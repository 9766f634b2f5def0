// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Testing

/// Members of signed payloads in other forms than Apple documents: those that only inform may have any form, those that
/// decide may not.
@Suite struct LenientMemberTests {
    struct Payload: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// Every member of the payload, in its form.
        var document: JSONValue
        /// The members that must have their form.
        var strict: Set<String>
        var roundTrip: RoundTrip
        /// The document of the members that are known and readable.
        var known: RoundTrip

        /// - Parameter document: `nil` for that of ``FieldTests``.
        init<Type: Codable & SendableMetatype>(_ type: Type.Type, strict: Set<String>, _ document: String? = nil) {
            testDescription = "\(type)"
            self.document =
                document.flatMap { JSONValue(readable: $0.utf8) }
                ?? .object(FieldTests.modern.filter { $0.type == "\(type)" }.map(\.member))
            self.strict = strict
            roundTrip = AppStoreModelTests.roundTrip(type)
            known = { try JSONValue(encoding: $0.decode(type), omittingUnknown: true) }
        }

        /// The document with another value of one member.
        func changing(_ name: String, to value: JSONValue) -> JSONValue {
            .object((document.members ?? []).map { $0.name == name ? .init(name, value) : $0 })
        }
    }

    static let payloads = [
        Payload(
            JWSTransactionDecodedPayload.self,
            strict: [
                "transactionId", "originalTransactionId", "previousOriginalTransactionId", "webOrderLineItemId",
                "bundleId", "productId", "subscriptionGroupIdentifier", "appAccountToken", "appTransactionId",
                "environment", "purchaseDate", "originalPurchaseDate", "expiresDate", "signedDate", "type",
                "inAppOwnershipType", "isUpgraded", "revocationDate", "revocationReason", "revocationType",
                "revocationPercentage", "multiSeatInfo",
            ],
            """
            {"appAccountToken":"a","bundleId":"a","currency":"EUR","environment":"Sandbox","expiresDate":1,
            "inAppOwnershipType":"PURCHASED","isUpgraded":true,"offerDiscountType":"FREE_TRIAL","offerIdentifier":"a",
            "offerType":1,"originalPurchaseDate":1,"originalTransactionId":"1","price":9223372036854775807,
            "productId":"a","purchaseDate":1,"quantity":2,"revocationDate":1,"revocationReason":0,"signedDate":1,
            "storefront":"DEU","storefrontId":"143443","subscriptionGroupIdentifier":"1","transactionId":"1",
            "transactionReason":"PURCHASE","type":"Consumable","webOrderLineItemId":"1","appTransactionId":"1",
            "offerPeriod":"P1M","advancedCommerceInfo":{"taxRate":"0.1"},"previousOriginalTransactionId":"1",
            "revocationType":"REFUND_FULL","revocationPercentage":100000,"billingPlanType":"MONTHLY",
            "commitmentInfo":{"billingPeriodNumber":1},"multiSeatInfo":{"revokedSeatQuantity":1},
            "additionalTransactionReason":"SEAT_ADDITION","deviceVerification":"a","deviceVerificationNonce":"a"}
            """),
        Payload(
            JWSRenewalInfoDecodedPayload.self,
            strict: [
                "originalTransactionId", "productId", "autoRenewProductId", "gracePeriodExpiresDate", "signedDate",
                "environment", "recentSubscriptionStartDate", "renewalDate", "appAccountToken", "appTransactionId",
            ],
            """
            {"originalTransactionId":"1","productId":"a","autoRenewProductId":"a","autoRenewStatus":1,
            "expirationIntent":1,"isInBillingRetryPeriod":true,"gracePeriodExpiresDate":1,"priceIncreaseStatus":0,
            "offerType":2,"offerIdentifier":"a","signedDate":1,"environment":"Production",
            "recentSubscriptionStartDate":1,"renewalDate":1,"renewalPrice":1,"currency":"EUR",
            "offerDiscountType":"PAY_UP_FRONT","eligibleWinBackOfferIds":["a"],"advancedCommerceInfo":{"period":"P1M"},
            "appAccountToken":"a","appTransactionId":"1","offerPeriod":"P1M","renewalBillingPlanType":"MONTHLY",
            "commitmentInfo":{"commitmentAutoRenewStatus":0},"deviceVerification":"a","deviceVerificationNonce":"a",
            "renewalQuantity":2,"multiSeatInfo":{"renewalPriceTiers":[]}}
            """),
        Payload(
            AppTransaction.self,
            strict: [
                "receiptType", "appAppleId", "bundleId", "receiptCreationDate", "originalPurchaseDate", "preorderDate",
                "appTransactionId", "requestDate",
            ],
            """
            {"receiptType":"Sandbox","appAppleId":1,"bundleId":"a","applicationVersion":"1",
            "versionExternalIdentifier":1,"receiptCreationDate":1,"originalPurchaseDate":1,
            "originalApplicationVersion":"1","deviceVerification":"a","deviceVerificationNonce":"a","preorderDate":1,
            "appTransactionId":"1","originalPlatform":"visionOS","storeType":"CONSUMER","requestDate":1}
            """),
        Payload(
            ResponseBodyV2DecodedPayload.self,
            strict: [
                "notificationType", "notificationUUID", "signedDate", "data", "summary", "externalPurchaseToken",
                "appData",
            ],
            """
            {"notificationType":"TEST","subtype":"SUMMARY","notificationUUID":"a","version":"2.0","signedDate":1,
            "data":{"status":1},"summary":{"failedCount":1},"externalPurchaseToken":{"tokenType":"a"},
            "appData":{"bundleId":"a"},"unclaimInfo":{"unclaimSeatIds":["a"]}}
            """),
        Payload(
            NotificationData.self,
            strict: ["appAppleId", "bundleId", "environment", "signedTransactionInfo", "signedRenewalInfo"]),
        Payload(
            NotificationSummary.self,
            strict: ["environment", "appAppleId", "bundleId", "productId", "requestIdentifier"]),
        Payload(TransactionCommitmentInfo.self, strict: ["commitmentExpiresDate"]),
        Payload(
            TransactionMultiSeatInfo.self, strict: ["revokedSeatQuantity"],
            #"{"invitationManagement":"APPLE","revokedSeatQuantity":1}"#),
        Payload(
            RenewalCommitmentInfo.self, strict: ["commitmentAutoRenewProductId", "commitmentRenewalDate"]),
        Payload(
            ExternalPurchaseToken.self,
            strict: [
                "externalPurchaseId", "tokenCreationDate", "appAppleId", "bundleId", "tokenExpirationDate",
            ]),
        Payload(
            DecodedRealtimeRequestBody.self,
            strict: [
                "originalTransactionId", "appAppleId", "productId", "requestIdentifier", "environment", "signedDate",
            ]),
        Payload(
            AdvancedCommerceTransactionItem.self, strict: ["SKU", "revocationDate"],
            #"{"SKU":"a","description":"a","displayName":"a","price":1,"revocationDate":1}"#),
    ]

    /// Values of other kinds than a member's own.
    private static func others(than value: JSONValue) -> [JSONValue] {
        let all: [JSONValue] = [.string("x"), .number("1.5"), .bool(false), .array([.null]), .object([])]
        return all.filter { other in
            switch (other, value) {
            case (.string, .string), (.bool, .bool), (.object, .object), (.array, .array): false
            // A date may have fractions.
            case (.number, .number): false
            default: true
            }
        }
    }

    @Test(arguments: payloads)
    func `a member that informs may have any form and is kept, one that decides may not`(payload: Payload) throws {
        let members = try #require(payload.document.members)
        #expect(payload.strict.isSubset(of: members.map(\.name)))
        for member in members {
            for other in Self.others(than: member.value) {
                let document = payload.changing(member.name, to: other)
                guard !payload.strict.contains(member.name) else {
                    #expect(throws: DecodingError.self, "\(member.name): \(other)") { try payload.roundTrip(document) }
                    continue
                }
                #expect(try payload.roundTrip(document).sorted == document.sorted, "\(member.name): \(other)")
                #expect(try payload.known(document)[member.name] == nil, "\(member.name): \(other)")
            }
        }
    }

    @Test(arguments: payloads)
    func `a number in text counts as the number where it informs, and is refused where it decides`(
        payload: Payload
    ) throws {
        for member in try #require(payload.document.members) {
            guard case .number(let literal) = member.value else { continue }
            let document = payload.changing(member.name, to: .string(literal))
            if payload.strict.contains(member.name) {
                #expect(throws: DecodingError.self, "\(member.name)") { try payload.roundTrip(document) }
            } else {
                #expect(try payload.roundTrip(document).sorted == payload.document.sorted, "\(member.name)")
            }
        }
    }

    @Test(arguments: payloads) func `null is the same as a missing member`(payload: Payload) throws {
        for member in try #require(payload.document.members) {
            let document = payload.changing(member.name, to: .null)
            #expect(try payload.roundTrip(document)[member.name] == nil, "\(member.name)")
        }
    }

    /// What dates decide cannot be told from the payload alone, so all are strict.
    @Test(arguments: payloads) func `every date is strict`(payload: Payload) throws {
        let dates = try #require(payload.document.members).map(\.name).filter { $0.hasSuffix("Date") }
        #expect(payload.strict.isSuperset(of: dates))
    }

    @Test func `an object with an unreadable date is kept as a whole, and the payload is read`() throws {
        let info = #"{"commitmentExpiresDate":"x","billingPeriodNumber":1}"#
        let json = try JSONValue(parsing: #"{"transactionId":"1","commitmentInfo":\#(info)}"#.utf8)
        let payload = try json.decode(JWSTransactionDecodedPayload.self)
        #expect(payload.transactionId == "1" && payload.commitmentInfo == nil)
        #expect(payload.unknownMembers["commitmentInfo"] == json["commitmentInfo"])
    }

    @Test func `a member in an object inside keeps its place`() throws {
        let json = try JSONValue(
            parsing: #"{"transactionId":"1","commitmentInfo":{"billingPeriodNumber":"3","commitmentPrice":[1]}}"#.utf8)
        let payload = try json.decode(JWSTransactionDecodedPayload.self)
        #expect(payload.commitmentInfo?.billingPeriodNumber == 3)
        #expect(payload.commitmentInfo?.unknownMembers["commitmentPrice"] == .array([.number("1")]))
    }

    @Test(arguments: ["", " ", "x", "0x10", "1_0", "１", "99999999999999999999", "1.5", "null"])
    func `text that is no whole number is kept as text`(text: String) throws {
        let json = JSONValue.object([.init("quantity", .string(text)), .init("transactionId", .string("1"))])
        let payload = try json.decode(JWSTransactionDecodedPayload.self)
        #expect(payload.quantity == nil && payload.unknownMembers["quantity"] == .string(text))
    }

    @Test func `a payload with many members keeps what it cannot read too`() throws {
        let many = (0..<80).map { JSONValue.Member("added\($0)", .bool(true)) }
        let json = JSONValue.object([.init("quantity", .array([]))] + many + [.init("quantity", .string("x"))])
        #expect(try roundTrip(JWSTransactionDecodedPayload.self)(json) == json)
    }

    @Test func `other objects than signed payloads stay strict`() {
        let json = JSONValue.object([.init("hasMore", .string("x"))])
        #expect(throws: DecodingError.self) { try json.decode(HistoryResponse.self) }
    }
}
