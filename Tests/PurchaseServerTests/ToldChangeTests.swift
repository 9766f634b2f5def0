// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import Testing

/// Tests that each operation and each setting has the event that it gives, or the reason for none. `SilentChangeTests`
/// have the same table of Apple's notifications.
@Suite struct ToldChangeTests {
    private typealias World = LedgerRoutesTests.World

    private enum Told {
        /// These kinds of events.
        case events(Set<LedgerEvent.Kind>)
        /// The events of the documents that the operation records.
        case documents
        /// No event, for a reason.
        case nothing(String)
    }

    private static let ofAppStore = Told.nothing("the App Store signs what became of it, and its documents are told")
    private static let ofEndpoints = Told.nothing("no answer about a customer shows an endpoint")
    private static let ofSignatures = Told.nothing("a signature changes nothing until the customer buys")

    /// Everything but GET, which only reads. A read that asks the App Store records documents, which are told.
    private static let operations: [String: Told] = [
        "POST /verifyReceipt": .documents, "POST /sandbox/verifyReceipt": .documents,
        "POST /v1/notifications/test": .documents, "POST /notifications/v2": .documents,
        "POST /notifications/v1": .documents, "POST /v1/backfill": .documents,
        "POST /retention": .nothing("it only answers the App Store"),
        "POST /v1/customers/{id}/purchases": .documents,
        "POST /v1/customers/{id}/aliases": .events([.aliasAdded, .customersMerged, .attributesChanged]),
        "POST /v1/customers/{id}/unlink": .events([.aliasRemoved]),
        "POST /v1/customers/{id}/unmerge": .events([.customerUnmerged, .unlinked, .linked]),
        "DELETE /v1/customers/{id}": .events([.customerDeleted, .unlinked]),
        "POST /v1/customers/{id}/grants": .events([.grantMade]),
        "POST /v1/customers/{id}/grants/{grant}/end": .events([.grantEnded]),
        "PATCH /v1/customers/{id}/attributes": .events([.attributesChanged]),
        "PUT /v1/customers/{id}/consent": .events([.consentChanged]),
        "PUT /v1/transactions/{id}/consumption": .nothing("no answer about a customer shows it"),
        "POST /v1/transactions/{id}/move": .events([.unlinked, .linked]),
        "POST /v1/transactions/{id}/deny": .events([.purchaseDenied]),
        "POST /v1/transactions/{id}/allow": .events([.purchaseAllowed]),
        "PUT /v1/transactions/{id}/app-account-token": ofAppStore,
        "POST /v1/subscriptions/{id}/extension": ofAppStore, "POST /v1/extensions": ofAppStore,
        "POST /v1/webhooks": ofEndpoints, "PATCH /v1/webhooks/{id}": ofEndpoints,
        "DELETE /v1/webhooks/{id}": ofEndpoints, "POST /v1/webhooks/{id}/rotate": ofEndpoints,
        "POST /v1/webhooks/{id}/pause": ofEndpoints, "POST /v1/webhooks/{id}/resume": ofEndpoints,
        "POST /v1/webhooks/{id}/test": ofEndpoints, "POST /v1/webhooks/{id}/replay": ofEndpoints,
        "POST /v1/signatures/promotional-offer": ofSignatures,
        "POST /v1/signatures/introductory-offer": ofSignatures,
        "POST /v1/signatures/advanced-commerce": ofSignatures,
        "POST /v1/customers/{id}/signatures/promotional-offer": ofSignatures,
    ]

    @Test func `each operation has an event, or a reason for none`() async throws {
        let routes = try await World().server.routes.filter { $0.method != .get }
        #expect(Set(routes.map { "\($0.method) \($0.path)" }) == Set(Self.operations.keys))
    }

    private static let settings: [(names: Set<String>, told: Told)] = [
        (["sandboxAccess", "sandboxCustomers", "environments"], .events([.environmentsChanged])),
        (
            ["products", "appPurchase", "refusedPurchases", "staleLeewaySeconds"],
            .events([
                .subscriptionUpdated, .subscriptionRevoked, .subscriptionRecovered, .purchaseUpdated, .accessEnded,
            ])
        ),
        (
            ["claimPolicy", "keepEvidence", "eventRetentionDays", "auditRetentionDays"],
            .nothing("it decides about what comes later, and changes no customer")
        ),
        (
            ["environment", "sharedSecret", "customerProof", "entitlements", "trustedProxies"],
            .nothing("it decides which requests are answered")
        ),
        (
            ["roots", "alsoAppleRoots", "intermediates", "revocation", "appAppleId", "bundleId"],
            .nothing("it decides which documents are accepted from now on")
        ),
        (
            ["appStoreServer", "sandboxAppStoreServer", "inAppPurchaseKey", "retention"],
            .nothing("it decides what the App Store is asked and told")
        ),
        (
            ["database", "erasureJournal", "simulatorClock", "webhookSecretFile", "webhookNetworks", "servers"],
            .nothing("it is about the server, and no answer shows it")
        ),
        (
            [
                "hostname", "port", "healthPort", "healthHostname", "consolePort", "maxConnections",
                "maxConnectionsPerPeer", "maxFollowers", "bodyBytesInFlight", "idleTimeoutSeconds",
                "bodyTimeoutSeconds",
                "requestTimeoutSeconds", "writeTimeoutSeconds", "logLevel", "logFormat", "requestLog",
            ], .nothing("it is about connections and the log")
        ),
    ]

    @Test func `each setting has an event, or a reason for none`() {
        let known = Set(ServerConfiguration.settings.map(\.name)).union(AppConfiguration.settings)
        let listed = Self.settings.flatMap(\.names)
        #expect(known.subtracting(listed) == [] && Set(listed).subtracting(known) == [])
        #expect(Set(listed).count == listed.count)
    }

    // MARK: The changes of customers in the feed

    @Test func `an alias, attributes and a consent are in the feed, with what the customer has now`() async throws {
        let world = try await World()
        let path = "/v1/customers/anna"
        _ = try await world.send(
            .patch, "\(path)/attributes", #"{"attributes":{"plan":{"value":"a"},"team":{"value":"t"}}}"#)
        _ = try await world.send(.patch, "\(path)/attributes", #"{"attributes":{"team":{"value":null}}}"#)
        _ = try await world.send(.post, "\(path)/aliases", #"{"alias":"anne"}"#)
        for isGiven in [true, false] {
            _ = try await world.send(.put, "\(path)/consent", #"{"customerConsented":\#(isGiven)}"#)
        }
        let items = try await world.send(.get, "/v1/events?environment=sandbox&customer=anne").1["items"]?.array ?? []
        #expect(
            items.map { $0["kind"]?.string } == [
                "customer.attributesChanged", "customer.attributesChanged", "customer.aliasAdded",
                "customer.consentChanged", "customer.consentChanged",
            ])
        #expect(items.allSatisfy { $0["customer"]?.string == "anna" })
        let now = LedgerRoutesTests.now.milliseconds
        // A page shows the present values: no event keeps a text that was removed since.
        #expect(
            items.map { $0["attributes"]?.compactText } == [
                #"{"plan":{"value":"a","updatedAt":\#(now)},"team":{"value":null,"updatedAt":\#(now)}}"#,
                #"{"team":{"value":null,"updatedAt":\#(now)}}"#, nil, nil, nil,
            ])
        #expect(items.map { $0["ids"]?.compactText } == [nil, nil, #"["anna","anne"]"#, nil, nil])
        #expect(items.map { $0["consentedAt"]?.integer } == [nil, nil, nil, now, nil])
        _ = try await world.send(.delete, path)
        let left = try await world.send(.get, "/v1/events").1["items"]?.array ?? []
        #expect(left.allSatisfy { $0["attributes"] == nil && $0["ids"] == nil })
    }

    @Test func `a changed setting of the sandbox is told to followers of every environment and customer`()
        async throws
    {
        let world = try await World()
        var app = AppConfiguration(AppIdentity(bundleId: "com.example"))
        for access in SandboxAccess.allCases {
            app.sandboxAccess = access
            app.sandboxCustomers = ["anna"]
            let setting = SandboxSetting(of: app, "com.example", in: [.production, .sandbox])
            let listed: Set<String> = access == .listed ? ["anna"] : []
            #expect(setting == SandboxSetting(access.rawValue, listed: listed, of: "com.example"))
            // Without the sandbox its purchases count for nobody.
            let none = SandboxSetting(of: app, "com.example", in: [.production])
            #expect(none == SandboxSetting("none", listed: [], of: "com.example"))
            try await world.ledger.publish([setting], at: LedgerRoutesTests.now)
        }
        let page = try await world.send(.get, "/v1/events?environment=production&customer=anna").1
        let items = page["items"]?.array ?? []
        #expect(items.map { $0["kind"]?.string } == Array(repeating: "customer.environmentsChanged", count: 2))
        #expect(items.map { $0["sandboxAccessBefore"]?.string } == ["all", "listed"])
        #expect(items.map { $0["sandboxAccessAfter"]?.string } == ["listed", "none"])
        #expect(items.allSatisfy { $0["customer"] == nil })
    }
}
