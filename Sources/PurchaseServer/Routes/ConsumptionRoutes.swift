// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The routes by which a backend supplies what the answers to the App Store's consumption requests need: the consent of
/// customers, and information about purchases.
struct ConsumptionRoutes: Sendable {
    let keyed: KeyedRoutes
    let apps: [String: AppConfiguration]

    /// The longest body, in bytes: all members, several times over.
    private static let bodyLimit = 4096

    func add(to router: Router<BasicRequestContext>) {
        let (path, what): (RouterPath, String) = ("/v1/transactions/{id}/consumption", "A consumption request")
        router.get(path, use: keyed.handler(needs: .server, what) { try await request($0) })
        router.put(
            path,
            use: keyed.handler(needs: .server, what) { request in
                try await request.withBody(upTo: Self.bodyLimit) { try await supply($1, $0) }
            })
        router.put(
            "/v1/customers/{id}/consent",
            use: keyed.handler(needs: .server, "The customer") { request -> ConsentBody? in
                try await request.withBody(upTo: Self.bodyLimit) { try await recordConsent($1, $0) }
            })
    }

    /// A request of the App Store, and what became of it.
    private func request(_ request: KeyedRequest) async throws -> ConsumptionBody? {
        let key = TransactionKey(try request.parameter("id"), in: request.scope)
        return try await request.ledger.consumptionJob(key).flatMap { ConsumptionBody($0) }
    }

    /// Stores what the backend says about a purchase that the App Store asks about.
    private func supply(_ body: [UInt8], _ request: KeyedRequest) async throws -> ConsumptionBody? {
        let key = TransactionKey(try request.parameter("id"), in: request.scope)
        let information = try ConsumptionInformation(parsing: body)
        if let transaction = try await request.ledger.transaction(key) {
            let defaults = apps[key.scope.bundleId]?.consumption[transaction.productId] ?? ConsumptionInformation()
            let fault = information.completed(by: defaults).fault(isSubscription: transaction.isSubscription)
            if let fault { throw Refusal.invalid(fault) }
        }
        if try await request.ledger.supply(information, about: key, at: request.now) == false {
            throw Refusal.consumptionClosed
        }
        return try await self.request(request)
    }

    /// Records that a customer consents, or no longer does.
    private func recordConsent(_ body: [UInt8], _ request: KeyedRequest) async throws -> ConsentBody? {
        let (id, members) = (try request.customerId, try BodyMembers(parsing: body, known: ["customerConsented"]))
        guard let isGiven = try members.flag("customerConsented") else {
            throw Refusal.invalid("customerConsented is missing.")
        }
        return ConsentBody(
            id, since: try await request.ledger.recordConsent(isGiven, of: id, in: request.scope, at: request.now))
    }
}

extension ConsumptionInformation {
    fileprivate init(parsing body: [UInt8]) throws(Refusal) {
        let members = try BodyMembers(
            parsing: body,
            known: [
                "customerConsented", "deliveryStatus", "sampleContentProvided", "consumptionPercentage",
                "refundPreference",
            ])
        self.init()
        customerConsented = try members.flag("customerConsented")
        deliveryStatus = try members.word("deliveryStatus", of: DeliveryStatus.self)
        sampleContentProvided = try members.flag("sampleContentProvided")
        // A number out of range is refused with the others that Apple would refuse.
        consumptionPercentage = members.json["consumptionPercentage"].map { Int($0.integer ?? -1) }
        refundPreference = try members.word("refundPreference", of: RefundPreference.self)
    }
}

extension Refusal {
    fileprivate static let consumptionClosed = Refusal(
        status: .conflict, code: "consumptionClosed",
        message: "The consumption request was answered, or Apple waits for its answer no longer.")
}
