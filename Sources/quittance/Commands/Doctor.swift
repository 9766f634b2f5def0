// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// `quittance doctor`: says what is wrong with a configuration, its ledger, its App Store and its server.
struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Find what is wrong: configuration, ledger, clock, App Store, webhooks, server.",
        usage: "quittance doctor [options]",
        discussion: """
            Pass the options of quittance serve, and run it as the server's user. It changes nothing, may run beside a \
            server, and asks the App Store for the notifications of a minute with each In-App Purchase key. Only \
            --loop makes something: a test notification for each app and environment, which the server records.

            A fault is what does not work, and a hint what may be as you want it. docs/doctor.md lists all. A large \
            ledger takes a while, as all purchases are read. SQLite may leave its files -wal and -shm beside a ledger.

            Exit status: 0 no faults; 1 faults; 2 wrong usage.

              quittance doctor --config quittance.json
              quittance doctor --config quittance.json --loop \\
                  --public https://purchases.example.com

            \(ConfigTopic.appStoreOptions)
            """)

    @OptionGroup var serving: ServeOptions

    @Option(help: "The address of the running server. Default: healthPort of the configuration.")
    var server: String?

    @Option(
        name: .customLong("public"), help: "The address that App Store Connect has. Find out if it leads to a server.")
    var publicAddress: String?

    @Flag(help: "Let the App Store send a test notification, and wait a minute for it in the ledger.")
    var loop = false

    @Flag(help: "Print only a JSON document.")
    var json = false

    func validate() throws {
        if let server { try ServerConnection.require(server) }
        if let publicAddress { try ServerConnection.require(publicAddress, option: "--public") }
    }

    func run() async throws {
        var examination = Examination(serving)
        await examination.examine(server: server, public: publicAddress, loops: loop)
        try examination.findings.finish(json: json)
    }
}
