// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import FuzzSupport

/// Fuzzes a configuration file of StoreKit Testing, from which a simulated App Store takes its products.
///
/// Each product of a file that can be read can be sold, also its renewals, or the sale is refused.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzStoreKitFile(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let catalogue = try StoreCatalogue(storeKitFile: bytes, bundleId: "com.example.notes", appAppleId: 1)
        var world = World(seed: 1, catalogue: catalogue, now: firstDay)
        _ = try world.addCustomer("anna")
        // A few, so that no input takes long.
        for product in catalogue.products.prefix(8) { _ = try? world.buy(product.id, by: "anna") }
        world.advance(to: lastDay)
        require(world.now == lastDay, "time passes")
    }
}

private let firstDay = Timestamp(milliseconds: 1_767_225_600_000)
/// 40 days later: all monthly subscriptions were renewed.
private let lastDay = Timestamp(milliseconds: 1_767_225_600_000 + 40 * 86_400_000)
