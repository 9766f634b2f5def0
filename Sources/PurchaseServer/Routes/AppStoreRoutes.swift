// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import HTTPTypes
import Hummingbird
import PurchaseLedger
import Reconciliation

/// The routes by which a backend makes requests to the App Store: lookups, and changes for customers.
struct AppStoreRoutes: Sendable {
    let authentication: Authentication

    /// The maximum length of a body in bytes: enough for an extension that lists all storefronts.
    private static let bodyLimit = 16 << 10

    /// The timeout of a lookup or change at the App Store: a third of the default `requestTimeout`.
    private static let limit = Duration.seconds(20)

    private static let extensionMembers = ["extendByDays", "extendReasonCode", "requestIdentifier"]

    var routes: [APIRoute] {
        [
            authentication.route(
                .get, "/v1/orders/{id}", "asks for the transactions of an order", role: .server,
                parameters: [.init("id", "an order id, from the e-mail to a customer"), .environment],
                unknown: "The order", errors: ErrorCode.ofAppStore
            ) { try await Answer(order($0)) },
            authentication.route(
                .get, "/v1/transactions/{id}/refunds", "asks for the refunded purchases of a customer", role: .server,
                parameters: [.transaction, .environment], errors: ErrorCode.ofAppStore
            ) { try await Answer(refunds($0)) },
            authentication.route(
                .put, "/v1/transactions/{id}/app-account-token", "sets the account of a purchase", role: .server,
                parameters: [.purchase, .environment],
                body: APIBody(["appAccountToken"], upTo: Self.bodyLimit), errors: ErrorCode.ofAppStore
            ) { request in try await request.withBody { try await Answer(setAppAccountToken($1, $0)) } },
            authentication.route(
                .post, "/v1/subscriptions/{id}/extension", "extends the renewal date of a subscription", role: .server,
                parameters: [.purchase, .environment],
                body: APIBody(Self.extensionMembers, upTo: Self.bodyLimit), errors: ErrorCode.ofAppStore
            ) { request in try await request.withBody { try await Answer(extend($1, $0)) } },
            authentication.route(
                .post, "/v1/extensions", "extends all active subscriptions of a product", role: .server,
                parameters: [.environment],
                body: APIBody(
                    Self.extensionMembers + ["productId", "storefrontCountryCodes"], ["productId": .catalogueName],
                    upTo: Self.bodyLimit),
                errors: ErrorCode.ofAppStore
            ) { request in try await request.withBody { try await Answer(extendAll($1, $0)) } },
            authentication.route(
                .get, "/v1/extensions/{productId}/{requestIdentifier}", "says how far such an extension is",
                role: .server,
                parameters: [
                    .init("productId", "the product", .catalogueName),
                    .init("requestIdentifier", "that of the extension"), .environment,
                ],
                unknown: "The extension", errors: ErrorCode.ofAppStore
            ) { try await Answer(extensionStatus($0)) },
        ]
    }

    // MARK: - Questions

    private func order(_ request: AuthenticatedRequest) async throws -> FoundTransactionsBody? {
        let reconciler = try request.reconciler()
        guard let found = try await reconciler.lookUpOrder(request.parameter("id"), within: Self.limit) else {
            return nil
        }
        return try await FoundTransactionsBody(found, in: reconciler)
    }

    private func refunds(_ request: AuthenticatedRequest) async throws -> FoundTransactionsBody? {
        let reconciler = try request.reconciler()
        do {
            let found = try await reconciler.refunds(of: request.parameter("id"), within: Self.limit)
            return try await FoundTransactionsBody(found, in: reconciler)
        } catch is UnfinishedRefunds {
            throw Refusal.unfinished
        }
    }

    private func extensionStatus(_ request: AuthenticatedRequest) async throws -> MassExtendRenewalDateStatusResponse? {
        try await request.reconciler().extensionStatus(
            of: request.parameter("productId"), requestIdentifier: request.parameter("requestIdentifier"),
            within: Self.limit)
    }

    // MARK: - Changes

    private func setAppAccountToken(
        _ body: [UInt8], _ request: AuthenticatedRequest
    ) async throws -> AppAccountTokenBody {
        let asked = try UpdateAppAccountTokenRequest(asked: body, request.body)
        let id = try await request.reconciler().setAppAccountToken(
            asked.appAccountToken, of: request.parameter("id"), within: Self.limit)
        return AppAccountTokenBody(originalTransactionId: id, appAccountToken: asked.appAccountToken)
    }

    private func extend(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> ExtendRenewalDateResponse {
        try await request.reconciler().extend(
            ExtendRenewalDateRequest(asked: body, request.body), of: request.parameter("id"), within: Self.limit)
    }

    private func extendAll(
        _ body: [UInt8], _ request: AuthenticatedRequest
    ) async throws -> MassExtendRenewalDateResponse {
        try await request.reconciler().extendAll(
            MassExtendRenewalDateRequest(asked: body, request.body), within: Self.limit)
    }
}

extension Refusal {
    fileprivate static let unfinished = Refusal(
        .appStoreUnavailable,
        """
        The customer has more refunds than could be read in time. The refunds read in time are recorded. POST \
        /v1/backfill brings in all of them with the customer's whole history.
        """, isRetryable: false)
}

// MARK: - Bodies in Apple's form, from a backend

/// A body for the App Store. A body with a member unknown to Apple's type is refused: the member may be misspelt, and
/// the request would lack the intended member.
private protocol AskedBody: Decodable {
    var unknownMembers: UnknownMembers { get }
}

extension ExtendRenewalDateRequest: AskedBody {}
extension MassExtendRenewalDateRequest: AskedBody {}
extension UpdateAppAccountTokenRequest: AskedBody {}

extension AskedBody {
    fileprivate init(asked body: [UInt8], _ description: APIBody?) throws(Refusal) {
        let json: JSONValue
        do {
            json = try JSONValue(parsing: body)
            self = try json.decode(Self.self)
        } catch let error as DecodingError {
            throw .invalid("The body is not valid: \(error.sentence).")
        } catch {
            throw .invalid("The body is not JSON.")
        }
        try description?.requireForms(in: json)
        guard let unknown = unknownMembers.members.first else { return }
        throw .invalid("The body has the unknown member “\(unknown.name.prefix(40))”.")
    }
}
