// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// Whether the ledger can be written, found out by writing. Whoever asks within a second of another gets the other's answer, so
/// that asking often costs nothing.
final class Readiness: Sendable {
    /// For how long an answer holds.
    private static let validity = Duration.seconds(1)

    private let storage: any LedgerStorage
    private let last = Mutex<(at: Timestamp, validUntil: Timestamp, error: LedgerStorageError?)?>(nil)

    init(_ storage: any LedgerStorage) {
        self.storage = storage
    }

    /// What is wrong; `nil` where nothing is.
    func fault(at now: Timestamp) async -> LedgerStorageError? {
        if let last = last.withLock({ $0 }), now >= last.at, now < last.validUntil { return last.error }
        let fault = await tryToWrite()
        last.withLock { $0 = (now, now.advanced(by: Self.validity), fault) }
        return fault
    }

    private func tryToWrite() async -> LedgerStorageError? {
        do {
            try await storage.write { try $0.proveWritable() }
            return nil
        } catch let error as LedgerStorageError {
            return error
        } catch {
            return LedgerStorageError(.unavailable, "\(error)")
        }
    }
}
