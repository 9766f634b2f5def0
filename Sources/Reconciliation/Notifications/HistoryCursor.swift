// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
public import PurchaseLedger

// The stored position in the notification history, and the choice of the next window, which is the period that a
// request covers.

/// A stretch of time in the notification history.
public struct HistoryStretch: Codable, Hashable, Sendable {
    /// The beginning of the stretch.
    public var start: Timestamp
    /// The end of the stretch.
    public var end: Timestamp
    /// How many times in a row the App Store has refused to show the beginning of the stretch. Refusals of a start date
    /// older than ``HistoryCursor/certainPast`` do not count, because they are believed at once.
    var refusals = 0
}

/// The stored position in the notification history of an app and environment.
public struct HistoryCursor: Codable, Hashable, Sendable {
    /// Every notification of the history before this instant was recorded, or parked (stored to be verified again
    /// later), except in the stretch ``unread``, which the App Store did not show.
    public internal(set) var through = Timestamp(milliseconds: 0)
    /// The length of the next window in milliseconds. It is halved if a window was too long to read, and doubled if a
    /// window of the full length had at most one page. If a window had several pages, the next is at most a day long.
    public internal(set) var window = usualWindow
    /// The time of the last reading that reached the end of the history, by this server's clock; `nil` for never.
    public internal(set) var succeededAt: Timestamp?
    /// The stretch before ``through`` that the App Store did not show; `nil` for none. If there are several such
    /// stretches, this stretch reaches from the start of the first to the end of the last. The server requests the
    /// stretch again once a day until it is too old.
    public internal(set) var unread: HistoryStretch?
    /// The time at which the last re-reading of recent days was planned.
    var lookedAgainAt: Timestamp?
    /// The stretches still to be re-read.
    var again: [HistoryStretch] = []
    /// The ``HistoryStretch/refusals`` of the stretch after ``through``.
    var refusals = 0

    init() {}
}

extension HistoryCursor {
    /// The age of the oldest notification in Apple's history: 180 days, in the sandbox 30. An hour is subtracted,
    /// because the clocks of the server and the App Store may differ.
    static func maxPast(in environment: Environment) -> Duration {
        .seconds((environment == .sandbox ? 30 : 180) * 86_400 - 3600)
    }

    /// A day: the length of the first window, and the longest window of a busy shop. The cursor is stored after each
    /// window, so a busy shop reads at most a day again after a crash.
    static let usualWindow: Int64 = 86_400_000
    /// A month. A shop with few sales reads half a year in a dozen requests.
    static let maxWindow: Int64 = 30 * usualWindow
    /// A minute, which has few pages of notifications even in a large shop.
    static let minWindow: Int64 = 60_000
    /// The overlap of a window with the previous window: an hour, or the window's own length if shorter. A notification
    /// enters the history only after the first attempt to send it, and this attempt may be late.
    var overlap: Duration { min(Self.maxOverlap, .milliseconds(window)) }
    private static let maxOverlap = Duration.seconds(3600)
    /// The maximum number of pages of a window. They have up to 400,000 notifications, 20 on each. At Apple's rate
    /// limits they take almost seven minutes to read, and in the sandbox more than an hour. An attempt that meets this
    /// bound ends with it.
    static let maxPages = 20_000

    /// The interval between two re-readings of the last days.
    static let lookInterval = Duration.seconds(86_400)
    /// The length of the stretch that is read again. With a re-reading each day, every notification is found that
    /// entered the history up to two days late, because Apple first sent it that late. Some are found up to three days
    /// late.
    static let lookBack = Duration.seconds(3 * 86_400)

    /// No limit of Apple's is as short as this. If a start date more recent than this is refused as too far in the
    /// past, the refusal is not believed at first. If the refusal was a mistake, or came from a different server in
    /// Apple's place, it then costs a retry, but no notification is skipped.
    static let certainPast = lookBack
    /// The number of consecutive refusals, of a start date within ``certainPast`` or of the shortest window, after
    /// which the last refusal is believed. If such refusals were never believed, an unknown rule of Apple's could make
    /// the server repeat a request for ever.
    static let believedRefusals = 4

    /// Reads the cursor from the payload of a job; `nil` if the job is of a different kind, or has read no history yet.
    public init?(_ job: Job) {
        guard job.id.kind == .notificationHistory,
            let cursor: HistoryCursor = job.decoded()
        else { return nil }
        self = cursor
    }

    /// The cursor in the payload of a job, with its window within the bounds. Without a cursor, the beginning of the
    /// history.
    init(of job: Job) {
        self = HistoryCursor(job) ?? HistoryCursor()
        window = min(Self.maxWindow, max(Self.minWindow, window))
    }

    private static func earliest(at now: Timestamp, in environment: Environment) -> Timestamp {
        now.advanced(by: .zero - maxPast(in: environment))
    }
}

// MARK: - Next window

extension HistoryCursor {
    /// The stretch since the last reading, which is read first. A part that has become too old is noted as unread.
    mutating func news(until end: Timestamp, in environment: Environment) -> HistoryStretch {
        let earliest = Self.earliest(at: end, in: environment)
        // The clock was ahead, so the last days may have been skipped. They are re-read at once.
        if through > end { lookedAgainAt = through }
        if through.milliseconds > 0, through < earliest { noteUnread(HistoryStretch(start: through, end: earliest)) }
        var start = max(earliest, through.advanced(by: .zero - overlap))
        // The overlap does not reach back into an unread stretch, which is requested only once a day.
        if let unread, unread.end <= through { start = max(start, unread.end) }
        return HistoryStretch(start: start, end: end, refusals: refusals)
    }

    /// If a day has passed, plans to re-read the last days, and to request the unread stretch again.
    mutating func lookAgain(at now: Timestamp, in environment: Environment) {
        // Stretches that end in the future were planned while the clock was ahead. They are dropped and planned anew.
        again.removeAll { $0.end > now }
        guard again.isEmpty else { return }
        guard let last = lookedAgainAt else {
            // The first reading counts as the first re-reading.
            lookedAgainAt = now
            return
        }
        guard !(Duration.zero..<Self.lookInterval ~= last.duration(to: now)) else { return }
        // After an outage the days before the outage are re-read too, because the last re-reading came too early for
        // the late notifications of these days.
        let reference = min(now, last.advanced(by: Self.lookInterval))
        var stretches = [HistoryStretch(start: reference.advanced(by: .zero - Self.lookBack), end: now)]
        if var unread, unread.end > Self.earliest(at: now, in: environment) {
            // The stretch was already noted as unread. A further refusal of its beginning is therefore believed at
            // once, and does not fail the job again.
            unread.refusals = Self.believedRefusals
            stretches.append(unread)
        }
        again = stretches
        unread = nil
        lookedAgainAt = now
    }

    /// Replaces the first stretch to re-read with its rest.
    mutating func replaceFirst(by rest: HistoryStretch?) {
        again = [rest].compactMap(\.self) + again.dropFirst()
    }

    /// The request for the next window of a stretch.
    func request(
        _ stretch: HistoryStretch, at now: Timestamp, in environment: Environment
    ) -> NotificationHistoryRequest {
        let start = max(stretch.start, Self.earliest(at: now, in: environment))
        let end = min(stretch.end, start.advanced(by: overlap + .milliseconds(window)))
        return NotificationHistoryRequest(startDate: min(start, end.advanced(by: .milliseconds(-1))), endDate: end)
    }

    private mutating func noteUnread(_ stretch: HistoryStretch) {
        guard let known = unread else { return unread = stretch }
        unread = HistoryStretch(start: min(known.start, stretch.start), end: max(known.end, stretch.end))
    }
}

// MARK: - Results

/// The result of a request for a window.
enum HistoryResult {
    /// All pages were recorded.
    case read(pages: Int)
    /// The window is too long to read. The error came after this number of pages.
    case tooLong(AppStoreAPIError, pages: Int)
    /// The window begins too long ago.
    case tooEarly(AppStoreAPIError)

    var isRead: Bool { if case .read = self { true } else { false } }
}

extension HistoryCursor {
    /// Decides how to continue after a window. A window that is too long is halved. A start that is too early moves
    /// halfway to the end of the stretch. Unreadable parts are noted as unread, so that no request is repeated for
    /// ever.
    ///
    /// - Returns: The rest of the stretch, `nil` if the stretch is finished; and the error if the reading must stop
    ///   here and continue later.
    mutating func rest(
        of stretch: HistoryStretch, after request: NotificationHistoryRequest, _ result: HistoryResult,
        at now: Timestamp
    ) -> (HistoryStretch?, AppStoreAPIError?) {
        switch result {
        case .read(let pages):
            refusals = 0
            // The start is computed before `noteLength`, which may double the window and with it the overlap. With the
            // doubled overlap, the next window could begin where this window began.
            let start = request.endDate.advanced(by: .zero - overlap)
            noteLength(of: request, pages: pages)
            return (request.endDate < stretch.end ? HistoryStretch(start: start, end: stretch.end) : nil, nil)
        case .tooLong(let error, pages: _) where window > Self.minWindow:
            window = max(Self.minWindow, window / 2)
            // After `maxPages` the shorter window is left to the next attempt. Otherwise pages without end would keep a
            // single attempt busy for days.
            return (stretch, error.code == .endlessPages ? error : nil)
        // Even the first page failed, so no pagination token can have expired. The error is therefore no sign that this
        // window, already the shortest possible, is too long. The window is read later.
        case .tooLong(let error, pages: 0): return (stretch, error)
        case .tooLong(let error, pages: _):
            var (left, failure) = rest(
                of: stretch, from: request.startDate, to: request.endDate, error, isCertain: false)
            // The next window has attempts of its own.
            if failure == nil { left?.refusals = 0 }
            return (left, failure)
        case .tooEarly(let error):
            let start = request.startDate
            let middle = start.advanced(by: start.duration(to: stretch.end) / 2)
            // If the App Store does not even show the last hour, it shows no history at all. This is an outage.
            guard middle.duration(to: now) > Self.maxOverlap else { return (stretch, error) }
            let isSmall = middle.duration(to: stretch.end) < Self.maxOverlap
            return rest(
                of: stretch, from: start, to: isSmall ? stretch.end : middle, error,
                isCertain: start.duration(to: now) > Self.certainPast)
        }
    }

    private mutating func noteLength(of request: NotificationHistoryRequest, pages: Int) {
        if pages > 1 {
            window = min(window, Self.usualWindow)
        } else if request.startDate.duration(to: request.endDate) >= .milliseconds(window) {
            window = min(Self.maxWindow, window * 2)
        }
    }

    /// The rest of a stretch after a refused part. The part is skipped if the refusal is believed.
    ///
    /// - Parameter isCertain: Whether the refusal is believed at once.
    private mutating func rest(
        of stretch: HistoryStretch, from start: Timestamp, to end: Timestamp, _ error: AppStoreAPIError,
        isCertain: Bool
    ) -> (HistoryStretch?, AppStoreAPIError?) {
        var rest = stretch
        if !isCertain { rest.refusals += 1 }
        guard isCertain || rest.refusals >= Self.believedRefusals else { return (rest, error) }
        noteUnread(HistoryStretch(start: max(start, stretch.start), end: end))
        rest.start = end
        return (end < stretch.end ? rest : nil, nil)
    }
}

extension HistoryStretch {
    /// A sentence for the operator about an unread stretch.
    var sentence: String {
        "The App Store does not show its notifications from \(start.iso8601) to \(end.iso8601), and is asked again "
            + "once a day while the notifications are not too old. A backfill brings in their purchases."
    }
}
