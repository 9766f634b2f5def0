// SPDX-License-Identifier: Apache-2.0

// Reads JSON members and other values as a type chosen by the caller, and throws the caller's error for any other type.

extension Optional {
    /// Reads an optional value.
    ///
    /// - Parameters:
    ///   - read: Returns `nil` for a value of an unexpected type.
    ///   - failure: The error for a value of an unexpected type.
    /// - Returns: `nil` if the value is missing.
    package func read<Value, Failure: Error>(
        as read: (Wrapped) -> Value?, else failure: @autoclosure () -> Failure
    ) throws(Failure) -> Value? {
        self == nil ? nil : try require(as: read, else: failure())
    }

    /// Reads a required value, and throws `failure` if the value is missing or has an unexpected type.
    package func require<Value, Failure: Error>(
        as read: (Wrapped) -> Value?, else failure: @autoclosure () -> Failure
    ) throws(Failure) -> Value {
        guard let value = flatMap(read) else { throw failure() }
        return value
    }
}

extension JSONValue {
    /// The text if the value is a string and not empty, else `nil`.
    package var text: String? { string.flatMap { $0.isEmpty ? nil : $0 } }

    /// The boolean if the value is `true` or `false`, else `nil`.
    package var bool: Bool? {
        guard case .bool(let bool) = self else { return nil }
        return bool
    }

    /// The number if the value is a whole number in `range`, else `nil`.
    package func integer(in range: ClosedRange<Int64>) -> Int64? {
        integer.flatMap { range.contains($0) ? $0 : nil }
    }
}
