// SPDX-License-Identifier: Apache-2.0

// The requirements for records of any kind, including jobs (work to do at a certain time). ``LedgerStorageContract``
// tests them.

import AppStoreModel
import PurchaseLedger

extension Sample {
    static func record(
        _ name: String, _ kind: String = "kind", of owner: RecordOwner = .scope(production), due: Int64? = nil,
        entries: Set<String> = [], payload: [UInt8] = []
    ) -> LedgerRecord {
        LedgerRecord(
            RecordKey(RecordKind(rawValue: kind), name, of: owner), dueAt: due.map(time), entries: entries,
            payload: payload)
    }

    static func job(_ name: String) -> Job {
        Job(Job.ID(Job.Kind(rawValue: "kind"), name, in: production), dueAt: time(0))
    }
}

extension LedgerStorageContract {
    /// A record for each owner: the ledger, an app, or an app's environment. All have the same name.
    private static let ofAllOwners: [LedgerRecord] = [
        .ledger, .app("com.example.one"), .app("com.example.two"), .scope(Sample.production), .scope(Sample.sandbox),
    ].map { Sample.record("a", of: $0, payload: [1]) }

    static let owned = [
        Requirement("A record replaces only the record with the same kind, owner and name") { trial in
            let others = ofAllOwners.dropLast() + [Sample.record("b"), Sample.record("a", "other")]
            try await trial.commit { $0.records = Array(others) }
            let largest = [UInt8](repeating: 1, count: LedgerRecord.payloadLimit)
            for record in [
                Sample.record("a", of: .scope(Sample.sandbox)),
                Sample.record("a", of: .scope(Sample.sandbox), due: -5, entries: ["x", "y"], payload: [0, 255]),
                Sample.record("a", of: .scope(Sample.sandbox), due: 7, entries: ["z"], payload: largest),
                Sample.record("a", of: .scope(Sample.sandbox)),
            ] {
                try await trial.commit { $0.records = [record] }
                let all = others + [record]
                for handle in trial.handles {
                    let found = try await trial.load(all.map { .record($0.key) }, from: handle).records
                    try trial.expect(found, is: Dictionary(uniqueKeysWithValues: all.map { ($0.key, $0) }), "Records")
                }
            }
        },
        Requirement("Names and entries of records are any texts") { trial in
            let records = Sample.awkward.flatMap { text in
                [RecordOwner.ledger, .scope(Sample.production)].map { owner in
                    let isShort = text.utf8.count <= LedgerRecord.entryLength
                    return Sample.record(text, of: owner, entries: isShort ? [text, "all"] : ["all"])
                }
            }
            try await trial.commit { $0.records = records }
            let found = try await trial.load(records.map { .record($0.key) }).records
            try trial.expect(Set(found.values), is: Set(records), "The records")
            for text in Sample.awkward.filter({ $0.utf8.count <= LedgerRecord.entryLength }) + ["all"] {
                let selection = RecordSelection(entry: text)
                let expected = Set(records.filter(selection.contains))
                try trial.expect(Set(try await trial.scan(selection)), is: expected, "Records with the entry \(text)")
            }
        },
        Requirement("An erased record is neither loaded nor found, and the other records stay") { trial in
            let records = ofAllOwners + [Sample.record("b", due: 1, entries: ["x"])]
            try await trial.commit { $0.records = records }
            for (index, record) in records.enumerated() {
                try await trial.commit(trial.second) {
                    $0.erasedRecords = [record.key, Sample.record("never stored").key]
                }
                let rest = records.dropFirst(index + 1)
                try trial.expect(Set(try await trial.scan(RecordSelection())), is: Set(rest), "The records")
            }
            try trial.expect(try await trial.scan(RecordSelection(entry: "x")), is: [], "Records with the entry")
        },
        Requirement("Records are due from their instant, the earliest first, up to a limit") { trial in
            try await trial.commit { changes in
                changes.records = [("c", 3), ("a", 2), ("b", 1), ("d", 4)].map { Sample.record($0, due: $1) }
                changes.records += [
                    Sample.record("x", "other", due: 0), Sample.record("y", of: .scope(Sample.sandbox), due: 5),
                    Sample.record("z", of: .ledger, due: 6), Sample.record("never", due: nil),
                ]
            }
            let one = RecordSelection(RecordKind(rawValue: "kind"), of: .scope(Sample.production))
            for (all, now, limit, expected) in [
                (one, 3, 9, "bac"), (one, 9, 2, "ba"), (one, 0, 9, ""), (one, 9, 0, ""), (one, 2, 9, "ba"),
                (RecordSelection(), 9, 9, "xbacdyz"), (RecordSelection(), 2, 2, "xb"),
                (RecordSelection(one.kind), 9, 9, "bacdyz"), (RecordSelection(of: .ledger), 9, 9, "z"),
                (RecordSelection(of: .app("com.example.three")), 9, 9, ""),
            ] as [(RecordSelection, Int64, Int, String)] {
                var selection = all
                selection.dueAt = Sample.time(now)
                let due = try await trial.second.records(selection, after: nil, limit: limit)
                try trial.expect(due.items.map(\.key.name).joined(), is: expected, "Due at \(now), at most \(limit)")
                try trial.expect(due.next, is: nil, "The cursor after the due records")
            }
            try await trial.commit { changes in
                changes.records = [Sample.record("b", due: 8)]
                changes.erasedRecords = [Sample.record("a").key]
            }
            let selection = RecordSelection(one.kind, of: one.owner, dueAt: Sample.time(9))
            let due = try await trial.second.records(selection, limit: 9)
            try trial.expect(due.map(\.key.name).joined(), is: "cdb", "Due after a postponement and an erasure")
        },
        Requirement("Records are found between two names, in the order of their bytes, up to a limit") { trial in
            let owners: [RecordOwner] = [.app("com.example.one"), .scope(Sample.production), .ledger]
            try await trial.commit { changes in
                changes.records = owners.flatMap { owner in
                    ["b", "d", "a", "é", "c", "B", "e"].map { name in
                        Sample.record(name, of: owner, entries: ["b", "c"].contains(name) ? ["x"] : ["y"])
                    }
                }
                changes.records += [Sample.record("b", "other", of: owners[0]), Sample.record("b", of: .app("two"))]
            }
            for owner in owners {
                for (after, before, entry, limit, expected) in [
                    ("", "~", nil, 9, ["B", "a", "b", "c", "d", "e"]), ("a", "d", nil, 9, ["b", "c"]),
                    ("a", "d", nil, 1, ["b"]), ("b", "~", nil, 2, ["c", "d"]), ("", "~", "x", 9, ["b", "c"]),
                    ("b", "~", "x", 9, ["c"]), ("~", "\u{ff}", nil, 9, ["é"]), ("d", "a", nil, 9, []),
                    ("", "~", "none", 9, []), ("", "~", nil, 0, []),
                ] as [(String, String, String?, Int, [String])] {
                    var selection = RecordSelection(RecordKind(rawValue: "kind"), of: owner, entry: entry)
                    selection.names = RecordNames(after: after, before: before)
                    let found = try await trial.second.records(selection, after: nil, limit: limit)
                    let names = found.items.map { Array($0.key.name.utf8) }
                    try trial.expect(names, is: expected.map { Array($0.utf8) }, "Between \(after) and \(before)")
                    try trial.expect(found.next, is: nil, "The cursor after the named records")
                }
            }
        },
        Requirement("A scan finds each record of its selection once") { trial in
            let scopes = [Sample.production, Sample.otherApp]
            let records =
                (0..<7).map { Sample.record("\($0)", of: .scope(scopes[$0 / 4])) } + ofAllOwners
                + [Sample.record("7", "other", entries: ["x"]), Sample.record("8", entries: ["x", "y"])]
            try await trial.commit { $0.records = records }
            let kind = RecordKind(rawValue: "kind")
            for selection in [
                RecordSelection(), RecordSelection(kind), RecordSelection(of: .ledger),
                RecordSelection(kind, of: .scope(Sample.production)),
                RecordSelection(kind, of: .scope(Sample.production), entry: "x"),
                RecordSelection(RecordKind(rawValue: "none")), RecordSelection(of: .app("com.example.three")),
            ] {
                // A record stored again during the scan is not returned again.
                let found = try await trial.scan(selection, pages: 2) {
                    try await trial.commit { $0.records = [records[0]] }
                }
                let expected = records.filter(selection.contains)
                try trial.expect(found.count, is: expected.count, "Records of \(selection)")
                try trial.expect(Set(found), is: Set(expected), "Records of \(selection)")
            }
        },
        Requirement("A decision about a record sees the committed changes of the decisions before") { trial in
            for owner in [RecordOwner.ledger, .app("com.example.one"), .scope(Sample.production)] {
                let key = Sample.record("count", of: owner).key
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<20 {
                        group.addTask { try await trial.lengthen(key, trial.handles[number % 2]) }
                    }
                    try await group.waitForAll()
                }
                let found = try await trial.load([.record(key)]).records[key]
                try trial.expect(found?.payload.count, is: 20, "The length")
            }
        },
        Requirement("Of each lane, and of no other lane, the first due records are found") { trial in
            let owners: [RecordOwner] = [.scope(Sample.production), .scope(Sample.otherApp), .app("com.example.one")]
            let lanes = owners.flatMap { owner in
                ["a", "b"].map { RecordLane(RecordKind(rawValue: $0), of: owner) }
            }
            let records = lanes.enumerated().flatMap { number, lane in
                (0..<5).map { due in
                    Sample.record("\(due)", lane.kind.rawValue, of: lane.owner, due: Int64(10 * due + number))
                }
            }
            let unknown = RecordLane(RecordKind(rawValue: "a"), of: .scope(Sample.sandbox))
            try trial.expect(
                try await trial.first.due(in: [unknown], at: Sample.time(100), limit: 3), is: DueWork(), "Nothing")
            try await trial.commit { $0.records = records }
            for (asked, now, limit) in [(lanes, 25, 2), ([lanes[0], lanes[5], unknown], 100, 3), ([], 100, 9)] {
                let at = Sample.time(Int64(now))
                let work = try await trial.second.due(in: asked, at: at, limit: limit)
                for lane in Set(lanes).union(asked) {
                    let due = records.filter { $0.key.lane == lane && $0.isDue(at: at) }.prefix(limit).map(\.key)
                    try trial.expect(
                        work.records.filter { $0.lane == lane }, is: asked.contains(lane) ? due : [], "\(lane)")
                }
                try trial.expect(work.hasDueChains, is: false, "Due chains")
            }
        },
        Requirement("Of many workers, a single worker gets each job") { trial in
            let count = 20
            let kind = Job.Kind(rawValue: "kind")
            try await trial.commit { changes in changes.records = (0..<count).map { Sample.job("\($0)").record } }
            let leased = try await withThrowingTaskGroup(of: [Job].self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        let ledger = Ledger(storage: trial.handles[worker % 2])
                        return try await ledger.lease(
                            kind, in: Sample.production, until: Sample.time(100), limit: 7, at: Sample.time(50))
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            try trial.expect(Set(leased.map(\.id.name)).count, is: leased.count, "Leased jobs, each job once")
            try trial.expect(leased.allSatisfy { $0.attempts == 1 && $0.dueAt == Sample.time(100) }, "Leases")
            let ledger = Ledger(storage: trial.second)
            let rest = try await ledger.lease(
                kind, in: Sample.production, until: Sample.time(100), limit: count, at: Sample.time(50))
            try trial.expect(leased.count + rest.count, is: count, "All jobs, after a last worker")
        },
        Requirement("A worker has no effect after the end of its lease") { trial in
            let kind = Job.Kind(rawValue: "kind")
            let ledgers = trial.handles.map { Ledger(storage: $0) }
            try await trial.commit { $0.records = [Sample.job("a").record] }
            var jobs: [Job] = []
            for (worker, now) in [0, 10].enumerated() {
                jobs += try await ledgers[worker].lease(
                    kind, in: Sample.production, until: Sample.time(Int64(now) + 10), at: Sample.time(Int64(now)))
            }
            try trial.expect(jobs.map(\.attempts), is: [1, 2], "Attempts of both leases")
            try trial.expect(
                try await ledgers[0].finish(jobs[0], at: Sample.time(11)), is: false, "Finishing after the lease")
            try trial.expect(
                try await ledgers[0].replace(jobs[0], with: Sample.job("a"), at: Sample.time(11)), is: false,
                "Postponing after the lease")
            try trial.expect(try await ledgers[0].job(jobs[1].id), is: jobs[1], "The job")
            try trial.expect(
                try await ledgers[1].finish(jobs[1], at: Sample.time(11)), is: true, "Finishing within the lease")
            try trial.expect(try await ledgers[0].job(jobs[1].id), is: nil, "The finished job")
        },
    ]
}

extension Trial {
    /// Adds a byte to a record.
    fileprivate func lengthen(_ key: RecordKey, _ handle: any LedgerStorage) async throws {
        try await handle.commit(LedgerQuery([.record(key)])) { snapshot in
            var changes = LedgerChanges()
            changes.records = [LedgerRecord(key, payload: (snapshot.records[key]?.payload ?? []) + [1])]
            return .commit(changes, ())
        }
    }

    /// All records of a selection.
    ///
    /// - Parameters:
    ///   - pages: The maximum number of records per page.
    ///   - between: Called after each page.
    fileprivate func scan(
        _ selection: RecordSelection, pages: Int = 3, between: () async throws -> Void = {}
    ) async throws -> [LedgerRecord] {
        var found: [LedgerRecord] = []
        var cursor: ScanCursor?
        repeat {
            let page = try await second.records(selection, after: cursor, limit: pages)
            found += page.items
            cursor = page.next
            try await between()
        } while cursor != nil && found.count < 100
        return found
    }
}
