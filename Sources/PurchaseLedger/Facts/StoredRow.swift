// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Rows of tables, with a column per field. The code is inlinable, so that the compiler can specialize it in a storage's
// module.

/// The columns of a found row, read from left to right.
@usableFromInline
package protocol StoredRow: FieldCoder {
    /// Whether the next column is NULL.
    var isNextNull: Bool { get }

    /// Reads the next column.
    ///
    /// - Returns: `nil` after the last column, or if the value has a type that no column of a ledger has.
    mutating func nextStored() -> StoredValue?
}

extension StoredRow {
    /// - Throws: `LedgerStorageError.damaged` if the next column does not hold a `Value`, or if there is no next
    ///   column.
    @inlinable
    package mutating func next<Value: Storable>(_: Value.Type = Value.self) throws -> Value {
        guard let value = nextStored().flatMap(Value.init) else {
            throw LedgerStorageError(.damaged, "A row of the ledger has a value that was not written")
        }
        return value
    }

    @inlinable
    package mutating func field<Value: Storable>(_ name: StaticString, _ value: inout Value) throws {
        value = try next()
    }

    /// Reads a group: the fields of an optional value. If the first column is NULL, the group is absent.
    @inlinable
    package mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        guard !isNextNull else {
            for _ in 0..<(try FieldCounter.count(Group.self)) { _ = nextStored() }
            return group = nil
        }
        group = try fields(of: .blank)
    }

    /// Reads the fields of `value` from the row.
    @inlinable
    package mutating func fields<Fields: StoredFields>(of value: Fields) throws -> Fields {
        var fields = value
        try fields.fields(&self)
        return fields
    }

    /// Reads a bundle id and an environment.
    @inlinable
    package mutating func scope() throws -> LedgerScope {
        LedgerScope(bundleId: try next(), environment: try next())
    }
}

/// Collects the columns of a row to write.
@usableFromInline
package struct ColumnWriter: FieldCoder {
    @usableFromInline var columns: [StoredValue] = []

    @inlinable
    init() {}

    /// A column per field. All columns are null if `fields` is `nil`.
    @inlinable
    package static func columns<Group: StoredFields>(of fields: Group?) throws -> [StoredValue] {
        var writer = ColumnWriter()
        var fields = fields
        writer.columns.reserveCapacity(48)
        try writer.group(&fields)
        return writer.columns
    }

    @inlinable
    package mutating func field(_ name: StaticString, _ value: inout some Storable) { columns.append(value.stored) }

    @inlinable
    package mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        guard var fields = group else {
            return columns += repeatElement(.null, count: try FieldCounter.count(Group.self))
        }
        try fields.fields(&self)
    }
}

/// Counts the columns of a group. If the group is absent, a reader skips this number of columns, and a writer writes as
/// many nulls.
@usableFromInline
package struct FieldCounter: FieldCoder {
    @usableFromInline var count = 0

    @inlinable
    init() {}

    @inlinable
    static func count<Group: StoredFields>(_: Group.Type) throws -> Int {
        var counter = FieldCounter()
        var blank = Group.blank
        try blank.fields(&counter)
        return counter.count
    }

    @inlinable
    package mutating func field(_ name: StaticString, _ value: inout some Storable) { count += 1 }

    @inlinable
    package mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        count += try Self.count(Group.self)
    }
}
