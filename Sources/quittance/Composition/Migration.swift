// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
#if PostgreSQL
import LedgerPostgres
#endif
import PurchaseLedger
import PurchaseServer

/// The result of `quittance migrate`.
struct Migration: Sendable {
    /// The completed steps, a sentence each.
    var done: [String]
    /// Warnings about risks, a sentence each.
    var warnings: [String]
    /// What the ledger still lacks, for example the table for the documents of a calendar quarter, and how to add it;
    /// `nil` if nothing is missing.
    var missing: String?
}

extension Composition {
    #if PostgreSQL
    /// Creates or upgrades the ledger in a database. The role that connects must own the ledger's tables.
    ///
    /// - Parameter role: A role that gets the rights of a server; `nil` for none.
    /// - Returns: The completed steps, the warnings, and what the ledger still lacks.
    /// - Throws: `ValidationError` if the configuration does not name a PostgreSQL database; exit status 1 if the
    ///   ledger cannot be opened; `LedgerStorageError`.
    func migrate(servingAs role: String?) async throws -> Migration {
        guard case .postgresql(let uri) = configuration.database else {
            throw ValidationError("The command is for a database: pass --database postgresql://…; serve makes files.")
        }
        let settings = PostgresSettings(uri)
        let (before, storage) = try await openingDatabase {
            let before = try await PostgresLedgerStorage.version(in: settings, clock: clock, random: random)
            let watch = openingWatch(settings) { Terminal.report("The command waits for the database: \($0).") }
            return (
                before,
                try await watch.watch { try await PostgresLedgerStorage(settings, clock: clock, random: random) }
            )
        }
        defer { storage.close() }
        var done = [Self.sentence(from: before, to: PostgresLedgerStorage.newestVersion)]
        if let role {
            try await storage.grantServing(to: role)
            done.append("The role \(role) may read and write rows, as a server does.")
        }
        // A concurrent session may hold a lock for some seconds.
        for attempt in 1...Self.quarterAttempts {
            await storage.prepare(at: SystemClock.now())
            guard storage.condition.concern != nil, attempt < Self.quarterAttempts else { break }
            try await clock.sleep(for: .seconds(1))
        }
        let report = try await storage.report()
        if let quarters = report.fact("quarters") { done.append("Quarters of documents: \(quarters).") }
        return Migration(done: done, warnings: report.warnings, missing: storage.condition.concern)
    }

    /// The maximum number of attempts to add the tables of the next calendar quarters, before the failure is reported.
    /// Each attempt waits at most 2 seconds for the lock of a concurrent session.
    private static let quarterAttempts = 5

    private static func sentence(from before: Int?, to after: Int) -> String {
        switch before {
        case nil: "The ledger was made, with version \(after) of its tables."
        case after: "The ledger has version \(after) of its tables: nothing to do."
        case let before?: "The ledger's tables were brought from version \(before) to version \(after)."
        }
    }
    #else
    func migrate(servingAs role: String?) async throws -> Migration { throw Self.withoutPostgres }
    #endif
}
