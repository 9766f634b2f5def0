// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A request of the Advanced Commerce API that an app passes to StoreKit. The app's server signs the request.
public enum AdvancedCommerceInAppRequest: Hashable, Sendable {
    /// A one-time purchase.
    case createOneTimeCharge(AdvancedCommerceOneTimeChargeCreateRequest)
    /// A new subscription.
    case createSubscription(AdvancedCommerceSubscriptionCreateRequest)
    /// A change of a subscription.
    case modifySubscription(AdvancedCommerceSubscriptionModifyInAppRequest)
    /// A request to turn auto-renewal of a subscription on again.
    case reactivateSubscription(AdvancedCommerceSubscriptionReactivateInAppRequest)

    /// The value of `operation`.
    private enum Operation: String, CaseIterable {
        case createOneTimeCharge = "CREATE_ONE_TIME_CHARGE"
        case createSubscription = "CREATE_SUBSCRIPTION"
        case modifySubscription = "MODIFY_SUBSCRIPTION"
        case reactivateSubscription = "REACTIVATE_SUBSCRIPTION"
    }

    /// Decodes a request by its `operation`. Unknown members are kept and signed.
    ///
    /// - Throws: ``SigningError`` if the operation is unknown, or a member is missing or has the wrong type.
    public init(_ json: JSONValue) throws(SigningError) {
        try SigningError.require(json["operation"]?.string, "operation")
        guard let operation = json["operation"]?.string.flatMap(Operation.init) else {
            let known = Operation.allCases.map(\.rawValue).joined(separator: ", ")
            throw SigningError(.unknownOperation, "operation", "Expected one of \(known).")
        }
        do {
            self =
                switch operation {
                case .createOneTimeCharge: .createOneTimeCharge(try json.decode(Charge.self))
                case .createSubscription: .createSubscription(try json.decode(Creation.self))
                case .modifySubscription: .modifySubscription(try json.decode(Change.self))
                case .reactivateSubscription: .reactivateSubscription(try json.decode(Reactivation.self))
                }
        } catch {
            let sentence = (error as? DecodingError)?.sentence ?? "\(error)"
            throw SigningError(.invalid, "The request does not fit its operation: \(sentence).")
        }
    }

    private typealias Charge = AdvancedCommerceOneTimeChargeCreateRequest
    private typealias Creation = AdvancedCommerceSubscriptionCreateRequest
    private typealias Change = AdvancedCommerceSubscriptionModifyInAppRequest
    private typealias Reactivation = AdvancedCommerceSubscriptionReactivateInAppRequest

    /// The JSON to sign.
    ///
    /// - Throws: ``SigningError`` if the request breaks a documented Apple rule.
    func validJSON() throws(SigningError) -> JSONValue {
        switch self {
        case .createOneTimeCharge(let request):
            try request.check(Operation.createOneTimeCharge.rawValue)
            return try Self.json(request)
        case .createSubscription(let request):
            try request.check(Operation.createSubscription.rawValue)
            return try Self.json(request)
        case .modifySubscription(let request):
            try request.check(Operation.modifySubscription.rawValue)
            return try Self.json(request)
        case .reactivateSubscription(let request):
            try request.check(Operation.reactivateSubscription.rawValue)
            return try Self.json(request)
        }
    }

    private static func json(_ request: some Encodable) throws(SigningError) -> JSONValue {
        do {
            return try JSONValue(encoding: request)
        } catch {
            throw SigningError(.invalid, "The request cannot be written as JSON: \(error)")
        }
    }
}
