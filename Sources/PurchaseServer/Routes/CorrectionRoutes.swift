// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The routes by which a backend corrects the ledger: the owners and the denial of a purchase, and the ids and merges
/// of a customer. Each correction has a reason.
struct CorrectionRoutes: Sendable {
    let authentication: Authentication

    /// The maximum length of a body in bytes: the ids of the owners and the reason, with every character escaped.
    private static let bodyLimit = 32 << 10

    private static let forms: [String: TextForm] = ["alias": .customerID, "customers": .customerID, "reason": .reason]
    private static let reason = APIBody(["reason"], forms, upTo: bodyLimit)
    private static let alias = APIBody(["alias", "reason"], forms, upTo: bodyLimit)
    private static let owners = APIBody(["customers", "reason"], forms, upTo: bodyLimit)

    private static let purchase = "The purchase"
    private static let customer = "The customer"

    var routes: [APIRoute] { purchaseRoutes + customerRoutes }

    private var purchaseRoutes: [APIRoute] {
        [
            authentication.route(
                .post, "/v1/transactions/{id}/move", "makes customers the only owners of a purchase", role: .server,
                parameters: [.purchase, .environment], body: Self.owners, unknown: Self.purchase
            ) { request in try await request.withBody { try await Answer(move($1, $0)) } },
            authentication.route(
                .post, "/v1/transactions/{id}/deny", "denies a purchase, which then grants nothing", role: .server,
                parameters: [.purchase, .environment], body: Self.reason, unknown: Self.purchase
            ) { request in try await request.withBody { try await Answer(deny($1, $0)) } },
            authentication.route(
                .post, "/v1/transactions/{id}/allow", "ends the denial of a purchase", role: .server,
                parameters: [.purchase, .environment], body: Self.reason, unknown: Self.purchase
            ) { request in try await request.withBody { try await Answer(allow($1, $0)) } },
        ]
    }

    private var customerRoutes: [APIRoute] {
        let customers = CustomerRoutes(authentication: authentication)
        return [
            authentication.route(
                .post, "/v1/customers/{id}/unlink", "takes an added id off a customer", role: .server,
                parameters: [.customer, .environment], body: Self.alias, unknown: Self.customer,
                errors: [.correctionRefused]
            ) { request in
                let (request, isKnown) = try await request.withBody { ($0, try await unlink($1, $0)) }
                return isKnown ? try await customers.customer(request) : nil
            },
            authentication.route(
                .post, "/v1/customers/{id}/unmerge", "undoes the merge of the customer that had the id",
                role: .server, parameters: [.customer, .environment], body: Self.reason, unknown: Self.customer,
                errors: [.correctionRefused]
            ) { request in
                let (request, isKnown) = try await request.withBody { ($0, try await unmerge($1, $0)) }
                return isKnown ? try await customers.customer(request) : nil
            },
        ]
    }
}

// MARK: - Purchases

extension CorrectionRoutes {
    private func move(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> CorrectedPurchaseBody? {
        let members = try BodyMembers(parsing: body, known: Self.owners)
        let ids = try Self.customers(members)
        return try await request.ledger.move(
            purchase(request), to: ids, correction(members, request), at: request.now
        ).map { CorrectedPurchaseBody($0) }
    }

    private func deny(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> CorrectedPurchaseBody? {
        let members = try BodyMembers(parsing: body, known: Self.reason)
        return try await request.ledger.deny(purchase(request), correction(members, request), at: request.now)
            .map { CorrectedPurchaseBody($0) }
    }

    private func allow(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> CorrectedPurchaseBody? {
        let members = try BodyMembers(parsing: body, known: Self.reason)
        return try await request.ledger.allow(purchase(request), correction(members, request), at: request.now)
            .map { CorrectedPurchaseBody($0) }
    }

    private func purchase(_ request: AuthenticatedRequest) throws -> TransactionKey {
        TransactionKey(try request.parameter("id"), in: request.scope)
    }

    private static func customers(_ members: BodyMembers) throws(Refusal) -> [String] {
        let list = members.json["customers"]?.array ?? []
        let ids = list.compactMap(\.string)
        guard !ids.isEmpty, ids.count == list.count, ids.count <= Ledger.maxOwners else {
            throw .invalid("customers is not a list of 1 to \(Ledger.maxOwners) ids of customers.")
        }
        return ids
    }
}

// MARK: - Customers

extension CorrectionRoutes {
    /// Takes an id off a customer.
    ///
    /// - Returns: False if the customer is unknown.
    private func unlink(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> Bool {
        let members = try BodyMembers(parsing: body, known: Self.alias)
        guard let alias = try members.text("alias") else { throw Refusal.invalid("alias is missing.") }
        let outcome = try await request.ledger.removeAlias(
            alias, from: request.customerId, in: request.scope, correction(members, request), at: request.now)
        switch outcome {
        case .removed: return true
        case .unknownCustomer: return false
        case .otherId, .firstId: throw Refusal.correctionRefused(outcome.message)
        }
    }

    /// Undoes a merge.
    ///
    /// - Returns: False if the customer is unknown.
    private func unmerge(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> Bool {
        let members = try BodyMembers(parsing: body, known: Self.reason)
        let outcome = try await request.ledger.undoMerge(
            of: request.customerId, in: request.scope, correction(members, request), at: request.now)
        switch outcome {
        case .undone: return true
        case .unknownCustomer: return false
        case .notMerged, .tooLarge: throw Refusal.correctionRefused(outcome.message)
        }
    }

    private func correction(_ members: BodyMembers, _ request: AuthenticatedRequest) throws(Refusal) -> Correction {
        guard let correction = Correction(by: request.keyId, reason: try members.text("reason") ?? "") else {
            throw .invalid("reason is missing.")
        }
        return correction
    }
}

extension AliasRemoval {
    /// The outcome, as a sentence for people.
    package var message: String {
        switch self {
        case .removed: "The id was taken off."
        case .unknownCustomer: "No customer has the id."
        case .otherId: "The customer does not have this alias: nothing was changed."
        case .firstId:
            "The id is the customer's first id, by which events name the customer. It cannot be taken off: move the "
                + "purchases to a different customer."
        }
    }
}

extension MergeUndoing {
    /// The outcome, as a sentence for people.
    package var message: String {
        switch self {
        case .undone(let ids, let purchases):
            "The customer \(ids.joined(separator: ", ")) exists again, with \(purchases) "
                + (purchases == 1 ? "purchase." : "purchases.")
        case .unknownCustomer: "No customer has the id."
        case .notMerged:
            "No merge that the ledger knows brought this id to its customer: take off the id, and move the purchases."
        case .tooLarge:
            "The merge brought too many purchases or ids to be undone: take off the ids, and move the purchases."
        }
    }
}

extension Refusal {
    fileprivate static func correctionRefused(_ message: String) -> Refusal { Refusal(.correctionRefused, message) }
}
