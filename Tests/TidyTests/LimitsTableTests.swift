// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// The table of bounds in ARCHITECTURE.md against the constants in the sources.
@Suite struct LimitsTableTests {
    /// A row's limit and value, the file with its constants, and the code of each.
    private static let rows: [(limit: String, value: String, file: String, code: [String])] = [
        (
            "a head, from the last answer or the start of the connection", "30 s", bounds,
            ["idleTimeout = Duration.seconds(30)"]
        ),
        ("bytes and fields of a head", "16 KiB, 100", bounds, ["head = 16 << 10", "headFields = 100"]),
        ("a request's body", "30 s", bounds, ["bodyTimeout = Duration.seconds(30)"]),
        ("from a head to the end of its answer", "60 s", bounds, ["requestTimeout = Duration.seconds(60)"]),
        ("no progress of an answer", "20 s", bounds, ["writeTimeout = Duration.seconds(20)"]),
        (
            "a body that is not read, after its answer", "64 KiB, 1 s", bounds,
            ["discardedBody = 64 << 10", "closingTime = Duration.seconds(1)"]
        ),
        (
            "what frames each byte of a chunked body", "8 bytes, besides 16 KiB", bounds,
            ["chunkFraming = 8", "head = 16 << 10"]
        ),
        ("open connections", "1,000", bounds, ["connections = 1000"]),
        (
            "connections beyond them that are told at once that none waits", "50, 1 s each", bounds,
            ["refusedConnections = 50", "closingTime = Duration.seconds(1)"]
        ),
        ("what a row of an answer counts for before it is made", "2 KiB", bounds, ["answerRow = 2 << 10"]),
        (
            "periods of a subscription in an answer", "500", "PurchaseServer/PurchaseBody.swift", ["pageLimit = 500"]
        ),
        ("open connections of one client", "100", bounds, ["connectionsPerPeer = 100"]),
        ("open connections to `healthPort`", "50", bounds, ["healthConnections = 50"]),
        (
            "bytes of long bodies and answers in flight", "256 MiB, a quarter for one client", bounds,
            ["bodyBytesInFlight = 256 << 20"]
        ),
        ("long bodies that wait for a thread", "64", bounds, ["waitingBodies = 64"]),
        ("shutdown", "65 s", bounds, ["requestTimeout = Duration.seconds(60)", "requestTimeout + .seconds(5)"]),
        (
            "a repetition of the first signal to stop, which ends nothing", "0.5 s", "quittance/ServerSignals.swift",
            ["repetition = Duration.milliseconds(500)"]
        ),
        (
            "patience with an OCSP responder", "2 s", "AppStoreTrust/RevocationChecker.swift",
            ["patience: Duration = .seconds(2)"]
        ),
        (
            "a request to a responder", "10 s", "AppStoreTrust/RevocationChecker.swift",
            ["deadline: Duration = .seconds(10)"]
        ),
        (
            "the pause after a failed request to a responder", "30 s", "AppStoreTrust/RevocationCache.swift",
            ["retryDelay: Int64 = 30_000"]
        ),
        ("an OCSP response", "64 KiB", "AppStoreTrust/OCSPQuestion.swift", ["responseLimit = 64 << 10"]),
        (
            "a record, such as a job or an API key", "64 KiB, 8 entries of 256 bytes",
            "PurchaseLedger/LedgerRecord.swift",
            ["payloadLimit = 64 << 10", "entryLimit = 8", "entryLength = 256"]
        ),
        (
            "the payload of a job", "56 KiB", "PurchaseLedger/Job.swift",
            ["payloadLimit = LedgerRecord.payloadLimit - (8 << 10)"]
        ),
        ("a body that its connection's own thread handles", "64 KiB", bounds, ["shortBody = 64 << 10"]),
        (
            "the wait of a group of writes that is smaller than the last, for more writes", "0.6 ms",
            "LedgerSQLite/GroupCommit.swift", ["moment = 0.0006"]
        ),
        ("an API key in the cache", "1 s", "PurchaseServer/APIKeyCache.swift", ["lifetime: Int64 = 1000"]),
        ("API keys in the cache", "1,000", "PurchaseServer/APIKeyCache.swift", ["limit = 1000"]),
        (
            "a version 2 notification", "256 KiB", "PurchaseServer/NotificationRoutes.swift", ["bodyLimit = 256 << 10"]
        ),
        ("a body with an alias", "4,096 bytes", "PurchaseServer/CustomerRoutes.swift", ["aliasBodyLimit = 4096"]),
        ("a customer id", "256 bytes", bounds, ["customerID = 256"]),
        ("events on a page", "500", "PurchaseServer/EventRoutes.swift", ["pageLimit = 500"]),
        ("documents in a submission", "1,000", "PurchaseServer/Submission.swift", ["limit = 1000"]),
        ("… with a client key", "20", "PurchaseServer/Submission.swift", ["clientLimit = 20"]),
        (
            "changes of owner by claims, of one purchase", "10 a day", "PurchaseLedger/Claim.swift",
            ["limit = 10", "period = Duration.seconds(86_400)"]
        ),
        (
            "customers that presented one purchase", "16, of 30 days", "PurchaseLedger/Claimants.swift",
            ["limit = 16", "period = Duration.seconds(30 * 86_400)"]
        ),
        ("… before it is reported as contested", "more than 3", "PurchaseLedger/Claimants.swift", ["mostUsual = 3"]),
        (
            "… before the same one is noted again", "a day", "PurchaseLedger/Claimants.swift",
            ["precision = Duration.seconds(86_400)"]
        ),
        (
            "a customer token", "4,096 bytes, 24 h", "PurchaseServer/CustomerProof.swift",
            ["tokenLimit = 4096", "longestLifetime = Duration.seconds(86_400)"]
        ),
        ("an `X-Request-Id` from a client", "128 bytes", "PurchaseServer/RequestID.swift", ["longest = 128"]),
        (
            "warnings of genuine documents that were refused", "10 a minute", "PurchaseServer/GenuineRefusals.swift",
            ["most = 10"]
        ),
        (
            "documents searched for the last notification", "100,000", "PurchaseServer/LastNotification.swift",
            ["searchLimit = 100_000"]
        ),
        (
            "documents that show the roots of a ledger without notes",
            "100 of production and of the sandbox, among 100,000", "PurchaseLedger/RequiredRoots.swift",
            ["newestDocuments = 100", "searchLimit = 100_000"]
        ),
        (
            "a request to PostgreSQL", "10 s", "LedgerPostgres/PostgresLimits.swift", ["request = Duration.seconds(10)"]
        ),
        (
            "a statement of PostgreSQL", "9 s", "LedgerPostgres/PostgresLimits.swift",
            ["statement = Duration.seconds(9)"]
        ),
        (
            "the wait for a lock of PostgreSQL", "3 s; of works that are committed together 0.5 s",
            "LedgerPostgres/PostgresLimits.swift",
            ["lock = Duration.seconds(3)", "sharedLock = Duration.milliseconds(500)"]
        ),
        (
            "a statement that reads for several, and for one of them after a time-out", "3 s, 5 s",
            "LedgerPostgres/PostgresLimits.swift",
            ["sharedRead = Duration.seconds(3)", "readAlone = Duration.seconds(5)"]
        ),
        (
            "cancellations of PostgreSQL's statements at once, and how long each", "8, 10 s",
            "LedgerPostgres/ConnectionCloser.swift", ["width = 8", "limit = Duration.seconds(10)"]
        ),
        (
            "an upgrade of the tables in PostgreSQL", "1 hour", "LedgerPostgres/Migrator.swift",
            ["limit = Duration.seconds(3600)"]
        ),
        (
            "connecting to a host of PostgreSQL", "3 s, at most 10 s", "LedgerPostgres/PostgresHost.swift",
            ["limit = Duration.seconds(3)", "longestLimit = Int64(10)"]
        ),
        ("the wait for a connection to PostgreSQL", "2 s", loop, ["queueLimit = Duration.seconds(2)"]),
        ("requests that wait for a connection to PostgreSQL", "2,000", pool, ["waitingLimit = 2000"]),
        ("requests that are sent to PostgreSQL together", "16", loop, ["batchLimit = 16"]),
        (
            "works, reads and readers of events that wait for their group", "2,000",
            "LedgerPostgres/GroupQueue.swift", ["waitingLimit: Int { 2000 }"]
        ),
        ("… for how long", "10 s", "LedgerPostgres/GroupQueue.swift", ["limit: Duration = .seconds(10)"]),
        ("works that are committed to PostgreSQL together", "32", postgres, ["largestGroup = 32"]),
        ("groups of works that are committed at once", "4", postgres, ["commits = 4"]),
        ("reads of PostgreSQL that share a request", "64", postgres, ["largestGather = 64"]),
        ("groups of reads at once", "4", postgres, ["reads = 4"]),
        (
            "the wait of events for their numbers", "250 ms", "LedgerPostgres/EventFeed.swift",
            ["pause = Duration.milliseconds(250)"]
        ),
        (
            "the pause before PostgreSQL is connected again", "0.1 s, doubled up to 2 s",
            "LedgerPostgres/ConnectionOpener.swift",
            ["(firstPause, longestPause) = (Duration.milliseconds(100), Duration.seconds(2))"]
        ),
        (
            "decisions made again after another server was faster", "100",
            postgres, ["mostConflicts = 100"]
        ),
        (
            "the log beside the ledger, before it is a concern", "1 GiB", "LedgerSQLite/LedgerFile.swift",
            ["usualLog = 1 << 30"]
        ),
        (
            "a bundle id in the configuration", "255 bytes", "PurchaseServer/AppConfiguration.swift",
            ["longestBundleId = 255"]
        ),
        (
            "certificates in the revocation cache", "256", "AppStoreTrust/RevocationCache.swift",
            ["certificateLimit = 256"]
        ),
        (
            "a request to Apple's servers", "30 s", apiClient, ["requestTimeout = Duration.seconds(30)"]
        ),
        (
            "a call of Apple's servers with all attempts and pauses", "75 s", apiClient,
            ["deadline = Duration.seconds(75)"]
        ),
        (
            "attempts of a call of Apple's servers", "5", apiClient, ["attempts = 5", "firstPause: Int64 = 1000"]
        ),
        ("an answer of Apple's servers", "1 MiB", "AppStoreAPI/APIAnswer.swift", ["bodyLimit = 1 << 20"]),
        ("pages of a list of Apple's", "1,000", "AppStoreAPI/Pages.swift", ["usualLimit: Int { 1000 }"]),
        ("the token of the next page", "4,096 bytes", "AppStoreAPI/Pages.swift", ["cursorLimit: Int { 4096 }"]),
        ("the time in `Retry-After`", "an hour", "AppStoreAPI/RetryAfter.swift", ["longest: Int64 = 3_600_000"]),
        (
            "the memory that production refuses an app's token", "an hour", apiClient, ["memory: Int64 = 3_600_000"]
        ),
        (
            "a customer's read, or verifyReceipt's answer, waits for the App Store", "1 s",
            "PurchaseServer/AppStoreQuestions.swift", ["readLimit = Duration.seconds(1)"]
        ),
        (
            "questions about receipts whose renewal info the ledger lacks", "10 % of Apple's rate limit",
            "Reconciliation/ReceiptBudget.swift", ["percent = 10"]
        ),
        (
            "no such question after one without an answer", "30 s", "Reconciliation/ReceiptBudget.swift",
            ["silence: Int64 = 30_000"]
        ),
        (
            "the lease of a job", "120 s", "Reconciliation/Reconciler.swift", ["lease = Duration.seconds(120)"]
        ),
        (
            "subscriptions that were asked about in the last 30 s, for receipts in a day", "10,000",
            "Reconciliation/RecentQuestions.swift", ["lifetime: Duration = .seconds(30)", "capacity = 10_000"]
        ),
        (
            "pages of a window of the notification history", "20,000", "Reconciliation/HistoryCursor.swift",
            ["mostPages = 20_000"]
        ),
        (
            "the answer to a consumption request", "12 h, 5 min in sandbox",
            "PurchaseLedger/ConsumptionQuestion.swift", ["environment == .sandbox ? 300 : 43_200"]
        ),
        (
            "a look at a consumption request that waits for the app", "20 before the deadline",
            "Reconciliation/ConsumptionAnswers.swift", ["looks: Int64 = 20"]
        ),
        (
            "the outcome of a consumption request", "30 days", "PurchaseLedger/ConsumptionQuestion.swift",
            ["memory = Duration.seconds(30 * 86_400)"]
        ),
        (
            "a body with consent, or about consumption", "4,096 bytes", "PurchaseServer/ConsumptionRoutes.swift",
            ["bodyLimit = 4096"]
        ),
        (
            "the share of Apple's rate limits that a backfill uses", "50 %", "quittance/BackfillCommand.swift",
            ["share = 50"]
        ),
        (
            "histories that a backfill reads at a time", "8", "Reconciliation/Backfill.swift", ["width = 8"]
        ),
        (
            "lines of a list that one worker of a backfill takes at a time", "1,000", "Reconciliation/Stretches.swift",
            ["longest: Int { 1000 }"]
        ),
        (
            "waits of a line for the time that the App Store names", "3", "Reconciliation/Backfill.swift",
            ["mostWaits = 3"]
        ),
        (
            "lines in a row without an answer before a backfill stops", "20", "Reconciliation/Backfill.swift",
            ["outage = 20"]
        ),
        (
            "transactions that a backfill remembers", "500,000", "Reconciliation/SeenTransactions.swift",
            ["capacity = 500_000"]
        ),
        (
            "an id in a question, and ids from one receipt", "64 bytes, 20", "Reconciliation/HistoryQuestion.swift",
            ["longestId = 64", "idsOfReceipt = 20"]
        ),
        (
            "the backfill of one customer, before a job reads the rest", "20 s",
            "PurchaseServer/BackfillRoutes.swift", ["limit = Duration.seconds(20)"]
        ),
        (
            "a body about an extension or an account", "16 KiB", "PurchaseServer/AppStoreRoutes.swift",
            ["bodyLimit = 16 << 10"]
        ),
        (
            "a request to the App Store for a backend", "20 s", "PurchaseServer/AppStoreRoutes.swift",
            ["limit = Duration.seconds(20)"]
        ),
        (
            "the verification of a retention request", "300 ms", "PurchaseServer/RetentionRoutes.swift",
            ["deadline = Duration.milliseconds(300)"]
        ),
        (
            "a retention request, or one for a signature", "64 KiB", "PurchaseServer/SignatureRoutes.swift",
            ["bodyLimit = 64 << 10"]
        ),
        (
            "the file of an In-App Purchase key", "16 KiB", "PurchaseServer/InAppPurchaseKeyFile.swift",
            ["longestFile = 16 << 10"]
        ),
        (
            "a notice for the operator", "30 days, stored again after a day", "PurchaseLedger/Notice.swift",
            ["lifetime = Duration.seconds(30 * 86_400)", "precision = Duration.seconds(86_400)"]
        ),
        ("log lines of a notice", "hourly", "PurchaseServer/NoticeBoard.swift", ["interval = Duration.seconds(3600)"]),
        (
            "notices that wait for their line; those that are read of an app and environment", "1,000; 100",
            "PurchaseServer/NoticeBoard.swift", ["limit = 1000"]
        ),
        // Follows from how connections are handled.
        ("requests of a connection", "one at a time", "PurchaseServer/EventLoopChannel.swift", []),
    ]

    private static let bounds = "PurchaseServer/ServerBounds.swift"
    private static let postgres = "LedgerPostgres/PostgresLedgerStorage.swift"
    private static let pool = "LedgerPostgres/ConnectionPool.swift"
    private static let loop = "LedgerPostgres/ConnectionLoop.swift"
    private static let apiClient = "AppStoreAPI/AppStoreClient.swift"

    /// The first two cells of each row below the heading.
    private static func documented() throws -> [[String]] {
        let project = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let text = try String(contentsOf: project.appendingPathComponent("ARCHITECTURE.md"), encoding: .utf8)
        let section = try #require(text.components(separatedBy: "### Bounds on the network").last)
        let table = section.components(separatedBy: "\n").drop { !$0.hasPrefix("|") }.prefix { $0.hasPrefix("|") }
        return table.dropFirst(2).map { row in
            row.components(separatedBy: "|").dropFirst().prefix(2).map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    @Test func `each row has a constant with its value, and each constant its row`() throws {
        #expect(Set(try Self.documented()) == Set(Self.rows.map { [$0.limit, $0.value] }))
        let files = Dictionary(grouping: SourceTarget.all.flatMap(\.files), by: \.name)
        for row in Self.rows {
            let code = try #require(files[row.file]?.first?.code, "\(row.file)")
            for constant in row.code { #expect(code.contains(constant), "\(row.limit): \(constant)") }
        }
    }
}
