// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Rows of tables, each field in a column of its own. All of this is inlinable, as in `StoredFields.swift`.

/// The columns of a row that a storage has found, read from left to right.
@usableFromInline
package protocol StoredRow: FieldCoder {
    /// Whether the next column is NULL.
    var isNextNull: Bool { get }

    /// Reads the next column.
    ///
    /// - Returns: `nil` if there is none, or if it has a type that no column of a ledger has.
    mutating func nextStored() -> StoredValue?
}

extension StoredRow {
    /// - Throws: `LedgerStorageError.damaged` if the next column has another type.
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

    /// If the first column is NULL, there is no group.
    @inlinable
    package mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        guard !isNextNull else {
            for _ in 0..<(try FieldCounter.count(Group.self)) { _ = nextStored() }
            return group = nil
        }
        group = try fields(of: .blank)
    }

    /// Returns `value` with the fields that are read from the row.
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

/// Collects the columns of a row that is to be written.
@usableFromInline
package struct ColumnWriter: FieldCoder {
    @usableFromInline var columns: [StoredValue] = []

    @inlinable
    init() {}

    /// A column for each field. All are null if `fields` is `nil`.
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

/// Counts the columns of a group, to skip them if the group is absent.
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
