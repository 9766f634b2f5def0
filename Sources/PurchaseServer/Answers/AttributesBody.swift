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

    /// - Parameter attributes: `nil` for no attributes.
    package init(_ attributes: CustomerAttributes?) {
        self.attributes = attributes
    }

    private struct Value: Encodable {
        /// The text.
        var value: String
        /// The time as of which the value counts, in milliseconds since 1970.
        var updatedAt: Timestamp
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
        for (name, text, updatedAt) in attributes?.present ?? [] {
            try container.encode(Value(value: text, updatedAt: updatedAt), forKey: Name(stringValue: name))
        }
    }
}
