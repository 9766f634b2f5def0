// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Extensions of all subscriptions of a product: planned when they are asked for, carried out some time later.

extension World {
    /// Plans an extension of all subscriptions of a product.
    ///
    /// - Parameter request: `requestIdentifier`, a UUID that was not used before.
    mutating func extendAllLater(_ massExtension: MassExtension, request: String) {
        massExtensions[request] = massExtension
        agenda.add(massExtension.due(from: now), .massExtension, request)
    }

    /// Carries out what was planned.
    mutating func extendAll(by request: String) {
        guard let planned = massExtensions[request] else { return }
        let summary = extendAll(
            of: planned.product, days: planned.days, in: planned.environment, request: request,
            countries: planned.countries)
        massExtensions[request]?.summary = summary
        massExtensions[request]?.completeDate = now
    }
}
