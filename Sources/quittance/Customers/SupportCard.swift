// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The information about a customer, or about a purchase without a customer, as text for support staff.
struct SupportCard {
    /// The JSON of the API.
    private let body: JSONValue

    init(_ body: JSONValue) { self.body = body }

    /// The number of listed purchases without `--all`, so that the list fits on a screen.
    private static let listed = 20

    /// - Parameter all: Whether to list all purchases.
    func text(all: Bool) -> String {
        let title = "\(body.text("id")) of \(body.text("bundleId"))"
        let isOwned = body["ids"]?.array?.isEmpty == false
        let head = Report.list([
            ("ids", body.words("ids")), ("as of", body.time("asOf")),
            ("environments that count", body.words("counted")),
        ])
        var sections = [
            section("entitlements", ["entitlement", "until", "reason", "product", "environment"], entitlements),
            section(
                "subscriptions", ["subscription", "status", "product", "access", "until", "renews", "environment"],
                subscriptions),
            section(
                "purchases", ["transaction", "product", "bought", "expires", "status", "environment"], purchases,
                limit: all ? .max : Self.listed),
            section(
                "last documents", ["signed", "received", "document", "name"],
                (body["documents"]?.array ?? []).map(Self.document)),
        ]
        let apps = environments.compactMap { $0["app"] }.map(Self.app)
        if !apps.isEmpty {
            let columns = ["id", "version", "bought", "platform", "receipt type", "environment"]
            sections.insert(section("purchase of the app", columns, apps), at: 3)
        }
        let attributes = (body["attributes"]?.members ?? []).map {
            [$0.name, $0.value.text("value"), $0.value.time("updatedAt")]
        }
        if !attributes.isEmpty {
            sections.insert(section("attributes", ["attribute", "value", "as of"], attributes), at: 0)
        }
        return (isOwned ? "The customer \(title)" : "The purchase \(title), which belongs to no customer").printable
            .styled(.bold) + "\n" + sentences + "\n" + head + "\n" + sections.joined(separator: "\n")
    }

    /// The sentences of the API, with the environment before those of others than production.
    private var sentences: String {
        let all = environments.flatMap { item in
            let name = (item["environments"]?.array?.first?.string).flatMap { $0 == "Production" ? nil : "\($0): " }
            return (item["sentences"]?.array ?? []).compactMap(\.string).map { (name ?? "") + $0 }
        }
        return (all.isEmpty ? ["no purchases and no grants"] : all).map { "  \($0.printable)\n" }.joined()
    }

    private func section(_ title: String, _ columns: [String], _ rows: [[String]], limit: Int = .max) -> String {
        guard !rows.isEmpty else { return "no \(title)\n".styled(.bold) }
        let shown = rows.prefix(limit).map { $0.map(\.printable) }
        let rest = rows.count > limit ? "  \(rows.count - limit) more: --all lists all.\n" : ""
        return title.styled(.bold) + "\n" + Report.table(columns, shown) + rest
    }

    // MARK: - Rows

    private var environments: [JSONValue] { body["environments"]?.array ?? [] }

    private func all(_ name: String) -> [JSONValue] { environments.flatMap { $0[name]?.array ?? [] } }

    private var entitlements: [[String]] {
        all("entitlements").map { item in
            let source = item["productId"]?.string ?? item["grantId"]?.string.map { "grant \($0)" } ?? ""
            return [
                item.text("name"), item.time("until", else: "no end"), item.text("reason"), source,
                item.text("environment"),
            ]
        }
    }

    private var subscriptions: [[String]] {
        all("subscriptions").map { item in
            [
                item.text("originalTransactionId"), item.text("status"), item.text("productId"),
                item["hasAccess"] == .bool(true) ? "yes" : "no", item.time("accessUntil", else: "no end"),
                item["willRenew"]?.bool.map { $0 ? "yes" : "no" } ?? "unknown", item.text("environment"),
            ]
        }
    }

    /// The rows of all purchases, the newest first.
    private var purchases: [[String]] {
        all("purchases").sorted { $0["purchaseDate"]?.integer ?? 0 > $1["purchaseDate"]?.integer ?? 0 }.map { item in
            [
                item.text("transactionId"), item.text("productId"), item.time("purchaseDate"), item.time("expiresDate"),
                status(item), item.text("environment"),
            ]
        }
    }

    private func status(_ purchase: JSONValue) -> String {
        if purchase["refused"] == .bool(true) { return "refused by the operator" }
        if purchase["revocationDate"]?.integer != nil { return "revoked \(purchase.time("revocationDate"))" }
        if purchase["isUpgraded"] == .bool(true) { return "upgraded" }
        guard let end = purchase["expiresDate"]?.integer else { return "bought" }
        return end > body["asOf"]?.integer ?? 0 ? "runs" : "over"
    }

    private static func app(_ item: JSONValue) -> [String] {
        [
            item["appTransactionId"]?.string ?? "no id", item.text("originalApplicationVersion"),
            item.time("originalPurchaseDate"), item.text("originalPlatform"), item.text("receiptType"),
            item.text("environment"),
        ]
    }

    private static func document(_ item: JSONValue) -> [String] {
        let name = item.text("id")
        return [
            item.time("signedDate"), item.time("receivedAt"),
            ["kind", "notificationType", "subtype"].compactMap { item[$0]?.string }.joined(separator: " "),
            // A terminal is too narrow for the whole name.
            Terminal.isInteractive ? "\(name.prefix(16))…" : name,
        ]
    }
}

extension JSONValue {
    fileprivate func text(_ name: String) -> String { self[name]?.string ?? "" }

    fileprivate func words(_ name: String) -> String {
        (self[name]?.array ?? []).compactMap(\.string).joined(separator: ", ")
    }

    fileprivate func time(_ name: String, else other: String = "") -> String {
        self[name]?.integer.map { Timestamp(milliseconds: $0).iso8601 } ?? other
    }
}
