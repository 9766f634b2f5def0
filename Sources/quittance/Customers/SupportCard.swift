// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The information about a customer, or about a purchase without a customer, for support staff.
struct SupportCard {
    /// The id in the title: one of the customer's ids, or the purchase's original transaction id.
    let id: String
    let bundleId: String
    /// All ids of the customer; empty for a purchase that belongs to no customer.
    let ids: [String]
    /// The answers by environment, for the environments with purchases or grants.
    let answers: [Environment: Ledger.CustomerAnswer]
    /// The attributes of the customer; `nil` for a purchase that belongs to no customer.
    var attributes: CustomerAttributes?

    /// The number of listed purchases without `--all`, so that the list fits on a screen.
    private static let listed = 20

    /// The keys of the purchases in all environments.
    var chains: Set<ChainKey> {
        answers.reduce(into: []) { chains, answer in
            let scope = LedgerScope(bundleId: bundleId, environment: answer.key)
            let purchases = answer.value.purchases + [answer.value.app].compactMap(\.self)
            chains.formUnion(purchases.map { ChainKey($0.chainName, in: scope) })
        }
    }

    /// - Parameter counted: The environments that count for the customer if a request names none.
    func text(_ counted: [Environment], _ documents: [StoredDocument], at now: Timestamp, all: Bool) -> String {
        let title =
            ids.isEmpty
            ? "The purchase \(id) of \(bundleId), which belongs to no customer" : "The customer \(id) of \(bundleId)"
        let head = Report.list([
            ("ids", ids.joined(separator: ", ")), ("as of", now.iso8601),
            ("environments that count", counted.map(\.rawValue).joined(separator: ", ")),
        ])
        var sections = [
            section("entitlements", ["entitlement", "until", "reason", "product", "environment"], entitlements),
            section(
                "subscriptions", ["subscription", "status", "product", "access", "until", "renews", "environment"],
                subscriptions),
            section(
                "purchases", ["transaction", "product", "bought", "expires", "status", "environment"],
                purchases(at: now), limit: all ? .max : Self.listed),
            section("last documents", ["signed", "received", "document", "name"], documents.map(Self.row)),
        ]
        if !apps.isEmpty {
            let columns = ["id", "version", "bought", "platform", "receipt type", "environment"]
            sections.insert(section("purchase of the app", columns, apps), at: 3)
        }
        let attributes = (self.attributes?.present ?? []).map { [$0.name, $0.text, $0.updatedAt.iso8601] }
        if !attributes.isEmpty {
            sections.insert(section("attributes", ["attribute", "value", "as of"], attributes), at: 0)
        }
        return title.printable.styled(.bold) + "\n" + head + "\n" + sections.joined(separator: "\n")
    }

    private func section(_ title: String, _ columns: [String], _ rows: [[String]], limit: Int = .max) -> String {
        guard !rows.isEmpty else { return "no \(title)\n".styled(.bold) }
        let shown = rows.prefix(limit).map { $0.map(\.printable) }
        let rest = rows.count > limit ? "  \(rows.count - limit) more: --all lists all.\n" : ""
        return title.styled(.bold) + "\n" + Report.table(columns, shown) + rest
    }
}

// MARK: - Rows

extension SupportCard {
    /// The answers in the order of their environments.
    private var ordered: [(environment: String, answer: Ledger.CustomerAnswer)] {
        answers.sorted { $0.key.rawValue < $1.key.rawValue }.map { ($0.key.rawValue, $0.value) }
    }

    private var entitlements: [[String]] {
        ordered.flatMap { environment, answer in
            answer.holdings.entitlements.map { entitlement in
                [
                    entitlement.name, entitlement.until?.iso8601 ?? "no end", entitlement.reason.rawValue,
                    entitlement.productId ?? entitlement.grantId.map { "grant \($0)" } ?? "", environment,
                ]
            }
        }
    }

    private var apps: [[String]] {
        ordered.compactMap { environment, answer in
            answer.app.map { app in
                [
                    app.appTransactionId ?? "no id", app.originalApplicationVersion ?? "",
                    app.purchaseDate?.iso8601 ?? "", app.originalPlatform?.rawValue ?? "", app.receiptType ?? "",
                    environment,
                ]
            }
        }
    }

    private var subscriptions: [[String]] {
        ordered.flatMap { environment, answer in
            answer.holdings.subscriptions.sorted { $0.key < $1.key }.map { _, state in
                let renews = state.willRenew.map { $0 ? "yes" : "no" } ?? "unknown"
                return [
                    state.governing.originalTransactionId, state.status.rawValue, state.governing.productId,
                    state.hasAccess ? "yes" : "no", state.accessUntil?.iso8601 ?? "no end", renews, environment,
                ]
            }
        }
    }

    /// The rows of all purchases, the newest first.
    private func purchases(at now: Timestamp) -> [[String]] {
        ordered.flatMap { environment, answer in
            answer.purchases.map { (purchase: $0, environment: environment, answer: answer) }
        }
        .sorted { $0.purchase.purchaseDate?.milliseconds ?? 0 > $1.purchase.purchaseDate?.milliseconds ?? 0 }
        .map { purchase, environment, answer in
            [
                purchase.transactionId, purchase.productId, purchase.purchaseDate?.iso8601 ?? "",
                purchase.expiresDate?.iso8601 ?? "",
                Self.status(purchase, isRefused: answer.holdings.refused.contains(purchase.chainName), at: now),
                environment,
            ]
        }
    }

    private static func status(_ purchase: TransactionStatement, isRefused: Bool, at now: Timestamp) -> String {
        if isRefused { return "refused by the operator" }
        if let revocation = purchase.revocation { return "revoked \(revocation.date.iso8601)" }
        if purchase.isUpgraded { return "upgraded" }
        guard let end = purchase.expiresDate else { return "bought" }
        return end > now ? "runs" : "over"
    }

    private static func row(_ stored: StoredDocument) -> [String] {
        let name = "\(stored.name)"
        let notification = stored.notification.map { [$0.type, $0.subtype].compactMap(\.self) } ?? []
        return [
            stored.signedDate?.iso8601 ?? "", stored.receivedAt.iso8601,
            ([stored.kind.rawValue] + notification).joined(separator: " "),
            // A terminal is too narrow for the whole name.
            Terminal.isInteractive ? "\(name.prefix(16))…" : name,
        ]
    }
}
