// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Testing

/// The endpoints against a table typed from Apple's list.
@Suite struct EndpointTests {
    /// What an endpoint sends, as Apple's list has it.
    struct Row: Hashable, CustomStringConvertible {
        var line: String
        /// Requests in a second.
        var rate: Int
        var environments: String

        init(_ line: String, _ rate: Int, _ environments: String = "both") {
            (self.line, self.rate, self.environments) = (line, rate, environments)
        }

        init<Answer>(_ endpoint: Endpoint<Answer>) {
            let both: Set<Environment> = [.production, .sandbox]
            self.init(
                "\(endpoint.request.method) \(endpoint.request.target)", endpoint.ratePerSecond,
                endpoint.environments == both ? "both" : endpoint.environments.map(\.rawValue).joined())
        }

        var description: String { "\(line), \(rate), \(environments)" }
    }

    static let listed: [Row] = [
        Row("GET /inApps/v1/transactions/11", 50), Row("GET /inApps/v2/history/11", 50),
        Row("GET /inApps/v1/history/11", 50), Row("GET /inApps/v1/subscriptions/11", 50),
        Row("GET /inApps/v1/transactions/appTransactions/11", 50),
        Row("PUT /inApps/v1/transactions/11/appAccountToken", 20), Row("POST /inApps/v1/transactions/11/finish", 50),
        Row("PUT /inApps/v2/transactions/consumption/11", 50), Row("PUT /inApps/v1/transactions/consumption/11", 50),
        Row("GET /inApps/v1/lookup/M1", 10, "Production"), Row("GET /inApps/v2/refund/lookup/11", 10),
        Row("GET /inApps/v1/refund/lookup/11", 10), Row("PUT /inApps/v1/subscriptions/extend/11", 20),
        Row("POST /inApps/v1/subscriptions/extend/mass", 1),
        Row("GET /inApps/v1/subscriptions/extend/mass/com.example.a/u", 1),
        Row("POST /inApps/v1/notifications/history", 50), Row("POST /inApps/v1/notifications/test", 1),
        Row("GET /inApps/v1/notifications/test/t", 1),
        Row("GET /groups/v1/currentGroups/11", 50, "Sandbox"), Row("GET /groups/v1/group/9", 50, "Sandbox"),
        Row("POST /groups/v1/transactions/11/seats", 1, "Sandbox"),
        Row("GET /groups/v1/transactions/11/seats", 1, "Sandbox"),
        Row("DELETE /groups/v1/transactions/11/seats/s", 1, "Sandbox"),
        Row("POST /groups/v1/transactions/11/seats/s/associate", 1, "Sandbox"),
        Row("PUT /inApps/v1/messaging/image/i", 1), Row("DELETE /inApps/v1/messaging/image/i", 1),
        Row("GET /inApps/v1/messaging/image/list", 1), Row("PUT /inApps/v1/messaging/message/m", 1),
        Row("DELETE /inApps/v1/messaging/message/m", 1), Row("GET /inApps/v1/messaging/message/list", 1),
        Row("PUT /inApps/v1/messaging/default/com.example.a/en-US", 10),
        Row("GET /inApps/v1/messaging/default/com.example.a/en-US", 1),
        Row("DELETE /inApps/v1/messaging/default/com.example.a/en-US", 1),
        Row("PUT /inApps/v1/messaging/realtime/url", 1), Row("GET /inApps/v1/messaging/realtime/url", 1),
        Row("DELETE /inApps/v1/messaging/realtime/url", 1),
        Row("POST /inApps/v1/messaging/performanceTest", 1, "Sandbox"),
        Row("GET /inApps/v1/messaging/performanceTest/result/r", 1, "Sandbox"),
        Row("POST /advancedCommerce/v1/subscription/cancel/11", 5),
        Row("POST /advancedCommerce/v1/subscription/changeMetadata/11", 50),
        Row("POST /advancedCommerce/v1/subscription/changePrice/11", 50),
        Row("POST /advancedCommerce/v1/subscription/migrate/11", 50),
        Row("POST /advancedCommerce/v1/subscription/revoke/11", 5),
        Row("POST /advancedCommerce/v1/transaction/requestRefund/11", 5),
    ]

    @Test func `the endpoints are those of Apple's list, with their rates and environments`() {
        let rows = EndpointSample.all.map(\.row)
        #expect(Set(rows).subtracting(Self.listed) == [])
        #expect(Set(Self.listed).subtracting(rows) == [])
        #expect(rows.count == Set(rows).count)
    }

    @Test(arguments: [
        ("a/b", "/inApps/v1/transactions/a%2Fb"), ("a?b=c&d", "/inApps/v1/transactions/a%3Fb%3Dc%26d"),
        ("%2e%2E", "/inApps/v1/transactions/%252e%252E"), ("a#b", "/inApps/v1/transactions/a%23b"),
        ("a b\r\nX: y", "/inApps/v1/transactions/a%20b%0D%0AX%3A%20y"), ("é", "/inApps/v1/transactions/%C3%A9"),
        ("...", "/inApps/v1/transactions/..."), ("a*", "/inApps/v1/transactions/a%2A"),
        ("../../groups", "/inApps/v1/transactions/..%2F..%2Fgroups"),
    ]) func `an id stays inside its part of the path`(id: String, path: String) {
        #expect(Endpoint.transactionInfo(id).request.target == path)
    }

    @Test(arguments: ["", ".", ".."]) func `an id that would change the path is not sent`(id: String) async throws {
        let fixture = try ClientFixture(production: [.answer(200)])
        let error = await #expect(throws: AppStoreAPIError.self) {
            try await fixture.client.send(.transactionInfo(id), to: .production)
        }
        #expect(error?.code == .invalidRequest)
        #expect(fixture.transport.calls.isEmpty)
    }

    @Test func `a filter is repeated parameters, and its values are escaped`() {
        var filter = TransactionHistoryFilter()
        filter.revision = "a=&b"
        filter.startDate = Timestamp(milliseconds: 1)
        filter.endDate = Timestamp(milliseconds: 2)
        filter.productIds = ["p.1", "p 2"]
        filter.productTypes = [.consumable, .nonRenewable]
        filter.subscriptionGroupIdentifiers = ["7"]
        filter.inAppOwnershipType = .familyShared
        filter.revoked = false
        filter.sort = .descending
        #expect(
            Endpoint.transactionHistory("1", filter).request.target
                == "/inApps/v2/history/1?revision=a%3D%26b&startDate=1&endDate=2&productId=p.1&productId=p%202"
                + "&productType=CONSUMABLE&productType=NON_RENEWABLE&subscriptionGroupIdentifier=7"
                + "&inAppOwnershipType=FAMILY_SHARED&revoked=false&sort=DESCENDING")
        #expect(
            Endpoint.subscriptionStatuses("1", with: [.active, .billingGracePeriod]).request.target
                == "/inApps/v1/subscriptions/1?status=1&status=4")
        #expect(
            Endpoint.groupMembers("9", limit: 100).request.target == "/groups/v1/group/9?limit=100")
        #expect(Endpoint.refundHistory("1", after: "r").request.target == "/inApps/v2/refund/lookup/1?revision=r")
        #expect(
            Endpoint.uploadImage([1], as: "i", size: .bulletPoint).request.target
                == "/inApps/v1/messaging/image/i?imageSize=BULLET_POINT")
    }
}
