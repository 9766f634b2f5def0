// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// All subscriptions of a customer with their statuses, and the extension of a subscription.

extension SimulatedStore {
    func statuses(_ call: StoreCall) throws -> StoreResponse {
        let customer = try customer(ofAny: call.id, in: call.environment)
        let wanted = call.values("status").map { Int($0).flatMap { SubscriptionStatus(rawValue: $0) } }
        guard !wanted.contains(nil) else { throw StoreRefusal(.invalidStatus) }
        var groups: [SubscriptionGroupIdentifierItem] = []
        for id in customer.subscriptions {
            guard let chain = world.subscriptions[id], let status = world.status(of: id),
                wanted.isEmpty || wanted.contains(status)
            else { continue }
            let group = chain.current.subscriptionGroupIdentifier
            let item = try item(id, chain, status)
            if let index = groups.firstIndex(where: { $0.subscriptionGroupIdentifier == group }) {
                groups[index].lastTransactions?.append(item)
            } else {
                var new = SubscriptionGroupIdentifierItem()
                new.subscriptionGroupIdentifier = group
                new.lastTransactions = [item]
                groups.append(new)
            }
        }
        var answer = StatusResponse()
        answer.environment = Open(call.environment)
        answer.bundleId = world.catalogue.bundleId
        answer.appAppleId = appAppleId(in: call.environment)
        answer.data = groups
        return try StoreResponse(encoding: answer)
    }

    private func item(
        _ id: String, _ chain: SubscriptionChain, _ status: SubscriptionStatus
    ) throws -> LastTransactionsItem {
        var item = LastTransactionsItem()
        item.status = Open(status)
        item.originalTransactionId = id
        item.signedTransactionInfo = try signer.sign(chain.current, at: world.now)
        item.signedRenewalInfo = try signer.sign(chain.renewal, at: world.now)
        return item
    }

    // MARK: - Extension

    /// The longest `requestIdentifier`, in characters: Apple's number.
    private static let identifierLength = 128

    mutating func extend(_ call: StoreCall) throws -> StoreResponse {
        guard call.id.isTransactionId else { throw StoreRefusal(.invalidOriginalTransactionId) }
        let json = try call.json()
        let days = try ExtensionBody.days(json)
        guard let identifier = json["requestIdentifier"]?.string, (1...Self.identifierLength).contains(identifier.count)
        else { throw StoreRefusal(.invalidRequestIdentifier) }
        guard world.customer(ofTransaction: call.id)?.environment == call.environment,
            world.subscriptions[call.id] != nil
        else { throw StoreRefusal(.originalTransactionIdNotFound) }
        let request = ExtensionRequest(originalTransactionId: call.id, requestIdentifier: identifier)
        if let answer = extensions[request] { return try StoreResponse(encoding: answer) }
        if let refusal = world.extensionRefusal(call.id) { throw StoreRefusal(refusal.code) }
        try world.extend(call.id, days: days)
        let answer = answer(toExtensionOf: call.id)
        extensions[request] = answer
        return try StoreResponse(encoding: answer)
    }

    private func answer(toExtensionOf id: String) -> ExtendRenewalDateResponse {
        var answer = ExtendRenewalDateResponse()
        answer.originalTransactionId = id
        answer.webOrderLineItemId = world.subscriptions[id]?.current.webOrderLineItemId
        answer.success = true
        answer.effectiveDate = world.subscriptions[id]?.end
        return answer
    }
}

/// The members that are in the request bodies of both extensions: of a single subscription, and of all subscriptions of
/// a product.
enum ExtensionBody {
    /// The number of days by which to extend. Also checks the reason, which has no effect.
    static func days(_ json: JSONValue) throws(StoreRefusal) -> Int {
        let days = try json.number("extendByDays", in: 1...90, else: .invalidExtendByDays)
        _ = try json.number("extendReasonCode", in: 0...3, else: .invalidExtendReasonCode)
        return days
    }
}

extension World.ExtensionRefusal {
    fileprivate var code: APIErrorCode {
        switch self {
        case .ineligible: .subscriptionExtensionIneligible
        case .tooOften: .subscriptionMaxExtension
        case .familyShared: .familySharedSubscriptionExtensionIneligible
        }
    }
}
