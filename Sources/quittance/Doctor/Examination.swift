// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
import Logging
import PurchaseLedger
import PurchaseServer

/// Examines the configuration and the ledger of `quittance serve` with the same options, without any change.
struct Examination {
    /// The parts of a configuration that can be used.
    struct Parts {
        var composition: Composition
        let verifier: AppStoreVerifier
        var keys: [String: InAppPurchaseKey] = [:]
        var webhookSecrets: WebhookSecrets?

        /// The service on a ledger, with all that `quittance serve` has, but for the journal of erasures.
        func service(_ storage: any LedgerStorage) -> LedgerService {
            // A simulator's clock is wrong on purpose.
            let isJudged = composition.simulatorClock == nil
            let judge = isJudged ? ClockJudge(now: SystemClock.now, clock: composition.clock) : nil
            var service = composition.service(storage, verifier, judge: judge)
            service.signing = AppSigning(keys: keys, nonce: Composition.nonce)
            service.webhookSecrets = webhookSecrets
            service.webhookNetworks = composition.configuration.webhookNetworks
            service.reconcilers = composition.reconcilers(service)
            return service
        }
    }

    let options: ServeOptions
    /// The time for a test notification to arrive: Apple sends it within seconds.
    var patience = Duration.seconds(60)
    var findings = Findings()
    /// Where the App Store failed or refuses the key, which explains much else.
    var unasked: Set<LedgerScope> = []

    init(_ options: ServeOptions) {
        self.options = options
        findings.options = options.options.text
    }

    /// `quittance serve --check`: all that the server would read at its start.
    ///
    /// - Throws: Exit status 1 if there is a fault.
    mutating func check() async throws {
        let parts = await examineConfiguration()
        if let parts, parts.composition.configuration.database != nil {
            await examineLedger(parts) { _, _ in }
        } else {
            let why = parts == nil ? "The configuration is wrong." : "There is no ledger."
            findings.skip(.ledger, .clock, because: why)
        }
        try findings.finish([.configuration, .ledger, .clock])
    }

    /// `quittance doctor`.
    ///
    /// - Parameters:
    ///   - server: The address of the running server; `nil` for its `healthPort`.
    ///   - publicAddress: The address that App Store Connect has; `nil` if nobody asks about it.
    ///   - loops: Whether the App Store sends test notifications.
    mutating func examine(server: String?, public publicAddress: String?, loops: Bool) async {
        guard let parts = await examineConfiguration() else {
            let why = "The configuration is wrong."
            return findings.skip(.ledger, .clock, .appStore, .catalogue, .webhooks, .server, .loop, because: why)
        }
        defer { findings.dropRepeated() }
        await examineServer(server, public: publicAddress, parts.composition)
        guard parts.composition.configuration.database != nil else {
            let why = "There is no ledger."
            return findings.skip(.ledger, .clock, .appStore, .catalogue, .webhooks, .loop, because: why)
        }
        let isExamined = await examineLedger(parts) { examination, service in
            await examination.examineDatabaseClock(service.ledger)
            await examination.examineKeys(service)
            await examination.examineWork(service, at: parts.composition.now(), loops: loops)
            await examination.examineCatalogue(service, parts.composition)
            await examination.examineWebhooks(service, at: SystemClock.now())  // Attempts have real times.
            guard loops else { return examination.findings.skip(.loop, because: "Pass --loop.") }
            await examination.examineLoop(service, parts.composition.clock)
        }
        guard !isExamined else { return }
        findings.skip(.catalogue, .webhooks, .loop, because: "The ledger cannot be used.")
        await examineKeys(parts.service(MemoryLedgerStorage()))
    }
}

// MARK: - The configuration

extension Examination {
    /// - Returns: `nil` if the configuration or its roots cannot be used.
    private mutating func examineConfiguration() async -> Parts? {
        let options = options
        guard let configuration = findings.trying(.configurationInvalid, { try options.configuration() }) else {
            return nil
        }
        let composition = Composition(configuration: configuration)
        examineSettings(configuration)
        for app in configuration.apps { examine(app) }
        let products = Dictionary(grouping: configuration.apps.flatMap { $0.catalogue.products.keys }) { $0 }
        for id in products.filter({ $0.value.count > 1 }).keys.sorted() { findings.add(.productOfTwoApps, "\(id).") }
        _ = findings.trying(.appStoreInsecure) { try options.appStoreServer.check(configuration) { _ in } }
        guard let verifier = findings.trying(.rootsUnusable, { try composition.verifier() }) else { return nil }
        if verifier.roots.simulated.some {
            findings.add(.simulatorTrusted, "The server accepts purchases that an App Store simulator invents.")
        }
        var parts = Parts(composition: composition, verifier: verifier)
        for app in configuration.apps {
            let key = findings.trying(.keyFileUnusable) { try app.inAppPurchaseKey?.read() }
            parts.keys[app.identity.bundleId] = key ?? nil
        }
        parts.webhookSecrets = findings.trying(.webhookSecretFileUnusable) { try composition.webhookSecrets() } ?? nil
        await takeSimulatorTime(&parts.composition)
        return parts
    }

    private mutating func takeSimulatorTime(_ composition: inout Composition) async {
        guard let address = composition.configuration.simulatorClock else { return }
        do {
            let logger = Logger(label: "quittance") { _ in SwiftLogNoOpLogHandler() }
            composition.simulatorClock = try await SimulatorClock(address, clock: composition.clock, logger: logger)
        } catch {
            findings.add(.simulatorClockSilent, "\(error)")
        }
    }

    private mutating func examineSettings(_ configuration: ServerConfiguration) {
        var status = stat()
        if configuration.database == nil {
            findings.add(.noLedger, "The server answers verifyReceipt, and records nothing.")
        }
        if ["0.0.0.0", "::"].contains(configuration.hostname), configuration.bounds.trustedProxies.isEmpty {
            findings.add(.openToAll, "The server listens without TLS on all addresses: \(configuration.hostname).")
        }
        if !configuration.passedOver.isEmpty {
            let names = configuration.passedOver.joined(separator: " ")
            findings.add(.kubernetesVariables, "Variables of a Kubernetes service are no settings: \(names).")
        }
        var password = false
        if case .postgresql(let uri) = configuration.database {
            password = uri.mayHavePassword
            if configuration.erasureJournal == nil {
                findings.add(.noErasureJournal, "The database has no journal of erasures.")
            }
        }
        let hasSecret = configuration.apps.contains { $0.sharedSecret != nil || $0.customerProof?.hasSecret == true }
        guard let file = options.options.config, hasSecret || password, stat(file, &status) == 0 else { return }
        if status.st_mode & 0o007 != 0 {
            findings.add(.configurationExposed, "Other users may read \(file), which has a secret.")
        }
    }

    private mutating func examine(_ app: AppConfiguration) {
        let name = app.identity.bundleId
        if app.identity.appAppleId == nil { findings.add(.noAppAppleId, "\(name) has no appAppleId.") }
        if let key = app.inAppPurchaseKey {
            if key.file.split(separator: "/").last?.hasPrefix("AuthKey_") == true {
                findings.add(.keyOfOtherKind, "The key of \(name) is \(key.file).")
            }
            if let warning = key.nameWarning { findings.add(.keyNamedOtherwise, warning) }
        } else {
            findings.add(.noInAppPurchaseKey, "\(name) has no inAppPurchaseKey.")
        }
        let offers = app.clientOffers.filter { !$0.value.isEmpty }
        if !offers.isEmpty, app.inAppPurchaseKey == nil {
            let products = offers.keys.sorted().joined(separator: ", ")
            findings.add(.offerWithoutKey, "Nothing signs clientOffers of \(products).")
        }
        for rule in app.retention?.rules ?? [] {
            var named = rule.products
            if case .alternateProduct(let id, _) = rule.addition { named.insert(id) }
            for id in named.subtracting(app.catalogue.products.keys).sorted() {
                findings.add(.unknownProduct, "A rule of retention of \(name) names \(id), which is not in products.")
            }
            if case .promotionalOffer(let offer) = rule.addition, !offers.isEmpty,
                !offers.contains(where: { (named.isEmpty || named.contains($0.key)) && $0.value.contains(offer) })
            {
                findings.add(.unknownOffer, "A rule of retention of \(name) names \(offer), which no clientOffers has.")
            }
        }
    }
}

// MARK: - The ledger

extension Examination {
    /// The free space below which a disk counts as full: the log of a file grows to 64 MiB between two checkpoints, and
    /// a checkpoint needs as much again.
    private static let minFreeBytes: UInt64 = 128 << 20

    /// The same for the disk of a journal of erasures, with its thousands of lines.
    private static let minJournalBytes: UInt64 = 1 << 20

    /// Opens the ledger for reading, examines it, and lets `body` examine more.
    ///
    /// - Returns: Whether the ledger could be opened.
    @discardableResult
    private mutating func examineLedger(
        _ parts: Parts, _ body: (inout Examination, LedgerService) async -> Void
    ) async -> Bool {
        // A database has no file.
        if let path = try? parts.composition.ledgerFile() { examineDisk(of: path) }
        if let path = parts.composition.configuration.erasureJournal { examineDisk(of: path, isJournal: true) }
        let storage: any LedgerStorage
        do {
            storage = try await parts.composition.opened(.checking)
        } catch let error as LedgerStorageError {
            let kinds: [LedgerStorageError.Code: FindingKind] = [
                .readOnly: .ledgerNotCurrent, .unfinishedCopy: .unfinishedCopy,
            ]
            findings.add(kinds[error.code] ?? .ledgerUnusable, "\(error)")
            return false
        } catch {
            findings.add(.ledgerNotCurrent, "\(error)")
            return false
        }
        let service = parts.service(storage)
        await examine(storage, service, parts.composition)
        await body(&self, service)
        try? storage.close()  // Nothing was written.
        return true
    }

    private mutating func examineDisk(of path: String, isJournal: Bool = false) {
        var status = statvfs()
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        guard statvfs(folder, &status) == 0 else {
            let cure = isJournal ? "Create the folder, or correct erasureJournal." : nil
            return findings.add(isJournal ? .notWritable : .ledgerUnusable, "There is no folder \(folder).", cure: cure)
        }
        let free = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        guard !free.overflow, free.partialValue < (isJournal ? Self.minJournalBytes : Self.minFreeBytes) else { return }
        let cure = isJournal ? "Make room: without it, no customer can be deleted." : nil
        findings.add(.diskFull, "The disk of \(folder) has \(free.partialValue >> 20) MiB left.", cure: cure)
    }

    private mutating func examine(
        _ storage: any LedgerStorage, _ service: LedgerService, _ composition: Composition
    ) async {
        do {
            let report = try await storage.report()
            if let refusal = report.writeRefusal { findings.add(.notWritable, refusal) }
            for warning in report.warnings {
                findings.add(composition.isInFile ? .ledgerExposed : .databaseSettings, "\(warning).")
            }
            if let concern = storage.condition.concern { findings.add(.ledgerConcern, concern) }
            try await service.ledger.requireRoots(service.verifier.roots)
        } catch let error as LedgerStorageError {
            findings.add(error.code == .otherRoots ? .otherRoots : .ledgerUnusable, "\(error)")
        } catch {
            findings.add(.ledgerUnusable, "\(error)")
        }
        await examineJournal(service.ledger, composition)
    }

    private mutating func examineJournal(_ ledger: Ledger, _ composition: Composition) async {
        guard let path = composition.erasureJournalPath else { return }
        // A missing folder is already found.
        guard access(URL(fileURLWithPath: path).deletingLastPathComponent().path, F_OK) == 0 else { return }
        if access(path, R_OK | W_OK) != 0, errno != ENOENT {
            findings.add(
                .notWritable, "\(path) cannot be written: \(String(cString: strerror(errno))).",
                cure: "Give the server's user the rights to the journal, or mount it writable.")
            guard access(path, R_OK) == 0 else { return }
        }
        do {
            let concern = try await ledger.erasureConcern(at: path, isOnly: composition.isInFile)
            if let concern { findings.add(.erasuresLost, "\(concern).") }
        } catch {
            // The error says what to do.
            findings.add(.erasuresLost, "\(error).", cure: "Stop the server before, and start it again.")
        }
    }

    mutating func examineDatabaseClock(_ ledger: Ledger) async {
        do {
            guard let ahead = try await ledger.clockDifference(now: SystemClock.now),
                max(ahead, .zero - ahead) > Composition.clockTolerance
            else { return }
            findings.add(.databaseClock, "This machine's clock is \(ahead) ahead of the database's.")
        } catch {
            findings.skip(.clock, because: "\(error)")
        }
    }
}

// MARK: - Catalogue and webhooks

extension Examination {
    mutating func examineCatalogue(_ service: LedgerService, _ composition: Composition) async {
        do {
            let sold = try await service.ledger.soldProducts()
            if let first = sold.damage.first {
                findings.add(.ledgerDamaged, "\(counted(sold.damage.count, "fault")), such as \(first)")
            }
            let environments = composition.configuration.environments
            let all = ProductComparison.all(sold, service.ledger.rules.catalogues, in: environments)
            let unknown = Dictionary(grouping: all, by: \.scope.bundleId).mapValues { $0.flatMap(\.unknown) }
            for (app, sold) in unknown.sorted(by: { $0.key < $1.key }) where !sold.isEmpty {
                findings.add(
                    .productUnknown,
                    """
                    Products of \(app) were bought, and are not in the configuration, so their buyers have no \
                    entitlement: \(Set(sold.map(\.productId)).sorted().joined(separator: ", ")).
                    """)
            }
        } catch {
            findings.skip(.catalogue, because: "\(error)")
        }
    }

    mutating func examineWebhooks(_ service: LedgerService, at now: Timestamp) async {
        do {
            let (served, concerns) = try await service.ledger.servedWebhooks(
                of: Set(service.apps.keys), service.webhookSecrets?.fingerprint, service.webhookNetworks)
            for (endpoint, sentence) in concerns {
                let place = endpoint.map { " Its receiver is \($0.place)." } ?? ""
                findings.add(.webhookUnserved, sentence + place, cure: endpoint?.cure)
            }
            for endpoint in served {
                guard let status = try await WebhookStatus(endpoint.id, of: endpoint.bundleId, in: service.ledger)
                else { continue }
                let name = "The webhook \(endpoint.id) (\(endpoint.place))"
                let id = endpoint.arguments
                if status.setAsideCount > 0 {
                    let cure = "When it answers 200, quittance webhooks replay \(id) --set-aside sends them again."
                    let events = counted(status.setAsideCount, "event")
                    findings.add(.webhookSetAside, "\(name) has \(events) set aside.", cure: cure)
                }
                guard let since = status.progress?.failingSince else { continue }
                let failed = try await service.ledger.failedDeliveries(
                    of: endpoint.id, of: endpoint.bundleId, setAside: false, limit: 1)
                let reason = "\(failed.first?.reason ?? "no answer yet"); \(counted(status.waiting, "event")) waiting"
                let cure = "See quittance webhooks attempts \(id). quittance webhooks resume \(id) tries again at once."
                findings.add(
                    .webhookFailing, "\(name) fails since \(since.iso8601): \(reason).", cure: cure,
                    since.duration(to: now) > Self.maxFailing ? .fault : .hint)
            }
        } catch {
            findings.skip(.webhooks, because: "\(error)")
        }
    }

    /// The time within which the restart of a receiver ends.
    private static let maxFailing = Duration.seconds(3600)
}

extension WebhookEndpoint {
    /// The host and the port of its URL, whose path may be a secret.
    fileprivate var place: String {
        URLComponents(string: url).map { ($0.host ?? "") + ($0.port.map { ":\($0)" } ?? "") } ?? ""
    }

    /// The arguments of a command about it.
    fileprivate var arguments: String { "\(id) --bundle-id \(bundleId) […]" }

    /// What ends that it gets nothing.
    fileprivate var cure: String {
        state == .active
            ? "Add it to webhookNetworks and restart, or run quittance webhooks change \(arguments) --url URL."
            : "When the receiver works again, quittance webhooks resume \(arguments) delivers."
    }
}

extension ServerOptions {
    /// The options as a shell takes them, each after a blank, without a password.
    fileprivate var text: String {
        let given = [("--config", config), ("--database", database.map { $0.mayHavePassword ? "…" : $0 })]
        return (given + roots.map { ("--root", $0) }).map { name, value in
            value.map { " \(name) '\($0.replacing("'", with: "'\\''"))'" } ?? ""
        }.joined()
    }
}
