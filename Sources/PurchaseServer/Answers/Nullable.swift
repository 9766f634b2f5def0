// SPDX-License-Identifier: Apache-2.0

/// A member that is `null` if there is no value, which says that there is known to be none.
@propertyWrapper
struct Nullable<Value: Encodable & Sendable>: Encodable, Sendable {
    var wrappedValue: Value?

    func encode(to encoder: any Encoder) throws {
        if let wrappedValue {
            try wrappedValue.encode(to: encoder)
        } else {
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        }
    }
}
