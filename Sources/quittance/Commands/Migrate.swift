// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// `quittance migrate`: creates or upgrades the tables of a ledger in a database, as their owner.
struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make or upgrade the tables of a ledger in a database, as their owner.",
        usage: "quittance migrate [options]",
        discussion: """
            For servers whose role may read and write rows, and not change tables: run this as the owner before the \
            first server starts, before servers of a new version start, and before each quarter, whose table of \
            documents it adds. Servers of the same release may run meanwhile. A server whose role owns the tables does \
            all of it by itself at its start.

            With --server-role, that role also gets the rights of a server, as docs/postgresql.md lists them.

            Exit status: 0 the tables are up to date; 1 not, with the reason on standard error; 2 wrong usage.

              quittance migrate --database postgresql://owner@db.example/ledger \\
                  --server-role ledger

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Option(name: .customLong("server-role"), help: "A role of the database that gets the rights of a server.")
    var serverRole: String?

    func run() async throws {
        let composition = try options.composition()
        try await endingOnDamage { try report(try await composition.migrate(servingAs: serverRole)) }
    }

    private func report(_ migration: Migration) throws {
        try Terminal.print(migration.done.joined(separator: "\n"))
        migration.warnings.forEach(Terminal.report)
        if let missing = migration.missing { throw Terminal.failure(missing) }
    }
}
