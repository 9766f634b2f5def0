// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

// Turns lists of stored fields into parameters of SQL statements and into column names.

/// Collects the parameters of an SQL statement.
struct ParameterWriter: FieldCoder {
    private(set) var parameters: [StoredValue] = []

    /// A parameter for each field. All are null if `fields` is `nil`.
    static func parameters<Group: StoredFields>(of fields: Group?) throws -> [StoredValue] {
        var (writer, fields) = (ParameterWriter(), fields)
        writer.parameters.reserveCapacity(48)
        try writer.group(&fields)
        return writer.parameters
    }

    mutating func field(_ name: StaticString, _ value: inout some Storable) { parameters.append(value.stored) }

    mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        guard var fields = group else {
            return parameters += repeatElement(.null, count: try FieldCounter.count(Group.self))
        }
        try fields.fields(&self)
    }
}

/// Collects the names of columns.
struct ColumnNames: FieldCoder {
    private var names: [String] = []

    static func names<Group: StoredFields>(_: Group.Type) -> [String] {
        var (columns, blank) = (ColumnNames(), Group.blank)
        // Collecting names never throws.
        try? blank.fields(&columns)
        return columns.names
    }

    mutating func field(_ name: StaticString, _ value: inout some Storable) { names.append("\(name)") }

    mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        var blank = Group.blank
        try blank.fields(&self)
    }
}

/// Counts the columns of a group, to skip them if the group is absent.
struct FieldCounter: FieldCoder {
    private var count = 0

    static func count<Group: StoredFields>(_: Group.Type) throws -> Int {
        var (counter, blank) = (FieldCounter(), Group.blank)
        try blank.fields(&counter)
        return counter.count
    }

    mutating func field(_ name: StaticString, _ value: inout some Storable) { count += 1 }

    mutating func group<Group: StoredFields>(_ group: inout Group?) throws { count += try Self.count(Group.self) }
}
