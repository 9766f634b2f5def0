// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Reconciliation

extension Reconciler {
    /// Does one job that is due, as a server that has just started.
    func workOnce() async throws -> Bool {
        try await JobRunner(ledger, Reconciler.jobs(of: [scope: self]), now: now).workOnce()
    }
}
