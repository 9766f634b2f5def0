// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Testing

/// Tests that storages keep every property of a fact.
@Suite struct StoredFieldsTests {
    private struct Names: FieldCoder {
        var names: [String] = []

        mutating func field(_ name: StaticString, _ value: inout some Storable) { names.append("\(name)") }

        mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
            var blank = Group.blank
            try blank.fields(&self)
        }
    }

    private static func names(of fields: some StoredFields) throws -> [String] {
        var (names, fields) = (Names(), fields)
        try fields.fields(&names)
        return names.names
    }

    private static func properties(of value: Any) -> Set<String> {
        Set(Mirror(reflecting: value).children.compactMap(\.label))
    }

    @Test func `every property of a fact is stored, each under a name of its own`() throws {
        let statement = try Self.names(of: TransactionStatement.blank)
        #expect(Set(statement).count == statement.count)
        // The name of the chain is stored with the chain. Three properties have several fields.
        #expect(
            Self.properties(of: TransactionStatement.blank).subtracting(["chainName"])
                == Set(statement).subtracting(["signedDate", "evidence"])
                .filter { !$0.hasPrefix("revocation") && !$0.hasPrefix("commitment") }
                .union(["provenance", "revocation", "commitment"]))
        let commitment = try Self.names(of: TransactionStatement.Commitment.blank)
        #expect(commitment.count == Self.properties(of: TransactionStatement.Commitment.blank).count)
        let revocation = try Self.names(of: TransactionStatement.Revocation.blank)
        #expect(revocation.count == Self.properties(of: TransactionStatement.Revocation.blank).count)
        let renewal = try Self.names(of: RenewalFact.blank)
        #expect(Set(renewal).count == renewal.count && renewal.count == Self.properties(of: RenewalFact.blank).count)
    }
}
