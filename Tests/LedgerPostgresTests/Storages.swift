// SPDX-License-Identifier: Apache-2.0

@testable import LedgerPostgres
import TestPostgres
import Testing

extension TestDatabase {
    /// A handle on the ledger in the database, as a server of its own would have.
    func storage(
        upgrades: Bool = true, continuesCopy: Bool = false, _ change: (inout PostgresSettings) -> Void = { _ in }
    ) async throws -> PostgresLedgerStorage {
        var settings = PostgresSettings(server.address(name))
        // On a busy machine another server may hold the counter for longer than a second.
        settings.limits.counter = .seconds(8)
        // On a busy machine a group may take longer than a server tries it again.
        settings.limits.group = .seconds(3600)
        change(&settings)
        return try await PostgresLedgerStorage(
            settings, upgrades: upgrades, continuesCopy: continuesCopy, clock: ContinuousClock(),
            random: SystemRandomNumberGenerator())
    }
}

extension Trait where Self == ConditionTrait {
    static var needsPostgres: Self { .enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)") }
}
