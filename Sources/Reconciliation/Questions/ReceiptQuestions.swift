// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
package import PurchaseLedger

// Asks the App Store for renewal info that the ledger lacks, because receipts contain no renewal info.

extension Reconciler {
    /// The time after which a job repeats an unanswered question.
    private static let pause = Duration.seconds(60)

    /// Asks about the subscriptions of a receipt if the ledger lacks their renewal info. A single question covers all
    /// subscriptions of the customer.
    ///
    /// Never fails: without an answer in time, the server answers from the ledger as it is, and a job asks again. If
    /// the budget for questions about receipts (``ReceiptBudget``) is used up, no question is asked until the receipt
    /// is presented again. No job is stored in this case, because there could be as many jobs as receipts. This method
    /// asks about a subscription once a day at most.
    ///
    /// - Parameters:
    ///   - chains: The chains of the receipt: its purchases, each with its renewals.
    ///   - limit: The time limit.
    package func askAboutReceipt(_ chains: Set<ChainKey>, within limit: Duration) async {
        // If the ledger is out of reach, the caller's own reads fail too, and report the error.
        guard let unknown = try? await unknownRenewals(of: chains), let key = unknown.min(),
            !receiptQuestions.contains(unknown, at: now()), receiptBudget.reserve(at: now()),
            receiptQuestions.begin(unknown, at: now())
        else { return }
        do {
            try await ask(about: key, within: limit)
        } catch let error as AppStoreAPIError {
            if ![.refused, .contradiction].contains(error.code) { receiptBudget.pause(at: now()) }
            if error.isRetryable { await askLater(about: key) }
        } catch let error as VerificationError where error.isRetryable {
            await askLater(about: key)
        } catch {
            // No document in the answer is valid, or the ledger is out of reach. A further question would not help.
        }
    }

    private func askLater(about key: ChainKey) async {
        let id = Job.ID(.subscriptionStatus, key.originalTransactionId, in: scope)
        // If the job cannot be stored, the question is asked later, at the end of the subscription's period.
        try? await ledger.add(Job(id, dueAt: now().advanced(by: Self.pause)), at: now())
    }

    /// Those of the given chains that are subscriptions without renewal info in the ledger.
    func unknownRenewals(of chains: Set<ChainKey>) async throws -> Set<ChainKey> {
        let catalogue = ledger.rules.catalogue(scope)
        let known = try await ledger.chains(chains).values
        return Set(known.filter { $0.renewal == nil && $0.subscription(catalogue, at: now()) != nil }.map(\.key))
    }
}
