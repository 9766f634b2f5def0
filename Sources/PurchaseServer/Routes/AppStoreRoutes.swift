// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import HTTPTypes
import Hummingbird
import PurchaseLedger
import Reconciliation

/// The routes by which a backend has the App Store do or tell something about a customer.
struct AppStoreRoutes: Sendable {
    let keyed: KeyedRoutes

    /// The longest body, in bytes: an extension in all storefronts, written generously.
    private static let bodyLimit = 16 << 10

    /// The longest time of a request to the App Store. The whole request has three times as long.
    private static let limit = Duration.seconds(20)

    func add(to router: Router<BasicRequestContext>) {
        router.get("/v1/orders/{id}", use: keyed.handler(needs: .server, "The order") { try await order($0) })
        router.get(
            "/v1/transactions/{id}/refunds",
            use: keyed.handler(needs: .server, "The transaction") { try await refunds($0) })
        router.put(
            "/v1/transactions/{id}/app-account-token", use: handler { try await setAppAccountToken($1, $0) })
        router.post("/v1/subscriptions/{id}/extension", use: handler { try await extend($1, $0) })
        router.post("/v1/extensions", use: handler { try await extendAll($1, $0) })
        router.get(
            "/v1/extensions/{productId}/{requestIdentifier}",
            use: keyed.handler(needs: .server, "The extension") { try await extensionStatus($0) })
    }

    private func handler<Answer: Encodable & Sendable>(
        _ answer: @escaping @Sendable (KeyedRequest, [UInt8]) async throws -> Answer
    ) -> @Sendable (Request, BasicRequestContext) async throws -> Response {
        keyed.handler(needs: .server) { request in
            try await request.withBody(upTo: Self.bodyLimit) { request, body in
                do {
                    return try Response(await answer(request, body))
                } catch let error as HistoryQuestionError {
                    throw Refusal.invalid(error.description)
                }
            }
        }
    }

    // MARK: - Questions

    private func order(_ request: KeyedRequest) async throws -> FoundTransactionsBody? {
        let reconciler = try request.reconciler()
        guard let found = try await reconciler.lookUpOrder(request.parameter("id"), within: Self.limit) else {
            return nil
        }
        return try await FoundTransactionsBody(found, in: reconciler)
    }

    private func refunds(_ request: KeyedRequest) async throws -> FoundTransactionsBody? {
        let reconciler = try request.reconciler()
        do {
            let found = try await reconciler.refunds(of: request.parameter("id"), within: Self.limit)
            return try await FoundTransactionsBody(found, in: reconciler)
        } catch is UnfinishedRefunds {
            throw Refusal.unfinished
        }
    }

    private func extensionStatus(_ request: KeyedRequest) async throws -> MassExtendRenewalDateStatusResponse? {
        try await request.reconciler().extensionStatus(
            of: request.parameter("productId"), requestIdentifier: request.parameter("requestIdentifier"),
            within: Self.limit)
    }

    // MARK: - Changes

    private func setAppAccountToken(_ body: [UInt8], _ request: KeyedRequest) async throws -> AppAccountTokenBody {
        let asked = try UpdateAppAccountTokenRequest(asked: body)
        let id = try request.parameter("id")
        try await request.reconciler().setAppAccountToken(asked.appAccountToken, of: id, within: Self.limit)
        return AppAccountTokenBody(originalTransactionId: id, appAccountToken: asked.appAccountToken)
    }

    private func extend(_ body: [UInt8], _ request: KeyedRequest) async throws -> ExtendRenewalDateResponse {
        try await request.reconciler().extend(
            ExtendRenewalDateRequest(asked: body), of: request.parameter("id"), within: Self.limit)
    }

    private func extendAll(_ body: [UInt8], _ request: KeyedRequest) async throws -> MassExtendRenewalDateResponse {
        try await request.reconciler().extendAll(MassExtendRenewalDateRequest(asked: body), within: Self.limit)
    }
}

extension Refusal {
    fileprivate static let unfinished = Refusal(
        status: .serviceUnavailable, code: "appStoreUnavailable",
        message: "The customer has more refunds than could be read in time. Those that were read are recorded.",
        isRetryable: true)
}

// MARK: - Bodies of Apple's, which a backend sends

/// A body that is passed to the App Store. A member that it does not know is refused: a misspelt one would be missing.
private protocol AskedBody: Decodable {
    var unknownMembers: UnknownMembers { get }
}

extension ExtendRenewalDateRequest: AskedBody {}
extension MassExtendRenewalDateRequest: AskedBody {}
extension UpdateAppAccountTokenRequest: AskedBody {}

extension AskedBody {
    fileprivate init(asked body: [UInt8]) throws(Refusal) {
        do {
            self = try JSONValue(parsing: body).decode(Self.self)
        } catch let error as DecodingError {
            throw .invalid("The body is not valid: \(error.sentence).")
        } catch {
            throw .invalid("The body is not JSON.")
        }
        guard let unknown = unknownMembers.members.first else { return }
        throw .invalid("The body has the unknown member “\(unknown.name.prefix(40))”.")
    }
}
