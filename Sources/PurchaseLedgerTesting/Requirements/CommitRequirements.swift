// SPDX-License-Identifier: Apache-2.0

// The requirements for single commits and for concurrent commits. ``LedgerStorageContract`` tests them.

import AppStoreModel
import PurchaseLedger
import Synchronization

// MARK: - One commit

extension LedgerStorageContract {
    static let commits = [
        Requirement("A snapshot of an empty ledger is empty") { trial in
            for handle in trial.handles { try trial.expectNothing(try await handle.load(everything)) }
        },
        Requirement("A commit returns its decision's output, and either handle loads the committed state") { trial in
            let customer = try await trial.commitEverything()
            for handle in trial.handles {
                let found = try await handle.load(everything)
                let document = Sample.document(1, for: [1])
                try trial.expect(found.chains, is: [Sample.key(): Sample.full(customer.owned)], "Chains")
                try trial.expect(found.customers, is: [customer.customer: customer], "Customers")
                try trial.expect(found.transactions.count, is: 1, "Transactions")
                try trial.expect(found.documents.values.map(\.self), is: [StoredDocument(document)], "Documents")
                try trial.expect(Array(found.records.values), is: [record], "Records")
            }
        },
        Requirement("A commit has no effect if its decision throws") { trial in
            struct Undo: Error {}
            for _ in 0..<2 {
                do {
                    try await trial.first.commit(everything) { snapshot -> LedgerDecision<Void> in
                        _ = try changes(snapshot)
                        throw Undo()
                    }
                    throw Trial.Failure(message: "The commit does not throw.")
                } catch is Undo {}
            }
            for handle in trial.handles { try trial.expectNothing(try await handle.load(everything)) }
            let events = try await trial.second.events(of: "com.example.one", after: nil, limit: 9).events
            try trial.expect(events, is: [], "Events")
            // A retry must not find any records of the failed commits.
            _ = try await trial.commitEverything()
        },
        Requirement("A decision asking for more runs again with all rows, and then its changes are committed") {
            trial in
            let anna = try await trial.customer("anna")
            try await trial.commit { $0.chains = [Sample.chain(1, owners: [anna]), Sample.chain(2)] }
            let steps = [
                LedgerQuery([.chain(Sample.key(2))]),
                LedgerQuery([.transaction(Sample.transaction("1"))]),
                LedgerQuery([.customerID(CustomerID("anna", of: "com.example.one"))]),
            ]
            let found = try await trial.second.commit(LedgerQuery()) { snapshot -> LedgerDecision<LedgerSnapshot> in
                for step in steps where snapshot.query.union(step) != snapshot.query { return .load(step) }
                return .commit(LedgerChanges(), snapshot)
            }
            try trial.expect(Set(found.chains.keys), is: [Sample.key(1), Sample.key(2)], "Chains")
            try trial.expect(Array(found.customers.values), is: [anna], "Customers")
        },
        Requirement("The commit of a cancelled task either throws without an effect or has its whole effect") {
            trial in
            var counted = 0
            for number in 0..<20 {
                let task = Task { try await trial.count(number, trial.handles[number % 2]) }
                if number.isMultiple(of: 3) { await Task.yield() }
                task.cancel()
                if case .success = await task.result { counted += 1 }
            }
            try trial.expect(try await trial.count(), is: counted, "The count")
        },
        Requirement("proveWritable can be called repeatedly, and changes no record") { trial in
            for handle in trial.handles + trial.handles { try await handle.proveWritable() }
            try trial.expectNothing(try await trial.second.load(everything))
        },
    ]

    fileprivate static let everything = {
        let name = Sample.document(1, for: []).evidence.provenance
        let customer = LedgerQuery.holdings(of: [CustomerID("anna", of: "com.example.one")], in: Environment.allCases)
        return LedgerQuery(
            customer.keys.union([
                .chain(Sample.key()), .transaction(Sample.transaction("bare")), .document(name), .content(name),
                .evidence(Sample.key()), .record(record.key),
            ]), owners: true)
    }()

    fileprivate static let record = Sample.record("1", of: .app("com.example.one"), payload: [1, 0, 255])

    /// Changes with a record of each kind.
    fileprivate static func changes(_ snapshot: LedgerSnapshot) throws -> (LedgerChanges, CustomerRecord) {
        guard let number = snapshot.newNumbers[CustomerID("anna", of: "com.example.one")] else {
            throw Trial.Failure(message: "There is no number for a new customer.")
        }
        let anna = CustomerRecord(
            Customer(number: number, bundleId: "com.example.one"), ids: ["anna", "alias"], isEstablished: true)
        var changes = LedgerChanges()
        changes.documents = [Sample.document(1, for: [1])]
        changes.customers = [anna]
        changes.chains = [Sample.full(anna.owned)]
        changes.events = [Sample.event("one", anna.customer)]
        changes.records = [record]
        return (changes, anna)
    }
}

extension CustomerRecord {
    fileprivate var owned: [ChainRecord.Owner] { [ChainRecord.Owner(customer, .appAccountToken)] }
}

extension Trial {
    fileprivate func commitEverything() async throws -> CustomerRecord {
        try await first.commit(LedgerStorageContract.everything) { snapshot in
            let (changes, anna) = try LedgerStorageContract.changes(snapshot)
            return .commit(changes, anna)
        }
    }

    fileprivate func expectNothing(_ snapshot: LedgerSnapshot) throws {
        try expect(snapshot.chains, is: [:], "Chains")
        try expect(snapshot.transactions, is: [:], "Transactions")
        try expect(snapshot.ids, is: [:], "Ids")
        try expect(snapshot.customers, is: [:], "Customers")
        try expect(snapshot.names, is: [], "Names of documents")
        try expect(snapshot.documents, is: [:], "Documents")
        try expect(snapshot.evidence.values.allSatisfy(\.isEmpty), "A chain has evidence")
        try expect(snapshot.records, is: [:], "Records")
    }
}

// MARK: - Many commits at once

extension LedgerStorageContract {
    static let concurrency = [
        Requirement("No other commit changes the rows of a decision before the decision's changes are committed") {
            trial in
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<100 {
                    group.addTask { try await trial.count(number, trial.handles[number % 2]) }
                }
                let counts = try await group.reduce(into: Set<Int>()) { $0.insert($1) }
                try trial.expect(counts, is: Set(1...100), "The counts returned by 100 commits")
            }
            try trial.expect(try await trial.count(), is: 100, "The final count")
        },
        Requirement("If many commits add the same id at once, a single customer gets the id") { trial in
            let id = CustomerID("anna", of: "com.example.one")
            try await withThrowingTaskGroup(of: Customer?.self) { group in
                for number in 0..<20 {
                    group.addTask {
                        try await trial.handles[number % 2].commit(LedgerQuery([.customerID(id)])) { snapshot in
                            if let known = snapshot.customer(id) { return .commit(LedgerChanges(), known.customer) }
                            guard let number = snapshot.newNumbers[id] else { return .commit(LedgerChanges(), nil) }
                            let new = Customer(number: number, bundleId: id.bundleId)
                            var changes = LedgerChanges()
                            changes.customers = [CustomerRecord(new, ids: [id.id])]
                            return .commit(changes, new)
                        }
                    }
                }
                let found = try await group.reduce(into: Set<Customer?>()) { $0.insert($1) }
                try trial.expect(found.count == 1 && !found.contains(nil), "Several customers have the id: \(found)")
            }
        },
        Requirement("No two customers get the same number, even after an erasure") { trial in
            let numbers = try await withThrowingTaskGroup(of: [Int64].self) { group in
                for task in 0..<10 {
                    group.addTask {
                        var numbers: [Int64] = []
                        for round in 0..<5 {
                            let handle = trial.handles[(task + round) % 2]
                            let record = try await trial.customer("\(task) \(round)", through: handle)
                            try await trial.commit(trial.handles[task % 2], erasing: [record]) { _ in }
                            numbers.append(record.customer.number)
                        }
                        return numbers
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            try trial.expect(Set(numbers).count, is: 50, "Distinct numbers of 50 customers")
            let ids = Set((0..<5).map { CustomerID("new \($0)", of: "com.example.one") })
            let more = try await trial.second.commit(LedgerQuery(ids.map(LedgerKey.customerID))) {
                .commit(LedgerChanges(), $0.newNumbers)
            }
            try trial.expect(Set(more.keys), is: ids, "New ids with a number")
            try trial.expect(Set(more.values).subtracting(numbers).count, is: 5, "New numbers for five new ids")
        },
        Requirement("A load sees a consistent state while other commits write") { trial in
            try await trial.writeEverywhere(0, trial.first)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for round in 1...50 {
                    group.addTask { try await trial.writeEverywhere(Int64(round), trial.handles[round % 2]) }
                    group.addTask {
                        let keys: [LedgerKey] = [
                            .chain(Sample.key(1)), .chain(Sample.key(2)), .record(LedgerStorageContract.record.key),
                        ]
                        let found = try await trial.load(keys, from: trial.handles[round / 2 % 2])
                        let times = Set(found.chains.values.map(\.lastEventAt))
                        let due = found.records.values.first?.dueAt
                        try trial.expect(times == [due], "A load saw half of a commit: \(times), \(due as Any)")
                    }
                }
                try await group.waitForAll()
            }
        },
    ]
}

extension Trial {
    /// Increments a counter: the number of entries of a list in a chain record.
    ///
    /// - Returns: The new count.
    @discardableResult
    fileprivate func count(_ number: Int, _ handle: any LedgerStorage) async throws -> Int {
        try await handle.commit(LedgerQuery([.chain(Sample.key())])) { snapshot in
            var record = snapshot.chains[Sample.key()] ?? ChainRecord(Sample.key())
            record.chain.merge(Sample.statement("\(number)"))
            record.ownerChanges.append(Sample.time(Int64(number)))
            var changes = LedgerChanges()
            changes.chains = [record]
            return .commit(changes, record.ownerChanges.count)
        }
    }

    fileprivate func count() async throws -> Int {
        let record = try await record(Sample.key())
        try expect(record?.chain.transactions.count ?? 0, is: record?.ownerChanges.count ?? 0, "Transactions")
        return record?.ownerChanges.count ?? 0
    }

    /// Writes the same number into two chains and a record.
    fileprivate func writeEverywhere(_ number: Int64, _ handle: any LedgerStorage) async throws {
        try await commit(handle) { changes in
            changes.chains = [1, 2].map { chain in
                var record = Sample.chain(chain)
                record.lastEventAt = Sample.time(number)
                return record
            }
            changes.records = [LedgerRecord(LedgerStorageContract.record.key, dueAt: Sample.time(number))]
        }
    }
}
