// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import Synchronization

/// The feed of events for the webhooks of a server.
///
/// The endpoints of an app that keep up share the reads of the feed and the JSON of the events: each event is read and
/// written once for them all. An endpoint that is behind, and a failed event, has reads of its own.
final class WebhookFeed: Sendable {
    /// A part of the feed after a cursor.
    enum Part: Sendable {
        case page(WebhookPage)
        /// The events after the cursor are gone. The remaining events begin after `oldest`.
        case gap(oldest: EventCursor)
        /// The feed could not be read.
        case none
    }

    /// The longest wait for events.
    private static let maxWait = Duration.seconds(30)

    /// The pause after the feed could not be read.
    private static let pause = Duration.seconds(1)

    /// A read of the feed, which the endpoints at its cursor share.
    private struct Read {
        var readers: [Int: AsyncStream<Part>.Continuation] = [:]
        var task: Task<Void, Never>
    }

    /// The newest page of an app.
    private struct Newest {
        var page: WebhookPage
        var rest: Interval
    }

    private struct State {
        var reads: [EventPosition: Read] = [:]
        var newest: [String: Newest] = [:]
        var lastReader = 0
    }

    private let followers: EventFollowers
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let gathering: Duration
    private let failure: ThrottledWarning
    private let state = Mutex(State())

    /// - Parameter gathering: The time for which a page is shared. If it has the newest events, the feed is read again
    ///   after this time. Events that come meanwhile share the search: a search for each would cost as much as the
    ///   deliveries.
    init(
        _ followers: EventFollowers, gathering: Duration, now: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration>, _ failure: ThrottledWarning
    ) {
        self.followers = followers
        self.gathering = gathering
        self.now = now
        self.clock = clock
        self.failure = failure
    }

    /// Reads the feed of an app after a cursor. At its end, waits for events.
    ///
    /// - Returns: A part. A page can begin before the cursor.
    func part(of bundleId: String, after cursor: EventCursor) async -> Part {
        let place = EventPosition(bundleId: bundleId, cursor: cursor)
        let (parts, part) = AsyncStream.makeStream(of: Part.self)
        let reader = join(place, part)
        defer { leave(place, reader) }
        for await part in parts { return part }
        return .none
    }
}

// MARK: - Readers

extension WebhookFeed {
    /// Gives a reader the newest page if it goes on after the cursor, or else the part that a read finds.
    ///
    /// - Returns: The number of the reader.
    private func join(_ place: EventPosition, _ part: AsyncStream<Part>.Continuation) -> Int {
        state.withLock { state in
            state.lastReader += 1
            let reader = state.lastReader
            let newest = state.newest[place.bundleId].flatMap { $0.rest.isOver ? nil : $0.page }
            if let newest, newest.continues(after: place.cursor) {
                part.yield(.page(newest))
                return reader
            }
            let isEnd = newest.map { $0.isEnd && $0.next == place.cursor } ?? false
            var read = state.reads[place] ?? Read(task: Task { await self.read(place, in: isEnd ? gathering : .zero) })
            read.readers[reader] = part
            state.reads[place] = read
            return reader
        }
    }

    /// Ends a read for which nobody waits any more.
    private func leave(_ place: EventPosition, _ reader: Int) {
        let unused = state.withLock { state -> Task<Void, Never>? in
            guard state.reads[place]?.readers.removeValue(forKey: reader) != nil,
                state.reads[place]?.readers.isEmpty == true
            else { return nil }
            return state.reads.removeValue(forKey: place)?.task
        }
        unused?.cancel()
    }

    /// Reads a part of the feed, and gives it to all who wait for it.
    private func read(_ place: EventPosition, in pause: Duration) async {
        if pause > .zero { await clock.pause(for: pause) }
        let part = await search(place)
        let readers = state.withLock { state -> [Int: AsyncStream<Part>.Continuation] in
            // If the readers have left, another read may have begun.
            guard !Task.isCancelled else { return [:] }
            if case .page(let page) = part, !page.page.events.isEmpty { keep(page, of: place.bundleId, in: &state) }
            return state.reads.removeValue(forKey: place)?.readers ?? [:]
        }
        for reader in readers.values { reader.yield(part) }
    }

    /// Keeps a page for other readers. A page for a reader that is far behind replaces no later page that is shared.
    private func keep(_ page: WebhookPage, of bundleId: String, in state: inout State) {
        if let last = state.newest[bundleId], !last.rest.isOver, last.page.isLater(than: page) { return }
        var newest = Newest(page: page, rest: Interval(gathering, clock))
        newest.rest.begin()
        state.newest[bundleId] = newest
    }

    private func search(_ place: EventPosition) async -> Part {
        do {
            let page = try await followers.page(
                after: place, within: Self.maxWait, room: nil, clock: clock, now: now)
            guard let page else { return .none }
            return .page(WebhookPage(page, after: place.cursor, isEnd: page.events.count < EventFollowers.pageLimit))
        } catch let error as EventCursorError {
            return .gap(oldest: error.oldest ?? EventCursor(0))
        } catch {
            if !(error is CancellationError) {
                failure.log(["bundleId": .string(place.bundleId), "error": "\(error)"])
            }
            await clock.pause(for: Self.pause)
            return .none
        }
    }
}

/// A page of the feed, which the endpoints of an app share.
final class WebhookPage: Sendable {
    let page: EventPage
    /// The cursor after which the page begins.
    let start: EventCursor
    /// Whether the page ended with the newest event.
    let isEnd: Bool
    /// The JSON of the events that an endpoint has needed so far; `nil` for an event that cannot be written.
    private let bodies = Mutex<[EventCursor: [UInt8]?]>([:])

    init(_ page: EventPage, after start: EventCursor, isEnd: Bool) {
        self.page = page
        self.start = start
        self.isEnd = isEnd
    }

    var next: EventCursor { page.next }

    /// Whether the page has all events from a cursor to its own end, and this end is after the cursor.
    func continues(after cursor: EventCursor) -> Bool { cursor.isContinued(from: start, to: next) }

    /// Whether the page ends after the end of another page.
    func isLater(than other: WebhookPage) -> Bool {
        guard let number = next.number, let otherNumber = other.next.number else { return false }
        return next.epoch == other.next.epoch && otherNumber < number
    }

    /// An event of the page as JSON; `nil` if it cannot be written.
    func body(of event: LedgerEvent, _ cursor: EventCursor) -> [UInt8]? {
        bodies.withLock { bodies in
            if let known = bodies[cursor] { return known }
            // An attempt reads the event again, and reports the error.
            let body = try? Self.body(of: event, in: page).get()
            bodies.updateValue(body, forKey: cursor)
            return body
        }
    }

    /// The event as the feed has it. No event has caused an error so far.
    ///
    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    static func body(of event: LedgerEvent, in page: EventPage) -> Result<[UInt8], any Error> {
        Result { try JSONWriter.bytes(publishing: EventBody(event, in: page)) }
    }
}

extension EventCursor {
    /// Whether a page has all events after this cursor up to its own end, and this end is after the cursor.
    ///
    /// A cursor inside the page must be of its epoch: the same number in an earlier epoch can stand for a lost event.
    ///
    /// - Parameters:
    ///   - start: The cursor after which the page begins.
    ///   - next: The cursor at the end of the page.
    func isContinued(from start: EventCursor, to next: EventCursor) -> Bool {
        if self == start { return next != start }
        guard let number, let first = start.number, let last = next.number else { return false }
        return first < number && number < last && Set([epoch, start.epoch, next.epoch]).count == 1
    }
}
