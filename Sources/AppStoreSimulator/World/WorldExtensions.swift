// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Extensions of all subscriptions of a product. The request plans the extension, and the extension follows some time
// later.

extension World {
    /// Plans an extension of all subscriptions of a product.
    ///
    /// - Parameter request: `requestIdentifier`, an unused UUID.
    mutating func extendAllLater(_ massExtension: MassExtension, request: String) {
        massExtensions[request] = massExtension
        agenda.add(massExtension.due(from: now), .massExtension, request)
    }

    /// Extends the subscriptions of a planned extension.
    mutating func extendAll(by request: String) {
        guard let planned = massExtensions[request] else { return }
        let summary = extendAll(
            of: planned.product, days: planned.days, in: planned.environment, request: request,
            countries: planned.countries)
        massExtensions[request]?.summary = summary
        massExtensions[request]?.completeDate = now
    }
}
