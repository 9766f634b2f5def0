// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
public import PurchaseLedger

// How far the notification history was read, and where the reading goes on after each window.

/// A part of the notification history.
public struct HistoryStretch: Codable, Hashable, Sendable {
    /// Where it begins.
    public var start: Timestamp
    /// Where it ends.
    public var end: Timestamp
    /// How often in a row the App Store refused what may be a refusal by mistake; `nil` for never.
    var refusals: Int?
}

/// How far the notification history was read.
public struct HistoryCursor: Codable, Hashable, Sendable {
    /// All notifications before this instant were recorded or parked, unless they are ``unread``.
    public internal(set) var through = Timestamp(milliseconds: 0)
    /// The length of the next window in milliseconds. It shrinks if a window is too long to be read, and grows while
    /// one page is enough.
    public internal(set) var window = usualWindow
    /// When the history was last read to its end, by this server's clock; `nil` if it never was.
    public internal(set) var succeededAt: Timestamp?
    /// The part before ``through`` that the App Store did not show, from the beginning of the first such part to the
    /// end of the last; `nil` if there is none. It is asked for again once a day, while it is not too old.
    public internal(set) var unread: HistoryStretch?
    /// When the last days were last read again, or that reading began.
    var lookedAgainAt: Timestamp?
    /// What that reading has still to read; `nil` if it is finished.
    var again: [HistoryStretch]?
    /// The ``HistoryStretch/refusals`` of what follows ``through``.
    var refusals: Int?

    init() {}
}

extension HistoryCursor {
    /// How far back Apple's history goes: 180 days, in the sandbox 30. An hour less, since the clocks of server and App
    /// Store differ.
    static func maxPast(in environment: Environment) -> Duration {
        .seconds((environment == .sandbox ? 30 : 180) * 86_400 - 3600)
    }

    /// A day: the cursor is stored after each window, so that a busy shop reads a day again after a crash.
    static let usualWindow: Int64 = 86_400_000
    /// A month: the half year of a shop that sells little takes a dozen requests.
    static let maxWindow: Int64 = 30 * usualWindow
    /// A page of such a window has a few notifications, however large the shop is.
    static let minWindow: Int64 = 60_000
    /// Each window begins so long before the end of the last one: an hour, or its own length if that is less. A
    /// notification is in the history only after the first attempt to send it, which may be late.
    var overlap: Duration { min(Self.maxOverlap, .milliseconds(window)) }
    private static let maxOverlap = Duration.seconds(3600)
    /// The most pages of a window: 400,000 notifications, more than an hour's reading at Apple's rate limit.
    static let maxPages = 20_000

    /// How often the last days are read again.
    static let lookInterval = Duration.seconds(86_400)
    /// How far back they are read again: what was first sent so late enters the history so late.
    static let lookBack = Duration.seconds(3 * 86_400)

    /// A refusal of a start within this time is not believed at first, since no limit of Apple's is so short. So
    /// somebody else's word, or a mistake, costs a retry and skips nothing.
    static let certainPast = lookBack
    /// How often such a refusal must come in a row to be believed: then a rule of Apple's that nobody knows yet does
    /// not repeat one request for ever.
    static let believedRefusals = 4

    /// How far a job has read the history; `nil` if the job is of another kind, or has read nothing yet.
    public init?(_ job: Job) {
        guard job.id.kind == .notificationHistory,
            let cursor: HistoryCursor = job.decoded()
        else { return nil }
        self = cursor
    }

    /// The cursor that a job holds; the beginning of the history if it holds none.
    init(of job: Job) {
        self = HistoryCursor(job) ?? HistoryCursor()
        window = min(Self.maxWindow, max(Self.minWindow, window))
    }

    private static func earliest(at now: Timestamp, in environment: Environment) -> Timestamp {
        now.advanced(by: .zero - maxPast(in: environment))
    }
}

// MARK: - Where to read

extension HistoryCursor {
    /// What is to be read first: all since the last reading. What has become too old since then is noted as unread.
    mutating func news(until end: Timestamp, in environment: Environment) -> HistoryStretch {
        let earliest = Self.earliest(at: end, in: environment)
        // A clock that was ahead may have skipped the last days: they are read again at once.
        if through > end { lookedAgainAt = through }
        if through.milliseconds > 0, through < earliest { noteUnread(HistoryStretch(start: through, end: earliest)) }
        var start = max(earliest, through.advanced(by: .zero - overlap))
        // What cannot be read is not asked for again so soon.
        if let unread, unread.end <= through { start = max(start, unread.end) }
        return HistoryStretch(start: start, end: end, refusals: refusals)
    }

    /// If a day has passed, plans to read the last days again, and to ask again for what was refused.
    mutating func lookAgain(at now: Timestamp, in environment: Environment) {
        // What was planned by a clock that was ahead is planned anew.
        again = again.map { $0.filter { $0.end <= now } }
        if again?.isEmpty == true { again = nil }
        guard again == nil else { return }
        guard let last = lookedAgainAt else {
            // The first reading is the first look.
            lookedAgainAt = now
            return
        }
        guard !(Duration.zero..<Self.lookInterval ~= last.duration(to: now)) else { return }
        // After an outage the days before it too: what was late then, the last look has not seen.
        let reference = min(now, last.advanced(by: Self.lookInterval))
        var stretches = [HistoryStretch(start: reference.advanced(by: .zero - Self.lookBack), end: now)]
        if var unread, unread.end > Self.earliest(at: now, in: environment) {
            // It was refused often enough: if it still is, that is no failure.
            unread.refusals = Self.believedRefusals
            stretches.append(unread)
        }
        again = stretches
        unread = nil
        lookedAgainAt = now
    }

    /// Notes what is left of the stretch that is read again.
    mutating func replaceFirst(by rest: HistoryStretch?) {
        let stretches = [rest].compactMap(\.self) + (again ?? []).dropFirst()
        again = stretches.isEmpty ? nil : stretches
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

// MARK: - What came of it

/// What came of a request for a window.
enum HistoryResult {
    /// All pages were recorded.
    case read(pages: Int)
    /// The window is too long to be read: after so many pages.
    case tooLong(AppStoreAPIError, pages: Int)
    /// The window begins too long ago.
    case tooEarly(AppStoreAPIError)

    var isRead: Bool { if case .read = self { true } else { false } }
}

extension HistoryCursor {
    /// Where to go on after a window. A window that is too long is halved, and a start that is too early is moved: half
    /// as far from the end of the stretch. What cannot be read is noted, so that no request is repeated for ever.
    ///
    /// - Returns: What is left of the stretch; `nil` if nothing is. With an error it is to be read later.
    mutating func rest(
        of stretch: HistoryStretch, after request: NotificationHistoryRequest, _ result: HistoryResult,
        at now: Timestamp
    ) -> (HistoryStretch?, AppStoreAPIError?) {
        switch result {
        case .read(let pages):
            refusals = nil
            // By the overlap with which the request was made: otherwise a window that grows would begin where it began.
            let start = request.endDate.advanced(by: .zero - overlap)
            noteLength(of: request, pages: pages)
            return (request.endDate < stretch.end ? HistoryStretch(start: start, end: stretch.end) : nil, nil)
        case .tooLong where window > Self.minWindow:
            window = max(Self.minWindow, window / 2)
            return (stretch, nil)
        // A token that nobody sent has not expired: nothing is known of this minute, and it is read later.
        case .tooLong(let error, pages: 0): return (stretch, error)
        case .tooLong(let error, pages: _):
            return rest(of: stretch, from: request.startDate, to: request.endDate, error, isCertain: false)
        case .tooEarly(let error):
            let start = request.startDate
            let middle = start.advanced(by: start.duration(to: stretch.end) / 2)
            // If not even the last hour is shown, nothing is: that is an outage.
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

    /// What is left of a stretch if a part of it is passed over.
    ///
    /// - Parameter isCertain: Whether the refusal is believed at once.
    private mutating func rest(
        of stretch: HistoryStretch, from start: Timestamp, to end: Timestamp, _ error: AppStoreAPIError,
        isCertain: Bool
    ) -> (HistoryStretch?, AppStoreAPIError?) {
        var rest = stretch
        if !isCertain { rest.refusals = (stretch.refusals ?? 0) + 1 }
        guard isCertain || rest.refusals ?? 0 >= Self.believedRefusals else { return (rest, error) }
        noteUnread(HistoryStretch(start: max(start, stretch.start), end: end))
        rest.start = end
        return (end < stretch.end ? rest : nil, nil)
    }
}

extension HistoryStretch {
    /// What an operator should know about a part that was not read.
    var sentence: String {
        "The App Store does not show its notifications from \(start.iso8601) to \(end.iso8601), and is asked again "
            + "once a day while they are not too old. A backfill brings in what they were about."
    }
}
