// SPDX-License-Identifier: Apache-2.0

// The content of answers to the App Store's consumption requests, from a backend.

import AppStoreModel
import HTTPTypes
import PurchaseLedger

private let path = "/v1/transactions/{id}/consumption"
private let unknown = "A consumption request"

package enum GetConsumption: NamedOperation {
    package static let operation = Operation(
        .get, path, "returns a consumption request about the transaction, and what became of it",
        command: "app-store consumption", roles: .readers, [.transaction, .environment], unknown: unknown
    ) { try await Answer($0.consumption()) }
}

package enum SupplyConsumption: NamedOperation {
    private static let consented = Field(
        "customerConsented", "whether the customer consents to answers about consumption", .flag)
    private static let delivery = Field(
        "deliveryStatus", "Apple's word for how the delivery went", .word(DeliveryStatus.allCases.map(\.rawValue)))
    private static let sample = Field("sampleContentProvided", "whether there was a sample before the purchase", .flag)
    private static let percentage = Field(
        "consumptionPercentage", "how much of the purchase was used, in thousandths of a percent", .number(0...100_000))
    private static let preference = Field(
        "refundPreference", "Apple's word for your wish about the refund",
        .word(RefundPreference.allCases.map(\.rawValue)))

    package static let operation = Operation(
        .put, path, "supplies the content of the answer to a consumption request", command: "app-store consume",
        [.transaction, .environment, consented, delivery, sample, percentage, preference],
        unknown: unknown, errors: [.consumptionClosed]
    ) { request in
        let key = TransactionKey(request.text(.transaction), in: request.scope)
        let information = information(request)
        if let transaction = try await request.ledger.transaction(key) {
            let defaults = request.service.app(key.scope.bundleId).consumption[exactly: transaction.productId]
            let fault = information.completed(by: defaults ?? ConsumptionInformation())
                .fault(isSubscription: transaction.isSubscription)
            if let fault { throw Refusal.invalid(fault) }
        }
        guard try await request.ledger.supply(information, about: key, at: request.now) != false else {
            throw Refusal(
                .consumptionClosed, "The consumption request was answered, or Apple waits for its answer no longer.")
        }
        return try await Answer(request.consumption())
    }

    private static func information(_ request: AuthenticatedRequest) -> ConsumptionInformation {
        var information = ConsumptionInformation()
        information.customerConsented = request[consented]?.bool
        information.deliveryStatus = request.word(delivery, DeliveryStatus.self)
        information.sampleContentProvided = request[sample]?.bool
        information.consumptionPercentage = request[percentage]?.integer.map(Int.init)
        information.refundPreference = request.word(preference, RefundPreference.self)
        return information
    }
}

extension AuthenticatedRequest {
    /// The App Store's consumption request about a transaction, and its outcome.
    fileprivate func consumption() async throws -> ConsumptionBody? {
        let key = TransactionKey(text(.transaction), in: scope)
        return try await ledger.consumptionJob(key).flatMap { ConsumptionBody($0) }
    }
}
