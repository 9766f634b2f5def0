// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The endpoints that extend the renewal dates of all subscriptions of a product. A request only plans the extension;
// the world performs it some time later, like the App Store.

extension SimulatedStore {
    /// The most requests that the store keeps, so that clients cannot exhaust the memory. No test needs as many
    /// requests.
    private static let massExtensions = 10_000

    mutating func extendAll(_ call: StoreCall) throws -> StoreResponse {
        let json = try call.json()
        let days = try ExtensionBody.days(json)
        guard let identifier = json["requestIdentifier"]?.string, identifier.isUUID else {
            throw StoreRefusal(.invalidRequestIdentifier)
        }
        let product = try subscriptionProduct(json["productId"]?.string)
        let countries = try Self.countries(json)
        // A repeated request gets the same response, without a second extension.
        if world.massExtensions[identifier] == nil {
            guard world.massExtensions.count < Self.massExtensions else { throw StoreRefusal(.rateLimitExceeded) }
            world.extendAllLater(
                MassExtension(
                    product: product, days: days, environment: call.environment, countries: countries),
                request: identifier)
        }
        var answer = MassExtendRenewalDateResponse()
        answer.requestIdentifier = identifier
        return try StoreResponse(encoding: answer)
    }

    func extensionStatus(_ call: StoreCall) throws -> StoreResponse {
        let product = try subscriptionProduct(call.id)
        let identifier = call.parameters.last ?? ""
        guard identifier.isUUID else { throw StoreRefusal(.invalidRequestIdentifier) }
        guard let request = world.massExtensions[identifier], request.product == product,
            request.environment == call.environment
        else { throw StoreRefusal(.statusRequestNotFound) }
        var answer = MassExtendRenewalDateStatusResponse()
        answer.requestIdentifier = identifier
        answer.complete = request.completeDate != nil
        answer.completeDate = request.completeDate
        answer.succeededCount = request.summary?.succeededCount
        answer.failedCount = request.summary?.failedCount
        return try StoreResponse(encoding: answer)
    }

    private func subscriptionProduct(_ id: String?) throws(StoreRefusal) -> String {
        guard let id, world.catalogue[id]?.plan != nil else { throw StoreRefusal(.invalidProductId) }
        return id
    }

    private static func countries(_ json: JSONValue) throws(StoreRefusal) -> [String]? {
        guard let list = json.member("storefrontCountryCodes") else { return nil }
        guard let codes = list.array else { throw StoreRefusal(.invalidStorefrontCountryCode) }
        guard !codes.isEmpty else { throw StoreRefusal(.invalidEmptyStorefrontCountryCodeList) }
        let countries = codes.compactMap(\.string).filter { code in
            code.utf8.count == 3 && code.utf8.allSatisfy { (0x41...0x5a).contains($0) }
        }
        guard countries.count == codes.count else { throw StoreRefusal(.invalidStorefrontCountryCode) }
        return countries
    }
}
