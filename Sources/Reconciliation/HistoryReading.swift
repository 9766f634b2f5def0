// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
import AppStoreTrust
public import PurchaseLedger

// Reads the notification history from a stored cursor, so that a notification that never arrived is recorded.

extension Job.Kind {
    /// Read the notification history. There is one such job for each app and environment; its payload is a
    /// ``HistoryCursor``.
    public static let notificationHistory = Job.Kind(rawValue: "notificationHistory")
}

/// How far the notification history was read.
public struct HistoryCursor: Codable, Hashable, Sendable {
    /// All notifications before this instant were recorded or parked.
    public var through: Timestamp
    /// The length of the next window in milliseconds. It shrinks if Apple's page tokens expire before a window is read,
    /// and grows while one page is enough.
    public var window: Int64
    /// When the history was last read to its end, by this server's clock; `nil` if it never was.
    public var succeededAt: Timestamp?

    /// How far a job has read the history; `nil` if the job is of another kind, or has read nothing yet.
    public init?(_ job: Job) {
        guard job.id.kind == .notificationHistory,
            let cursor = try? JSONValue(parsing: job.payload).decode(HistoryCursor.self)
        else { return nil }
        self = cursor
    }

    init(through: Timestamp, window: Int64 = usualWindow) {
        self.through = through
        self.window = window
    }
}

extension HistoryCursor {
    /// How far back Apple's history goes is 180 days. An hour less, since the clocks of server and App Store differ.
    static let longestPast = Duration.seconds(180 * 86_400 - 3600)
    /// A day: the place is stored after each window, so that a busy shop reads a day again after a crash.
    static let usualWindow: Int64 = 86_400_000
    /// A month: the half year of a shop that sells little takes a dozen requests.
    static let longestWindow: Int64 = 30 * usualWindow
    /// A page of such a window has a few notifications, however large the shop is.
    static let shortestWindow: Int64 = 60_000
    /// Each window begins so long before the end of the last one. A notification is in the history only after the first
    /// attempt to send it, which may be late.
    static let overlap = Duration.seconds(3600)
    /// The most pages of a window: 400,000 notifications, more than an hour's reading at Apple's rate limit.
    static let mostPages = 20_000

    /// The cursor that a job holds; the beginning of the history if it holds none.
    init(of job: Job, at now: Timestamp) {
        self = HistoryCursor(job) ?? HistoryCursor(through: Timestamp(milliseconds: 0))
        window = min(Self.longestWindow, max(Self.shortestWindow, window))
    }

    /// The request for the next window, which ends at this time at the latest.
    func request(at now: Timestamp) -> NotificationHistoryRequest {
        let earliest = now.advanced(by: .zero - Self.longestPast)
        let start = max(earliest, through.advanced(by: .zero - Self.overlap))
        let end = min(now, max(earliest, through).advanced(by: .milliseconds(window)))
        return NotificationHistoryRequest(startDate: min(start, end.advanced(by: .milliseconds(-1))), endDate: end)
    }

    /// The cursor after a window was read.
    ///
    /// - Parameter appStoreTime: The App Store's own time, after which the history has nothing yet; `nil` if unknown.
    func after(_ request: NotificationHistoryRequest, pages: Int, appStoreTime: Timestamp?) -> HistoryCursor {
        var next = self
        next.through = min(request.endDate, appStoreTime ?? request.endDate)
        next.window = pages <= 1 ? min(Self.longestWindow, window * 2) : min(window, Self.usualWindow)
        return next
    }

    /// The job's payload.
    var payload: [UInt8] { (try? JSONWriter.bytes(encoding: self)) ?? [] }
}

extension Reconciler {
    /// Reads the history up to now, window by window, and stores the cursor after each. What comes while it reads is
    /// for the next time: otherwise there would always be another window, of some milliseconds.
    func readHistory(_ job: inout Job) async throws -> JobOutcome {
        let end = now()
        var cursor = HistoryCursor(of: job, at: end)
        var isLast: Bool
        repeat {
            let request = cursor.request(at: end)
            isLast = false
            do {
                let pages = try await read(request, &job)
                cursor = cursor.after(request, pages: pages, appStoreTime: appStoreTime())
                // The history ends at the App Store's own time, if this server's clock is ahead.
                isLast = request.endDate >= end || cursor.through < request.endDate
            } catch let error as AppStoreAPIError where error.hasExpiredPages {
                guard cursor.window > HistoryCursor.shortestWindow else { throw error }
                cursor.window = max(HistoryCursor.shortestWindow, cursor.window / 2)
                continue
            }
            try await prolong(&job, cursor.payload)
        } while !isLast
        cursor.succeededAt = now()
        var next = job.next(at: now().advanced(by: historyInterval), nil)
        (next.attempts, next.payload) = (0, cursor.payload)
        return .later(next)
    }

    /// - Returns: How many pages the window has.
    private func read(_ request: NotificationHistoryRequest, _ job: inout Job) async throws -> Int {
        var count = 0
        let pages = client.pages(
            .notificationHistory(request), in: scope.environment, atMost: HistoryCursor.mostPages)
        for try await page in pages {
            try await take(await verifier.checked(page, at: now()))
            try await prolong(&job, job.payload)
            count += 1
        }
        return count
    }

    /// Records the notifications of a page. One that cannot be recorded is parked, so that it does not hold up the
    /// rest.
    private func take(_ notifications: [CheckedDocument<VerifiedNotification>]) async throws {
        var (evidence, unusable) = ([Evidence](), [(document: String, reason: String)]())
        for notification in notifications {
            switch notification.result {
            case .success(let verified):
                if let document = Evidence(verified) { evidence.append(document) }
            case .failure(let error):
                // Later it may be valid as it is, and so may those after it.
                if error.isRetryable { throw error }
                unusable.append((notification.document, "\(error)"))
            }
        }
        if !evidence.isEmpty { _ = try await ledger.record(evidence, at: now()) }
        // If nothing on a page is valid, rather the configuration is wrong: the page is read again once it is right.
        if evidence.isEmpty, unusable.count >= Self.suspiciousCount, let first = unusable.first {
            throw UnusablePage(description: first.reason)
        }
        for (document, reason) in unusable { try await park(document, because: reason) }
    }

    /// So many documents without a valid one among them are no coincidence: a whole page of the history.
    private static let suspiciousCount = 20
}

/// No document on a page is valid: a sentence.
struct UnusablePage: Error, CustomStringConvertible {
    let description: String
}

extension AppStoreAPIError {
    /// Whether Apple's tokens for further pages are no longer valid.
    fileprivate var hasExpiredPages: Bool {
        errorCode == .paginationTokenExpired || errorCode == .invalidPaginationToken
    }
}
