// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger

/// A simulated App Store, whose notifications are as long as Apple's.
struct SimulatedStore: Sendable {
    static let scope = LedgerScope(bundleId: "com.example.notes", environment: .production)
    static let product = "com.example.notes.premium.monthly"
    static let entitlement = "premium"

    /// The instant at which everything here is verified and read.
    static let now = Timestamp(milliseconds: 1_750_000_000_000)

    private let signer: WorldSigner

    init() throws {
        var signer = WorldSigner(try StoreAuthority.fixture())
        // Makes the header 4.4 KB long, as Apple's is. Apple's certificates are larger than the simulated ones.
        signer.headerMembers = #""kid":"\#(String(repeating: "A", count: 1000))","#
        self.signer = signer
    }

    /// The root certificates as DER.
    var roots: [[UInt8]] { signer.authority.roots }

    static func verifier(_ roots: [[UInt8]]) throws -> AppStoreVerifier {
        let roots = try roots.map { try TrustRoots(reading: $0) }
        return AppStoreVerifier(
            apps: .any, environments: [scope.environment], roots: roots.dropFirst().reduce(roots[0]) { $0.union($1) })
    }

    /// The notifications that a server receives.
    struct Notifications {
        /// The first purchases of known subscribers, which the server receives before the measurement.
        var before: [String]
        /// The notifications of the measurement, in random order. Of six, one is the first purchase of a new customer;
        /// of five known subscribers, three renew, one turns renewal off and one expires.
        var stream: [String]
        /// First purchases by new customers only, which are the most work for a server.
        var firstPurchases: [String]
        /// The notifications of the stream about renewals. One event follows from each.
        var renewals: [String]
    }

    func notifications(_ count: Int) async throws -> Notifications {
        var random = SeededRandom(seed: 1)
        let known = count * 5 / 6
        var world = try Self.world(of: known)
        // Those of many customers come in no order.
        let before = world.occurrences.filter { $0.topic.type == .subscribed }.shuffled(using: &random)
        let later = try Self.later(known, in: &world).shuffled(using: &random)
        let new = try (0..<count - known + count / 3).map { try Self.subscribe(known + $0, in: &world) }
        let renewals = try await sign(later.filter { $0.topic.type == .didRenew }, world.catalogue)
        let others = later.filter { $0.topic.type != .didRenew } + new.prefix(count - known)
        let stream = try await renewals + sign(others, world.catalogue)
        return Notifications(
            before: try await sign(before, world.catalogue), stream: stream.shuffled(using: &random),
            firstPurchases: try await sign(Array(new.dropFirst(count - known)), world.catalogue), renewals: renewals)
    }

    /// Customers who subscribed more than a month ago.
    private static func world(of customers: Int) throws -> World {
        var catalogue = StoreCatalogue(bundleId: scope.bundleId, appAppleId: 1_234_567_890)
        var premium = StoreProduct(
            id: product, type: .autoRenewableSubscription, price: StorePrice(milliunits: 9990))
        premium.plan = SubscriptionPlan(group: "21034567", level: 1, period: Period(1, .month))
        var offer = StoreOffer(
            type: .promotional, id: "autumn.campaign", payment: .payAsYouGo, period: Period(1, .month),
            price: StorePrice(milliunits: 4990))
        offer.count = 3
        premium.offers = [offer]
        catalogue.add(premium)
        var world = World(
            seed: 1, catalogue: catalogue, now: Timestamp(milliseconds: now.milliseconds - 40 * 86_400_000))
        for number in 0..<customers { _ = try subscribe(number, in: &world) }
        return world
    }

    private static func subscribe(_ number: Int, in world: inout World) throws -> Occurrence {
        let name = "\(number)"
        try world.addCustomer(name)
        try world.buy(product, by: name, PurchaseOptions(offer: "autumn.campaign"))
        return world.occurrences[world.occurrences.count - 1]
    }

    /// What happens to the known subscribers: one event each.
    private static func later(_ known: Int, in world: inout World) throws -> [Occurrence] {
        let first = world.occurrences.count
        for number in 0..<known where number % 5 > 2 {
            try world.cancel(world.subscriptions(of: "\(number)").first ?? "")
        }
        world.advance(to: Timestamp(milliseconds: now.milliseconds - 86_400_000))
        return world.occurrences.dropFirst(first).filter { occurrence in
            switch occurrence.customer.flatMap({ Int($0) }).map({ $0 % 5 }) {
            case 3: occurrence.topic.type == .didChangeRenewalStatus
            case 4: occurrence.topic.type == .expired
            default: occurrence.topic.type == .didRenew
            }
        }
    }

    /// Signs on both cores, since signing takes as long as verifying.
    private func sign(_ events: [Occurrence], _ catalogue: StoreCatalogue) async throws -> [String] {
        let middle = events.count / 2
        async let first = events[..<middle].map { try signer.notification($0, from: catalogue) }
        async let second = events[middle...].map { try signer.notification($0, from: catalogue) }
        return try await first + second
    }
}
