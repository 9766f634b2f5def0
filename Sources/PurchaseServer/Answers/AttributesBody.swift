// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
package import PurchaseLedger

/// The JSON of a customer's attributes.
struct AttributesBody: Encodable, Sendable {
    /// The id in the request.
    var id: String
    /// The attributes by name.
    var attributes: AttributeList
}

/// The JSON of attributes: an object with a member for each attribute, in the order of the names.
package struct AttributeList: Encodable, Sendable {
    private let attributes: CustomerAttributes?
    /// The names of the listed attributes, of which some may have been removed.
    private let names: [String]

    /// - Parameter attributes: `nil` for no attributes.
    package init(_ attributes: CustomerAttributes?) {
        self.attributes = attributes
        names = attributes?.present.map(\.name) ?? []
    }

    /// The attributes that changed by an event; `nil` for other events, and if the customer is gone.
    init?(of event: LedgerEvent, in page: EventPage) {
        guard event.kind == .attributesChanged, let known = event.customer.flatMap({ page.attributes[$0] }),
            let names = event.content?.attributes
        else { return nil }
        attributes = known
        self.names = names
    }

    /// The JSON of the value of an attribute.
    private struct Value: Encodable {
        /// The text; `null` if the attribute was removed.
        @Nullable var value: String?
        /// The time as of which the value counts, in milliseconds since 1970; absent if the removal is forgotten.
        var updatedAt: Timestamp?
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) {
            self.stringValue = stringValue
        }

        init?(intValue _: Int) { return nil }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Name.self)
        for name in names {
            let known = attributes?.all[name]
            let value = Value(value: Nullable(wrappedValue: known?.text), updatedAt: known?.updatedAt)
            try container.encode(value, forKey: Name(stringValue: name))
        }
    }
}
