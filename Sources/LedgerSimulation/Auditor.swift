// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger

/// Checks a ledger in a simulation. The auditor reads every sale in the simulated App Store itself, not in the
/// documents signed by the store, and derives each customer's entitlements from the sales. It uses none of the ledger's
/// rules, so an error in a rule shows as a difference.
struct Auditor {
    /// The names of a customer's entitlements at the present time of a world.
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

    /// The entitlements of all customers, by the customer's name.
    static func entitlements(in world: World) -> [String: Set<String>] {
        world.customers.mapValues { entitlements(of: $0.name, in: world) }
    }

    /// The first contradiction in the events of an app; `nil` if there is none.
    ///
    /// The events of a chain (a subscription or another purchase) must follow from one another: each event begins with
    /// the state in which the previous event ended. But several events of the same change have the same `before` state
    /// and the same `after` state. The last event of a chain must end with the state in the chain's report.
    static func contradiction(in events: [LedgerEvent], _ chains: [ChainKey: ChainRecord]) -> String? {
        var last: [ChainKey: (event: LedgerEvent, content: EventContent)] = [:]
        for event in events {
            guard let content = event.content else { return "The body of an event cannot be read: \(event)" }
            guard content.after != nil, let id = event.originalTransactionId else { continue }
            let key = ChainKey(id, in: event.scope)
            if let before = content.before, let known = last[key], before != known.content.after,
                before != known.content.before || content.after != known.content.after
            {
                return
                    "The event \(event.kind.rawValue) of \(id) at \(event.recordedAt.iso8601) begins with \(before), "
                    + "but \(known.event.kind.rawValue) ended otherwise"
            }
            last[key] = (event, content)
        }
        for (key, record) in chains {
            guard let published = record.report?.state, last[key]?.content.after != published else { continue }
            let told = last[key]?.content.after.map { "\($0)" } ?? "nothing"
            return "The events of \(key.originalTransactionId) end with \(told), the state is \(published)"
        }
        return nil
    }

    /// The first fault in the answers to the App Store's consumption requests; `nil` if there is none.
    ///
    /// - Parameters:
    ///   - questions: The ledger's record of the last request about each transaction, by transaction id.
    ///   - accepted: The times at which the App Store accepted an answer, by transaction id.
    ///   - refused: The transactions about which the App Store itself refused an answer.
    ///   - consenting: The names of the customers who consent.
    ///   - unheard: The names of customers with notifications that the ledger has perhaps not received yet.
    ///   - isExact: Whether the simulation had no faults. Then the server must send no answer twice, and must miss no
    ///     request.
    static func fault(
        in questions: [String: ConsumptionQuestion], _ accepted: [String: [Timestamp]], refused: Set<String>,
        consenting: Set<String>, unheard: Set<String>, isExact: Bool, in world: World
    ) -> String? {
        for (id, requests) in consumptionRequests(in: world) {
            let question = questions[id]
            let answers = accepted[id] ?? []
            let customer = requests.first?.customer ?? ""
            let consents = consenting.contains(customer)
            if !consents, !answers.isEmpty { return "\(id) was answered without consent" }
            for (index, request) in requests.enumerated() where isExact {
                let next = requests.dropFirst(index + 1).first
                let count = answers.count { date in request.first <= date && next.map { date < $0.first } ?? true }
                guard count > 1 else { continue }
                return "The request about \(id) of \(request.first.iso8601) was answered \(count) times"
            }
            guard let request = requests.last, !unheard.contains(customer) else { continue }
            let isAnswered = answers.contains { request.first <= $0 }
            // A notification arrives up to an hour late, and the ledger keeps outcomes for 30 days.
            let age = world.now.milliseconds - request.first.milliseconds
            let isOver = world.now >= request.last.advanced(by: timeout(of: request) + .seconds(3600))
            guard isOver, age < 29 * 86_400_000 else { continue }
            switch question?.state {
            case .answered where isAnswered: break
            case .refused where refused.contains(id): break
            case .missed where !isExact || !consents || request.environment == .sandbox: break
            case let state:
                return "The request about \(id) of \(request.first.iso8601) is \(state.map { "\($0)" } ?? "lost")"
            }
        }
        return nil
    }

    /// The time for which Apple waits for an answer.
    private static func timeout(of request: Request) -> Duration {
        .seconds(request.environment == .sandbox ? 300 : 43_200)
    }

    /// A request for consumption information, with its repetitions.
    struct Request {
        var customer: String?
        var environment: Environment
        /// The times of the first and of the last request.
        var first, last: Timestamp
    }

    /// The consumption requests about each transaction, oldest first, by transaction id. A consumption request counts
    /// as a new request, and not as a repetition, after a decision about the refund, or a day after the first
    /// notification of the old request.
    static func consumptionRequests(in world: World) -> [String: [Request]] {
        var requests: [String: [Request]] = [:]
        var open: [String: Request] = [:]
        for occurrence in world.occurrences {
            guard let id = occurrence.transaction?.transactionId else { continue }
            switch occurrence.topic.type {
            case .refund, .refundDeclined, .refundReversed: open[id] = nil
            case .consumptionRequest:
                if let known = open[id], occurrence.date.milliseconds - known.first.milliseconds < 86_400_000 {
                    requests[id]?.removeLast()
                    open[id]?.last = occurrence.date
                } else {
                    open[id] = Request(
                        customer: occurrence.customer, environment: occurrence.environment, first: occurrence.date,
                        last: occurrence.date)
                }
                if let request = open[id] { requests[id, default: []].append(request) }
            default: break
            }
        }
        return requests
    }

    /// The names of customers with notifications that the ledger perhaps lacks. If a notification is sent late and
    /// lost, the ledger learns of it only when the server reads the last days of the notification history again: within
    /// a day after the first attempt.
    ///
    /// - Parameter late: The numbers of the notifications that the App Store did not send at once.
    static func unheard(in outbox: Outbox, _ late: Set<Int>, at now: Timestamp) -> Set<String> {
        let customers = outbox.entries.lazy.filter { entry in
            guard late.contains(entry.number) else { return false }
            guard let first = entry.attempts.first?.attemptDate else { return true }
            return first.duration(to: now) < maxLateness
        }.compactMap(\.customer)
        return Set(customers)
    }

    /// The longest time for which a late notification may stay unknown after its first attempt: a day and six hours.
    /// Within a day, the server reads the last days of the history again. Six hours are added because the server works
    /// only every three hours, and its request may get a false answer.
    private static let maxLateness = Duration.seconds(30 * 3600)
}
