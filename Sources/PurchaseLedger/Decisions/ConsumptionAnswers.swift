// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// An app's contributions to answers of consumption requests: the consent of customers, and information about purchases.

extension Ledger {
    /// The job about refunds of a transaction: to answer a consumption request, or only to note a decision of the App
    /// Store (`RefundNote`). `nil` if the ledger recorded neither in the last 30 days.
    public func consumptionJob(_ key: TransactionKey) async throws -> Job? {
        try await job(Job.ID(.consumption, key.transactionId, in: key.scope))
    }

    /// Stores the app's information about a purchase after a consumption request. The new information replaces earlier
    /// information, and the answer is due at once.
    ///
    /// If an answer is being sent at this moment, a further answer with the new information follows.
    ///
    /// - Returns: True if the information was stored. False if the App Store has accepted an answer, or the deadline
    ///   has passed. `nil` if the App Store has not asked about the transaction lately.
    public func supply(
        _ information: ConsumptionInformation, about key: TransactionKey, at now: Timestamp
    ) async throws -> Bool? {
        let id = Job.ID(.consumption, key.transactionId, in: key.scope)
        return try await commit(LedgerQuery([.record(id.key)]), at: now) { draft in
            guard let job = draft.job(id), var question = ConsumptionQuestion(job) else { return nil }
            guard question.isOpen(in: key.scope.environment, at: now) else { return false }
            question.state = .waiting
            question.information = information
            draft.put(Job(id, dueAt: now, attempts: job.attempts)) { [question] in try question.payload }
            return true
        }
    }

    /// Records whether a customer consents to sending consumption information to Apple. From then on the customer
    /// exists in its own right; see ``CustomerRecord/isEstablished``. An unknown id makes a new customer.
    ///
    /// - Returns: The time since which the customer consents; `nil` without consent.
    public func recordConsent(
        _ isGiven: Bool, of id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Timestamp? {
        let id = CustomerID(id, of: scope.bundleId)
        return try await commit(LedgerQuery([.customerID(id)]), at: now) { draft in
            guard let customer = draft.findOrAddCustomer(id) else { return nil }
            draft.establish(customer)
            guard var record = draft.customer(customer) else { return nil }
            let consentedAt = isGiven ? record.consentedAt ?? now : nil
            if consentedAt != record.consentedAt {
                draft.append(.consentChanged, about: customer, in: scope) { $0.consentedAt = consentedAt }
            }
            record.consentedAt = consentedAt
            draft.put(record)
            return consentedAt
        }
    }

    /// A transaction, and whether all its owners consent to sending information about it to Apple. Without an owner
    /// there is no consent.
    ///
    /// - Returns: `nil` if the transaction is unknown.
    public func consent(
        about key: TransactionKey
    ) async throws -> (transaction: TransactionStatement, isGiven: Bool)? {
        guard !ChainName.isAppPurchase(key.transactionId) else { return nil }
        let snapshot = try await storage.load(LedgerQuery([.transaction(key)], owners: true))
        guard let record = snapshot.transactions[key].flatMap({ snapshot.chains[$0] }),
            let statement = record.chain.transactions[key.transactionId].flatMap(record.chain.current)
        else { return nil }
        let owners = record.owners.map { snapshot.customers[$0.customer] }
        return (statement, !owners.isEmpty && owners.allSatisfy { $0?.consentedAt != nil })
    }
}
