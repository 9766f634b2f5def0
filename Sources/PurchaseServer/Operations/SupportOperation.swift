// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import Reconciliation

/// What support staff ask about an id. The operator's command searches several apps at once.
package enum ShowSupport: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/support/{id}", "shows the customers and purchases that an id names, in all environments",
        roles: .readers,
        [Field("id", in: .path, "an id of a customer, a transaction or an order", .text(.customerID))],
        errors: [.notFound, .appStoreRefused, .appStoreCredentials, .appStoreUnavailable]
    ) { request in
        let search = SupportSearch(request: request, id: request.customerId)
        let found = try await search.found()
        return try await request.withAnswer(from: search.query(found)) { try Answer(await search.body(of: found)) }
    }
}

/// The search for the customers and purchases that have an id.
private struct SupportSearch: Sendable {
    let request: AuthenticatedRequest
    let id: String

    /// The number of listed documents: enough for the last weeks of a subscription with a billing problem.
    private static let documents = 10

    /// What has the id.
    struct Found: Sendable {
        let name: String
        /// The customer, or the owners of the purchase.
        let customers: [CustomerID]
        /// The purchase, if nobody owns it.
        var unowned: ChainKey?
    }

    /// - Throws: ``Refusal`` if nothing has the id.
    func found() async throws -> [Found] {
        var found: [Found] = []
        for app in request.apps
        where try await request.ledger.holdings(of: id, of: app, in: [], at: request.now) != nil {
            found.append(Found(name: "the customer \(id) of \(app)", customers: [CustomerID(id, of: app)]))
        }
        for app in request.apps { found += try await purchases(id, of: app, in: Environment.allCases) }
        guard found.isEmpty else { return found }
        guard HistoryQuestion.isOrderId(id) else { throw try await unknown("") }
        let reconcilers = (request.service.reconcilers?.all ?? [:]).filter {
            $0.key.environment == .production && request.apps.contains($0.key.bundleId)
        }
        for (scope, reconciler) in reconcilers { found += try await purchases(ofOrder: scope.bundleId, reconciler) }
        guard found.isEmpty else { return found }
        throw try await unknown(
            reconcilers.isEmpty
                ? " If it is an order id, only the App Store knows it: add inAppPurchaseKey to the app."
                : " The App Store knows no such order.")
    }

    private func unknown(_ rest: String) async throws -> Refusal {
        let apps = request.apps.isEmpty ? "the ledger, which is empty" : request.apps.joined(separator: ", ")
        let near = try await request.near(id)
        return Refusal(.notFound, "“\(id)” names no customer and no purchase in \(apps).\(near)\(rest)")
    }

    /// The purchases that have a transaction with this id.
    private func purchases(_ id: String, of app: String, in environments: [Environment]) async throws -> [Found] {
        // Transaction ids have only digits. This check avoids slow searches for any other text.
        guard id.allSatisfy({ $0.isASCII && $0.isNumber }) else { return [] }
        var found: [Found] = []
        for environment in environments {
            let scope = LedgerScope(bundleId: app, environment: environment)
            var chain = try await request.ledger.chain(of: TransactionKey(id, in: scope))
            // The ledger may know a purchase without its first transaction, whose id is then known only as the
            // purchase's original transaction id.
            if chain == nil { chain = try await request.ledger.chain(ChainKey(id, in: scope)) }
            guard let chain else { continue }
            let owners = try await request.ledger.owners(of: chain.key).compactMap(\.ids.first)
            found.append(
                Found(
                    name: "the transaction \(id) of \(app) in \(environment.rawValue)",
                    customers: owners.map { CustomerID($0, of: app) }, unowned: owners.isEmpty ? chain.key : nil))
        }
        return found
    }

    /// The purchases of the order in production. The App Store looks up the order, because no document has its id.
    ///
    /// - Throws: ``Refusal`` if the App Store knows the order, but the ledger has none of its transactions; errors of
    ///   the App Store and of the ledger.
    private func purchases(ofOrder app: String, _ reconciler: Reconciler) async throws -> [Found] {
        let ids = try await reconciler.transactionIds(ofOrder: id, within: .appStoreLimit) ?? []
        var found: [Found] = []
        for id in ids { found += try await purchases(id, of: app, in: [.production]) }
        guard found.isEmpty, !ids.isEmpty else { return found }
        throw Refusal(
            .notFound,
            """
            The order \(id) is the transaction \(ids.joined(separator: ", ")) of \(app), which the ledger does not \
            have: quittance app-store order \(id) records it.
            """)
    }

    /// The records that the answer needs.
    func query(_ found: [Found]) -> LedgerQuery {
        LedgerQuery.holdings(of: found.flatMap(\.customers), in: Environment.allCases)
            .union(LedgerQuery(found.compactMap(\.unowned).map(LedgerKey.chain)))
    }

    /// The found customers and owners of found purchases, each once, and the purchases without an owner.
    func body(of found: [Found]) async throws -> SupportListBody {
        var items: [SupportBody] = []
        var shown: Set<CustomerID> = []
        var unowned: Set<ChainKey> = []
        for found in found {
            for customer in found.customers {
                let id = customer.id
                let app = customer.bundleId
                let stories = try await request.ledger.stories(
                    of: id, of: app, in: Set(Environment.allCases), at: request.now)
                let ids = stories?.values.first?.answer.ids ?? [id]
                guard shown.insert(CustomerID(ids.first ?? id, of: app)).inserted else { continue }
                let attributes = try await request.ledger.attributes(of: id, in: app)
                items.append(try await item(id, of: app, ids, attributes, stories ?? [:]))
            }
            guard let key = found.unowned, unowned.insert(key).inserted,
                let story = try await request.ledger.story(about: key, at: request.now)
            else { continue }
            items.append(
                try await item(
                    key.originalTransactionId, of: key.scope.bundleId, [], nil, [key.scope.environment: story]))
        }
        return SupportListBody(items: items, found: found.map(\.name))
    }

    private func item(
        _ id: String, of app: String, _ ids: [String], _ attributes: CustomerAttributes?,
        _ stories: [Environment: CustomerStory]
    ) async throws -> SupportBody {
        let stories = stories.filter { !$1.isEmpty }
        let chains = stories.flatMap { environment, story in
            let answer = story.answer
            return (answer.purchases + [answer.app].compactMap(\.self)).map {
                ChainKey($0.chainName, in: LedgerScope(bundleId: app, environment: environment))
            }
        }
        return SupportBody(
            id, of: app, ids, counted: request.service.environmentRule(.unnamed, of: app).counted(for: ids),
            attributes, stories,
            documents: try await request.ledger.newestDocuments(about: Set(chains), limit: Self.documents),
            at: request.now)
    }
}

extension CustomerStory {
    /// Whether the customer has no purchase, not even of the app, and never had a grant.
    fileprivate var isEmpty: Bool { answer.purchases.isEmpty && answer.app == nil && timeLines.items.isEmpty }
}
