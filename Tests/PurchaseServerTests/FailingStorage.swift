// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import PurchaseLedgerTesting

/// A storage whose operations all fail.
struct FailingStorage: ForwardingStorage {
    let inner: any LedgerStorage = MemoryLedgerStorage()
    var error: any Error
    /// Called at each operation.
    var onUse: @Sendable () -> Void = {}

    func willForward() throws {
        onUse()
        throw error
    }
}
