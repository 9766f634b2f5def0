// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import Logging
import PurchaseLedger
import PurchaseServer

/// Builds the ledger, the verifier and the server that a configuration describes. It passes them the machine's clocks,
/// randomness and network, which no other code accesses directly.
struct Composition {
    let configuration: ServerConfiguration
    /// The simulator whose time the server takes; `nil` for the machine's.
    var simulatorClock: SimulatorClock?
    var now: @Sendable () -> Timestamp { simulatorClock?.now ?? SystemClock.now }
    let clock = ContinuousClock()
    var random = SystemRandomNumberGenerator()

    /// The same for the ledger in another place.
    func with(_ database: LedgerLocation) -> Composition {
        var configuration = configuration
        configuration.database = database
        return Composition(configuration: configuration)
    }

    /// A new UUID in lower case.
    @Sendable static func nonce() -> String { UUID().uuidString.lowercased() }

    /// Builds all that a configuration describes, from top to bottom, lets `body` use it, and closes what it opened.
    ///
    /// - Parameters:
    ///   - use: ``LedgerUse/serving`` or ``LedgerUse/working``.
    ///   - share: How much of Apple's rate limits is used, in percent.
    ///   - trustsOtherRoots: Whether documents of roots that are not configured now count all the same.
    ///   - warn: Called with what the operator should look at in the keys' files; by default it is standard error.
    ///   - body: Gets the service, and the composition with the time that it takes.
    /// - Throws: Wrong usage; exit status 1 if the ledger cannot be used, with the reason on standard error; errors of
    ///   `body`.
    func run<Output>(
        _ use: LedgerUse, share: Int = 100, trustsOtherRoots: Bool = false, _ logger: Logger,
        warn: (String) -> Void = { Terminal.report($0) },
        _ body: (LedgerService, Composition) async throws -> Output
    ) async throws -> Output {
        let verifier = try verifier()
        let signing = try signing(warn: warn)
        let composition = try await takingSimulatorTime(logger)
        let isServer = use == .serving
        return try await withStorage(use, waiting: isServer ? logger : nil) { storage in
            if isServer { await report(storage, to: logger) }
            // A simulator's time needs no judge.
            let isJudged = isServer && composition.simulatorClock == nil
            let judge = isJudged ? ClockJudge(now: SystemClock.now, clock: clock) : nil
            var service = composition.service(storage, verifier, judge: judge)
            let erasures = try isServer ? erasureJournal() : nil
            if let journal = erasures?.journal { service.keepErasures(in: journal) }
            service.signing = signing
            let reconcilers = composition.reconcilers(service, share: share)
            service.reconcilers = reconcilers
            service.jobs = reconcilers.jobs(clock: clock, logger: logger)
            try await composition.requireRoots(of: service, trustsOthers: trustsOtherRoots, logger)
            if isServer { try await service.eraseAgain(erasures, logger) }
            return try await body(service, composition)
        }
    }
}
