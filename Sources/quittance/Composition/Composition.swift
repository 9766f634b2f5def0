// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import Logging
import PurchaseLedger
import PurchaseServer

/// Builds the ledger, the verifier and the server of a configuration. These parts get the machine's clocks, randomness
/// and network from here, so that tests can pass others.
struct Composition {
    let configuration: ServerConfiguration
    /// The simulator whose time the server takes; `nil` for the machine's time.
    var simulatorClock: SimulatorClock?
    var now: @Sendable () -> Timestamp { simulatorClock?.now ?? SystemClock.now }
    let clock = ContinuousClock()
    var random = SystemRandomNumberGenerator()

    /// The composition for the ledger at this location.
    func with(_ database: LedgerLocation) -> Composition {
        var configuration = configuration
        configuration.database = database
        return Composition(configuration: configuration)
    }

    /// A new UUID in lower case.
    @Sendable static func nonce() -> String { UUID().uuidString.lowercased() }

    /// Builds all parts of a configuration in order, lets `body` use them, and closes all opened parts.
    ///
    /// - Parameters:
    ///   - use: ``LedgerUse/serving`` or ``LedgerUse/working``.
    ///   - share: The share of Apple's rate limits to use, in percent.
    ///   - trustsOtherRoots: Whether to accept a ledger with documents signed under root certificates that the
    ///     configuration does not trust now. These documents then count.
    ///   - warn: Called with warnings about the keys' files. By default, warnings go to standard error.
    ///   - body: Receives the service, and the composition with its time.
    /// - Throws: `ValidationError`; exit status 1 if the ledger cannot be used, with the reason on standard error;
    ///   errors of `body`.
    func run<Output>(
        _ use: LedgerUse, share: Int = 100, trustsOtherRoots: Bool = false, _ logger: Logger,
        warn: (String) -> Void = { Terminal.report($0) },
        _ body: (LedgerService, Composition) async throws -> Output
    ) async throws -> Output {
        let verifier = try verifier()
        let signing = try signing(warn: warn)
        let webhookSecrets = try webhookSecrets()
        let composition = try await takingSimulatorTime(logger)
        let isServer = use == .serving
        return try await withStorage(use, waiting: isServer ? logger : nil) { storage in
            if isServer { await report(storage, to: logger) }
            // Only the machine's clock is judged. A simulator's clock is wrong on purpose.
            let isJudged = isServer && composition.simulatorClock == nil
            let judge = isJudged ? ClockJudge(now: SystemClock.now, clock: clock) : nil
            var service = composition.service(storage, verifier, judge: judge)
            let erasures = try isServer ? erasureJournal() : nil
            if isServer { try removeAbandoned() }
            if let erasures { service.keepErasures(in: erasures, logger) }
            service.signing = signing
            service.webhookSecrets = webhookSecrets
            service.webhookNetworks = configuration.webhookNetworks
            let reconcilers = composition.reconcilers(service, share: share)
            service.reconcilers = reconcilers
            service.jobs = reconcilers.jobs(clock: clock, logger: logger) + [service.grantEnds(now: composition.now)]
            let prove: @Sendable () async throws -> Void = { [service] in
                do {
                    try await composition.requireRoots(of: service, trustsOthers: trustsOtherRoots, logger)
                    if isServer { try await service.eraseAgain(erasures, isOnly: isInFile, logger) }
                } catch let error as LedgerStorageError where !isServer || error.code != .unavailable {
                    throw Terminal.failure("\(error)")
                }
            }
            do {
                try await prove()
            } catch let error as LedgerStorageError {
                logger.warning(
                    "Roots and erasures cannot be compared yet: the server answers, and compares them later",
                    metadata: ["reason": .string("\(error)")])
                service.lateProof = prove
            }
            if isServer, isInFile { await service.endLeases(of: storage, at: SystemClock.now(), logger) }
            return try await body(service, composition)
        }
    }
}
