// SPDX-License-Identifier: Apache-2.0

/// A named change of a ledger's tables, made in one transaction that also sets the ledger's version.
package struct SchemaStep: Sendable {
    package let name: String
    package let statements: [String]

    package init(_ name: String, _ statements: [String]) {
        self.name = name
        self.statements = statements
    }
}

/// All steps of a storage, in the order in which each ledger takes them. The first makes the tables of a new ledger.
///
/// Until the first release, a change of what is stored changes the first step and raises ``baseline``. Afterwards it is
/// a further step at the end of ``all``, and no earlier step changes again.
package struct SchemaSteps: Sendable {
    /// The version of a ledger that has taken the first step alone. Each further step adds one.
    package let baseline: Int
    package let all: [SchemaStep]

    package init(baseline: Int, _ all: [SchemaStep]) {
        self.baseline = baseline
        self.all = all
    }

    /// The version of a ledger that has taken all steps.
    package var version: Int { baseline + all.count - 1 }

    /// The steps that a ledger lacks, each with the version to which it leads.
    ///
    /// - Parameter version: A version that ``require(_:)`` accepts; `nil` for a ledger without tables.
    package func missing(at version: Int?) -> [(version: Int, step: SchemaStep)] {
        all.enumerated().map { (baseline + $0, $1) }.filter { $0.0 > version ?? .min }
    }

    /// - Throws: `LedgerStorageError.damaged` if these steps do not lead on from a version.
    package func require(_ version: Int) throws(LedgerStorageError) {
        guard version >= baseline else { throw .unreleased("The tables have version \(version), and this is a ledger") }
        guard version <= self.version else {
            throw LedgerStorageError(
                .damaged,
                "The ledger was written by a newer version of this software: its tables have version \(version), and "
                    + "this version knows \(self.version)")
        }
    }
}

extension LedgerStorageError {
    /// The refusal of a ledger that a commit before the first release wrote.
    ///
    /// - Parameter found: The beginning of the sentence, which `that no release wrote` continues.
    package static func unreleased(_ found: String) -> LedgerStorageError {
        LedgerStorageError(
            .damaged,
            """
            \(found) that no release wrote. It stays as it is, and only the program that wrote it reads it. Make a new \
            ledger in another place: submissions, notifications and quittance backfill fill it. Make grants, \
            attributes, corrections, API keys and webhook endpoints again, because nothing brings them back
            """)
    }
}
