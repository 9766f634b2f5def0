// SPDX-License-Identifier: Apache-2.0

// The attributes of a customer, such as `$email`. A client key may not set them: a client could otherwise give its own
// e-mail address to a different customer.

import AppStoreModel
import HTTPTypes
import PurchaseLedger

private let path = "/v1/customers/{id}/attributes"

package enum GetAttributes: NamedOperation {
    package static let operation = Operation(
        .get, path, "returns the attributes of a customer", command: "customer attributes", roles: .readers,
        [.customer], text: AttributesBody.lines
    ) { request in
        // An unknown customer has none.
        let found = try await request.ledger.attributes(of: request.customerId, in: request.scope.bundleId)
        return try Answer(AttributesBody(id: request.customerId, attributes: AttributeList(found)))
    }
}

package enum SetAttributes: NamedOperation {
    private static let attributes = Field(
        "attributes", "an attribute, and its new value; an empty value removes it", .object, isRequired: true,
        option: "name=value")

    package static let operation = Operation(
        .patch, path, "sets or removes attributes of a customer", command: "customer set",
        notes: """
            Names have at most 40 characters, A-Z, a-z, 0-9, _ and -; names that begin with $ have a common meaning in \
            SDKs and tools. Values have at most 500 characters. An unknown customer needs --new.

              quittance customer set anna '$email=anna@example.com' --config quittance.json
              quittance customer set anna plan= --config quittance.json
            """,
        // More than a hundred attributes with values of 500 letters.
        roles: .helpers, [.customer, attributes, .isNew], upTo: 64 << 10,
        errors: [.tooManyAttributes, .unknownCustomer],
        text: AttributesBody.lines
    ) { request in
        let changes = try (request[attributes]?.members ?? []).map(change)
        try await request.requireKnown([request.customerId], makesNew: true)
        do {
            let found = try await request.ledger.setAttributes(
                changes, of: request.customerId, in: request.scope.bundleId, at: request.now)
            return try Answer(AttributesBody(id: request.customerId, attributes: AttributeList(found)))
        } catch let error as AttributeError {
            throw Refusal(error)
        }
    }

    /// The number of characters of a name in an error.
    private static let shown = TextForm.attributeName.length.upperBound

    private static func change(_ member: JSONValue.Member) throws(Refusal) -> CustomerAttributes.Change {
        let names = member.value.members.map { $0.map(\.name) } ?? []
        guard let value = member.value["value"], value == .null || value.string != nil,
            Set(names).count == names.count, Set(names).isSubset(of: ["value", "updatedAt"])
        else {
            let form = "{\"NAME\": {\"value\": TEXT or null, \"updatedAt\": MILLISECONDS}}"
            throw .invalid("“attributes” has the form \(form), and “\(member.name.prefix(shown))” does not.")
        }
        let time = try member.value["updatedAt"].read(
            as: { $0.integer(in: 0...Int64.max) },
            else: Refusal.invalid("“updatedAt” is not a number of milliseconds since 1970."))
        return CustomerAttributes.Change(member.name, value.string, at: time.map(Timestamp.init))
    }
}

extension AttributesBody {
    /// A line for each attribute: name, value and time.
    fileprivate static let lines: @Sendable (JSONValue) -> String = { answer in
        (answer["attributes"]?.members ?? []).map { attribute in
            let time = attribute.value["updatedAt"]?.integer.map { Timestamp(milliseconds: $0).iso8601 } ?? ""
            return "\(attribute.name)=\(attribute.value["value"]?.string ?? "")  \(time)"
        }.joined(separator: "\n")
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
