// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator

/// Lets a thousand customers live through two years of a simulated App Store, signs every notification, and prints how
/// long that took and the share of the signing. The figure is in docs/performance.md; the bound is a minute.
@main
struct WorldLoad {
    static let customers = 1000
    static let days = 730

    static func main() throws {
        let clock = ContinuousClock()
        let start = clock.now
        let world = try lived()
        let lived = clock.now
        let signer = WorldSigner(try StoreAuthority.fixture())
        var bytes = 0
        for occurrence in world.occurrences {
            bytes += try signer.notification(occurrence, from: world.catalogue).utf8.count
        }
        for name in world.customers.keys {
            guard let receipt = world.receipt(of: name) else { continue }
            bytes += try signer.sign(receipt, at: world.now).count
        }
        let signed = clock.now
        let share = (signed - lived) / (signed - start)
        print(
            """
            \(customers) customers, \(days) days: \(world.occurrences.count) notifications, \(bytes / 1_000_000) MB
            \(signed - start) in all, \(Int(share * 100)) % of it for signing, on one core
            """)
    }

    /// Each customer buys a subscription on another day. Some cancel, some cannot pay for a while, some ask for money
    /// back.
    private static func lived() throws -> World {
        guard let begin = Timestamp(iso8601: "2026-01-01T00:00:00Z") else { throw ImpossibleStart() }
        var world = World(seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 1_500_000_001), now: begin)
        world.catalogue.graceDays = .sixteen
        let plans = world.catalogue.products.filter { $0.plan != nil }.map(\.id)
        for day in 0..<days {
            world.advance(to: Timestamp(milliseconds: begin.milliseconds + Int64(day) * 86_400_000))
            for index in stride(from: day % 90, to: customers, by: 90) {
                let name = "customer \(index)"
                if day < 90 { try world.addCustomer(name) }
                let id = world.subscriptions(of: name).first ?? ""
                switch (index + day / 90) % 9 {
                case 0: try? world.cancel(id)
                case 1: try? world.breakBilling(of: name)
                case 2, 3: try? world.fixBilling(of: name)
                case 4: try? world.refund(world.subscriptions[id]?.current.transactionId ?? "")
                default: _ = try? world.buy(plans[(index + day) % plans.count], by: name)
                }
            }
        }
        return world
    }
}

/// The first day cannot be read.
struct ImpossibleStart: Error {}
