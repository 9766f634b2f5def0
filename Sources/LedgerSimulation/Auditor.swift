// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger

/// Knows what was sold, and therefore what each customer is entitled to. It shares no rule with the ledger: it looks at
/// the state of the simulated App Store itself, not at what that signed.
struct Auditor {
    /// What a customer is entitled to at a world's present time: names of entitlements.
    static func entitlements(of name: String, in world: World) -> Set<String> {
        var names: Set<String> = []
        for id in world.subscriptions(of: name) {
            guard let chain = world.subscriptions[id] else { continue }
            if chain.state == .active || chain.isInGrace { names.insert(SimulatedLife.subscription) }
        }
        for id in world.customers[name]?.purchases ?? [] {
            guard let purchase = world.purchases[id], purchase.revocationDate == nil else { continue }
            switch purchase.productId {
            case SimulatedLife.book: names.insert(SimulatedLife.book)
            case SimulatedLife.season:
                let end = (purchase.purchaseDate?.milliseconds ?? 0) + SimulatedLife.seasonDays * 86_400_000
                if world.now.milliseconds < end { names.insert(SimulatedLife.season) }
            default: break
            }
        }
        return names
    }

    /// What all customers are entitled to, by name.
    static func entitlements(in world: World) -> [String: Set<String>] {
        world.customers.mapValues { entitlements(of: $0.name, in: world) }
    }

    /// The first contradiction in the events of an app; `nil` if there is none.
    ///
    /// Each event must begin with the state with which the one before it ended, unless both are parts of one change:
    /// then they begin and end alike. The last one must end with the state of the answer.
    static func contradiction(in events: [LedgerEvent], _ chains: [ChainKey: ChainRecord]) -> String? {
        var last: [ChainKey: LedgerEvent] = [:]
        for event in events where event.after != nil {
            guard let id = event.originalTransactionId else { continue }
            let key = ChainKey(id, in: event.scope)
            if let before = event.before, let known = last[key], before != known.after,
                before != known.before || event.after != known.after
            {
                return
                    "The event \(event.kind.rawValue) of \(id) at \(event.recordedAt.iso8601) begins with \(before), "
                    + "but \(known.kind.rawValue) ended otherwise"
            }
            last[key] = event
        }
        for (key, record) in chains {
            guard let published = record.report?.state, last[key]?.after != published else { continue }
            let told = last[key]?.after.map { "\($0)" } ?? "nothing"
            return "The events of \(key.originalTransactionId) end with \(told), the state is \(published)"
        }
        return nil
    }

    /// What is wrong about the answers to the App Store's consumption requests; `nil` if nothing is.
    ///
    /// - Parameters:
    ///   - questions: What the ledger says about each request, by transaction id.
    ///   - accepted: How often the App Store accepted an answer, by transaction id.
    ///   - consenting: The customers who consent.
    ///   - isExact: Whether no worker was stopped, so that nothing was sent twice and nothing was missed.
    static func fault(
        in questions: [String: ConsumptionQuestion], _ accepted: [String: Int], consenting: Set<String>,
        isExact: Bool, in world: World
    ) -> String? {
        for (id, requests) in consumptionRequests(in: world) {
            guard let first = requests.first, let last = requests.last else { continue }
            let (question, count) = (questions[id], accepted[id] ?? 0)
            let consents = consenting.contains(first.customer ?? "")
            if !consents, count > 0 { return "\(id) was answered without consent" }
            if isExact, count > 1 { return "\(id) was answered \(count) times" }
            if question?.state == .answered, count == 0 { return "\(id) counts as answered, and is not" }
            // Notices take up to an hour to arrive, and outcomes are kept for 30 days.
            let age = world.now.milliseconds - first.date.milliseconds
            let isOver = world.now >= last.date.advanced(by: patience(of: last) + .seconds(3600))
            guard isOver, age < 29 * 86_400_000 else { continue }
            switch question?.state {
            case .answered, .refused: break
            case .missed where !isExact || !consents || first.environment == .sandbox: break
            case let state:
                return "The request about \(id) of \(first.date.iso8601) is \(state.map { "\($0)" } ?? "lost")"
            }
        }
        return nil
    }

    /// How long Apple waits for an answer.
    private static func patience(of request: Occurrence) -> Duration {
        .seconds(request.environment == .sandbox ? 300 : 43_200)
    }

    /// The consumption requests about each transaction, in their order.
    static func consumptionRequests(in world: World) -> [String: [Occurrence]] {
        let requests = world.occurrences.filter { $0.notice.type == .consumptionRequest }
        return Dictionary(grouping: requests) { $0.transaction?.transactionId ?? "" }
    }
}
