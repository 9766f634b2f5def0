// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance products`: compares the bought products with the products in the configuration.
struct Products: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List products that were bought and are not in the configuration, and the other way round.",
        usage: "quittance products [options]",
        discussion: """
            A product outside the configuration grants no entitlement. The command reads all purchases in the ledger \
            without changes to the ledger. A large ledger takes a while. A server may run meanwhile.

            Exit status: 0 all products that were bought are in the configuration; 1 some are not, or some purchases \
            cannot be read; 2 wrong usage.

              quittance products --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Option(help: "Only this app.")
    var bundleId: String?

    @Flag(help: "Print only a JSON object per app and environment.")
    var json = false

    func run() async throws {
        let composition = try options.composition()
        let app = try bundleId.map { try composition.configuration.bundleId($0) }
        try await composition.onLedger(.reading) { storage in
            let service = composition.service(storage, try composition.verifier(checkingRevocation: false))
            var progress = Progress(verb: "read", noun: "purchases")
            let sold = try await service.ledger.soldProducts(of: app) { progress.report($0) }
            for damage in sold.damage { Terminal.report(damage.printable) }
            let catalogues = service.ledger.rules.catalogues.filter { app == nil || $0.key == app }
            let comparisons = ProductComparison.all(sold, catalogues, in: composition.configuration.environments)
            if comparisons.isEmpty, !json { try Terminal.print("Nothing was bought, and no app is configured.") }
            for comparison in comparisons {
                try json ? Terminal.print(json: comparison.body) : Terminal.print(comparison.text)
            }
            if !sold.damage.isEmpty || comparisons.contains(where: { !$0.unknown.isEmpty }) { throw ExitCode(1) }
        }
    }
}

/// The bought products of one app and environment, compared with the app's products in the configuration.
struct ProductComparison {
    let scope: LedgerScope
    let isConfigured: Bool
    /// The bought products missing from the configuration.
    var unknown: [(productId: String, sold: SoldProduct)] = []
    /// The bought products present in the configuration.
    var known: [(productId: String, sold: SoldProduct)] = []
    /// The configured products without a purchase.
    var neverBought: [String] = []

    /// A comparison per app and environment. The apps are all configured apps and all apps with purchases. The
    /// environments are the configured environments, and any others with purchases.
    static func all(
        _ sold: SoldProducts, _ catalogues: [String: Catalogue], in environments: Set<Environment>
    ) -> [ProductComparison] {
        let configured = catalogues.keys.flatMap { app in
            environments.map { LedgerScope(bundleId: app, environment: $0) }
        }
        return Set(configured).union(sold.products.keys)
            .sorted()
            .map { ProductComparison($0, sold.products[$0] ?? [:], catalogues[$0.bundleId]) }
    }

    private init(_ scope: LedgerScope, _ sold: [String: SoldProduct], _ catalogue: Catalogue?) {
        self.scope = scope
        isConfigured = catalogue != nil
        let products = catalogue?.products ?? [:]
        for (id, product) in sold.sorted(by: { $0.key < $1.key }) {
            if products[id] == nil { unknown.append((id, product)) } else { known.append((id, product)) }
        }
        neverBought = products.keys.filter { sold[$0] == nil }.sorted()
    }

    var text: String {
        let count = unknown.count + known.count
        let transactions = (unknown + known).reduce(0) { $0 + $1.sold.transactions }
        let bought =
            count == 0
            ? "nothing was bought"
            : "\(counted(count, "product")) bought, in \(counted(transactions, "transaction"))"
        let app = isConfigured ? "" : ", which is not in the configuration"
        var lines = ["\(scope.bundleId.printable)\(app), \(scope.environment.rawValue): \(bought)".styled(.bold)]
        if !unknown.isEmpty {
            lines.append("  bought, and not in the configuration:")
            lines += unknown.map { "    \($0.productId.printable)  \($0.sold.sentence)" }
        }
        if !neverBought.isEmpty {
            lines.append("  in the configuration, and never bought:")
            lines += neverBought.map { "    \($0.printable)" }
        }
        return lines.joined(separator: "\n")
    }

    var body: some Encodable {
        Body(
            bundleId: scope.bundleId, environment: scope.environment.rawValue,
            unknown: unknown.map { ProductBody($0.productId, $0.sold) },
            neverBought: neverBought, known: known.map { ProductBody($0.productId, $0.sold) })
    }

    private struct Body: Encodable {
        var bundleId, environment: String
        var unknown: [ProductBody]
        var neverBought: [String]
        var known: [ProductBody]
    }

    private struct ProductBody: Encodable {
        var productId: String
        var transactions: Int
        var lastPurchaseDate: Timestamp?
        var transactionId: String

        init(_ productId: String, _ sold: SoldProduct) {
            self.productId = productId
            transactions = sold.transactions
            lastPurchaseDate = sold.lastPurchaseDate
            transactionId = sold.transactionId
        }
    }
}

extension SoldProduct {
    /// A sentence such as `2 transactions, the last at 2026-01-31T12:00:00Z: 410000000000001`.
    fileprivate var sentence: String {
        let date = lastPurchaseDate.map { " at \($0.iso8601)" } ?? ""
        return "\(counted(transactions, "transaction")), the last\(date): \(transactionId.printable)"
    }
}
