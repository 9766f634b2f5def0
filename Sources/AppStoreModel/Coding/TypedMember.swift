// SPDX-License-Identifier: Apache-2.0

// Reads members of JSON, and other values, of which the caller says the type, and the error if they are of another.

extension Optional {
    /// Reads a value that need not be there.
    ///
    /// - Parameters:
    ///   - read: Returns `nil` for a value of another type.
    ///   - failure: The error about such a value.
    /// - Returns: `nil` if there is none.
    package func read<Value, Failure: Error>(
        as read: (Wrapped) -> Value?, else failure: @autoclosure () -> Failure
    ) throws(Failure) -> Value? {
        self == nil ? nil : try require(as: read, else: failure())
    }

    /// Reads a value that must be there.
    package func require<Value, Failure: Error>(
        as read: (Wrapped) -> Value?, else failure: @autoclosure () -> Failure
    ) throws(Failure) -> Value {
        guard let value = flatMap(read) else { throw failure() }
        return value
    }
}

extension JSONValue {
    /// The text of a string that is not empty, else `nil`.
    package var text: String? { string.flatMap { $0.isEmpty ? nil : $0 } }

    /// True or false, else `nil`.
    package var bool: Bool? {
        guard case .bool(let bool) = self else { return nil }
        return bool
    }

    /// A whole number within a range, else `nil`.
    package func integer(in range: ClosedRange<Int64>) -> Int64? {
        integer.flatMap { range.contains($0) ? $0 : nil }
    }
}
