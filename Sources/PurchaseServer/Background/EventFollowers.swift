// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization

/// The requests that wait for an app's next event.
///
/// A commit of this server wakes the app's followers (its waiting requests) at once. The events of other servers and of
/// commands are found by a search per second at each cursor where followers wait. Followers at the same cursor share
/// the search and its page.
final class EventFollowers: Sendable {
    /// The time between two searches at a cursor, if no commit of this server causes an earlier search.
    private static let interval = Duration.seconds(1)

    private let state = Mutex(State())

    private struct State {
        var count = 0
        /// The followers by app. An app without followers has no entry.
        var apps: [String: App] = [:]
    }

    /// The followers of an app.
    private struct App {
        var count = 0
        /// The number of commits with events since the first follower arrived.
        var commits = 0
        var lastWaiter = 0
        var waiting: [Int: AsyncStream<Void>.Continuation] = [:]
        /// The last search at each cursor.
        var searches: [EventCursor: Search] = [:]
    }

    /// A search that followers share.
    struct Search {
        typealias Read = @Sendable (EventCursor) async throws -> EventPage

        /// The value of ``App/commits`` at the start of the search.
        fileprivate var commits: Int
        /// The time for which the search's page is used if no commit follows. Then the search is repeated.
        fileprivate var rest: Interval
        fileprivate var page: Task<EventPage, any Error>
    }

    /// The number of waiting requests, without those of webhooks.
    var count: Int { state.withLock { $0.count } }

    /// Wakes the followers of an app, whose new events were committed.
    func noteEvents(of bundleId: String) {
        state.withLock { state in
            state.apps[bundleId]?.commits += 1
            return state.apps[bundleId].map { Array($0.waiting.values) } ?? []
        }.forEach { $0.yield() }
    }

    /// Waits for events of an app after a cursor.
    ///
    /// - Parameters:
    ///   - time: The maximum wait.
    ///   - limit: The maximum number of waiting requests; `nil` for a request that counts towards no limit.
    ///   - search: Reads the events of the app after a cursor.
    ///   - select: Returns the part of a page that ends the wait. If the part has no events, the wait continues at its
    ///     `next`.
    /// - Returns: The selected events; a page without events at the end of the wait, or if the task was cancelled;
    ///   `nil` if too many requests wait.
    func page(
        of bundleId: String, after cursor: EventCursor, within time: Duration, limit: Int?,
        clock: any Clock<Duration>, search: @escaping Search.Read, _ select: (EventPage) async throws -> EventPage
    ) async throws -> EventPage? {
        guard add(to: bundleId, limit) else { return nil }
        defer { remove(from: bundleId, limit) }
        var page = EventPage(events: [], customerIds: [:], next: cursor)
        let elapsed = clock.stopwatch()
        repeat {
            // A commit between the search and the wait ends the wait at once.
            let commits = commits(of: bundleId)
            page = try await select(found(of: bundleId, after: page.next, clock, search).value)
            let pause = min(Self.interval, time - elapsed())
            guard page.events.isEmpty, pause > .zero else { return page }
            guard await isWoken(of: bundleId, since: commits, within: pause, clock) else { return page }
        } while elapsed() < time
        return page
    }
}

// MARK: - Followers

extension EventFollowers {
    /// - Returns: Whether the request may wait.
    private func add(to bundleId: String, _ limit: Int?) -> Bool {
        state.withLock { state in
            if let limit {
                guard state.count < limit else { return false }
                state.count += 1
            }
            state.apps[bundleId, default: App()].count += 1
            return true
        }
    }

    private func remove(from bundleId: String, _ limit: Int?) {
        state.withLock { state in
            if limit != nil { state.count -= 1 }
            state.apps[bundleId]?.count -= 1
            if state.apps[bundleId]?.count == 0 { state.apps[bundleId] = nil }
        }
    }

    private func commits(of bundleId: String) -> Int { state.withLock { $0.apps[bundleId]?.commits ?? 0 } }

    /// Waits until the app has had more than `commits` commits with events, at most for `time`.
    ///
    /// - Returns: False if the task was cancelled during the wait.
    private func isWoken(
        of bundleId: String, since commits: Int, within time: Duration, _ clock: any Clock<Duration>
    ) async -> Bool {
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let waiter = state.withLock { state in
            guard var app = state.apps[bundleId] else { return 0 }
            app.lastWaiter += 1
            app.waiting[app.lastWaiter] = signal
            if app.commits > commits { signal.yield() }
            state.apps[bundleId] = app
            return app.lastWaiter
        }
        defer { state.withLock { $0.apps[bundleId]?.waiting[waiter] = nil } }
        await withDiscardingTaskGroup { group in
            // The end of either wait ends the stream, and so the other wait.
            group.addTask {
                await clock.pause(for: time)
                signal.finish()
            }
            for await _ in signals { break }
            group.cancelAll()
        }
        return !Task.isCancelled
    }
}

// MARK: - Searches

extension EventFollowers {
    /// Searches for events after a cursor, or joins a search of the last second that no commit of this server followed.
    private func found(
        of bundleId: String, after cursor: EventCursor, _ clock: any Clock<Duration>, _ read: @escaping Search.Read
    ) -> Task<EventPage, any Error> {
        state.withLock { state in
            var app = state.apps[bundleId] ?? App()
            defer { state.apps[bundleId] = app }
            if let last = app.searches[cursor], last.commits == app.commits, !last.rest.isOver { return last.page }
            app.searches = app.searches.filter { !$0.value.rest.isOver }
            var search = Search(
                commits: app.commits, rest: Interval(Self.interval, clock), page: Task { try await read(cursor) })
            search.rest.begin()
            app.searches[cursor] = search
            return search.page
        }
    }
}
