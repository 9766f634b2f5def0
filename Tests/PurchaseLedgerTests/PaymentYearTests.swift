// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests that the events about payments have everything that a simulated App Store charged, refunded and reversed.
@Suite struct PaymentYearTests {
    @Test(arguments: Seeds.first(3, soak: 30))
    func `the payments in events are what the App Store charged and did not refund`(seed: UInt64) async throws {
        var year = try RandomYear(seed: seed, customers: 30)
        try await year.run(steps: 400)
        try await year.expectEqualSums()
    }

    /// With `QUITTANCE_SOAK` of 300 customers.
    @Test(.takesLong) func `also those of many customers, with each kind of event`() async throws {
        var year = try RandomYear(seed: 7, customers: Seeds.isSoak ? 300 : 80)
        try await year.run(steps: Seeds.isSoak ? 6000 : 1600)
        let found = try await year.expectEqualSums()
        let kinds = LedgerEvent.Kind.allCases.filter(\.isAboutPayment)
        #expect(Set(found.compactMap(\.kind.known)) == Set(kinds))
        let details = found.compactMap(\.content?.details)
        #expect(details.contains { $0.repeated == true } && details.contains { $0.backfilled == true })
        #expect(details.contains { $0.isTrialConversion == true })
    }
}

extension RandomYear {
    // MARK: - Sums

    /// What was paid and what was refunded, in thousandths, by environment and currency.
    fileprivate struct Sums: Equatable {
        var paid: [String: Int64] = [:]
        var refunded: [String: Int64] = [:]

        mutating func add(_ price: Int64, _ key: String, refunded percentage: Int?) {
            paid[key, default: 0] += price
            refunded[key, default: 0] += price * Int64(percentage ?? 0) / 100_000
        }
    }

    /// The last that events say of a payment.
    fileprivate struct Payment {
        var price: Int64
        var key: String
        var refunded: Int?
    }

    /// Expects that the events have the sums of the App Store, and each of its transactions once.
    ///
    /// - Returns: The events about payments.
    @discardableResult
    fileprivate func expectEqualSums() async throws -> [LedgerEvent] {
        var expected = Sums()
        var ids: Set<String> = []
        for transaction in names.flatMap({ transactions(of: $0) }) {
            ids.insert("\(transaction.environment?.rawValue ?? "") \(transaction.transactionId ?? "")")
            guard let price = transaction.price, let currency = transaction.currency else { continue }
            let refunded = transaction.revocationDate.map { _ in transaction.revocationPercentage ?? 100_000 }
            expected.add(price, "\(transaction.environment?.rawValue ?? "") \(currency)", refunded: refunded)
        }
        let events = try await payments()
        var found = Sums()
        for payment in Self.payments(events).values {
            found.add(payment.price, payment.key, refunded: payment.refunded)
        }
        #expect(found == expected && !expected.paid.isEmpty)
        let recorded = events.filter { $0.kind == .transactionRecorded && $0.content?.details?.repeated != true }
            .map { "\($0.scope.environment.rawValue) \($0.content?.transactionId ?? "")" }
        #expect(recorded.count == Set(recorded).count && Set(recorded) == ids)
        return events
    }

    private func payments() async throws -> [LedgerEvent] {
        var found: [LedgerEvent] = []
        var cursor: EventCursor?
        while true {
            let page = try await ledger.events(of: Self.scope.bundleId, after: cursor, limit: 10_000)
            guard !page.events.isEmpty else { return found }
            found += page.events.filter { $0.kind.known?.isAboutPayment == true }
            cursor = page.next
        }
    }

    /// The payments as docs/events.md says how to count them: of each transaction the last event counts, and an event
    /// without a price leaves the price as it is.
    private static func payments(_ events: [LedgerEvent]) -> [String: Payment] {
        var payments: [String: Payment] = [:]
        for event in events {
            guard let content = event.content, let id = content.transactionId, let details = content.details else {
                continue
            }
            let environment = event.scope.environment.rawValue
            let known = payments["\(environment) \(id)"]
            guard let price = details.price ?? known?.price,
                let key = details.currency.map({ "\(environment) \($0)" }) ?? known?.key
            else { continue }
            let isRefunded = details.revocationDate != nil && details.inAppOwnershipType != .familyShared
            payments["\(environment) \(id)"] = Payment(
                price: price, key: key, refunded: isRefunded ? details.revocationPercentage ?? 100_000 : nil)
        }
        return payments
    }
}
