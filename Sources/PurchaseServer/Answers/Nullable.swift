// SPDX-License-Identifier: Apache-2.0

/// A member that is encoded as `null`, and not omitted, if it has no value: the server knows that there is no value.
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
