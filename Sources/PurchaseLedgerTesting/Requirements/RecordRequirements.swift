// SPDX-License-Identifier: Apache-2.0

// The requirements for the records of chains (a chain is a purchase with its renewals) and of customers.
// ``LedgerStorageContract`` tests them.

import AppStoreModel
import PurchaseLedger

extension Sample {
    static func transaction(_ id: String, in scope: LedgerScope = production) -> TransactionKey {
        TransactionKey(id, in: scope)
    }
}

// MARK: - Chains

extension LedgerStorageContract {
    static let records = [
        Requirement("A record replaces every part of the stored record") { trial in
            let anna = try await trial.customer("anna")
            let bert = try await trial.customer("bert")
            let owners = [
                ChainRecord.Owner(bert.customer, .claim), ChainRecord.Owner(anna.customer, .appAccountToken),
            ]
            var reordered = Sample.full(owners.reversed())
            var tombstone = ChainRecord(Sample.key())
            reordered.owners[0].reason = Open(.claim)
            tombstone.erasedAt = Sample.time(1)
            tombstone.lastEventAt = Sample.time(2)
            tombstone.chain.mergeResidue(Sample.statement("1"))
            var renewalOnly = ChainRecord(Sample.key())
            renewalOnly.chain.merge(Sample.renewal)
            for record in [
                Sample.full(owners), reordered, Sample.chain(transaction: "bare", owners: [bert]), Sample.full([]),
                tombstone, renewalOnly, ChainRecord(Sample.key()),
            ] {
                try await trial.commit { $0.chains = [record] }
                let found = try await trial.record(Sample.key())
                try trial.expect(found ?? ChainRecord(Sample.key()), is: record, "The chain")
                let chain = try await trial.load([.transaction(Sample.transaction("both"))]).transactions
                let isThere = record.chain.transactions["both"] != nil
                try trial.expect(Array(chain.values), is: isThere ? [Sample.key()] : [], "The transaction's chain")
            }
        },
        Requirement("Apps and environments share no rows") { trial in
            let scopes = [Sample.production, Sample.sandbox, Sample.otherApp]
            for (number, scope) in scopes.enumerated() {
                try await trial.commit { $0.chains = [Sample.chain(in: scope, signed: Int64(number))] }
            }
            for (number, scope) in scopes.enumerated() {
                let found = try await trial.load([.transaction(Sample.transaction("1", in: scope))]).chains
                let expected = Sample.chain(in: scope, signed: Int64(number))
                try trial.expect(found, is: [expected.key: expected], "The chain in \(scope)")
            }
        },
        Requirement("Statements are counted by chain, transaction and customer, about") { trial in
            let anna = try await trial.customer("anna")
            var long = Sample.chain(1, owners: [anna])
            var old = ChainRecord(Sample.key(2))
            for number in 0..<200 { long.chain.merge(Sample.statement("\(100 + number)")) }
            long.chain.merge(Sample.statement(Sample.key(2).name))
            long.chain.mergeResidue(Sample.statement("9"))
            old.successor = long.key.name
            let records = [long, old, Sample.chain(1, in: Sample.sandbox, owners: [anna])]
            try await trial.commit { $0.chains = records }
            let id = [CustomerID("anna", of: Sample.production.bundleId)]
            let nobody = [CustomerID("nobody", of: Sample.production.bundleId)]
            let queries = [
                LedgerQuery([.chain(long.key)]), LedgerQuery([.chain(old.key)]),
                LedgerQuery([.transaction(Sample.transaction("150"))]),
                .holdings(of: id, in: [.production]),
            ]
            for query in queries {
                let count = try await trial.second.statementCount(query)
                try trial.expect((203...812).contains(count), "203 statements were counted as \(count)")
            }
            let few = [
                LedgerQuery(), LedgerQuery([.chain(Sample.key(7)), .chain(Sample.key(1, in: Sample.otherApp))]),
                LedgerQuery(id.map(LedgerKey.customerID)),
                .holdings(of: nobody, in: [.production]),
                .holdings(of: id, in: [.sandbox]),
            ]
            for query in few {
                let count = try await trial.second.statementCount(query)
                try trial.expect(count < 8, "One statement or none was counted as \(count)")
            }
        },
        Requirement("Chains with a transaction or its residue are found, and the one of its newest document has it") {
            trial in
            let receipt = {
                var record = Sample.chain(3, transaction: "0")
                record.chain.merge(Sample.statement("x", of: 3, signed: 6, source: .receipt))
                return record
            }()
            var residue = ChainRecord(Sample.key(4))
            residue.chain.mergeResidue(Sample.statement("x", of: 4, signed: 9))
            for (record, expected, all) in [
                (Sample.chain(1, transaction: "x", signed: 4), 1, [1]),
                (Sample.chain(2, transaction: "x", signed: 5), 2, [1, 2]), (receipt, 3, [1, 2, 3]),
                (Sample.chain(1, in: Sample.sandbox, transaction: "x", signed: 9), 3, [1, 2, 3]),
                (Sample.chain(1, transaction: "x", signed: 7), 1, [1, 2, 3]),
                (Sample.chain(1, transaction: "y", signed: 8), 3, [2, 3]),
                (residue, 3, [2, 3, 4]), (ChainRecord(Sample.key(4)), 3, [2, 3]),
            ] {
                try await trial.commit { $0.chains = [record] }
                let found = try await trial.load([.transaction(Sample.transaction("x"))])
                try trial.expect(found.transactions.values.map(\.self), is: [Sample.key(expected)], "The chain")
                try trial.expect(Set(found.chains.keys), is: Set(all.map { Sample.key($0) }), "Chains in the snapshot")
            }
        },
        Requirement("Chains are due from the instant in their reports, the earliest first, up to a limit") {
            trial in
            let sandbox = Sample.chain(3, in: Sample.sandbox, next: Sample.time(0))
            try await trial.commit { changes in
                changes.chains = ([5, 3, nil, 1, 4, 2] as [Int64?]).enumerated().map { number, next in
                    Sample.chain(number, next: next.map(Sample.time))
                }
                changes.chains.append(sandbox)
            }
            for (now, limit, expected) in [
                (3, 9, [sandbox.key, Sample.key(3), Sample.key(5), Sample.key(1)]),
                (9, 2, [sandbox.key, Sample.key(3)]), (-1, 9, []), (9, 0, []),
            ] as [(Int64, Int, [ChainKey])] {
                let due = try await trial.second.chains(.due(at: Sample.time(now)), limit: limit)
                let work = try await trial.second.due(in: [], at: Sample.time(now), limit: 1)
                try trial.expect(work, is: DueWork(hasDueChains: now >= 0), "Whether a chain is due")
                try trial.expect(due, is: expected, "Due at \(now), at most \(limit)")
            }
            try await trial.commit(trial.second) {
                $0.chains = [Sample.chain(3), Sample.chain(3, in: Sample.sandbox, next: Sample.time(9))]
            }
            let due = try await trial.first.chains(.due(at: Sample.time(2)), limit: 9)
            try trial.expect(due, is: [Sample.key(5)], "Due after a postponement, and after the loss of a next change")
        },
        Requirement("Chains are found by the instant as of which their reports were made, the latest first") { trial in
            func chain(_ number: Int, _ instant: Int64?) -> ChainRecord {
                var record = Sample.chain(number, next: Sample.time(1))
                record.report?.asOf = instant.map(Sample.time)
                return record
            }
            try await trial.commit {
                $0.chains = [chain(1, 5), chain(2, 7), chain(3, nil), chain(4, 7), Sample.chain(5)]
            }
            for (instant, limit, expected) in [
                (4, 9, [2, 4, 1]), (5, 9, [2, 4]), (4, 1, [2]), (7, 9, []), (4, 0, []),
            ] as [(Int64, Int, [Int])] {
                let found = try await trial.second.chains(.ahead(of: Sample.time(instant)), limit: limit)
                try trial.expect(found, is: expected.map { Sample.key($0) }, "Ahead of \(instant), at most \(limit)")
            }
            try await trial.commit(trial.second) { $0.chains = [chain(2, nil), chain(3, 6), chain(4, 3)] }
            let found = try await trial.first.chains(.ahead(of: Sample.time(4)), limit: 9)
            try trial.expect(found, is: [Sample.key(3), Sample.key(1)], "Ahead after reports were made again")
        },
    ]
}

// MARK: - Customers

extension LedgerStorageContract {
    static let customers = [
        Requirement("A customer is found by each of its ids, byte for byte, in its own app only") { trial in
            // Longer ids are left out, because databases limit the length of a key in an index.
            // Swift's strings are equal if they are canonically equivalent.
            let equivalent = ["K", "\u{212a}", "\u{e9}", "e\u{301}"]
            let ids = ["a", "A"] + equivalent + Sample.awkward.filter { $0.utf8.count < 1000 }
            var customers: [CustomerRecord] = []
            for id in ids { customers.append(try await trial.customer(id, "\(id) alias")) }
            let other = try await trial.customer("a", of: Sample.otherApp.bundleId)
            for (id, customer) in zip(ids, customers) {
                for name in [id, "\(id) alias"] {
                    let found = try await trial.load([.customerID(CustomerID(name, of: "com.example.one"))])
                    try trial.expect(Array(found.customers.values), is: [customer], "The customer called \(name)")
                }
            }
            let all = try await trial.load(
                (ids + ["missing"]).map { .customerID(CustomerID($0, of: "com.example.one")) })
            try trial.expect(Set(all.customers.values), is: Set(customers), "All customers")
            try trial.expect(all.ids.count, is: ids.count, "Ids of all customers")
            for (id, customer) in zip(ids, customers) {
                let found = all.customer(CustomerID(id, of: "com.example.one"))
                try trial.expect(found, is: customer, "Among all customers, the customer called \(id)")
            }
            let there = try await trial.load(
                ["a", "A"].map { .customerID(CustomerID($0, of: Sample.otherApp.bundleId)) })
            try trial.expect(Array(there.customers.values), is: [other], "Customers of the other app")
        },
        Requirement("A customer's record replaces the stored record, with the ids in order") {
            trial in
            var anna = try await trial.customer("m", "z", "a")
            _ = try await trial.customer("other")
            anna.ids.append("k")
            anna.isEstablished = true
            for consent in [nil, Sample.time(5), Sample.time(6), nil] {
                anna.consentedAt = consent
                try await trial.commit(trial.second) { [anna] in $0.customers = [anna] }
                for id in anna.ids {
                    let id = CustomerID(id, of: "com.example.one")
                    let found = try await trial.load([.customerID(id)], from: trial.first)
                    try trial.expect(found.customer(id), is: anna, "By \(id.id)")
                }
            }
        },
        Requirement("A customer's grants are kept as they are, and are loaded with the customer's chains") { trial in
            var anna = try await trial.customer("anna", "alias")
            let bert = try await trial.customer("bert")
            let chain = Sample.chain(owners: [anna])
            try await trial.commit { $0.chains = [chain] }
            for grants in Sample.grants {
                anna.storedGrants = try StoredGrants(grants.map { Array($0.utf8) }, of: anna.customer)
                try await trial.commit(trial.second) { [anna] in $0.customers = [anna] }
                for id in ["anna", "alias"].map({ CustomerID($0, of: "com.example.one") }) {
                    let found = try await trial.load([.customerID(id)], from: trial.first)
                    try trial.expect(found.customer(id), is: anna, "By \(id.id), with \(grants ?? "no grants")")
                    let held = try await trial.first.load(.holdings(of: [id], in: [.production]))
                    try trial.expect(held.customer(id), is: anna, "With chains, with \(grants ?? "no grants")")
                    try trial.expect(held.chains(of: anna.customer), is: [chain], "The chains")
                }
                // A storage may have made further customers.
                let all = Set(try await trial.first.customers(after: nil, limit: 100).items)
                try trial.expect(all.isSuperset(of: [anna, bert]), is: true, "A scan with \(grants ?? "no grants")")
            }
        },
        Requirement("All chains of a customer in an environment are loaded") { trial in
            let anna = try await trial.customer("anna")
            let bert = try await trial.customer("bert")
            func expect(_ customer: CustomerRecord, _ environment: Environment, _ chains: [ChainRecord]) async throws {
                for handle in trial.handles {
                    let id = CustomerID(customer.ids[0], of: "com.example.one")
                    let found = try await handle.load(.holdings(of: [id], in: [environment]))
                    try trial.expect(
                        found.chains(of: customer.customer), is: chains, "Chains of \(customer.ids) in \(environment)")
                }
            }
            var chains = [1, 2, 3].map { Sample.chain($0, owners: [anna]) }
            let sandbox = Sample.chain(4, in: Sample.sandbox, owners: [bert, anna])
            try await trial.commit { $0.chains = [chains[2], chains[0], sandbox] }
            try await trial.commit(trial.second) { $0.chains = [chains[1]] }
            try await expect(anna, .production, chains)
            try await expect(anna, .sandbox, [sandbox])
            try await expect(anna, .xcode, [])
            try await expect(bert, .production, [])
            chains[1].owners = [ChainRecord.Owner(bert.customer, .claim)]
            try await trial.commit { $0.chains = [chains[1]] }
            try await expect(anna, .production, [chains[0], chains[2]])
            try await expect(bert, .production, [chains[1]])
            chains[1].owners.insert(ChainRecord.Owner(anna.customer, .appAccountToken), at: 0)
            try await trial.commit(trial.second) { $0.chains = [chains[1]] }
            try await expect(anna, .production, chains)
        },
        Requirement("The owners of all chains in a snapshot are loaded on demand") { trial in
            var customers: [CustomerRecord] = []
            for number in 1...4 { customers.append(try await trial.customer("\(number)", "alias \(number)")) }
            let chains = (1...3).map { Sample.chain($0, owners: [customers[$0 - 1], customers[$0]]) }
            try await trial.commit { $0.chains = chains }
            for isWanted in [true, false] {
                let keys: [LedgerKey] = [.chain(Sample.key(1)), .transaction(Sample.transaction("3"))]
                let found = try await trial.load(keys, owners: isWanted)
                try trial.expect(Set(found.customers.values), is: isWanted ? Set(customers) : [], "Owners")
            }
            let held = try await trial.load(
                [.holdings(CustomerID("1", of: "com.example.one"), .production)], owners: true)
            try trial.expect(Set(held.customers.values), is: Set(customers[..<2]), "Owners of a customer's chains")
        },
        Requirement("Customers exchange ids in one commit, also ids that are canonically equivalent in Unicode") {
            trial in
            var anna = try await trial.customer("anna", "K", "\u{212A}", "ann")
            var bert = try await trial.customer("bert")
            // The customer with the lost id may be written before or after the customer that gains the id.
            for (index, isFirst) in [true, false, true].enumerated() {
                let lost = anna.ids.remove(at: 1)
                bert.ids.append(lost)
                let records = isFirst ? [bert, anna] : [anna, bert]
                try await trial.commit(index == 0 ? trial.first : trial.second) { $0.customers = records }
                for record in [anna, bert] {
                    for id in record.ids {
                        let found = try await trial.load([.customerID(CustomerID(id, of: record.customer.bundleId))])
                        let ids = found.customer(CustomerID(id, of: record.customer.bundleId))?.ids ?? []
                        try trial.expect(
                            ids.map { Array($0.utf8) }, is: record.ids.map { Array($0.utf8) }, "The ids with \(id)")
                    }
                }
            }
        },
        Requirement("A customer that was erased in a merge gets its number, an id and its chains back") { trial in
            var anna = try await trial.customer("anna")
            var bert = try await trial.customer("bert")
            var chain = Sample.chain(owners: [bert])
            chain.chain.denial = Chain.Denial(at: Sample.time(5), reason: "why")
            try await trial.commit { $0.chains = [chain] }
            anna.ids += bert.ids
            chain.owners = [ChainRecord.Owner(anna.customer, .claim)]
            try await trial.commit(trial.second, erasing: [bert]) { [anna, chain] changes in
                changes.customers = [anna]
                changes.chains = [chain]
            }
            anna.ids = ["anna"]
            bert.isEstablished = true
            chain.owners = [ChainRecord.Owner(bert.customer, .correction)]
            try await trial.commit { [anna, bert, chain] changes in
                changes.customers = [bert, anna]
                changes.chains = [chain]
            }
            for (record, chains) in [(anna, []), (bert, [chain])] {
                let id = CustomerID(record.ids[0], of: record.customer.bundleId)
                let found = try await trial.load([.holdings(id, .production), .customerID(id)])
                try trial.expect(found.customer(id), is: record, "The customer \(record.ids)")
                try trial.expect(found.chains(of: record.customer), is: chains, "The chains of \(record.ids)")
            }
        },
        Requirement("An erased customer leaves only its chains, and a new customer can use the ids at once") {
            trial in
            var anna = try await trial.customer("anna")
            var bert = try await trial.customer("bert", "robert")
            var chain = Sample.chain(owners: [bert])
            try await trial.commit { $0.chains = [chain] }
            anna.ids += bert.ids
            chain.owners = [ChainRecord.Owner(anna.customer, .claim)]
            try await trial.commit(trial.second, erasing: [bert]) { [anna, chain] changes in
                changes.customers = [anna]
                changes.chains = [chain]
            }
            for id in ["anna", "bert", "robert"] {
                let found = try await trial.load([.holdings(CustomerID(id, of: "com.example.one"), .production)])
                try trial.expect(Array(found.customers.values), is: [anna], "The customer called \(id)")
                try trial.expect(found.chains(of: anna.customer), is: [chain], "The chains of \(id)")
            }
            chain.owners = []
            try await trial.commit(erasing: [anna]) { $0.chains = [chain] }
            let holdings = anna.ids.map { LedgerKey.holdings(CustomerID($0, of: "com.example.one"), .production) }
            let found = try await trial.load(holdings + [.chain(chain.key)])
            try trial.expect(found.customers, is: [:], "Customers")
            try trial.expect(found.chains, is: [chain.key: chain], "Chains")
            let again = try await trial.customer("robert")
            let its = try await trial.load([.holdings(CustomerID("robert", of: "com.example.one"), .production)])
            try trial.expect(its.chains(of: again.customer), is: [], "Chains of a new customer with an old id")
        },
    ]
}
