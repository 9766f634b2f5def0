// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Measures how much disk space a notification takes.
@Suite struct SizeTests {
    @Test(.takesLong)
    func `a notification of 20 KB takes less than 5 KB on the disk, including its facts and every index`()
        async throws
    {
        let folder = try TemporaryFolder()
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let ledger = Ledger(storage: storage)
        var appStore = try AppStore()
        var sizes: [Int] = []
        for count in [50, 150] {
            for _ in 0..<count {
                let notification = try appStore.notification(isMonthly: false)
                try #require(notification.utf8.count > 19_000)
                let evidence = try await appStore.evidence(of: notification)
                try #require(evidence.statements.count == 1 && evidence.renewals.count == 1)
                _ = try await ledger.record([evidence], at: Timestamp(milliseconds: 1_750_000_000_000))
            }
            sizes.append(try await storage.number("PRAGMA page_count") * 4096)
        }
        // The second size includes 150 more notifications. The difference leaves out what an empty ledger takes.
        #expect((sizes[1] - sizes[0]) / 150 < 5000)
    }
}
