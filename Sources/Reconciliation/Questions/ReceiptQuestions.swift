// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
package import PurchaseLedger

// Receipts contain no renewal info. The App Store is asked for it when the ledger has none.

extension Reconciler {
    /// After this time a question is asked again that had no answer.
    private static let pause = Duration.seconds(60)

    /// Asks about the subscriptions of a receipt of which the ledger has no renewal info. One question covers all of
    /// them.
    ///
    /// Never fails: without an answer in time the ledger's own answer stands. A job then asks again. If the budget for
    /// such questions is used up, nothing is asked until the receipt comes again, and no job is stored: as many would
    /// wait as there are receipts. A subscription is asked about once a day at most.
    ///
    /// - Parameters:
    ///   - chains: All purchases of the receipt.
    ///   - limit: The longest time.
    package func askAboutReceipt(_ chains: Set<ChainKey>, within limit: Duration) async {
        // If the ledger is out of reach, the answer itself fails.
        guard let unknown = try? await unknownRenewals(of: chains), let key = unknown.min(),
            !receiptQuestions.contains(unknown, at: now()), receiptBudget.reserve(at: now()),
            receiptQuestions.begin(unknown, at: now())
        else { return }
        do {
            try await ask(about: key, within: limit)
        } catch let error as AppStoreAPIError {
            if error.code != .refused { receiptBudget.pause(at: now()) }
            if error.isRetryable { await askLater(about: key) }
        } catch let error as VerificationError where error.isRetryable {
            await askLater(about: key)
        } catch {
            // No document in the answer is valid, or the ledger is out of reach. Asking again does not help.
        }
    }

    private func askLater(about key: ChainKey) async {
        let id = Job.ID(.subscriptionStatus, key.originalTransactionId, in: scope)
        // If the job cannot be stored, the question is asked when the subscription's period is over.
        try? await ledger.add(Job(id, dueAt: now().advanced(by: Self.pause)), at: now())
    }

    /// The subscriptions among some chains of which the ledger has no renewal info.
    func unknownRenewals(of chains: Set<ChainKey>) async throws -> Set<ChainKey> {
        let catalogue = ledger.rules.catalogue(scope)
        let known = try await ledger.chains(chains).values
        return Set(known.filter { $0.renewal == nil && $0.subscription(catalogue, at: now()) != nil }.map(\.key))
    }
}
