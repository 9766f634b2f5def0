// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An entitlement that one purchase or one grant gives its owners, as events name it.
///
/// A customer may have an entitlement from several purchases and grants at once. Of the purchases of a subscription
/// group that give an entitlement, only the purchase with the highest level counts, and of equal levels, the purchase
/// with the latest end. Of each name, the entitlement with the latest end counts. ``Holdings`` applies the same rules
/// to all purchases of a customer.
public struct GivenEntitlement: Hashable, Sendable, Decodable {
    /// The name in the configuration.
    public var name: String
    /// The reason for the entitlement. A newer version may have published a reason unknown to this version.
    public var reason: Open<Entitlement.Reason>
    /// The environment of the purchase or grant.
    public var environment: Open<Environment>
    /// The end of the entitlement; `nil` for no end.
    public var until: Timestamp?
    /// The subscription group of the purchase; `nil` if the purchase is in no group.
    public var subscriptionGroup: String?
    /// The level of the product in its group: 1 is the highest. It is `nil` outside groups, and for a product without a
    /// level, which ranks last.
    public var level: Int?
    /// The transaction that gives the entitlement; `nil` for a grant, and for a purchase of the app itself.
    public var transactionId: String?

    public init(_ name: String, _ reason: Entitlement.Reason, in environment: Environment, until: Timestamp? = nil) {
        self.name = name
        self.reason = Open(reason)
        self.environment = Open(environment)
        self.until = until
    }
}

/// The entitlements that a purchase or grant gives, ordered by name.
///
/// Its form is that of the ledger, a text that is written once, compared and copied, and seldom read.
public struct GivenEntitlements: Hashable, Sendable, Decodable {
    /// A JSON array in one line.
    public let json: String

    /// No entitlements.
    public static let empty = GivenEntitlements([])

    public init(_ entitlements: [GivenEntitlement]) {
        var writer = JSONWriter()
        writer.array(entitlements) { writer, entitlement in entitlement.write(to: &writer) }
        json = String(decoding: writer.bytes, as: UTF8.self)
    }

    /// The entitlements that grants of a chain give, ordered by name.
    init(_ grants: [Grant], _ catalogue: Catalogue, in environment: Environment) {
        guard !grants.isEmpty else {
            self = .empty
            return
        }
        self.init(Self.counting(grants, catalogue).map { GivenEntitlement($0, $1, catalogue, in: environment) })
    }

    /// The grants that count, by name. Nearly all purchases have a single grant, which counts in any case.
    private static func counting(_ grants: [Grant], _ catalogue: Catalogue) -> [(String, Grant)] {
        guard grants.count == 1 else { return CountingGrants(grants, catalogue).byName }
        return catalogue.entitlements(of: grants[0].statement).sorted().map { name in
            var named = grants[0]
            named.until = named.end(of: name, catalogue)
            return (name, named)
        }
    }

    public init(from decoder: any Decoder) throws {
        self.init(try [GivenEntitlement](from: decoder))
    }

    /// The entitlements; `nil` if a newer version wrote them in a form unknown to this version.
    public var list: [GivenEntitlement]? {
        // Readers show nothing instead of an unknown form.
        try? JSONValue(parsing: Array(json.utf8)).decode([GivenEntitlement].self)
    }
}

extension Chain {
    /// The entitlements that the purchase gives its owners at `now`.
    func given(_ catalogue: Catalogue, at now: Timestamp) -> GivenEntitlements {
        let history = history(catalogue, at: now)
        let grants = history.grants(history.subscription(renewal))
        return GivenEntitlements(grants, catalogue, in: key.scope.environment)
    }
}

extension CustomerGrant {
    /// The entitlement that the grant gives until it ends.
    var given: GivenEntitlements {
        GivenEntitlements([GivenEntitlement(entitlement, .grant, in: environment, until: until)])
    }
}

extension GivenEntitlements: Storable {
    @usableFromInline
    package init?(_ stored: StoredValue) {
        guard case .text(let text) = stored else { return nil }
        json = text
    }

    @usableFromInline package var stored: StoredValue { .text(json) }
}

extension GivenEntitlement {
    fileprivate init(_ name: String, _ grant: Grant, _ catalogue: Catalogue, in environment: Environment) {
        self.init(name, grant.reason, in: environment, until: grant.until)
        if !grant.statement.isAppPurchase { transactionId = grant.statement.transactionId }
        guard let group = grant.group else { return }
        subscriptionGroup = group
        level = catalogue.products[exactly: grant.statement.productId]?.level
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("name", name)
            writer.member("reason", reason.rawValue)
            writer.member("environment", environment.rawValue)
            writer.name("until")
            if let until { writer.number(until.milliseconds) } else { writer.null() }
            writer.member("subscriptionGroup", subscriptionGroup)
            if let level { writer.member("level", number: Int64(level)) }
            writer.member("transactionId", transactionId)
        }
    }
}
