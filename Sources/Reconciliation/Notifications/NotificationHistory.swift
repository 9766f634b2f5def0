// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Reads the notification history from a stored position, the cursor, so that lost notifications are recorded.

extension Reconciler {
    /// Reads the history up to now, window by window, and stores the cursor after each window. A window is the period
    /// that a request covers. Notifications that arrive meanwhile are left to the next reading. Otherwise each window
    /// would leave a further window of some milliseconds to read.
    ///
    /// After these windows, once a day, the last few days are read again. If the next reading becomes due meanwhile,
    /// the rest of these days follows after it.
    func readHistory(_ lease: LeasedJob) async throws -> JobOutcome {
        var job = lease.job
        defer { lease.job = job }
        let next = now().advanced(by: historyInterval)
        var cursor = HistoryCursor(of: job)
        try await readNews(&cursor, &job)
        cursor.succeededAt = now()
        cursor.lookAgain(at: min(now(), appStoreTime() ?? now()), in: scope.environment)
        try await ledger.prolong(&job, payload: try JSONWriter.bytes(encoding: cursor), at: now())
        try await readAgain(&cursor, &job, until: next)
        var outcome = job.next(at: cursor.again.isEmpty ? now().advanced(by: historyInterval) : now(), nil)
        outcome.attempts = 0
        return .later(outcome)
    }

    /// Reads the history from the cursor to now.
    private func readNews(_ cursor: inout HistoryCursor, _ job: inout Job) async throws {
        var said = cursor.unread
        var rest: HistoryStretch? = cursor.news(until: now(), in: scope.environment)
        while let stretch = rest {
            let request = cursor.request(stretch, at: now(), in: scope.environment)
            let result = try await result(of: request, &job)
            let error: AppStoreAPIError?
            (rest, error) = cursor.rest(of: stretch, after: request, result, at: now())
            if !result.isRead { try await noteRefusal(&job, window: cursor.window, refusals: rest?.refusals ?? 0) }
            if let error { throw error }
            cursor.through = result.isRead ? request.endDate : rest?.start ?? stretch.end
            // If the App Store refuses the start date, a later one is tried. It is stored only once the App Store has
            // accepted it, or if nothing is left to try.
            guard result.isRead || rest == nil else { continue }
            if let time = appStoreTime() { cursor.through = min(cursor.through, time) }
            if let unread = cursor.unread, unread != said { onUnread(job.next(at: now(), unread.sentence)) }
            said = cursor.unread
            try await ledger.prolong(&job, payload: try JSONWriter.bytes(encoding: cursor), at: now())
            // If this server's clock is ahead, the history ends at the App Store's own time.
            if cursor.through < request.endDate { return }
        }
    }

    /// Re-reads the planned stretches until the next reading is due.
    private func readAgain(_ cursor: inout HistoryCursor, _ job: inout Job, until end: Timestamp) async throws {
        while let stretch = cursor.again.first, now() < end {
            let request = cursor.request(stretch, at: now(), in: scope.environment)
            let result = try await result(of: request, &job)
            let (rest, error) = cursor.rest(of: stretch, after: request, result, at: now())
            cursor.replaceFirst(by: rest)
            try await ledger.prolong(&job, payload: try JSONWriter.bytes(encoding: cursor), at: now())
            if let error { throw error }
        }
    }

    /// Reads a window and records its pages.
    private func result(of request: NotificationHistoryRequest, _ job: inout Job) async throws -> HistoryResult {
        var count = 0
        let pages = client.pages(
            .notificationHistory(request), in: scope.environment, atMost: HistoryCursor.maxPages)
        do {
            for try await page in pages {
                try await take(await verifier.checked(page, at: now()))
                try await ledger.prolong(&job, payload: job.payload, at: now())
                count += 1
            }
            return .read(pages: count)
        } catch let error as AppStoreAPIError where error.isAboutLength {
            return .tooLong(error, pages: count)
        } catch let error as AppStoreAPIError
            where error.code == .refused && error.errorCode == .startDateTooFarInPast
        {
            return .tooEarly(error)
        }
    }

    /// After a request whose window could not be read, stores the length of the next window and the number of refusals
    /// so far. The position stays until the App Store has accepted a later start date.
    private func noteRefusal(_ job: inout Job, window: Int64, refusals: Int) async throws {
        var stored = HistoryCursor(of: job)
        stored.window = window
        stored.refusals = refusals
        try await ledger.prolong(&job, payload: try JSONWriter.bytes(encoding: stored), at: now())
    }

    /// Records the notifications of a page. An invalid notification is parked (stored to be verified again later), so
    /// that it does not delay the rest.
    private func take(_ notifications: [CheckedDocument<VerifiedNotification>]) async throws {
        var evidence: [Evidence] = []
        var unusable: [(document: String, reason: String)] = []
        for notification in notifications {
            switch notification.result {
            case .success(let verified):
                if let document = Evidence(verified) { evidence.append(document) }
            case .failure(let error):
                // This notification may pass verification later without any change, and so may the following
                // notifications. The page is read again.
                if error.isRetryable { throw error }
                unusable.append((notification.document, "\(error)"))
            }
        }
        if !evidence.isEmpty { _ = try await ledger.record(evidence, at: now()) }
        // If a whole page is invalid, the configuration is probably wrong. The job fails, and reads the page again
        // later, after the operator has corrected the configuration.
        if evidence.isEmpty, unusable.count >= Self.suspiciousCount, let first = unusable.first {
            throw UnusablePage(description: first.reason)
        }
        for (document, reason) in unusable { try await park(document, because: reason) }
    }

    /// The number of notifications on a full page. So many invalid notifications without a single valid notification
    /// are no coincidence.
    private static let suspiciousCount = 20
}

/// The error for a full page without a valid document. Its description is a sentence.
struct UnusablePage: Error, CustomStringConvertible {
    let description: String
}

extension AppStoreAPIError {
    /// Whether a window is too long: Apple's token for the next page expired, or there are too many pages. Pages in a
    /// circle say nothing about the length.
    fileprivate var isAboutLength: Bool { errorCode == .paginationTokenExpired || code == .endlessPages }
}
