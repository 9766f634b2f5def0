// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer
import Reconciliation

/// `quittance backfill`: adds customers' whole histories to a ledger.
struct BackfillCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backfill",
        abstract: "Bring customers' whole histories from the App Store into the ledger.",
        usage: "quittance backfill [<file>] [options]",
        discussion: """
            Reads a list with a customer per line: a transaction id, an order id, an app receipt or an old transaction \
            receipt in base64, or a signed transaction, in any order. Asks the App Store for all transactions of that \
            customer and for the state of the subscriptions, verifies the answers and records them. A single \
            line per customer is enough. A further line about a purchase in an earlier answer costs no request.

            The command writes to the ledger, whether a server runs on the ledger or not. The command uses half of \
            Apple's rate limits unless --share says otherwise. A second backfill of the app is refused meanwhile. The \
            app needs inAppPurchaseKey in the configuration.

            Lines that were taken in are noted in FILE.done (--done). If the command was stopped or killed, run \
            the command again: the command continues, and asks again about lines that failed. Once all lines are taken \
            in, the file is removed. A list from standard input is not noted without --done. To do it twice is safe.

            Exit status: 0 all lines were taken in; 1 some were not, as standard error says line by line; 2 wrong usage.

              quittance backfill ids.txt --config quittance.json
              quittance backfill ids.txt --config quittance.json --dry-run

            \(ConfigTopic.appStoreOptions)
            """)

    @Argument(help: "The list; omit it or pass - for standard input.", completion: .file())
    var file: String?

    @OptionGroup(visibility: .inTopic) var options: ServerOptions
    @OptionGroup(visibility: .inTopic) var trust: TrustOptions
    @OptionGroup(visibility: .inTopic) var appStoreServer: AppStoreServerOptions

    @Option(help: "The app. May be omitted if the configuration has a single app.")
    var bundleId: String?

    @Option(
        name: .customLong("done"), help: "The file that notes the lines that were taken in. Default: FILE.done.",
        completion: .file())
    var doneFile: String?

    @Option(help: "How much of Apple's rate limits to use, from 1 to 100 percent.")
    var share = 50

    @Flag(help: "Print the planned requests. The command sends no request and changes no file.")
    var dryRun = false

    func validate() throws {
        guard (1...100).contains(share) else { throw ValidationError("--share takes a number from 1 to 100.") }
    }

    func run() async throws {
        let composition = try options.composition()
        try appStoreServer.check(composition.configuration)
        let app = try composition.configuration.bundleId(bundleId)
        guard
            composition.configuration.apps.contains(where: { $0.identity.bundleId == app && $0.inAppPurchaseKey != nil }
            )
        else {
            throw ValidationError("The App Store answers only with a key: add inAppPurchaseKey to \(app).")
        }
        // An unreadable key is wrong usage, even in a dry run.
        _ = try composition.signing(warn: { _ in })
        try composition.requireLedger()
        let list = try BackfillList(file, done: donePath.map { try DoneFile($0, isChanged: !dryRun) })
        guard !dryRun else { return try BackfillPlan(share: share).print(list) }
        let (run, isComplete) = try await composition.run(
            .working, share: share, trustsOtherRoots: trust.trustsOtherRoots, composition.logger()
        ) { service, _ in
            try await self.run(service, app, list)
        }
        try run.printSummary()
        guard isComplete else { throw ExitCode(1) }
        list.done?.remove()
    }

    /// - Returns: The finished run, and whether all lines succeeded.
    private func run(
        _ service: LedgerService, _ app: String, _ list: BackfillList
    ) async throws -> (BackfillRun, isComplete: Bool) {
        let reconcilers = service.reconcilers?.all.values.filter { $0.scope.bundleId == app } ?? []
        let backfill = Backfill(reconcilers, wall: SystemClock.now, sleep: { try await Task.sleep(for: $0) })
        guard let backfill else { throw ValidationError("The configuration has neither production nor sandbox.") }
        let lease = try await lease(of: app, in: service.ledger)
        let keeper = Task { await lease.keep { try await Task.sleep(for: $0) } }
        let run = BackfillRun(backfill, list, lease)
        let isComplete = await run.run()
        keeper.cancel()
        await keeper.value
        // If the release fails, the lease expires by itself.
        try? await lease.end()
        return (run, isComplete)
    }

    /// - Throws: Exit status 1 if another backfill of the app is running, or the ledger cannot be used.
    private func lease(of app: String, in ledger: Ledger) async throws -> BackfillLease {
        do {
            return try await BackfillLease(
                of: app, in: ledger, run: Composition.nonce(), wall: SystemClock.now,
                sleep: { try await Task.sleep(for: $0) },
                onWait: { timeout in
                    Terminal.report(
                        """
                        A backfill of \(app) has begun on this ledger, and not ended: looking for \
                        \(timeout.components.seconds) seconds whether it still runs.
                        """)
                })
        } catch let error where error is OtherBackfill || error is LedgerStorageError {
            throw Terminal.failure("\(error)")
        }
    }

    private var donePath: String? { doneFile ?? (file == nil || file == "-" ? nil : file.map { "\($0).done" }) }
}
