// SPDX-License-Identifier: Apache-2.0

/// A member that is encoded as `null` if it has no value, instead of being omitted. `null` says that the value does not
/// exist or is unknown.
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
