// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The routes by which a backend supplies the content of answers to the App Store's consumption requests: the consent
/// of customers, and information about purchases.
struct ConsumptionRoutes: Sendable {
    let authentication: Authentication
    let apps: [String: AppConfiguration]

    /// The maximum length of a body in bytes: several times the length of all members.
    private static let bodyLimit = 4096

    private static let consent = APIBody(["customerConsented"], upTo: bodyLimit)

    private static let information = APIBody(
        consent.members + ["deliveryStatus", "sampleContentProvided", "consumptionPercentage", "refundPreference"],
        upTo: bodyLimit)

    var routes: [APIRoute] {
        let path = "/v1/transactions/{id}/consumption"
        let unknown = "A consumption request"
        return [
            authentication.route(
                .get, path, "returns a consumption request about the transaction, and what became of it",
                role: .server, parameters: [.transaction, .environment], unknown: unknown
            ) { try await Answer(request($0)) },
            authentication.route(
                .put, path, "says what the answer to the consumption request is to say", role: .server,
                parameters: [.transaction, .environment], body: Self.information, unknown: unknown,
                errors: [.consumptionClosed]
            ) { request in try await request.withBody { try await Answer(supply($1, $0)) } },
            authentication.route(
                .put, "/v1/customers/{id}/consent", "records whether the customer consents to such answers",
                role: .server, parameters: [.customer, .environment], body: Self.consent
            ) { request in try await request.withBody { try await Answer(recordConsent($1, $0)) } },
        ]
    }

    /// The App Store's consumption request about a transaction, and its outcome.
    private func request(_ request: AuthenticatedRequest) async throws -> ConsumptionBody? {
        let key = TransactionKey(try request.parameter("id"), in: request.scope)
        return try await request.ledger.consumptionJob(key).flatMap { ConsumptionBody($0) }
    }

    /// Stores the backend's information about a purchase for the App Store's request.
    private func supply(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> ConsumptionBody? {
        let key = TransactionKey(try request.parameter("id"), in: request.scope)
        let information = try ConsumptionInformation(BodyMembers(parsing: body, known: Self.information))
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
    private func recordConsent(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> ConsentBody {
        let id = try request.customerId
        let members = try BodyMembers(parsing: body, known: Self.consent)
        guard let isGiven = try members.flag("customerConsented") else {
            throw Refusal.invalid("customerConsented is missing.")
        }
        let time = try await request.ledger.recordConsent(isGiven, of: id, in: request.scope, at: request.now)
        return ConsentBody(id: id, consentedAt: Nullable(wrappedValue: time))
    }
}

extension ConsumptionInformation {
    fileprivate init(_ members: BodyMembers) throws(Refusal) {
        self.init()
        customerConsented = try members.flag("customerConsented")
        deliveryStatus = try members.word("deliveryStatus", of: DeliveryStatus.self)
        sampleContentProvided = try members.flag("sampleContentProvided")
        // A value that is no whole number becomes -1. A later check refuses -1, as it refuses all values that Apple
        // would refuse.
        consumptionPercentage = members.json["consumptionPercentage"].map { Int($0.integer ?? -1) }
        refundPreference = try members.word("refundPreference", of: RefundPreference.self)
    }
}

extension Refusal {
    fileprivate static let consumptionClosed = Refusal(
        .consumptionClosed, "The consumption request was answered, or Apple waits for its answer no longer.")
}
