// SPDX-License-Identifier: Apache-2.0

// The purchases of an app with StoreKit 2 and a Quittance server, in one file to copy: docs/your-app.md explains it.
// The project compiles and tests it on Linux against the stand-ins in Checks. Nobody has run it on a device yet.

import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
#if canImport(StoreKit)
import StoreKit
#endif

/// The purchases of the signed-in customer. Make one when a customer signs in, and call `start` at once.
actor Purchases {
    struct Settings: Sendable {
        /// The server's address, and a client key of the app.
        var server: URL
        var clientKey: String
        /// The customer's id: a UUID that your backend made for the account. Each purchase carries it.
        var customer: UUID
        /// Asks your backend for a new customer token of the signed-in account.
        var newToken: @Sendable () async throws -> String
        /// The entitlements of each product, as in the server's configuration, for a time without the server.
        var products: [String: Set<String>]
        var perform: @Sendable (URLRequest) async throws -> (Data, URLResponse) = {
            try await URLSession.shared.data(for: $0)
        }
    }

    enum Outcome: Equatable, Sendable {
        case recorded
        /// The server has the purchase, and it stays with another customer of your app: offer to sign in as that one.
        case ofOtherCustomer
        /// A parent must approve, or the server is away. The purchase is sent as soon as both are there.
        case waiting
        case cancelled
        /// Report the code. The purchase stays unfinished, so that it is sent again at the next launch.
        case refused(code: String)
    }

    private let settings: Settings
    private var listener: Task<Void, Never>?
    private var token: String?
    private var known: (names: Set<String>, askedAt: Date, holds: TimeInterval)?
    /// Whether a purchase may have changed what is known.
    private var mustAsk = false

    init(_ settings: Settings) { self.settings = settings }

    /// Listens for purchases without a tap in your app, such as renewals, approvals and those of other devices, and
    /// submits what the device has.
    func start() async {
        listener = listener ?? Task { for await result in Transaction.updates { await submit(result) } }
        await sendAgain()
        for await result in Transaction.currentEntitlements { await submit(result) }
    }

    /// Call it when the customer signs out.
    func stop() { listener?.cancel() }

    /// Call it when your app comes to the front, and when the network is back.
    func sendAgain() async {
        for await result in Transaction.unfinished { await submit(result) }
    }

    func buy(_ product: Product) async throws -> Outcome {
        switch try await product.purchase(options: [.appAccountToken(settings.customer)]) {
        case .success(let result): await submit(result)
        case .userCancelled: .cancelled
        default: .waiting
        }
    }

    /// For a button “Restore Purchases”, and for nothing else.
    func restore() async throws -> [Outcome] {
        try await AppStore.sync()
        var outcomes: [Outcome] = []
        for await result in Transaction.currentEntitlements { outcomes.append(await submit(result)) }
        return outcomes
    }

    /// Whether the customer may use what the entitlement unlocks.
    func has(_ entitlement: String) async -> Bool {
        let minutes = 5.0 * 60, days = 3.0 * 86_400
        let isOld = mustAsk || !isKnown(for: minutes)
        if isOld, case .answer(let customer, let date) = await send(nil, as: Customer.self) { keep(customer, date) }
        let isThere = known?.names.contains(entitlement) == true
        if !mustAsk, isKnown(for: minutes) { return isThere }
        // The server is away: what it said within three days counts, and what the device has.
        if isThere, isKnown(for: days) { return true }
        for await case .verified(let transaction) in Transaction.currentEntitlements
        where settings.products[transaction.productID]?.contains(entitlement) == true {
            return true
        }
        return false
    }

    /// Sends a purchase, and finishes it once the server has it: StoreKit keeps an unfinished purchase for you.
    @discardableResult private func submit(_ result: VerificationResult<Transaction>) async -> Outcome {
        switch await send(["document": result.jwsRepresentation], as: Submission.self) {
        case .answer(let answer, let date):
            await result.unsafePayloadValue.finish()
            keep(answer.customer, date)
            return answer.keptByOthers.isEmpty ? .recorded : .ofOtherCustomer
        case .refused(let code):
            return .refused(code: code)
        case .away:
            mustAsk = true
            return .waiting
        }
    }

    /// Sends a request about the customer. If the token has expired, it gets a new one, once.
    private func send<Answer>(_ body: [String: String]?, as answer: Answer.Type) async -> Reply<Answer> {
        let path = "v1/customers/\(settings.customer.uuidString)" + (body == nil ? "" : "/purchases")
        var request = URLRequest(url: settings.server.appending(path: path))
        request.httpMethod = body == nil ? "GET" : "POST"
        request.setValue("Bearer \(settings.clientKey)", forHTTPHeaderField: "Authorization")
        for isSecond in [false, true] {
            do {
                if token == nil || isSecond { token = try await settings.newToken() }
                request.setValue(token, forHTTPHeaderField: "Quittance-Customer-Token")
                request.httpBody = try body.map { try JSONEncoder().encode($0) }
                let askedAt = Date()
                let (data, response) = try await settings.perform(request)
                if (response as? HTTPURLResponse)?.statusCode == 200 {
                    return .answer(try JSONDecoder().decode(answer, from: data), askedAt)
                }
                let error = try JSONDecoder().decode(Refusal.self, from: data).error
                if error.code == "customerTokenInvalid", !isSecond { continue }
                return error.retryable ? .away : .refused(code: error.code)
            } catch {
                return .away  // no network, no token, or the answer of a proxy
            }
        }
        return .away
    }

    private func keep(_ customer: Customer, _ askedAt: Date) {
        let holds = customer.nextChange.map { Double($0 - customer.asOf) / 1000 } ?? .infinity
        known = (Set(customer.entitlements.map(\.name)), askedAt, holds)
        mustAsk = false
    }

    /// Whether the last answer is so young, and may not have changed since.
    private func isKnown(for seconds: TimeInterval) -> Bool {
        guard let known else { return false }
        return (0...min(seconds, known.holds)).contains(Date().timeIntervalSince(known.askedAt))
    }

    private enum Reply<Answer: Decodable> { case answer(Answer, Date), refused(code: String), away }

    private struct Submission: Decodable {
        var customer: Customer
        var keptByOthers: [String]
    }

    private struct Customer: Decodable {
        struct Entitlement: Decodable { var name: String }
        var asOf: Int64
        var nextChange: Int64?
        var entitlements: [Entitlement]
    }

    private struct Refusal: Decodable {
        struct Content: Decodable {
            var code: String
            var retryable: Bool
        }
        var error: Content
    }
}
