// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Testing

/// The numbered errors of the App Store Server API, each met by its cause.
@Suite struct ErrorCodeTests {
    private static let info = "GET /inApps/v1/transactions/"
    private static let history = "GET /inApps/v2/history/{sub}"
    private static let extendOne = "PUT /inApps/v1/subscriptions/extend/"
    private static let extendMany = "POST /inApps/v1/subscriptions/extend/mass"
    private static let consume = "PUT /inApps/v2/transactions/consumption/"
    private static let consumeV1 = "PUT /inApps/v1/transactions/consumption/"
    private static let notifications = "POST /inApps/v1/notifications/history"
    private static let message = "PUT /inApps/v1/messaging/message/\(RouteTests.other)"

    private static let lookups: [APICase] = [
        APICase(.invalidTransactionId, info + "abc"),
        APICase(.invalidTransactionId, info + "-5"),
        APICase(.invalidTransactionId, info + "99999999999999999999"),
        APICase(.transactionIdNotFound, info + "123"),
        APICase(.transactionIdNotFound, info + "{ann app}"),
        APICase(.transactionIdNotFound, info + "{sandbox}"),
        APICase(.transactionIdNotFound, info + "{sub}", in: .sandbox),
        APICase(.transactionIdNotFound, "GET /inApps/v1/subscriptions/{sandbox}"),
        APICase(.transactionIdNotFound, "GET /inApps/v2/history/{cid app}"),
        APICase(.transactionIdNotFound, "GET /inApps/v2/refund/lookup/{sub}", in: .sandbox),
        APICase(.transactionIdNotFound, "GET /inApps/v1/transactions/appTransactions/{cid app}"),
        APICase(.invalidOriginalTransactionId, "GET /inApps/v1/refund/lookup/abc"),
        APICase(.originalTransactionIdNotFound, "GET /inApps/v1/refund/lookup/{sandbox}"),
        APICase(.invalidStatus, "GET /inApps/v1/subscriptions/{sub}?status=6"),
        APICase(.invalidStatus, "GET /inApps/v1/subscriptions/{sub}?status=1,4"),
        APICase(.generalBadRequest, "GET /inApps/v1/lookup/not%20an%20order"),
        APICase(.invalidRequestRevision, history + "?revision=abc"),
        APICase(.invalidRequestRevision, "GET /inApps/v2/refund/lookup/{sub}?revision=abc"),
        APICase(.invalidRequestRevision, history + "?sort=DESCENDING&revision={revision}", after: revision),
        APICase(.invalidRequestRevision, "GET /inApps/v2/history/{shared}?revision={revision}", after: revision),
        APICase(.invalidSort, history + "?sort=ascending"),
        APICase(.invalidStartDate, history + "?startDate=2026-01-01"),
        APICase(.invalidStartDate, history + "?startDate={now}&endDate={now}"),
        APICase(.invalidEndDate, history + "?endDate=soon"),
        APICase(.invalidProductType, history + "?productType=AUTO_RENEWABLE&productType=Consumable"),
        APICase(.invalidProductId, history + "?productId=silver"),
        APICase(.invalidSubscriptionGroupIdentifier, history + "?subscriptionGroupIdentifier=1"),
        APICase(.invalidInAppOwnershipType, history + "?inAppOwnershipType=OWNED"),
        APICase(.invalidExcludeRevoked, history + "?excludeRevoked=1"),
        APICase(.invalidRevoked, history + "?revoked=yes"),
    ]

    @Sendable private static func revision(_ fixture: inout StoreFixture) throws {
        fixture.names["revision"] = try fixture.call(history).json["revision"]?.string
    }

    private static let account = #"{"appAccountToken":"\#(RouteTests.uuid)"}"#

    private static let purchases: [APICase] = [
        APICase(.invalidAppAccountTokenUUID, "PUT /inApps/v1/transactions/{sub}/appAccountToken", "{}"),
        APICase(.generalBadRequest, "PUT /inApps/v1/transactions/{sub}/appAccountToken", "[]"),
        APICase(.familyTransactionNotSupported, "PUT /inApps/v1/transactions/{shared}/appAccountToken", account),
        APICase(.appTransactionIdNotSupported, "PUT /inApps/v1/transactions/{ann app}/appAccountToken", account),
        APICase(
            .transactionIdIsNotOriginalTransactionId, "PUT /inApps/v1/transactions/{later}/appAccountToken", account
        ) {
            $0.wait(minutes: 60 * 24 * 366)
            let sub = $0.store.world.subscriptions[$0.names["sub"] ?? ""]
            $0.names["later"] = sub?.current.transactionId
        },
        APICase(.transactionIdNotFound, "POST /inApps/v1/transactions/{sandbox}/finish"),
        APICase(.appTransactionIdNotSupported, "POST /inApps/v1/transactions/{ann app}/finish"),
        APICase(.transactionIdNotFound, consume + "{sandbox}", RouteTests.report),
        APICase(.appTransactionIdNotSupported, consume + "{ann app}", RouteTests.report),
        APICase(.familyTransactionNotSupported, consume + "{shared}", RouteTests.report),
        APICase(.generalBadRequest, consume + "{sub}", RouteTests.report) {
            try $0.store.world.change($0.names["sub"] ?? "", with: .migration(taxCode: "C003"))
        },
        APICase(.invalidCustomerConsented, consume + "{coins}", report("customerConsented", "false")),
        APICase(.invalidDeliveryStatus, consume + "{coins}", report("deliveryStatus", "0")),
        APICase(.invalidSampleContentProvided, consume + "{coins}", report("sampleContentProvided", "1")),
        APICase(.invalidRefundPreference, consume + "{coins}", report("refundPreference", #""REFUSE""#)),
        APICase(.generalBadRequest, consume + "{coins}", report("consumptionPercentage", "100001")),
        APICase(.generalBadRequest, consume + "{coins}", report("refundPreference", #""GRANT_PRORATED""#)),
        APICase(
            .generalBadRequest, consume + "{coins}",
            report("deliveryStatus", #""UNDELIVERED_OTHER","consumptionPercentage":5"#)),
        APICase(
            .consumptionPercentageAutoRenewableSubscription, consume + "{sub}", report("consumptionPercentage", "0")),
        APICase(.transactionIdNotFound, consumeV1 + "{ann app}", RouteTests.reportV1),
        APICase(.invalidTransactionTypeNotSupported, consumeV1 + "{book}", RouteTests.reportV1),
        APICase(.invalidTransactionTypeNotSupported, consumeV1 + "{season}", RouteTests.reportV1),
    ]

    private static func report(_ member: String, _ value: String) -> String {
        RouteTests.report.dropLast() + ",\"\(member)\":\(value)}"
    }

    private static let version1: [APICase] = [
        (APIErrorCode.invalidAccountTenure, "accountTenure", "8"),
        (.invalidAppAccountToken, "appAccountToken", #""me""#),
        (.invalidConsumptionStatus, "consumptionStatus", "4"),
        (.invalidCustomerConsented, "customerConsented", "false"),
        (.invalidDeliveryStatus, "deliveryStatus", "6"), (.invalidPlatform, "platform", "-1"),
        (.invalidLifetimeDollarsPurchased, "lifetimeDollarsPurchased", "8"), (.invalidPlayTime, "playTime", "1.5"),
        (.invalidLifetimeDollarsRefunded, "lifetimeDollarsRefunded", "null"),
        (.invalidSampleContentProvided, "sampleContentProvided", #""no""#), (.invalidUserStatus, "userStatus", "5"),
        (.invalidRefundPreference, "refundPreference", "4"),
    ].map { APICase($0, consumeV1 + "{coins}", RouteTests.reportV1($1, $2)) }

    private static let extensions: [APICase] = [
        APICase(.invalidOriginalTransactionId, extendOne + "abc", RouteTests.extend),
        APICase(.originalTransactionIdNotFound, extendOne + "{coins}", RouteTests.extend),
        APICase(.originalTransactionIdNotFound, extendOne + "{sandbox}", RouteTests.extend),
        APICase(.invalidExtendByDays, extendOne + "{sub}", #"{"extendByDays":91}"#),
        APICase(.invalidExtendReasonCode, extendOne + "{sub}", #"{"extendByDays":90,"extendReasonCode":4}"#),
        APICase(
            .invalidRequestIdentifier, extendOne + "{sub}",
            #"{"extendByDays":1,"extendReasonCode":0,"requestIdentifier":"\#(String(repeating: "a", count: 129))"}"#),
        APICase(.familySharedSubscriptionExtensionIneligible, extendOne + "{shared}", RouteTests.extend),
        APICase(.subscriptionExtensionIneligible, extendOne + "{sub}", RouteTests.extend) {
            try $0.store.world.refund($0.names["sub"] ?? "")
        },
        APICase(.subscriptionMaxExtension, extendOne + "{sub}", RouteTests.extend) {
            for name in ["two", "three"] {
                let body = RouteTests.extend.replacing("one", with: name)
                _ = try $0.call("PUT /inApps/v1/subscriptions/extend/{sub}", body)
            }
        },
        APICase(.invalidExtendByDays, extendMany, RouteTests.extendAll(days: "0")),
        APICase(.invalidExtendReasonCode, extendMany, RouteTests.extendAll(reason: #""1""#)),
        APICase(.invalidRequestIdentifier, extendMany, RouteTests.extendAll(id: "one")),
        APICase(.invalidProductId, extendMany, RouteTests.extendAll(product: "coins")),
        APICase(
            .invalidEmptyStorefrontCountryCodeList, extendMany,
            RouteTests.extendAll(more: #","storefrontCountryCodes":[]"#)),
        APICase(
            .invalidStorefrontCountryCode, extendMany,
            RouteTests.extendAll(more: #","storefrontCountryCodes":["USA","DE"]"#)),
        APICase(.invalidProductId, "GET \(mass)/none/\(RouteTests.uuid)"),
        APICase(.invalidRequestIdentifier, "GET \(mass)/gold.year/one"),
        APICase(.statusRequestNotFound, "GET \(mass)/gold.year/\(RouteTests.uuid)"),
        APICase(.statusRequestNotFound, "GET \(mass)/gold.year/\(RouteTests.uuid)", in: .sandbox) {
            _ = try $0.call("POST \(mass)", RouteTests.extendAll)
        },
    ]
    private static let mass = "/inApps/v1/subscriptions/extend/mass"

    private static func dates(
        _ start: String = "{earlier}", _ end: String = "{later}", _ more: String = ""
    ) -> String {
        #"{"startDate":\#(start),"endDate":\#(end)\#(more)}"#
    }

    private static let notified: [APICase] = [
        APICase(.generalBadRequest, notifications),
        APICase(.invalidStartDate, notifications, dates(#""now""#)),
        APICase(.invalidEndDate, notifications, #"{"startDate":{earlier}}"#),
        APICase(.startDateAfterEndDate, notifications, dates("{later}", "{earlier}")),
        APICase(.startDateTooFarInPast, notifications, dates("{long ago}")),
        APICase(.invalidNotificationType, notifications, dates("{earlier}", "{later}", #","notificationType":"SOLD""#)),
        APICase(
            .invalidNotificationType, notifications,
            dates("{earlier}", "{later}", #","notificationType":"REFUND","notificationSubtype":"VOLUNTARY""#)),
        APICase(
            .invalidNotificationType, notifications,
            dates("{earlier}", "{later}", #","notificationSubtype":"VOLUNTARY""#)),
        APICase(
            .multipleFiltersSupplied, notifications,
            dates("{earlier}", "{later}", #","notificationType":"TEST","transactionId":"{sub}""#)),
        APICase(.invalidTransactionId, notifications, dates("{earlier}", "{later}", #","transactionId":"x""#)),
        APICase(.transactionIdNotFound, notifications, dates("{earlier}", "{later}", #","transactionId":"{sandbox}""#)),
        APICase(.invalidPaginationToken, notifications + "?paginationToken=abc", dates()),
        APICase(.invalidPaginationToken, notifications + "?paginationToken={token}", dates(), after: token),
        APICase(.paginationTokenExpired, notifications + "?paginationToken={token}", dates("{start}", "{end}")) {
            try token(&$0)
            $0.wallClock = Timestamp(milliseconds: $0.wallClock.milliseconds + 3_600_000)
        },
        APICase(.paginationTokenExpired, notifications + "?paginationToken={token}", dates("{start}", "{end}")) {
            try token(&$0)
            $0.store.faults.expiredCursors = 1
        },
        APICase(.serverNotificationURLNotFound, "POST /inApps/v1/notifications/test") {
            $0.store.notificationURLs[.production] = nil
        },
        APICase(.invalidTestNotificationToken, "GET /inApps/v1/notifications/test/abc"),
        APICase(.testNotificationNotFound, "GET /inApps/v1/notifications/test/\(RouteTests.uuid)_1769851800000"),
        APICase(.testNotificationNotFound, "GET /inApps/v1/notifications/test/{test}") {
            let answer = try $0.call("POST /inApps/v1/notifications/test")
            $0.names["test"] = answer.json["testNotificationToken"]?.string
        },
    ]

    /// The token of a second page.
    @Sendable private static func token(_ fixture: inout StoreFixture) throws {
        for _ in 0..<21 { _ = try fixture.call("POST /inApps/v1/notifications/test") }
        for delivery in try fixture.store.takeDeliveries() { fixture.store.record(.success, of: delivery) }
        fixture.wait(minutes: 1)
        let now = fixture.store.world.now.milliseconds
        (fixture.names["start"], fixture.names["end"]) = ("\(now - 3_600_000)", "\(now)")
        let answer = try fixture.call(notifications, dates("{start}", "{end}"))
        fixture.names["token"] = answer.json["paginationToken"]?.string
    }

    private static let image = "PUT /inApps/v1/messaging/image/\(RouteTests.uuid)"
    private static let defaults = "/inApps/v1/messaging/default"

    private static let retention: [APICase] = [
        APICase(.generalBadRequest, "PUT /inApps/v1/messaging/image/list", "PNG 3840 2160"),
        APICase(.invalidImage, image, "JPEG"),
        APICase(.invalidImage, image, "PNG 1920 1080"),
        APICase(.invalidImage, image, "PNG 3840 2160 alpha"),
        APICase(.badRequestImageSize, image + "?imageSize=HALF", "PNG 3840 2160"),
        APICase(.imageAlreadyExists, image, "PNG 3840 2160", in: .sandbox, after: RouteTests.image),
        APICase(.imageNotFound, "DELETE /inApps/v1/messaging/image/\(RouteTests.uuid)"),
        APICase(.imageInUse, "DELETE /inApps/v1/messaging/image/\(RouteTests.uuid)", in: .sandbox) {
            try RouteTests.image(&$0)
            _ = try $0.call(message, withImage, in: .sandbox)
        },
        APICase(.maximumNumberOfImagesReached, image + "?imageSize=BULLET_POINT", "PNG 64 64") {
            try fill(&$0, "image") { "PUT /inApps/v1/messaging/image/\($0)?imageSize=BULLET_POINT" }
        },
        APICase(.maximumNumberOfMessagesReached, message, RouteTests.message) {
            try fill(&$0, "message") { "PUT /inApps/v1/messaging/message/\($0)" }
        },
        APICase(.headerTooLong, message, text(header: 67)),
        APICase(.bodyTooLong, message, text(body: 145)),
        APICase(
            .altTextTooLong, message, text(more: #","image":{"altText":"\#(String(repeating: "a", count: 151))"}"#)),
        APICase(.badRequestTooManyBulletPoints, message, text(more: #","bulletPoints":[{},{},{},{},{},{}]"#)),
        APICase(
            .badRequestBulletPointTextTooLong, message,
            text(more: #","bulletPoints":[{"text":"\#(String(repeating: "a", count: 67))"}]"#)),
        APICase(.badRequestAboveImageRequiresAnImage, message, text(more: #","headerPosition":"ABOVE_IMAGE""#)),
        APICase(.imageNotFound, message, withImage),
        APICase(.imageNotApproved, message, withImage) {
            _ = try $0.call(image, APICase.png("PNG 3840 2160"), in: .production)
        },
        APICase(
            .messageAlreadyExists, "PUT /inApps/v1/messaging/message/\(RouteTests.uuid)", RouteTests.message,
            in: .sandbox, after: RouteTests.storedMessage),
        APICase(.messageNotFound, "DELETE /inApps/v1/messaging/message/\(RouteTests.uuid)"),
        APICase(.messageNotFound, "PUT \(defaults)/gold.month/en-US", identified),
        APICase(.messageNotApproved, "PUT \(defaults)/gold.month/en-US", identified) {
            _ = try $0.call("PUT /inApps/v1/messaging/message/\(RouteTests.uuid)", RouteTests.message)
        },
        APICase(.invalidProductId, "PUT \(defaults)/coins/en-US", identified),
        APICase(.invalidLocale, "GET \(defaults)/gold.month/english_please"),
        APICase(.defaultMessageNotFound, "GET \(defaults)/gold.month/de"),
        APICase(.defaultMessageNotFound, "DELETE \(defaults)/gold.month/zh-Hans"),
    ]

    private static let withImage = text(more: #","image":{"imageIdentifier":"\#(RouteTests.uuid)","altText":"A"}"#)
    private static let identified = #"{"messageIdentifier":"\#(RouteTests.uuid)"}"#

    private static func text(header: Int = 66, body: Int = 144, more: String = "") -> String {
        let (header, body) = (String(repeating: "ä", count: header), String(repeating: "b", count: body))
        return #"{"header":"\#(header)","body":"\#(body)"\#(more)}"#
    }

    private static func fill(
        _ fixture: inout StoreFixture, _ kind: String, _ request: (String) -> String
    ) throws {
        let body = kind == "image" ? APICase.png("PNG 64 64") : Array(RouteTests.message.utf8)
        for number in 0..<2000 {
            let suffix = String(number + 100_000)
            _ = try fixture.call(request("00000000-0000-4000-8000-000000\(suffix)"), body, in: .production)
        }
    }

    private static let url = "/inApps/v1/messaging/realtime/url"
    private static let test = "POST /inApps/v1/messaging/performanceTest"
    private static let tested = #"{"originalTransactionId":"{sandbox}"}"#

    private static let realtime: [APICase] = [
        APICase(.badRequestRealtimeUrl, "PUT \(url)", #"{"realtimeURL":"http://example.com"}"#, in: .sandbox),
        APICase(
            .badRequestRealtimeUrl, "PUT \(url)",
            #"{"realtimeURL":"https://example.com/\#(String(repeating: "a", count: 240))"}"#, in: .sandbox),
        APICase(
            .forbiddenNoPassingTest, "PUT \(url)", #"{"realtimeURL":"https://example.com"}"#,
            after: RouteTests.runningTest),
        APICase(.realtimeUrlNotFound, "GET \(url)"),
        APICase(.realtimeUrlNotFound, "DELETE \(url)"),
        APICase(.realtimeUrlNotFound, test, tested, in: .sandbox),
        APICase(.invalidPerformanceTestRequest, test, "{}", in: .sandbox),
        APICase(.originalTransactionIdNotFound, test, #"{"originalTransactionId":"{sub}"}"#, in: .sandbox),
        APICase(.existingPerformanceTestRun, test, tested, in: .sandbox, after: RouteTests.runningTest),
        APICase(.invalidRequestId, "GET /inApps/v1/messaging/performanceTest/result/one", in: .sandbox),
        APICase(
            .performanceTestRunNotFound, "GET /inApps/v1/messaging/performanceTest/result/\(RouteTests.uuid)",
            in: .sandbox),
        APICase(.rateLimitExceeded, info + "{sub}") {
            $0.store.faults.rateLimitScale = 0
            _ = try $0.call(info + "{sub}")
        },
        APICase(.generalInternal, info + "{sub}") { $0.store.faults.internalErrors = 1 },
        APICase(.generalInternalRetryable, info + "{sub}") { $0.store.faults.retryableErrors = 1 },
    ]

    static let caused =
        lookups + purchases + version1 + extensions + notified + retention + realtime

    @Test(arguments: caused) func `an error has its number, its status and nothing else`(test: APICase) throws {
        let answer = try test.answer()
        #expect(answer.code == test.code?.rawValue, "\(answer.status) \(answer.json.compactText.prefix(200))")
        #expect(answer.status == test.status)
        #expect(answer.headers["content-type"] == "application/json")
        #expect(answer.json.members?.map(\.name) == ["errorCode", "errorMessage"])
    }

    /// Codes that no state of the simulator causes: an app or account that Apple lost, the multi-seat preview, an
    /// endpoint that Apple changed.
    private static let plannedOnly: Set<APIErrorCode> = [
        .invalidAppIdentifier, .invalidLimit, .invalidTransactionNotConsumable, .invalidGroupId,
        .invalidAssignedTransactionNotSupported, .assignedSubscriptionExtensionIneligible, .accountNotFound,
        .accountNotFoundRetryable, .appNotFound, .appNotFoundRetryable, .originalTransactionIdNotFoundRetryable,
        .appTransactionDoesNotExist, .groupNotFound,
    ]

    @Test func `every code has a cause, or can only be planned`() {
        let met = Set(Self.caused.compactMap(\.code))
        #expect(Set(APIErrorCode.allCases).subtracting(met) == Self.plannedOnly)
    }

    @Test func `every code can be planned, and is met once`() throws {
        var fixture = try StoreFixture.shop()
        for code in APIErrorCode.allCases {
            try fixture.store.faults.set(
                JSONValue(parsing: Array(#"{"failNext":{"statuses":[\#(code.rawValue)]}}"#.utf8)))
            #expect(try fixture.call("GET /inApps/v1/lookup/{order}").status == 200)
            let answer = try fixture.call("GET /inApps/v1/subscriptions/{sub}")
            #expect(answer.code == code.rawValue && answer.status == Int(code.rawValue / 10_000))
            #expect(try fixture.call("GET /inApps/v1/subscriptions/{sub}").status == 200)
        }
    }

    @Test func `every code has a text of its own`() {
        #expect(APIErrorCode.codesWithText == Set(APIErrorCode.allCases))
    }

    @Test func `a 429 says in milliseconds when calls may resume`() throws {
        var fixture = try StoreFixture.shop()
        fixture.store.faults.failNext[.statuses] = [.rateLimitExceeded]
        fixture.store.faults.retryAfter = 30
        let answer = try fixture.call("GET /inApps/v1/subscriptions/{sub}")
        #expect(answer.headers["retry-after"] == "\(StoreFixture.wallClock.milliseconds + 30_000)")
    }
}
