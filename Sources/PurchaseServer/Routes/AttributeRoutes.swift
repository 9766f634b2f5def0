// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The routes for the attributes of a customer, such as `$email`. They need a server key: a client could otherwise give
/// its own e-mail address to a different customer.
struct AttributeRoutes: Sendable {
    let authentication: Authentication

    /// The maximum length of a body in bytes: more than a hundred attributes with values of 500 letters.
    private static let bodyLimit = 64 << 10

    private static let body = APIBody(["attributes"], upTo: bodyLimit)

    var routes: [APIRoute] {
        let path = "/v1/customers/{id}/attributes"
        return [
            authentication.route(
                .get, path, "returns the attributes of a customer", role: .server, parameters: [.customer]
            ) { try await Answer(attributes($0)) },
            authentication.route(
                .patch, path, "sets or removes attributes of a customer", role: .server, parameters: [.customer],
                body: Self.body, errors: [.tooManyAttributes]
            ) { request in try await request.withBody { try await Answer(change($1, $0)) } },
        ]
    }

    /// The attributes of a customer. An unknown customer has none.
    private func attributes(_ request: AuthenticatedRequest) async throws -> AttributesBody {
        let id = try request.customerId
        let found = try await request.ledger.attributes(of: id, in: request.scope.bundleId)
        return AttributesBody(id: id, attributes: AttributeList(found))
    }

    private func change(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> AttributesBody {
        let id = try request.customerId
        let changes = try BodyMembers(parsing: body, known: Self.body).attributes()
        do {
            let found = try await request.ledger.setAttributes(
                changes, of: id, in: request.scope.bundleId, at: request.now)
            return AttributesBody(id: id, attributes: AttributeList(found))
        } catch let error as AttributeError {
            throw Refusal(error)
        }
    }
}

extension BodyMembers {
    private static let form =
        "attributes has the form {\"NAME\": {\"value\": TEXT or null, \"updatedAt\": MILLISECONDS}}"

    /// The number of characters of a name in an error.
    private static let shown = TextForm.attributeName.length.upperBound

    /// The attributes to set and to remove.
    fileprivate func attributes() throws(Refusal) -> [CustomerAttributes.Change] {
        guard let members = json["attributes"]?.members else { throw .invalid("\(Self.form).") }
        guard Set(members.map(\.name)).count == members.count else {
            throw .invalid("attributes has a name twice.")
        }
        var changes: [CustomerAttributes.Change] = []
        for member in members { changes.append(try Self.change(member)) }
        return changes
    }

    private static func change(_ member: JSONValue.Member) throws(Refusal) -> CustomerAttributes.Change {
        let names = member.value.members.map { $0.map(\.name) } ?? []
        guard let value = member.value["value"], value == .null || value.string != nil,
            Set(names).count == names.count, Set(names).isSubset(of: ["value", "updatedAt"])
        else { throw .invalid("\(form), and “\(member.name.prefix(shown))” does not.") }
        let time = try member.value["updatedAt"].read(
            as: { $0.integer(in: 0...Int64.max) },
            else: Refusal.invalid("updatedAt is not a number of milliseconds since 1970."))
        return CustomerAttributes.Change(member.name, value.string, at: time.map(Timestamp.init))
    }
}

extension Refusal {
    fileprivate init(_ error: AttributeError) {
        switch error {
        case .tooMany, .tooLarge: self.init(.tooManyAttributes, error.description)
        case .invalidName, .invalidValue: self = .invalid(error.description)
        }
    }
}
