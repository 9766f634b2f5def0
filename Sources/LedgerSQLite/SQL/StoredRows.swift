// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Collects the names of the columns in which the fields of a type are stored, in their order.
struct ColumnNames: FieldCoder {
    private var names: [String] = []

    static func names<Group: StoredFields>(_: Group.Type) -> [String] {
        var columns = ColumnNames()
        var blank = Group.blank
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
