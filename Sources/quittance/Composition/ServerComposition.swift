// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Logging
import PurchaseLedger
import PurchaseServer

// The server of a configuration, and its parts besides the ledger: time, log, keys, and reconcilers for the App Store.

extension Composition {
    /// The composition, with the time of a simulator if the configuration names a simulator.
    ///
    /// - Throws: Exit status 1 if the simulator's time cannot be read.
    func takingSimulatorTime(_ logger: Logger) async throws -> Composition {
        guard simulatorClock == nil, let address = configuration.simulatorClock else { return self }
        var composition = self
        do {
            composition.simulatorClock = try await SimulatorClock(address, clock: clock, logger: logger)
        } catch {
            throw Terminal.failure("\(error) Start the simulator first: quittance simulate.")
        }
        logger.warning(
            "The time is a simulator's: for demonstrations only",
            metadata: ["simulatorClock": .string(address), "now": .string(composition.now().iso8601)])
        return composition
    }

    /// A logger that writes to standard error.
    func logger() -> Logger {
        var logger = Logger(label: "quittance") { [configuration] _ in
            LineLogHandler(configuration.logFormat, now: SystemClock.now, write: Terminal.printError)
        }
        logger.logLevel = configuration.logLevel
        return logger
    }

    /// Refuses a ledger with documents signed under root certificates that the configuration does not trust now.
    ///
    /// - Parameter trustsOthers: Whether the operator lets such documents count nevertheless.
    /// - Throws: `LedgerStorageError` if the ledger is refused or unreadable.
    func requireRoots(of service: LedgerService, trustsOthers: Bool, _ logger: Logger) async throws {
        if trustsOthers {
            let forgotten = try await service.ledger.forgetRoots(besides: service.verifier.roots, at: now())
            // A simulator's signature proves nothing, so the level is critical.
            logger.log(
                level: forgotten.contains(where: \.isSimulated) ? .critical : .warning,
                """
                The ledger may have documents of other roots than are trusted now (--trust-other-roots): they \
                stay, and what they say counts. Omit the option from the next start on
                """, metadata: ["forgotten": .string(forgotten.sentence)])
        }
        try await service.ledger.requireRoots(service.verifier.roots)
    }

    /// The ledger with the configured rules and apps, and its verifier.
    ///
    /// - Parameter judge: Judges the machine's clock, if the server uses this clock.
    func service(
        _ storage: any LedgerStorage, _ verifier: AppStoreVerifier, judge: ClockJudge? = nil
    ) -> LedgerService {
        LedgerService(configuration, storage: storage, verifier: verifier, clockJudge: judge)
    }

    /// The signer with the apps' In-App Purchase keys.
    ///
    /// - Parameter warn: Called with warnings for the operator. By default, warnings go to standard error.
    /// - Throws: `ValidationError` if a key cannot be read.
    func signing(warn: (String) -> Void = { Terminal.report($0) }) throws -> AppSigning {
        configuration.keyWarnings.forEach(warn)
        let keys = try asUsage("inAppPurchaseKey.file ") { try AppSigning.keys(of: configuration.apps) }
        return AppSigning(keys: keys, nonce: Self.nonce)
    }

    /// The secrets of webhooks; `nil` if the configuration has no secret file.
    ///
    /// - Throws: `ValidationError` if the file cannot be used.
    func webhookSecrets() throws -> WebhookSecrets? {
        guard let path = configuration.webhookSecretFile else { return nil }
        return try asUsage("\(configuration.reference(to: "webhookSecretFile")): ") { try WebhookSecrets.read(path) }
    }

    /// The reconcilers, which call the App Store or a simulator for the apps with keys.
    ///
    /// - Parameter share: The share of Apple's rate limits to use, in percent.
    func reconcilers(_ service: LedgerService, share: Int = 100) -> Reconcilers {
        var hosts = AppStoreHosts.apple
        if let address = configuration.appStoreServer { hosts[.production] = address }
        if let address = configuration.sandboxAppStoreServer { hosts[.sandbox] = address }
        let clock = clock
        var transport = HTTPAppStoreTransport(hosts: hosts, clock: clock)
        if let judge = service.clockJudge { transport.onDate = { judge.appStoreSaid($0) } }
        return Reconcilers(
            service.ledger, service.verifier, keys: service.signing?.allKeys ?? [:], apps: service.apps,
            over: transport, share: share, now: now, wall: SystemClock.now,
            sleep: { try await clock.sleep(for: $0) }, random: SystemRandomNumberGenerator(),
            judge: service.clockJudge)
    }

    /// The keyed digests of the configuration; `nil` without a journal of erasures, which has the key.
    var configurationDigests: [String: String]? {
        // A journal that cannot be read has no key either.
        erasureJournalPath.flatMap { try? ErasureJournalFile.key(at: $0) }.map { configuration.digests(key: $0) }
    }

    /// The server of this configuration.
    ///
    /// - Parameter service: The ledger service; `nil` for a server that only verifies.
    func server(_ service: LedgerService?, _ logger: Logger) -> ServerApplication {
        var random = random
        var server = ServerApplication(
            environment: configuration.environment, ledger: service, bounds: configuration.bounds,
            requestSeed: random.next(), now: now, clock: clock, logger: logger)
        server.requestLog = configuration.requestLog
        server.simulatorClock = simulatorClock
        server.wall = SystemClock.now
        return server
    }
}

extension LedgerService {
    /// Erases customers again if the journal has their erasure and the ledger does not, for example after a backup was
    /// restored by hand. Warns if the journal lacks erasures.
    func eraseAgain(_ erasures: ErasureJournalFile?, isOnly: Bool, _ logger: Logger) async throws {
        guard let erasures else {
            return logger.warning(
                """
                Without erasureJournal, a restored dump brings deleted customers back: set it to the path of a file of \
                this server
                """)
        }
        let (count, concern) = try await ledger.replay(erasures, isOnly: isOnly)
        erasureConcern.sentence = concern
        if let concern { logger.warning("\(concern)") }
        guard count > 0 else { return }
        logger.warning(
            "The ledger is older than the journal of erasures: customers were erased again",
            metadata: ["customers": "\(count)", "journal": .string(erasures.path)])
    }
}
