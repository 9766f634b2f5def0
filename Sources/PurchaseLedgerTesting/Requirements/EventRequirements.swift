// SPDX-License-Identifier: Apache-2.0

// The requirements for events, for words that a newer version of the server has stored, for notes of unfinished copies
// of a ledger, and for a storage that adapts to the size of the ledger. ``LedgerStorageContract`` tests them.

import AppStoreModel
import PurchaseLedger

// MARK: - Events

extension LedgerStorageContract {
    static let events = [
        Requirement("Events are read as committed, by app, in order, after a cursor, up to a limit") {
            trial in
            let anna = try await trial.customer("anna")
            let texts = Sample.awkward.map { Sample.event($0, anna.customer) }
            let bare = LedgerEvent(.notificationReceived, in: Sample.sandbox, at: Sample.time(6))
            let other = Sample.event("other", in: Sample.otherApp)
            let expected = texts + [bare]
            try await trial.commit { $0.events = [texts[0], other, texts[1]] }
            try await trial.commit(trial.second) { $0.events = Array(expected[2...]) }
            let all = try await trial.page(after: nil).events
            try trial.expect(all.map(\.unplaced), is: expected, "Events")
            try trial.expect(
                try await trial.page(of: "com.example.two", after: nil).events.map(\.unplaced), is: [other],
                "Another app's events")
            for (index, event) in all.enumerated() {
                for limit in [0, 2, 100] {
                    let page = try await trial.page(after: event.cursor, limit: limit)
                    try trial.expect(page.events, is: Array(all[(index + 1)...].prefix(limit)), "After \(index)")
                    let rest = try await trial.page(after: page.next).events
                    try trial.expect(rest, is: Array(all[(index + 1 + page.events.count)...]), "After the page")
                }
            }
        },
        Requirement("The end of an app's events is a cursor after the earlier events, and before the later events") {
            trial in
            let app = Sample.production.bundleId
            for round in 0..<3 {
                let end = try await trial.second.endOfEvents(of: app)
                // A different app has events first, and its end is not that of this app.
                try await trial.commit { $0.events = [Sample.event("other \(round)", in: Sample.otherApp)] }
                let event = Sample.event("\(round)")
                try await trial.commit { $0.events = [event] }
                for handle in trial.handles {
                    let found = try await handle.events(of: app, after: end, limit: 10).events
                    try trial.expect(found.map(\.unplaced), is: [event], "Events after the end of round \(round)")
                    let rest = try await handle.events(of: app, after: try await handle.endOfEvents(of: app), limit: 10)
                    try trial.expect(rest.events, is: [], "Events after the end")
                }
            }
            try await trial.first.beginEpoch(at: Sample.time(6))
            let end = try await trial.second.endOfEvents(of: app)
            try trial.expect(
                try await trial.first.events(of: app, after: end, limit: 10).events, is: [], "Events in a new epoch")
        },
        Requirement("A cursor before the newest events of an app is followed by them, and by no others") { trial in
            let app = Sample.production.bundleId
            for number in 0..<7 {
                try await trial.commit { changes in
                    changes.events = [
                        Sample.event("\(number)"), Sample.event("other \(number)", in: Sample.otherApp),
                    ]
                }
            }
            // Reading gives each event its number.
            let all = try await trial.page(after: nil).events
            for count in [1, 3, 7, 100] {
                let cursor = try await trial.second.cursor(beforeNewest: count, of: app)
                let found = try await trial.first.events(of: app, after: cursor, limit: 100).events
                try trial.expect(found, is: all.suffix(count), "The newest \(count)")
            }
            try trial.expect(
                try await trial.first.cursor(beforeNewest: 3, of: "com.example.three"), is: nil, "An unknown app")
        },
        Requirement("A search finds the events of a selection, and ends with them or the last event it compared") {
            trial in
            let customers = [try await trial.customer("anna"), try await trial.customer("bert")].map(\.customer)
            let kinds: [LedgerEvent.Kind] = [
                .refunded, .customersMerged, .consentChanged, .ledgerRestored, .linked, .environmentsChanged,
                .aliasRemoved,
            ]
            for (index, customer) in (customers + [nil]).enumerated() {
                let events = kinds.enumerated().map { place, kind in
                    LedgerEvent(
                        Open(kind), in: (index + place) % 2 == 0 ? Sample.sandbox : Sample.production,
                        at: Sample.time(5), customer: customer, chainName: nil, body: Array("{}".utf8))
                }
                try await trial.commit { $0.events = events + [Sample.event("other", in: Sample.otherApp)] }
            }
            let all = try await trial.page(after: nil).events
            for wanted in [nil, ["purchase.refunded", "customer.consentChanged"], ["nothing"]] as [Set<String>?] {
                for environment in [nil, .sandbox, .xcode] as [Environment?] {
                    for owners in [nil, [], [customers[1]], Set(customers)] as [Set<Customer>?] {
                        let found = all.filter { event in
                            let kind = event.kind.rawValue
                            let isOwned = owners == nil || event.customer.map { owners?.contains($0) == true } == true
                            let isNamed = ["customer.merged", "ledger.restored", "customer.environmentsChanged"]
                            return (wanted?.contains(kind) ?? true || kind == "ledger.restored")
                                && (environment ?? event.scope.environment == event.scope.environment
                                    || kind.hasPrefix("customer."))
                                && (isOwned || isNamed.contains(kind) || kind == "customer.aliasRemoved")
                        }
                        var selection = EventSelection(kinds: wanted, environment: environment, customers: owners)
                        for (among, limit) in [(7, 2), (100, 100)] {
                            selection.among = among
                            var next = try await trial.second.events(of: "com.example.one", after: nil, limit: 0).next
                            var rest = all
                            repeat {
                                let compared = rest.prefix(among)
                                let expected = compared.filter(found.contains).prefix(limit)
                                let last = expected.count == limit ? expected.last : compared.last
                                let page = try await trial.second.events(
                                    selection, of: "com.example.one", after: next, limit: limit)
                                try trial.expect(page.events, is: Array(expected), "\(selection)")
                                next = last?.cursor ?? next
                                try trial.expect(page.next, is: next, "The end of the page of \(selection)")
                                rest.removeAll { $0.cursor?.number ?? 0 <= next.number ?? 0 }
                                if compared.isEmpty { break }
                            } while true
                        }
                    }
                }
            }
        },
        Requirement("The bytes of an event's body come back unchanged, whatever becomes of the event's customer") {
            trial in
            var anna = try await trial.customer("anna")
            let bert = try await trial.customer("bert")
            let cora = try await trial.customer("cora")
            let events = [anna, bert, cora].flatMap { record in
                Sample.bodies.map { body in
                    LedgerEvent(
                        Open(rawValue: "purchase.gifted"), in: Sample.production, at: Sample.time(5),
                        customer: record.customer, chainName: Sample.key().name, body: body)
                }
            }
            try await trial.commit { $0.events = events }
            try trial.expect(try await trial.page(after: nil).events.map(\.unplaced), is: events, "Events")
            // Bert is merged into Anna, and Cora is erased.
            anna.ids += bert.ids
            try await trial.commit(erasing: [bert, cora]) { $0.customers = [anna] }
            for handle in trial.handles {
                let page = try await handle.events(of: Sample.production.bundleId, after: nil, limit: 100)
                try trial.expect(page.events.map(\.unplaced), is: events, "Events after a merge and an erasure")
            }
        },
        Requirement("A cursor at the end stays valid, even for an app without events") { trial in
            for bundleId in ["com.example.one", "com.example.two"] {
                let start = try await trial.page(of: bundleId, after: nil)
                try trial.expect(start.events, is: [], "Events")
                let scope = LedgerScope(bundleId: bundleId, environment: .production)
                for detail in ["first", "second"] {
                    try await trial.commit(trial.second) { $0.events = [Sample.event(detail, in: scope)] }
                }
                let found = try await trial.page(of: bundleId, after: start.next)
                try trial.expect(
                    found.events.map(\.content?.detail), is: ["first", "second"], "Events after the beginning")
                let end = try await trial.page(of: bundleId, after: found.next)
                try trial.expect(end.events, is: [], "Events after the end")
                try await trial.commit { $0.events = [Sample.event("third", in: scope)] }
                for cursor in [found.next, end.next] {
                    let more = try await trial.page(of: bundleId, after: cursor).events
                    try trial.expect(more.map(\.content?.detail), is: ["third"], "Events after the old end")
                }
            }
        },
        Requirement("During writes, a reader sees every event once, and the events of a chain in order") {
            trial in
            let readers = trial.handles.map { ($0, commits: Commits.makeStream(bufferingPolicy: .bufferingNewest(1))) }
            try await withThrowingTaskGroup(of: [LedgerEvent].self) { group in
                for (handle, commits) in readers {
                    group.addTask { try await trial.follow(handle, commits.stream) }
                }
                try await trial.writeEvents(chains: 10, rounds: 20) {
                    for (_, commits) in readers { commits.continuation.yield() }
                }
                for (_, commits) in readers { commits.continuation.finish() }
                for try await events in group {
                    let chains = Dictionary(grouping: events) { $0.originalTransactionId }
                    try trial.expect(chains.count, is: 10, "Chains")
                    for details in chains.values.map({ $0.map(\.content?.detail) }) {
                        try trial.expect(details, is: (0..<40).map { "\($0)" }, "Events of a chain")
                    }
                }
            }
        },
        Requirement("After events were erased, an earlier cursor expires and names the oldest valid cursor") { trial in
            try await trial.commit { $0.events = (0..<10).map { Sample.event("\($0)", at: Int64($0)) } }
            let all = try await trial.page(after: nil).events
            for (before, limit, erased, left) in [
                (4, 0, 0, 10), (4, 3, 3, 7), (4, 9, 1, 6), (4, 9, 0, 6), (99, 9, 6, 0),
            ] {
                let found = try await trial.second.eraseEvents(before: Sample.time(Int64(before)), limit: limit)
                try trial.expect(found, is: erased, "How many were erased before \(before), at most \(limit)")
                let expected = Array(all.suffix(left))
                try trial.expect(try await trial.page(after: nil).events, is: expected, "The remaining events")
                for (index, event) in all.enumerated() {
                    if index + 1 >= all.count - left {
                        let rest = try await trial.page(after: event.cursor).events
                        try trial.expect(rest, is: Array(all[(index + 1)...]), "After \(index)")
                    } else {
                        guard case .expired(let oldest) = try await trial.error(after: event.cursor) else {
                            throw Trial.Failure(message: "The cursor after \(index) did not expire.")
                        }
                        try trial.expect(try await trial.page(after: oldest).events, is: expected, "After the oldest")
                    }
                }
            }
            try await trial.commit { $0.events = [Sample.event("new", at: 100)] }
            let new = try await trial.page(after: all.last?.cursor).events
            try trial.expect(new.map(\.content?.detail), is: ["new"], "Events after all were erased")
            try trial.expect(!all.map(\.cursor).contains(new.first?.cursor), "The same cursor stands for two positions")
        },
        Requirement("Any text except a cursor of the ledger is refused as invalid") { trial in
            try await trial.commit { $0.events = [Sample.event("one")] }
            for text in Sample.awkward + ["-1", "one", "9223372036854775808", "1 ", "1.", "1.one", "01", ".1"] {
                let error = try await trial.error(after: EventCursor(rawValue: text))
                try trial.expect(error, is: .invalid, "\(text.prefix(20).debugDescription) as a cursor")
            }
        },
        Requirement("A cursor of a different app is refused as invalid") { trial in
            try await trial.commit { $0.events = [Sample.event("one"), Sample.event("two", in: Sample.otherApp)] }
            let cursor = try await trial.page(of: "com.example.two", after: nil).events.first?.cursor
            try trial.expect(try await trial.error(after: cursor), is: .invalid, "The other app's cursor")
        },
        Requirement("Once an epoch began, the numbers after the last of the epoch before are lost") { trial in
            try await trial.commit { $0.events = ["one", "two"].map { Sample.event($0) } }
            let old = try await trial.page(after: nil).events.compactMap(\.cursor)
            for round in 0..<2 {
                // An epoch is a period in which each number stands for a single event of an app. A copy of a ledger
                // begins an epoch, because the original ledger may continue to number its own events.
                try await trial.second.beginEpoch(at: Sample.time(6))
                let found = try await trial.page(after: old[1]).events
                let isRestored = found.map { $0.kind == .ledgerRestored }
                try trial.expect(isRestored, is: round == 0 ? [true] : [true, false, true], "Events of a new epoch")
                try trial.expect(found.last?.customer, is: nil, "The customer of the event")
                let times = [found.last?.recordedAt, found.last?.content?.effectiveAt]
                try trial.expect(times, is: [Sample.time(6), Sample.time(6)], "The event's time")
                try await trial.commit { $0.events = [Sample.event("new")] }
            }
            let epochs = try await trial.first.marks().epochs["com.example.one"] ?? EventEpochs()
            try trial.expect(epochs.all.map { $0.last == nil }, is: [false, false, true], "The epochs that go on")
            // The numbers of an epoch may have gaps, also at its end.
            let last = epochs.all.first?.last ?? 0
            for number in last + 1...last + 3 {
                let error = try await trial.error(after: EventCursor(number, epoch: old[1].epoch))
                try trial.expect(error, is: .lost(oldest: epochs.cursor(last)), "The lost cursor \(number)")
            }
            let all = try await trial.page(after: nil).events.compactMap(\.cursor)
            try trial.expect(Array(all.prefix(2)), is: old, "Cursors of earlier events")
            try trial.expect(Set(all.map(\.epoch)).count, is: 3, "Epochs")
            try trial.expect(all.compactMap(\.number).map(epochs.cursor), is: all, "Cursors in their epochs")
            let new = try await trial.page(after: old[1]).events.map(\.content?.detail)
            try trial.expect(new, is: [nil, "new", nil, "new"], "New events")
        },
        Requirement("A page has the first id of each customer in its events, unless the customer was erased") { trial in
            var anna = try await trial.customer("anna", "a")
            var bert = try await trial.customer("bert")
            let cora = try await trial.customer("cora")
            try await trial.commit { changes in
                changes.events = [anna, bert, cora, anna].map { Sample.event("", $0.customer) }
            }
            for (record, id) in [(anna, "anna"), (bert, "bert"), (cora, "cora")] {
                let found = try await trial.page(after: nil).customerIds[record.customer]
                try trial.expect(found, is: id, "The first id")
            }
            // Bert is merged into Anna, and Cora is erased.
            anna.ids += bert.ids
            try await trial.commit(erasing: [bert, cora]) { $0.customers = [anna] }
            let page = try await trial.page(after: nil)
            try trial.expect(page.customerIds, is: [anna.customer: "anna"], "First ids of the remaining customers")
            bert = try await trial.customer("cora")
            let isReused = page.events.map(\.customer).contains(bert.customer)
            try trial.expect(isReused, is: false, "Whether the number of an erased customer is assigned again")
        },
        Requirement("An event of a different ledger keeps its cursor, is added once, and precedes new events") {
            trial in
            let numbers = [(3, Sample.production), (7, Sample.sandbox), (3, Sample.otherApp)] as [(Int64, LedgerScope)]
            let copied = numbers.map { number, scope in
                var event = Sample.event("\(number)", in: scope)
                event.cursor = EventCursor(number, epoch: "of \(scope.bundleId)")
                return event
            }
            let epochs = copied.map { ($0.scope.bundleId, EventEpochs([EventEpoch(id: $0.cursor?.epoch ?? "")])) }
            try await trial.commit { $0.marks.epochs = Dictionary(epochs) { first, _ in first } }
            for (handle, events) in zip(trial.handles, [Array(copied[..<1]), copied]) {
                try await trial.commit(handle) { $0.events = events }
                // Simulates a retry after a lost answer.
                try await trial.commit(handle) { $0.events = events }
            }
            try trial.expect(try await trial.page(after: nil).events, is: Array(copied[..<2]), "Events")
            try trial.expect(
                try await trial.page(of: "com.example.two", after: nil).events, is: [copied[2]], "Another app's events")
            for (cursor, events) in [(2, copied[..<2]), (3, copied[1..<2]), (6, copied[1..<2]), (7, [])] {
                let page = try await trial.page(after: EventCursor(Int64(cursor), epoch: "of com.example.one"))
                try trial.expect(page.events, is: Array(events), "Events after \(cursor)")
            }
            let lost = EventCursorError.lost(oldest: EventCursor(7, epoch: "of com.example.one"))
            let next = EventCursor(8, epoch: "of com.example.one")
            try trial.expect(try await trial.error(after: next), is: lost, "A cursor after the last")
            for handle in trial.handles { try await trial.commit(handle) { $0.events = [Sample.event("new")] } }
            let new = try await trial.page(after: EventCursor(7, epoch: "of com.example.one")).events
            try trial.expect(new.map(\.content?.detail), is: ["new", "new"], "Events numbered after the copy")
            try trial.expect(
                try await trial.page(after: nil).events, is: Array(copied[..<2]) + new, "All events of the app")
        },
        Requirement("Marks of a different ledger are only raised, and later numbers are above the marks") { trial in
            var marks = HighWaterMarks()
            marks.lastCustomer = 5000
            marks.lastEvent = 70
            marks.erasedEvents = ["com.example.one": 4, "com.example.two": 0]
            for raised in [marks, HighWaterMarks(), marks] {
                try await trial.commit { $0.marks = raised }
                for handle in trial.handles {
                    let found = try await handle.marks()
                    try trial.expect(found.lastCustomer >= 5000, "\(found.lastCustomer) is below the mark")
                    try trial.expect(found.lastEvent, is: 70, "The last event")
                    let apps = found.erasedEvents.filter { marks.erasedEvents[$0.key] != nil }
                    try trial.expect(apps, is: marks.erasedEvents, "The last erased events")
                    try trial.expect(try await handle.apps(), is: found.erasedEvents.keys.sorted(), "The apps")
                }
            }
            for cursor in 0..<4 {
                let cursor = try await trial.cursor(Int64(cursor))
                guard case .expired(let oldest) = try await trial.error(after: cursor) else {
                    throw Trial.Failure(message: "The cursor \(cursor.rawValue) did not expire.")
                }
                try trial.expect(oldest.number, is: 4, "The oldest valid cursor")
            }
            for cursor in [4, 70] {
                let page = try await trial.page(after: try await trial.cursor(Int64(cursor)))
                try trial.expect(page.events, is: [], "Events after \(cursor)")
            }
            for (handle, id) in zip(trial.handles, ["anna", "bert"]) {
                let number = try await trial.customer(id, through: handle).customer.number
                try trial.expect(number > 5000, "The new customer \(number) is below the mark")
                try await trial.commit(handle) { $0.events = [Sample.event(id)] }
            }
            let events = try await trial.page(after: try await trial.cursor(70)).events
            try trial.expect(events.map(\.content?.detail), is: ["anna", "bert"], "Events after the mark")
            let last = events.last?.cursor?.number
            try trial.expect(try await trial.second.eraseEvents(before: Sample.time(9), limit: 9), is: 2, "Erased")
            let found = try await trial.first.marks()
            try trial.expect(found.erasedEvents["com.example.one"], is: last, "The last erased event")
            try trial.expect(found.lastEvent >= last ?? 0, "The mark is below the last event")
            try trial.expect(found.lastCustomer > 5001, "The mark of customers is not above the last customer")
        },
    ]
}

/// An element after each commit, until the last.
private typealias Commits = AsyncStream<Void>

extension LedgerEvent {
    /// The event without the cursor assigned by the storage.
    fileprivate var unplaced: LedgerEvent {
        var event = self
        event.cursor = nil
        return event
    }
}

extension Trial {
    fileprivate func page(
        of bundleId: String = "com.example.one", after cursor: EventCursor?, limit: Int = 100
    ) async throws -> EventPage {
        try await second.events(of: bundleId, after: cursor, limit: limit)
    }

    /// The cursor of the event with a number in the app's newest epoch: the newest period in which each number stands
    /// for a single event.
    fileprivate func cursor(_ number: Int64) async throws -> EventCursor {
        // Before its first event, an app may have no epoch. The cursor then has an empty epoch.
        EventCursor(number, epoch: try await second.marks().epochs["com.example.one"]?.all.last?.id ?? "")
    }

    fileprivate func error(after cursor: EventCursor?) async throws -> EventCursorError? {
        do throws(any Error) {
            _ = try await page(after: cursor)
            return nil
        } catch let error as EventCursorError {
            return error
        }
    }

    /// Writes events of several chains concurrently through both handles, two events per chain and round.
    fileprivate func writeEvents(
        chains: Int, rounds: Int, onCommit: @escaping @Sendable () -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for chain in 0..<chains {
                group.addTask {
                    for round in 0..<rounds {
                        try await commit(handles[(chain + round) % 2]) { changes in
                            changes.events = [2 * round, 2 * round + 1].map { Sample.event("\($0)", chain: chain) }
                            changes.chains = [Sample.chain(chain, signed: Int64(round))]
                        }
                        onCommit()
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// Reads all events of an app page by page, after commits and once more after the last.
    fileprivate func follow(_ handle: any LedgerStorage, _ commits: Commits) async throws -> [LedgerEvent] {
        var events: [LedgerEvent] = []
        var cursor: EventCursor?
        func read() async throws {
            while true {
                let page = try await handle.events(of: "com.example.one", after: cursor, limit: 7)
                events += page.events
                cursor = page.next
                if page.events.isEmpty { return }
            }
        }
        for await _ in commits { try await read() }
        try await read()
        return events
    }
}

// MARK: - Others

extension LedgerStorageContract {
    static let others = [
        Requirement("Words of a newer version are kept unchanged, and harm no other row") { trial in
            let anna = try await trial.customer("anna")
            var event = Sample.event("new", anna.customer)
            event.kind = Open(rawValue: "purchase.gifted")
            let events = [Sample.event("before", anna.customer), event, Sample.event("after", anna.customer)]
            var chain = Sample.chain(owners: [anna], next: Sample.time(9))
            chain.owners[0].reason = Open(rawValue: "gift")
            chain.report?.state.status = Open(rawValue: "paused")
            for (number, source) in [3, 7].enumerated() {
                var statement = Sample.statement("1", signed: Int64(number))
                statement.source = Open(rawValue: source)
                chain.chain.merge(statement)
            }
            var chains = [chain.key: chain, Sample.key(2): Sample.chain(2, owners: [anna])]
            try await trial.commit {
                $0.events = events
                $0.chains = Array(chains.values)
            }
            // A server that does not know these words changes the purchase.
            try await trial.second.commit(LedgerQuery([.chain(chain.key)])) { snapshot in
                var changes = LedgerChanges()
                changes.chains = snapshot.chains.values.map { record in
                    var record = record
                    record.lastEventAt = Sample.time(8)
                    return record
                }
                return .commit(changes, ())
            }
            chains[chain.key]?.lastEventAt = Sample.time(8)
            for handle in trial.handles {
                try trial.expect(try await trial.page(after: nil).events.map(\.unplaced), is: events, "Events")
                let found = try await handle.load(LedgerQuery(chains.keys.map(LedgerKey.chain))).chains
                try trial.expect(found, is: chains, "Chains")
            }
        },
        Requirement("A copy is noted until the copy ends or a new note takes its place") { trial in
            try trial.expect(try await trial.first.unfinishedCopy(), is: nil, "The note of a new ledger")
            let notes = Sample.awkward.map { UnfinishedCopy(source: $0, beganAt: Sample.time(3)) }
            for note in notes.map(Optional.some) + [nil, notes.first, nil] {
                try await trial.first.note(note)
                for handle in trial.handles {
                    try trial.expect(try await handle.unfinishedCopy(), is: note, "The note")
                }
            }
        },
        Requirement("A ledger that adapts to its size has the same records, and counts its documents") { trial in
            try trial.expect(try await trial.second.documentCount(), is: 0, "Documents of a new ledger")
            for number in 1...3 { try await trial.commit { $0.documents = [Sample.document(number, for: [])] } }
            try await trial.second.adaptToSize()
            for handle in trial.handles {
                try trial.expect(try await handle.documentCount(), is: 3, "Documents")
                try trial.expect(
                    try await handle.documents(.all, limit: 10).count, is: 3, "Documents in a scan")
            }
        },
    ]
}
