// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The requests that wait for an app's next event.
///
/// The followers (the waiting requests) at the same cursor share a reader. It searches for events after each commit of
/// this server, and once a second for the events of other servers and of commands. It compares the events in memory
/// with each different filter once. A follower sleeps until its filter lets an event through, and meanwhile goes on to
/// the end of the events that were searched.
final class EventFollowers: Sendable {
    /// The time between two searches at a cursor, if no commit of this server causes an earlier search.
    private static let interval = Duration.seconds(1)

    /// The most events of a search.
    static let pageLimit = 100

    private let ledger: Ledger
    private let state = Mutex(State())

    /// - Parameter ledger: Only read.
    init(_ ledger: Ledger) { self.ledger = ledger }

    fileprivate struct State {
        var count = 0
        /// The last number of a follower.
        var last = 0
        var places: [EventPosition: Place] = [:]
    }

    /// The followers at a position. A position without followers has no place.
    fileprivate struct Place {
        /// The number of the follower whose arrival started the place's reader.
        let reader: Int
        /// Wakes the reader.
        let signal: AsyncStream<Void>.Continuation
        /// The followers by filter and number.
        var followers: [EventFilter: [Int: Follower]] = [:]
    }

    fileprivate struct Follower {
        var limit: Int
        var now: @Sendable () -> Timestamp
        var answer: AsyncStream<Result<EventPage, any Error>>.Continuation
    }

    /// The number of waiting requests, without those of webhooks.
    var count: Int { state.withLock { $0.count } }

    /// Wakes the readers of an app, whose new events were committed.
    func noteEvents(of bundleId: String) {
        state.withLock { state in
            for (position, place) in state.places where position.bundleId == bundleId { place.signal.yield() }
        }
    }

    /// Waits for events after a position.
    ///
    /// - Parameters:
    ///   - filter: Chooses the events that end the wait.
    ///   - limit: The maximum number of events in the page.
    ///   - time: The maximum wait.
    ///   - room: The maximum number of waiting requests; `nil` for a request that counts towards no limit.
    /// - Returns: The chosen events; a page without events at the end of the wait, or if the task was cancelled;
    ///   `nil` if too many requests wait.
    func page(
        after position: EventPosition, matching filter: EventFilter = EventFilter(), upTo limit: Int = pageLimit,
        within time: Duration, room: Int?, clock: any Clock<Duration>, now: @escaping @Sendable () -> Timestamp
    ) async throws -> EventPage? {
        let (answers, answer) = AsyncStream.makeStream(of: Result<EventPage, any Error>.self)
        let follower = Follower(limit: limit, now: now, answer: answer)
        guard let number = add(follower, filter, at: position, room, clock) else { return nil }
        let found = await withDiscardingTaskGroup(returning: Result<EventPage, any Error>?.self) { group in
            group.addTask {
                await clock.pause(for: time)
                self.end(number, filter, of: position.bundleId)
            }
            defer { group.cancelAll() }
            for await answer in answers { return answer }
            return nil
        }
        if room != nil { state.withLock { $0.count -= 1 } }
        switch found {
        case .success(let page): return page
        case .failure(let error): throw error
        case nil: return EventPage(events: [], customerIds: [:], next: position.cursor)
        }
    }
}

/// A cursor of an app.
struct EventPosition: Hashable {
    var bundleId: String
    var cursor: EventCursor
}

// MARK: - Followers

extension EventFollowers {
    /// Adds a follower to the place at its position, whose next search is for this follower too.
    ///
    /// - Returns: The number of the follower; `nil` if too many requests wait.
    private func add(
        _ follower: Follower, _ filter: EventFilter, at position: EventPosition, _ room: Int?,
        _ clock: any Clock<Duration>
    ) -> Int? {
        state.withLock { state in
            if let room {
                guard state.count < room else { return nil }
                state.count += 1
            }
            state.last += 1
            let number = state.last
            if state.places[position] == nil {
                let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
                state.places[position] = Place(reader: number, signal: signal)
                Task { await self.read(number, from: position, signals, signal, clock) }
            }
            state.places[position]?.followers[filter, default: [:]][number] = follower
            return number
        }
    }

    /// Ends a wait without an event, unless the follower has been answered.
    private func end(_ number: Int, _ filter: EventFilter, of bundleId: String) {
        state.withLock { state in
            let place = state.places.first { position, place in
                position.bundleId == bundleId && place.followers[filter]?[number] != nil
            }
            guard let position = place?.key,
                let follower = state.places[position]?.followers[filter]?.removeValue(forKey: number)
            else { return }
            follower.answer.yield(.success(EventPage(events: [], customerIds: [:], next: position.cursor)))
            if state.places[position]?.followers[filter]?.isEmpty == true {
                state.places[position]?.followers[filter] = nil
            }
            guard state.places[position]?.followers.isEmpty == true else { return }
            state.places.removeValue(forKey: position)?.signal.finish()
        }
    }
}

// MARK: - Readers

extension EventFollowers {
    /// Searches for the followers of a place, as long as it has any.
    private func read(
        _ reader: Int, from start: EventPosition, _ signals: AsyncStream<Void>,
        _ signal: AsyncStream<Void>.Continuation, _ clock: any Clock<Duration>
    ) async {
        var position = start
        while let (next, hasMore) = await search(reader, at: position) {
            position = next
            guard !hasMore else { continue }
            // A commit since the start of the search has left a signal, which ends the pause at once.
            await withDiscardingTaskGroup { group in
                group.addTask { if await clock.pause(for: Self.interval) { signal.yield() } }
                for await _ in signals { break }
                group.cancelAll()
            }
        }
    }

    /// Searches for events at a place, and answers the followers for whom there are events.
    ///
    /// - Returns: The position of the other followers, and whether more events may follow it; `nil` if the reader has
    ///   no followers left.
    private func search(
        _ reader: Int, at position: EventPosition
    ) async -> (position: EventPosition, hasMore: Bool)? {
        guard let now = state.withLock({ $0.now(reader, at: position) }) else { return nil }
        do {
            let page = try await ledger.events(
                of: position.bundleId, after: position.cursor, limit: Self.pageLimit, at: now())
            var found = FoundEvents(page)
            while true {
                switch state.withLock({ $0.answer(found, reader, at: position) }) {
                case .lacksIds: try await found.readAllIds(from: ledger)
                case .goesOn(let next): return (next, page.events.count >= Self.pageLimit)
                case .ended: return nil
                }
            }
        } catch {
            state.withLock { $0.fail(error, reader, at: position) }
            return nil
        }
    }
}

extension EventFollowers.State {
    enum Progress {
        /// A filter names a customer, and the found events do not have the ids of their customers yet.
        case lacksIds
        case goesOn(EventPosition)
        case ended
    }

    /// The present time for a search; `nil` if the reader has no followers at the position.
    func now(_ reader: Int, at position: EventPosition) -> (@Sendable () -> Timestamp)? {
        guard let place = places[position], place.reader == reader else { return nil }
        return place.followers.values.lazy.compactMap { $0.values.first?.now }.first
    }

    /// Answers the followers whose filters let events through. The others go on to the end of the page, where they may
    /// meet followers with a reader of their own.
    mutating func answer(_ found: FoundEvents, _ reader: Int, at position: EventPosition) -> Progress {
        guard var place = places[position], place.reader == reader else { return .ended }
        let asksForCustomers = place.followers.keys.contains { $0.customers != nil }
        if asksForCustomers, found.allIds == nil, !found.page.events.isEmpty { return .lacksIds }
        for (filter, followers) in place.followers {
            let matches = filter.matches(in: found)
            guard !matches.events.isEmpty else { continue }
            place.followers[filter] = nil
            for follower in followers.values { follower.answer.yield(.success(matches.first(follower.limit))) }
        }
        places[position] = nil
        guard !place.followers.isEmpty else { return .ended }
        let end = EventPosition(bundleId: position.bundleId, cursor: found.page.next)
        guard var other = places[end] else {
            places[end] = place
            return .goesOn(end)
        }
        other.followers.merge(place.followers) { $0.merging($1) { old, _ in old } }
        places[end] = other
        return .ended
    }

    /// Gives all followers at a position the error of their search.
    mutating func fail(_ error: any Error, _ reader: Int, at position: EventPosition) {
        guard let place = places[position], place.reader == reader else { return }
        places[position] = nil
        for follower in place.followers.values.flatMap(\.values) { follower.answer.yield(.failure(error)) }
    }
}
