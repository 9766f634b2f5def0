// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust
package import Logging
public import PurchaseLedger
import Synchronization

/// A ledger, the verifier of its documents, and the configuration of its apps.
public struct LedgerService: Sendable {
    /// The ledger. It cannot be replaced, because its callbacks belong to this service: each commit, for example,
    /// counts for the server's readiness.
    public internal(set) var ledger: Ledger
    /// Accepts the documents of the ledger's apps and environments.
    public var verifier: AppStoreVerifier
    /// The configuration of apps, by bundle id. A missing app has the defaults.
    public var apps: [String: AppConfiguration] = [:]
    /// The age at which events are erased; `nil` keeps all events.
    public var eventRetention: Duration?
    /// The age at which entries of the audit list are erased; `nil` keeps all entries.
    package var auditRetention: Duration?
    /// Signs for the apps with keys; `nil` if the server signs nothing.
    public var signing: AppSigning?
    /// Asks the App Store about the apps with keys; `nil` if the server sends no requests to the App Store.
    public var reconcilers: Reconcilers?

    /// The secrets of webhooks; `nil` without a secret file, and then the server delivers none.
    package var webhookSecrets: WebhookSecrets?
    /// The networks to which webhooks may be sent although they are not public.
    package var webhookNetworks: [IPNetwork] = []

    /// The kinds of jobs that the server performs.
    public var jobs: [JobKind] = []

    /// Judges the machine's clock; `nil` if the clock counts as correct, as a simulator's clock does.
    public let clockJudge: ClockJudge?

    /// The notices for the operator about documents and purchases.
    package let board: NoticeBoard
    let readiness: Readiness
    /// Detects notification histories of the App Store whose last complete reading is too long ago.
    package let histories = HistoryWatch()
    /// Says which webhooks get nothing.
    package let webhooks = WebhookWatch()
    package let erasureConcern = Concern()
    /// The journal into which erasures are written; `nil` without one.
    private(set) var erasures: ErasureJournalFile?
    /// Compares the ledger with the configuration, if the ledger could not be read at the start. It throws
    /// `LedgerStorageError.unavailable` until it can.
    package var lateProof: (@Sendable () async throws -> Void)?
    let lastNotification = LastNotification()
    let keys = APIKeyCache()
    let dueSignal = DueSignal()
    let followers: EventFollowers

    /// Creates a service without configured apps.
    public init(ledger: Ledger, verifier: AppStoreVerifier, clockJudge: ClockJudge? = nil) {
        let readiness = Readiness(ledger)
        let board = NoticeBoard()
        let followers = EventFollowers(ledger)
        self.readiness = readiness
        self.board = board
        self.followers = followers
        var ledger = ledger
        ledger.onCommit = { readiness.committed($0) }
        ledger.onDue = { [dueSignal] in dueSignal.noteDue() }
        ledger.onEvents = { followers.noteEvents(of: $0) }
        ledger.onNotices = { board.note($0) }
        if let clockJudge { ledger.onDocuments = { clockJudge.sawDocuments($0) } }
        self.clockJudge = clockJudge
        self.ledger = ledger
        self.verifier = verifier
    }

    /// Creates a service from a configuration.
    ///
    /// - Parameter verifier: Has the roots and the revocation policy. Apps and environments come from the
    ///   configuration.
    public init(
        _ configuration: ServerConfiguration, storage: any LedgerStorage, verifier: AppStoreVerifier,
        clockJudge: ClockJudge? = nil
    ) {
        let apps = Dictionary(configuration.apps.map { ($0.identity.bundleId, $0) }) { $1 }
        var verifier = verifier
        verifier.apps = .only(configuration.apps.map(\.identity))
        verifier.environments = configuration.environments
        let rules = LedgerRules(
            catalogues: apps.mapValues(\.ledgerCatalogue), claimPolicy: configuration.claimPolicy,
            keepsEvidence: configuration.keepEvidence,
            asksAppStore: Set(apps.filter { $0.value.inAppPurchaseKey != nil }.keys))
        self.init(ledger: Ledger(storage: storage, rules: rules), verifier: verifier, clockJudge: clockJudge)
        self.apps = apps
        eventRetention = configuration.eventRetentionDays.map { .seconds($0 * 86_400) }
        auditRetention = .seconds(configuration.auditRetentionDays * 86_400)
    }
}

extension LedgerService {
    /// Makes the ledger write each erasure into the last journal of a file before the commit.
    package mutating func keepErasures(in file: ErasureJournalFile, _ logger: Logger) {
        guard let journal = file.journal else { return }
        erasures = file
        ledger.keepErasures(in: journal) {
            logger.warning(
                """
                The journal of erasures lacks deletions that the ledger knows, such as those of a server with a copy: \
                a new one begins in its file
                """,
                metadata: ["journal": .string(file.path)])
            return try file.beginJournal()
        }
    }

    /// Ends the leases of all webhooks if this server has the lock of the ledger's file, which shows that no other
    /// server lives. Commands take no webhook leases.
    package func endLeases(of storage: any LedgerStorage, at now: Timestamp, _ logger: Logger) async {
        do {
            guard try await storage.report().lockFailure == nil else { return }
            try await ledger.endWebhookLeases(at: now)
        } catch {
            logger.notice(
                "Leases of webhooks were not ended: their events wait up to a minute", metadata: ["error": "\(error)"])
        }
    }

    /// The kind of the jobs that end grants, in each app and environment of the configuration.
    public func grantEnds(now: @escaping @Sendable () -> Timestamp) -> JobKind {
        let scopes = apps.keys.flatMap { bundleId in
            verifier.environments.map { LedgerScope(bundleId: bundleId, environment: $0) }
        }
        return ledger.grantEnds(in: scopes, now: now)
    }

    /// The problems that need the operator's attention although the server works, as sentences; `nil` if there are
    /// none.
    package var concern: String? {
        let concerns = concerns.map(\.message)
        return concerns.isEmpty ? nil : concerns.joined(separator: " ")
    }

    /// The same, each with the code of its part of the server.
    var concerns: [(code: String, message: String)] {
        [
            ("storage", ledger.condition.concern), ("erasureJournal", erasureConcern.sentence),
            ("erasureJournal", erasures?.fault),
            ("clock", clockJudge?.concern), ("purchases", board.concern), ("notificationHistory", histories.concern),
            ("webhooks", webhooks.concern),
        ].compactMap { code, message in message.map { (code, $0) } }
    }
}

/// A problem that needs the operator's attention, as a sentence.
package final class Concern: Sendable {
    private let text = Mutex<String?>(nil)

    package init() {}

    package var sentence: String? {
        get { text.withLock { $0 } }
        set { text.withLock { $0 = newValue } }
    }
}

extension AppStoreVerifier {
    /// This verifier restricted to one app and environment.
    func only(_ scope: LedgerScope) -> AppStoreVerifier { only(scope.bundleId, in: [scope.environment]) }

    /// This verifier restricted to one app, and to some environments.
    func only(_ bundleId: String, in environments: Set<Environment>) -> AppStoreVerifier {
        var verifier = self
        verifier.apps = apps.only(bundleId)
        verifier.environments.formIntersection(environments)
        return verifier
    }
}

extension AcceptedApps {
    /// Whether the verifier accepts the app with this bundle id.
    func contain(_ bundleId: String) -> Bool {
        switch self {
        case .any: true
        case .only(let apps): apps.contains { $0.bundleId.utf8.elementsEqual(bundleId.utf8) }
        }
    }

    /// These apps restricted to the app with this bundle id.
    fileprivate func only(_ bundleId: String) -> AcceptedApps {
        switch self {
        case .any: .only([AppIdentity(bundleId: bundleId)])
        case .only(let apps): .only(apps.filter { $0.bundleId == bundleId })
        }
    }
}
