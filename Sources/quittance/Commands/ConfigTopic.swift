// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// `quittance help config`: the options common to most commands. The help of each command refers to this topic.
struct ConfigTopic: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Help: how commands find their ledger, its apps and the roots to trust.",
        usage: "quittance COMMAND [--config <file>] [--database <ledger>] [--root <file>]",
        discussion: """
            All commands that use a ledger find it, its apps and their products, and the roots to trust in one way: by \
            a configuration file, environment variables, and the options below. A variable overrides the file, and an \
            option overrides both. The least that a server needs is a ledger and an app.

              quittance serve --config quittance.json
              quittance check --database sqlite:quittance.sqlite
              QUITTANCE_DATABASE=postgresql:///ledger quittance jobs

            A small quittance.json:

              {"database": "sqlite:quittance.sqlite",
               "apps": [{"bundleId": "com.example.notes",
                         "products": {"com.example.notes.pro.monthly":
                                      {"entitlements": ["pro"]}}}]}

            The variable of a setting is its name in capitals, such as QUITTANCE_LOG_FORMAT of logFormat. \
            docs/configuration.md lists all settings.

            --trust-other-roots is for the commands that record documents, --insecure for those that ask the App Store.
            """)

    /// The sentence in the help of commands that open a ledger.
    static let ledgerOptions = "For --config, --database and --root see quittance help config."

    /// The sentence in the help of commands that also record documents and call the App Store.
    static let appStoreOptions = """
        For --config, --database, --root, --trust-other-roots and --insecure see quittance help config.
        """

    @OptionGroup var ledger: ServerOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var appStoreServer: AppStoreServerOptions

    func run() throws { throw CleanExit.helpRequest(self) }
}

extension ArgumentVisibility {
    /// The visibility of the options that ``ConfigTopic`` explains. No other help lists these options, but shells
    /// complete them.
    static let inTopic: ArgumentVisibility = {
        let makesScript = CommandLine.arguments.contains { $0.hasPrefix("--generate-completion-script") }
        return makesScript ? .default : .hidden
    }()
}
