// SPDX-License-Identifier: Apache-2.0

/// A JSON document as written: members in their order, numbers digit by digit (RFC 8259).
///
/// Foundation's readers keep neither the order nor the digits. Both matter: a signed payload is shown as signed, and a
/// `download_id` beyond 2^53 keeps all its digits.
public enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    /// The literal, as written.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([Member])

    /// A member of an object: a name and a value.
    public struct Member: Hashable, Sendable {
        /// The name, without escapes.
        public var name: String
        /// The value.
        public var value: JSONValue

        /// A member of the given name and value.
        public init(_ name: String, _ value: JSONValue) {
            self.name = name
            self.value = value
        }

        /// Whether the member has this name, which must be ASCII. Swift's `==` alone would also accept canonically
        /// equivalent strings. The length check rules those out, because any other equivalent of an ASCII name is
        /// longer.
        @inline(__always)
        func isCalled(_ name: String) -> Bool { self.name.utf8.count == name.utf8.count && self.name == name }
    }
}

extension JSONValue {
    /// The member called `name`, or `nil` if the value is not an object or has no such member. Of duplicates the last
    /// counts, as it does for Apple.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.isCalled(name) }?.value
    }

    /// The text if the value is a string, else `nil`.
    public var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The number if the value is written as a whole `Int64`, else `nil`.
    public var integer: Int64? {
        guard case .number(let literal) = self else { return nil }
        return Int64(literal)
    }

    /// The elements if the value is an array, else `nil`.
    public var array: [JSONValue]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }

    /// The members if the value is an object, else `nil`.
    public var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}
