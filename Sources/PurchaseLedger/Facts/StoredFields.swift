// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// The fields under which facts are stored. Each type of fact lists its stored fields once. Storages use the list to
// read the fields, to write them and to name their columns. Each list is a generic function with the coder as an
// argument. The lists and most coders are inlinable, so that the compiler can specialize them in a storage's module.

/// A value in a single stored field, for example in a column of a row.
@usableFromInline
package enum StoredValue: Equatable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
}

/// A type that is stored as a single value.
@usableFromInline
package protocol Storable {
    /// - Returns: `nil` if `stored` is not a value of this type.
    init?(_ stored: StoredValue)

    var stored: StoredValue { get }
}

/// A type that is stored as a sequence of fields.
@usableFromInline
package protocol StoredFields {
    /// A value into which fields are read.
    static var blank: Self { get }

    /// Passes each field to the coder. The coder reads or replaces the field.
    mutating func fields(_ coder: inout some FieldCoder) throws
}

/// Reads, writes or names a sequence of fields.
@usableFromInline
package protocol FieldCoder {
    mutating func field<Value: Storable>(_ name: StaticString, _ value: inout Value) throws

    /// Codes the fields of an optional value. The value is `nil` if its first field is null.
    mutating func group<Group: StoredFields>(_ group: inout Group?) throws

    /// Codes a set of texts, which is usually empty.
    mutating func texts(_ name: StaticString, _ value: inout Set<String>) throws
}

extension FieldCoder {
    /// Codes texts as one field.
    @inlinable
    package mutating func texts(_ name: StaticString, _ value: inout Set<String>) throws {
        var list = TextList(value)
        try field(name, &list)
        value = list.texts
    }
}

// MARK: - Lists

// Lists are stored as JSON in a single field. Most lists are empty, so tables of their own are not worthwhile. An empty
// list is null.

/// A set of texts. The texts are sorted, so that equal sets are stored as equal fields.
@usableFromInline
package struct TextList: Storable {
    @usableFromInline package let texts: Set<String>

    @inlinable
    package init(_ texts: Set<String>) {
        self.texts = texts
    }

    @usableFromInline
    package init?(_ stored: StoredValue) {
        guard let array = JSONValue.array(stored) else { return nil }
        texts = Set(array.compactMap(\.string))
    }

    @usableFromInline package var stored: StoredValue {
        texts.isEmpty ? .null : .text(JSONValue.array(texts.sorted().map { .string($0) }).compactText)
    }
}

extension JSONValue {
    /// The elements of a JSON array; empty for null and for other JSON; `nil` if the value is not JSON.
    package static func array(_ stored: StoredValue) -> [JSONValue]? {
        guard case .text(let text) = stored else { return stored == .null ? [] : nil }
        return JSONValue(readable: text.utf8).map { $0.array ?? [] }
    }
}

// MARK: - Types

extension Int64: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard case .integer(let value) = stored else { return nil }
        self = value
    }

    @inlinable package var stored: StoredValue { .integer(self) }
}

extension Int: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard case .integer(let value) = stored else { return nil }
        self.init(exactly: value)
    }

    @inlinable package var stored: StoredValue { .integer(Int64(self)) }
}

extension Bool: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard case .integer(let value) = stored else { return nil }
        self = value != 0
    }

    @inlinable package var stored: StoredValue { .integer(self ? 1 : 0) }
}

extension String: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard case .text(let value) = stored else { return nil }
        self = value
    }

    @inlinable package var stored: StoredValue { .text(self) }
}

extension [UInt8]: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard case .bytes(let value) = stored else { return nil }
        self = value
    }

    @inlinable package var stored: StoredValue { .bytes(self) }
}

extension Timestamp: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard case .integer(let value) = stored else { return nil }
        self.init(milliseconds: value)
    }

    @inlinable package var stored: StoredValue { .integer(milliseconds) }
}

// Enumerations are stored as their raw values.

extension Storable where Self: RawRepresentable, RawValue: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard let value = RawValue(stored) else { return nil }
        self.init(rawValue: value)
    }

    @inlinable package var stored: StoredValue { rawValue.stored }
}

extension Open: Storable where Known.RawValue: Storable {}
extension Environment: Storable {}

extension Optional: Storable where Wrapped: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        if case .null = stored {
            self = .none
        } else {
            guard let value = Wrapped(stored) else { return nil }
            self = .some(value)
        }
    }

    @inlinable package var stored: StoredValue { map(\.stored) ?? .null }
}
