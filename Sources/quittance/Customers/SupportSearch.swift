// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import PurchaseServer
import Reconciliation

/// Searches a ledger for the customers and purchases with a given id.
struct SupportSearch {
    let service: LedgerService
    let apps: [String]
    let now: Timestamp

    /// A customer or a purchase with the id.
    enum Found: Hashable {
        case customer(id: String, bundleId: String)
        case purchase(ChainKey, transactionId: String)

        var sentence: String {
            switch self {
            case .customer(let id, let bundleId): "the customer \(id.printable) of \(bundleId.printable)"
            case .purchase(let key, let id):
                "the transaction \(id.printable) of \(key.scope.bundleId.printable) in "
                    + key.scope.environment.rawValue
            }
        }
    }

    /// The maximum duration of a request, short because a person waits for the answer.
    private static let limit = Duration.seconds(30)

    /// The customers and transactions with this id, of all apps.
    func found(by id: String) async throws -> [Found] {
        var found: [Found] = []
        for app in apps {
            guard try await service.ledger.holdings(of: id, of: app, in: [], at: now) != nil else { continue }
            found.append(.customer(id: id, bundleId: app))
        }
        return found + (try await transactions(id, in: Environment.allCases))
    }

    /// The purchases that have a transaction with this id in the given environments.
    private func transactions(_ id: String, in environments: [Environment]) async throws -> [Found] {
        // Transaction ids have only digits. This check avoids slow searches for any other text.
        guard !id.isEmpty, id.allSatisfy({ $0.isASCII && $0.isNumber }) else { return [] }
        var found: [Found] = []
        for app in apps {
            for environment in environments {
                let scope = LedgerScope(bundleId: app, environment: environment)
                var chain = try await service.ledger.chain(of: TransactionKey(id, in: scope))
                // The ledger may know a purchase without its first transaction, whose id is then known only as the
                // purchase's original transaction id.
                if chain == nil { chain = try await service.ledger.chain(ChainKey(id, in: scope)) }
                if let chain { found.append(.purchase(chain.key, transactionId: id)) }
            }
        }
        return found
    }

    /// The purchases of an order id in production. The App Store looks up the order, because no document has its id.
    ///
    /// - Parameter reconcilers: The reconcilers of production, a reconciler per app.
    /// - Throws: Exit status 1 if the App Store knows the order, but the ledger has none of its transactions; errors of
    ///   the App Store and of the ledger.
    func found(byOrder id: String, _ reconcilers: [LedgerScope: Reconciler]) async throws -> [Found] {
        var found: [Found] = []
        for (scope, reconciler) in reconcilers where apps.contains(scope.bundleId) {
            let ids = try await reconciler.transactionIds(ofOrder: id, within: Self.limit) ?? []
            let search = SupportSearch(service: service, apps: [scope.bundleId], now: now)
            var known: [Found] = []
            for id in ids { known += try await search.transactions(id, in: [.production]) }
            guard ids.isEmpty || !known.isEmpty else {
                throw Terminal.failure(
                    """
                    The order \(id) is the transaction \(ids.joined(separator: ", ").printable) of \
                    \(scope.bundleId), which the ledger does not have: quittance app-store order \(id) records it.
                    """)
            }
            found += known
        }
        return found
    }

    /// The cards of the found customers and of the owners of found purchases, each customer once. A purchase without an
    /// owner gets its own card.
    func cards(of found: [Found]) async throws -> [SupportCard] {
        var cards: [SupportCard] = []
        var shown: Set<CustomerID> = []
        var unowned: Set<ChainKey> = []
        func add(_ id: String, of bundleId: String) async throws {
            let everywhere = Set(Environment.allCases)
            let answers = try await service.ledger.customer(id, of: bundleId, in: everywhere, at: now) ?? [:]
            let ids = answers.values.first?.ids ?? [id]
            guard shown.insert(CustomerID(ids[0], of: bundleId)).inserted else { return }
            var card = SupportCard(id: id, bundleId: bundleId, ids: ids, answers: answers.filter { !$1.isEmpty })
            card.attributes = try await service.ledger.attributes(of: id, in: bundleId)
            cards.append(card)
        }
        for thing in found {
            switch thing {
            case .customer(let id, let bundleId): try await add(id, of: bundleId)
            case .purchase(let key, _):
                let owners = try await service.ledger.owners(of: key)
                for owner in owners { if let id = owner.ids.first { try await add(id, of: key.scope.bundleId) } }
                guard owners.isEmpty, unowned.insert(key).inserted,
                    let answer = try await service.ledger.answer(about: key, at: now)
                else { continue }
                cards.append(
                    SupportCard(
                        id: key.originalTransactionId, bundleId: key.scope.bundleId, ids: [],
                        answers: [key.scope.environment: answer]))
            }
        }
        return cards
    }
}

extension Ledger.CustomerAnswer {
    /// Whether the customer has no purchase, not even of the app.
    fileprivate var isEmpty: Bool { purchases.isEmpty && app == nil && holdings.entitlements.isEmpty }
}
