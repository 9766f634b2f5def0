// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Facts list their stored fields once, and storages read, write and name them by that list. All of this is inlinable,
// so that another module compiles a list for its own coder.

/// What storages keep in one place.
@usableFromInline
package enum StoredValue: Equatable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
}

/// A type whose values are each kept in one place.
@usableFromInline
package protocol Storable {
    /// - Returns: `nil` if `stored` is no value of this type.
    init?(_ stored: StoredValue)

    var stored: StoredValue { get }
}

/// Values that are stored together, one field after another.
@usableFromInline
package protocol StoredFields {
    /// A value to read fields into.
    static var blank: Self { get }

    /// Lists the fields: the coder reads or replaces each.
    mutating func fields(_ coder: inout some FieldCoder) throws
}

/// Reads, writes or names fields one after another.
@usableFromInline
package protocol FieldCoder {
    mutating func field<Value: Storable>(_ name: StaticString, _ value: inout Value) throws

    /// Codes fields of which the first is null if there are none.
    mutating func group<Group: StoredFields>(_ group: inout Group?) throws
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

// Words, which are stored as the App Store or the ledger spells them.

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
